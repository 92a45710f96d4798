//! Enough of Go's `net/url` to print a URL as Go prints it after parsing: which texts fail, what is escaped.

use std::fmt;

/// The parts of a URL as Go sees them, already in the escaped form in which they are printed.
#[derive(Debug, Default)]
pub(super) struct GenericUrl {
    scheme: String,
    opaque: String,
    has_authority: bool,
    user: Option<String>,
    host: String,
    path: String,
    query: Option<String>,
    fragment: String,
}

impl GenericUrl {
    /// Parses like Go's `url.Parse`; `None` where that fails.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return None;
        }
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self { fragment: printed(fragment, Part::Fragment)?, ..Self::default() };
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let rest = match rest.split_once('?') {
            Some((rest, query)) => {
                url.query = Some(query.to_owned());
                rest
            }
            None => rest,
        };
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Some(url);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return None;
            }
        }
        let mut path = rest;
        let triple = url.scheme.is_empty() && rest.starts_with("///");
        if let (Some(after), false) = (rest.strip_prefix("//"), triple) {
            let (authority, tail) = after.split_at(after.find('/').unwrap_or(after.len()));
            url.parse_authority(authority)?;
            path = tail;
        }
        url.path = printed(path, Part::Path)?;
        Some(url)
    }

    /// Whether there is a user part, even an empty one.
    pub(super) fn has_user(&self) -> bool {
        self.user.is_some()
    }

    /// Forgets user and password.
    pub(super) fn remove_user(&mut self) {
        self.user = None;
    }

    fn parse_authority(&mut self, authority: &str) -> Option<()> {
        self.has_authority = true;
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                self.user = Some(parse_user(user)?);
                host
            }
            None => authority,
        };
        self.host = parse_host(host)?;
        Some(())
    }
}

impl fmt::Display for GenericUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if !self.opaque.is_empty() {
            f.write_str(&self.opaque)?;
        } else {
            let named = !self.host.is_empty() || self.user.is_some();
            // Go prints the slashes again when the text had them, and adds them to `scheme:/path` never.
            if named || (self.has_authority && !self.path.is_empty() && !self.scheme.is_empty()) {
                f.write_str("//")?;
            }
            if let Some(user) = &self.user {
                write!(f, "{user}@")?;
            }
            f.write_str(&self.host)?;
            if named && !self.path.is_empty() && !self.path.starts_with('/') {
                f.write_str("/")?;
            }
            f.write_str(&self.path)?;
        }
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", self.fragment)?;
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    User,
    Host,
    Path,
    Fragment,
}

/// Scheme and rest; no scheme when a character before the `:` cannot be in one, `None` for a leading `:`.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if index > 0 => {}
            b':' if index == 0 => return None,
            b':' => return text.split_once(':'),
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn parse_user(user: &str) -> Option<String> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(valid) {
        return None;
    }
    let escape_part = |text: &str| Some(escape(&unescape(text, Part::User)?, Part::User));
    Some(match user.split_once(':') {
        Some((name, password)) => format!("{}:{}", escape_part(name)?, escape_part(password)?),
        None => escape_part(user)?,
    })
}

fn parse_host(host: &str) -> Option<String> {
    let port_ok = |port: &str| {
        port.is_empty()
            || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
    };
    if host.starts_with('[') {
        let end = host.rfind(']')?;
        let (_, port) = host.split_at(end + 1);
        if !port_ok(port) {
            return None;
        }
    } else if let Some(colon) = host.rfind(':') {
        let (_, port) = host.split_at(colon);
        if !port_ok(port) {
            return None;
        }
    }
    Some(escape(&unescape(host, Part::Host)?, Part::Host))
}

/// The form Go prints: the text itself where that is a valid encoding, else decoded and encoded again.
fn printed(text: &str, part: Part) -> Option<String> {
    let decoded = unescape(text, part)?;
    let valid = text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !must_escape(byte, part));
    Some(if valid { text.to_owned() } else { escape(&decoded, part) })
}

fn unescape(text: &str, part: Part) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let value = hex(bytes.next()?)? * 16 + hex(bytes.next()?)?;
            if part == Part::Host && value < 0x80 && value != b'%' {
                return None;
            }
            decoded.push(value);
        } else if part == Part::Host && byte < 0x80 && must_escape(byte, part) {
            return None;
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn escape(bytes: &[u8], part: Part) -> String {
    let mut escaped = String::with_capacity(bytes.len());
    for &byte in bytes {
        if must_escape(byte, part) {
            escaped.push('%');
            for nibble in [byte >> 4, byte & 0x0f] {
                let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                escaped.push(digit.to_ascii_uppercase());
            }
        } else {
            escaped.push(char::from(byte));
        }
    }
    escaped
}

fn must_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    let kept: &[u8] = match part {
        Part::User => b"$&+,;=",
        Part::Host => b"!$&'()*+,;=:[]<>\"",
        Part::Path => b"$&+,/:;=@",
        Part::Fragment => b"$&+,/:;=?@!()*",
    };
    !kept.contains(&byte)
}
