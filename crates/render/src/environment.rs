//! The build environment of a source and its substitution into texts (RND-66..68).

use std::collections::BTreeMap;

use crate::RenderRequest;

/// Variables by name.
pub type Environment = BTreeMap<String, String>;

/// The variables of one source (RND-66).
pub fn build_environment(request: &RenderRequest) -> Environment {
    let source = &request.source;
    let short = |length| request.revision.chars().take(length).collect::<String>();
    [
        ("ARGOCD_APP_NAME", request.context.instance_name.clone()),
        ("ARGOCD_APP_NAMESPACE", request.context.destination_namespace.clone()),
        ("ARGOCD_APP_PROJECT_NAME", request.context.project.clone()),
        ("ARGOCD_APP_REVISION", request.revision.clone()),
        ("ARGOCD_APP_REVISION_SHORT", short(7)),
        ("ARGOCD_APP_REVISION_SHORT_8", short(8)),
        ("ARGOCD_APP_SOURCE_REPO_URL", source.repo_url.clone()),
        ("ARGOCD_APP_SOURCE_PATH", source.path.clone()),
        ("ARGOCD_APP_SOURCE_TARGET_REVISION", source.target_revision.clone()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Replaces `$NAME` and `${NAME}`; unknown names become empty (RND-67).
///
/// ```
/// # use tiphys_render::environment::substitute;
/// let environment = [("A".to_owned(), "1".to_owned())].into();
/// assert_eq!(substitute("x$A.b $$A ${B}", &environment), "x1.b $A ");
/// ```
pub fn substitute(text: &str, environment: &Environment) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        result.push_str(before);
        let (name, tail) = split_name(after);
        match name {
            Name::None => result.push('$'),
            Name::Dollar => result.push('$'),
            Name::Bad => {}
            Name::Some(name) => result.push_str(environment.get(name).map_or("", String::as_str)),
        }
        rest = tail;
    }
    result.push_str(rest);
    result
}

enum Name<'a> {
    /// No name can start here.
    None,
    /// The name `$`, whose value is a dollar sign.
    Dollar,
    /// Broken braces, which vanish.
    Bad,
    Some(&'a str),
}

/// The name after a `$`, and what follows it; as Go's `os.Expand` reads it.
fn split_name(text: &str) -> (Name<'_>, &str) {
    let Some(first) = text.chars().next() else { return (Name::None, text) };
    if let Some(inner) = text.strip_prefix('{') {
        return match inner.chars().next() {
            Some(special) if is_special(special) => {
                let after = inner.get(1..).unwrap_or("");
                match after.strip_prefix('}') {
                    Some(tail) => (if special == '$' { Name::Dollar } else { Name::Some("") }, tail),
                    None => close_brace(inner),
                }
            }
            _ => close_brace(inner),
        };
    }
    if is_special(first) {
        let tail = text.get(1..).unwrap_or("");
        return (if first == '$' { Name::Dollar } else { Name::Some("") }, tail);
    }
    let end = text.find(|c: char| !(c == '_' || c.is_ascii_alphanumeric())).unwrap_or(text.len());
    let (name, tail) = text.split_at(end);
    if name.is_empty() { (Name::None, text) } else { (Name::Some(name), tail) }
}

fn close_brace(inner: &str) -> (Name<'_>, &str) {
    match inner.split_once('}') {
        Some(("", tail)) => (Name::Bad, tail),
        Some((name, tail)) => (Name::Some(name), tail),
        // Without a closing brace only `${` vanishes.
        None => (Name::Bad, inner),
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '*' | '#' | '$' | '@' | '!' | '?' | '-' | '0'..='9')
}

/// Protects commas in a parameter value for Helm's parser, unless it is a list in braces (RND-96).
pub fn escape_parameter(value: &str) -> String {
    if value.starts_with('{') && value.ends_with('}') {
        return value.to_owned();
    }
    let mut result = String::with_capacity(value.len());
    let mut previous = '\0';
    for c in value.chars() {
        if c == ',' && previous != '\\' {
            result.push('\\');
        }
        result.push(c);
        previous = c;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_67_substitution_follows_the_table() {
        let environment: Environment = [("A".to_owned(), "1".to_owned())].into();
        for (text, expected) in [
            ("x$A.b", "x1.b"),
            ("$A_B", ""),
            ("$$A", "$A"),
            ("$$$A", "$1"),
            ("$ x", "$ x"),
            ("a$", "a$"),
            ("${A}b", "1b"),
            ("${A", "A"),
            ("${A:-x}y", "y"),
            ("$1a$*b$#c", "abc"),
            ("${}x", "x"),
            ("$é", "$é"),
            ("${$}", "$"),
        ] {
            assert_eq!(substitute(text, &environment), expected, "{text:?}");
        }
    }

    #[test]
    fn rnd_66_variables_of_a_source() {
        let mut request =
            RenderRequest { revision: "0123456789abcdef".to_owned(), ..RenderRequest::default() };
        request.source.path = "apps/a".to_owned();
        request.context.instance_name = "ns_app".to_owned();
        let environment = build_environment(&request);
        assert_eq!(environment["ARGOCD_APP_REVISION_SHORT"], "0123456");
        assert_eq!(environment["ARGOCD_APP_REVISION_SHORT_8"], "01234567");
        assert_eq!(environment["ARGOCD_APP_SOURCE_PATH"], "apps/a");
        assert_eq!(environment["ARGOCD_APP_NAME"], "ns_app");
        assert_eq!(environment.len(), 9);
    }

    #[test]
    fn rnd_96_commas_are_protected() {
        assert_eq!(escape_parameter("x, y"), "x\\, y");
        assert_eq!(escape_parameter("{a,b}"), "{a,b}");
        assert_eq!(escape_parameter("a\\,b"), "a\\,b");
        assert_eq!(escape_parameter("[1,2]"), "[1\\,2]");
    }
}
