//! How Helm 4.3 words the errors of its engine (RND-164, RND-191), and what it makes of `<no value>`.

use crate::template::error::{ErrorKind, TemplateError};

/// What nothing is printed as.
const NO_VALUE: &[u8] = b"<no value>";

/// Takes every `<no value>` out of what a template wrote, also those that it wrote itself (RND-190).
pub fn without_no_value(text: Vec<u8>) -> Vec<u8> {
    let first = text.windows(NO_VALUE.len()).position(|part| part == NO_VALUE);
    let Some(first) = first else { return text };
    let mut out = Vec::with_capacity(text.len());
    out.extend_from_slice(text.get(..first).unwrap_or_default());
    let mut rest = text.get(first..).unwrap_or_default();
    while let Some((byte, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(NO_VALUE) {
            rest = after;
        } else {
            out.push(*byte);
            rest = after;
        }
    }
    out
}

/// Helm's text for a file that is no template: `parse error at (c/templates/x.yaml:1): …`.
pub fn describe_parse(file: &str, error: &TemplateError) -> String {
    let text = error.to_string();
    let parts: Vec<&str> = text.split(": ").collect();
    match parts.as_slice() {
        [_, location, .., message] => format!("parse error at ({location}): {message}"),
        [_, message] => format!("parse error at ({message}): {message}"),
        _ => format!("parse error in ({file}): {text}"),
    }
}

/// Helm's text for a file that could not be executed: the places that led to it, a line each, and the message; or
/// the author's words, for `fail` and `required`.
pub fn describe_execution(file: &str, error: &TemplateError) -> String {
    let text = error.to_string();
    if error.layers().next().is_none() {
        return text;
    }
    let mut parts = text.splitn(3, ": ");
    let (Some(_), Some(location), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
        return format!("execution error in ({file}): {text}");
    };
    if error.kind() == ErrorKind::Told {
        return format!("execution error at ({location}): {}", error.message());
    }
    let mut places: Vec<String> = Vec::new();
    for link in error.links() {
        let Some(place) = place(&link) else { return text };
        if places.last() != Some(&place) {
            places.push(place);
        }
    }
    places.concat().trim().to_owned()
}

/// One link of the chain of errors, taken apart as Helm does.
fn place(link: &str) -> Option<String> {
    let rest = link.strip_prefix("template: ")?;
    if rest.starts_with("no template ") {
        return Some(format!("{link}\n"));
    }
    if let Some((location, after)) = rest.split_once(": executing ") {
        let (function, after) = after.strip_prefix('"')?.split_once('"')?;
        let (context, message) = after.strip_prefix(" at <")?.split_once(">: ")?;
        let message = before_next(message);
        let message = if message.is_empty() { String::new() } else { format!("{message}\n") };
        return Some(format!("{location}\n  executing \"{function}\" at <{context}>:\n    {message}"));
    }
    let (location, message) = rest.rsplit_once(": ")?;
    let message = before_next(message);
    Some(if message.is_empty() { format!("{location}\n  ") } else { format!("{location}\n  {message}\n") })
}

fn before_next(message: &str) -> &str {
    message.split_once(" template:").map_or(message, |(before, _)| before)
}
