//! The simplest template language: valyala/fasttemplate 1.2.2 with the look-up that Argo CD puts on it.
//!
//! Golden rows: `fasttemplate.jsonl`.

/// A start tag has no end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot find end tag {end:?} in the template starting from {rest:?}")]
pub struct OpenTag {
    end: String,
    rest: String,
}

/// Where tags begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags<'t> {
    /// What begins a tag.
    pub start: &'t str,
    /// What ends it.
    pub end: &'t str,
}

impl Default for Tags<'_> {
    fn default() -> Self {
        Self { start: "{{", end: "}}" }
    }
}

/// Replaces each tag by the value of its trimmed content; an unknown one stays as written (EVAL-771).
///
/// A start tag without end is an error even when nothing is known. Values are not looked at again.
pub fn render<'v>(
    template: &str,
    tags: Tags<'_>,
    value: impl Fn(&str) -> Option<&'v str>,
) -> Result<String, OpenTag> {
    let mut output = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once(tags.start) {
        output.push_str(before);
        let (name, following) = after
            .split_once(tags.end)
            .ok_or_else(|| OpenTag { end: tags.end.to_owned(), rest: after.to_owned() })?;
        match value(name.trim()) {
            Some(value) => output.push_str(value),
            None => output.extend([tags.start, name, tags.end]),
        }
        rest = following;
    }
    output.push_str(rest);
    Ok(output)
}
