//! Addresses of schemas: URLs, fragments, JSON pointers.

use std::fmt::Write as _;

/// The address that Helm gives the schema of a chart.
pub(super) const OWN: &str = "file:///values.schema.json";

/// Splits an address at its `#`.
pub(super) fn split(text: &str) -> (&str, &str) {
    text.split_once('#').unwrap_or((text, ""))
}

/// What a fragment means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fragment {
    /// A place below the resource.
    Pointer(String),
    /// A name that a schema gives itself.
    Anchor(String),
}

impl Fragment {
    /// Reads what follows the `#`; `None` when it is escaped wrongly.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = percent_decode(text)?;
        Some(if text.is_empty() || text.starts_with('/') { Self::Pointer(text) } else { Self::Anchor(text) })
    }
}

/// Undoes `%41`; `None` for a `%` without two digits.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = behind;
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Escapes one step of a pointer.
pub(super) fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

/// Undoes [`escape`]; `None` for a `~` that is none.
pub(super) fn unescape(step: &str) -> Option<String> {
    if !step.contains('~') {
        return Some(step.to_owned());
    }
    let mut parts = step.split('~');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        match part.as_bytes().first() {
            Some(b'0') => text.push('~'),
            Some(b'1') => text.push('/'),
            _ => return None,
        }
        text.push_str(part.get(1..).unwrap_or_default());
    }
    Some(text)
}

/// A pointer as it stands behind a `#`: each step escaped as a segment of a path.
pub(super) fn encode(pointer: &str) -> String {
    let mut text = String::with_capacity(pointer.len());
    for byte in pointer.bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b':' | b'=' | b'@' => {
                text.push(char::from(byte));
            }
            byte if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            byte => {
                let _written = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

/// The parts of a URL that matter here.
struct Url<'t> {
    scheme: &'t str,
    authority: Option<&'t str>,
    path: &'t str,
    query: Option<&'t str>,
}

impl<'t> Url<'t> {
    fn parse(text: &'t str) -> Self {
        let is_scheme = |part: &str| {
            part.starts_with(|first: char| first.is_ascii_alphabetic())
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        };
        let (scheme, rest) =
            text.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).unwrap_or(("", text));
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, path) = match rest.strip_prefix("//") {
            None => (None, rest),
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
                (Some(authority), path)
            }
        };
        Self { scheme, authority, path, query }
    }
}

/// Resolves a reference without fragment against a base.
pub(super) fn join(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    let (base, target) = (Url::parse(base), Url::parse(reference));
    if !target.scheme.is_empty() {
        return reference.to_owned();
    }
    if base.authority.is_none() && !base.path.starts_with('/') && !base.scheme.is_empty() {
        // Such as `urn:x`: nothing is relative to it.
        return format!("{}:{}", base.scheme, base.path);
    }
    let authority = target.authority.or(base.authority);
    let path = if target.authority.is_some() || target.path.starts_with('/') {
        remove_dots(target.path)
    } else if target.path.is_empty() {
        base.path.to_owned()
    } else {
        let directory = base.path.rsplit_once('/').map_or("", |(directory, _)| directory);
        remove_dots(&format!("{directory}/{}", target.path))
    };
    let query = if target.path.is_empty() && target.authority.is_none() {
        target.query.or(base.query)
    } else {
        target.query
    };
    let scheme = if base.scheme.is_empty() { String::new() } else { format!("{}:", base.scheme) };
    let authority = authority.map_or(String::new(), |authority| format!("//{authority}"));
    let query = query.map_or(String::new(), |query| format!("?{query}"));
    format!("{scheme}{authority}{path}{query}")
}

fn remove_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        parts.push("");
    }
    let joined = parts.join("/");
    if path.starts_with('/') && !joined.starts_with('/') { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_against_their_base() {
        for (base, reference, expected) in [
            ("file:///values.schema.json", "other.json", "file:///other.json"),
            ("file:///a/b.json", "../c.json", "file:///c.json"),
            ("https://x.io/a/b", "/c", "https://x.io/c"),
            ("https://x.io/a/b", "//y.io/c", "https://y.io/c"),
            ("https://x.io/a/b?q", "", "https://x.io/a/b?q"),
            ("https://x.io/a/b?q", "c?r", "https://x.io/a/c?r"),
            ("https://x.io", "c", "https://x.io/c"),
            ("urn:x:y", "c", "urn:x:y"),
            ("urn:x:y", "https://x.io/", "https://x.io/"),
        ] {
            assert_eq!(join(base, reference), expected, "{base} {reference}");
        }
    }

    #[test]
    fn steps_of_pointers_are_escaped() {
        for step in ["a", "a/b", "a~b", "~1", ""] {
            assert_eq!(unescape(&escape(step)).as_deref(), Some(step));
        }
        assert_eq!(unescape("a~"), None);
        assert_eq!(unescape("a~2"), None);
        assert_eq!(encode("/a b/c%"), "/a%20b/c%25");
        assert_eq!(Fragment::parse("%41"), Some(Fragment::Anchor("A".to_owned())));
        assert_eq!(Fragment::parse("%4"), None);
    }
}
