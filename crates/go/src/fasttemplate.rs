//! The simplest template language: valyala/fasttemplate 1.2.2 with the look-up that Argo CD puts on it.
//!
//! Golden rows: `fasttemplate.jsonl`.

/// Bytes that a template may come to.
pub const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// Why a template is not rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// A start tag has no end.
    #[error("cannot find end tag {end:?} in the template starting from {rest:?}")]
    OpenTag {
        /// The end tag.
        end: String,
        /// What follows the start tag.
        rest: String,
    },
    /// A tag without a character would be found everywhere.
    #[error("the tags of a template must not be empty")]
    EmptyTag,
    /// The values make more of the template than [`OUTPUT_BYTES_MAX`].
    #[error("the template comes to more than {OUTPUT_BYTES_MAX} bytes")]
    Output,
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
) -> Result<String, TemplateError> {
    if tags.start.is_empty() || tags.end.is_empty() {
        return Err(TemplateError::EmptyTag);
    }
    let mut output = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once(tags.start) {
        output.push_str(before);
        let (name, following) = after
            .split_once(tags.end)
            .ok_or_else(|| TemplateError::OpenTag { end: tags.end.to_owned(), rest: after.to_owned() })?;
        match value(name.trim()) {
            Some(value) => output.push_str(value),
            None => output.extend([tags.start, name, tags.end]),
        }
        if output.len() > OUTPUT_BYTES_MAX {
            return Err(TemplateError::Output);
        }
        rest = following;
    }
    output.push_str(rest);
    Ok(output)
}
