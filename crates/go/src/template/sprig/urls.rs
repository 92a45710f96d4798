//! URLs taken apart and put together (`net/url`).

use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Type, kind_name};
use crate::template::quote::quote;
use crate::template::value::{Map, Text, Value, to_str};
use std::net::Ipv6Addr;

pub(super) static FUNCTIONS: &[Function] =
    &[Function::new("urlJoin", &[Type::MAP], join), Function::new("urlParse", &[Type::Text], parse)];

/// A part of a URL, by what may stand in it unescaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Fragment,
}

impl Part {
    fn escapes(self, byte: u8) -> bool {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            return false;
        }
        match self {
            Self::Host | Self::Zone => !b"!$&'()*+,;=:[]<>\"".contains(&byte),
            Self::Path => !b"$&+,/:;=@".contains(&byte),
            Self::User => !b"$&+,;=".contains(&byte),
            Self::Fragment => !b"$&+,/:;=?@!()*".contains(&byte),
        }
    }

    fn escape(self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        for byte in text {
            if self.escapes(*byte) {
                out.extend_from_slice(format!("%{byte:02X}").as_bytes());
            } else {
                out.push(*byte);
            }
        }
        out
    }

    fn unescape(self, text: &[u8]) -> Result<Vec<u8>, String> {
        let invalid = |part: &[u8]| format!("invalid URL escape {}", quote(part));
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some((byte, after)) = rest.split_first() {
            if *byte != b'%' {
                if matches!(self, Self::Host | Self::Zone) && byte.is_ascii() && self.escapes(*byte) {
                    return Err(format!("invalid character {} in host name", quote(&[*byte])));
                }
                out.push(*byte);
                rest = after;
                continue;
            }
            let whole = rest.get(..3.min(rest.len())).unwrap_or_default();
            let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
            let (Some(high), Some(low)) = (digit(0), digit(1)) else { return Err(invalid(whole)) };
            let value = u8::try_from(high * 16 + low).unwrap_or(0);
            let percent = whole == b"%25";
            let refused = match self {
                // In a host only bytes beyond ASCII are escaped, and the sign that begins a zone.
                Self::Host => high < 8 && !percent,
                Self::Zone => !percent && value != b' ' && Self::Host.escapes(value),
                _ => false,
            };
            if refused {
                return Err(invalid(whole));
            }
            out.push(value);
            rest = after.get(2..).unwrap_or_default();
        }
        Ok(out)
    }
}

/// User and password.
#[derive(Debug, Default)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl User {
    fn spelled(&self) -> Vec<u8> {
        let mut out = Part::User.escape(&self.name);
        if let Some(password) = &self.password {
            out.push(b':');
            out.extend(Part::User.escape(password));
        }
        out
    }
}

#[derive(Debug, Default)]
struct Url {
    scheme: Vec<u8>,
    opaque: Vec<u8>,
    user: Option<User>,
    host: Vec<u8>,
    path: Vec<u8>,
    query: Vec<u8>,
    fragment: Vec<u8>,
}

impl Url {
    fn parse(text: &[u8]) -> Result<Self, String> {
        let (before, fragment) = cut(text, b'#');
        let failed = |text: &[u8], problem: String| format!("parse {}: {problem}", quote(text));
        let mut url = Self::parse_before_fragment(before).map_err(|problem| failed(before, problem))?;
        if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
            url.fragment = Part::Fragment.unescape(fragment).map_err(|problem| failed(text, problem))?;
        }
        Ok(url)
    }

    fn parse_before_fragment(text: &[u8]) -> Result<Self, String> {
        if text.iter().any(|byte| *byte < b' ' || *byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let mut url = Self::default();
        if text == b"*" {
            url.path = text.to_vec();
            return Ok(url);
        }
        let (scheme, rest) = scheme_of(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = cut(rest, b'?');
        url.query = query.unwrap_or_default().to_vec();
        if !rest.starts_with(b"/") {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_vec();
                return Ok(url);
            }
            if cut(rest, b'/').0.contains(&b':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let mut path = rest;
        if let Some(behind) = rest.strip_prefix(b"//")
            && (!url.scheme.is_empty() || !rest.starts_with(b"///"))
        {
            let end = behind.iter().position(|byte| *byte == b'/').unwrap_or(behind.len());
            let (authority, after) = behind.split_at_checked(end).unwrap_or((behind, b""));
            path = after;
            let (user, host) = match authority.iter().rposition(|byte| *byte == b'@') {
                None => (None, authority),
                Some(at) => (authority.get(..at), authority.get(at + 1..).unwrap_or_default()),
            };
            url.host = host_of(&url.scheme, host)?;
            url.user = user.map(user_of).transpose()?;
        }
        url.path = Part::Path.unescape(path)?;
        Ok(url)
    }

    /// The host without a port and without brackets.
    fn hostname(&self) -> &[u8] {
        let mut host = self.host.as_slice();
        if let Some(colon) = host.iter().rposition(|byte| *byte == b':')
            && host.get(colon..).is_some_and(is_port)
        {
            host = host.get(..colon).unwrap_or_default();
        }
        match host {
            [b'[', inner @ .., b']'] => inner,
            _ => host,
        }
    }

    fn spelled(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.scheme.is_empty() {
            out.extend_from_slice(&self.scheme);
            out.push(b':');
        }
        if self.opaque.is_empty() {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
                    out.extend_from_slice(b"//");
                }
                if let Some(user) = &self.user {
                    out.extend(user.spelled());
                    out.push(b'@');
                }
                out.extend(Part::Host.escape(&self.host));
            }
            let path = if self.path == b"*" { self.path.clone() } else { Part::Path.escape(&self.path) };
            if !path.is_empty() && !path.starts_with(b"/") && !self.host.is_empty() {
                out.push(b'/');
            }
            if out.is_empty() && cut(&path, b'/').0.contains(&b':') {
                out.extend_from_slice(b"./");
            }
            out.extend(path);
        } else {
            out.extend_from_slice(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push(b'#');
            out.extend(Part::Fragment.escape(&self.fragment));
        }
        out
    }
}

fn cut(text: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == at) {
        None => (text, None),
        Some(place) => (text.get(..place).unwrap_or_default(), text.get(place + 1..)),
    }
}

fn scheme_of(text: &[u8]) -> Result<(&[u8], &[u8]), String> {
    for (place, byte) in text.iter().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if place > 0 => {}
            b':' if place == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => {
                return Ok((
                    text.get(..place).unwrap_or_default(),
                    text.get(place + 1..).unwrap_or_default(),
                ));
            }
            _ => break,
        }
    }
    Ok((b"", text))
}

fn is_port(text: &[u8]) -> bool {
    match text.split_first() {
        None => true,
        Some((b':', digits)) => digits.iter().all(u8::is_ascii_digit),
        Some(_) => false,
    }
}

fn host_of(scheme: &[u8], host: &[u8]) -> Result<Vec<u8>, String> {
    let bad_port = |port: &[u8]| format!("invalid port {} after host", quote(port));
    match host.iter().rposition(|byte| *byte == b'[') {
        Some(place) if place > 0 => return Err("invalid IP-literal".to_owned()),
        Some(_) => {
            let Some(close) = host.iter().rposition(|byte| *byte == b']') else {
                return Err("missing ']' in host".to_owned());
            };
            let port = host.get(close + 1..).unwrap_or_default();
            if !is_port(port) {
                return Err(bad_port(port));
            }
            let port = Part::Host.unescape(port)?;
            let name = host.get(1..close).unwrap_or_default();
            let name = match super::strings::find(name, b"%25") {
                Some(zone) => {
                    let (address, zone) = name.split_at_checked(zone).unwrap_or((name, b""));
                    [Part::Host.unescape(address)?, Part::Zone.unescape(zone)?].concat()
                }
                None => Part::Host.unescape(name)?,
            };
            check_address(&name)?;
            return Ok([b"[", name.as_slice(), b"]", port.as_slice()].concat());
        }
        None => {}
    }
    if let Some(first) = host.iter().position(|byte| *byte == b':') {
        // Elsewhere than in HTTP, several hosts may stand here.
        let strict = scheme == b"http" || scheme == b"https";
        let last = host.iter().rposition(|byte| *byte == b':').unwrap_or(first);
        let port = host.get(if strict { first } else { last }..).unwrap_or_default();
        if !is_port(port) {
            return Err(bad_port(port));
        }
    }
    Part::Host.unescape(host)
}

/// Whether what stands in brackets is an address of version 6.
fn check_address(text: &[u8]) -> Result<(), String> {
    let shown = to_str(text);
    let (address, zone) = match shown.split_once('%') {
        Some((address, zone)) => (address, Some(zone)),
        None => (&*shown, None),
    };
    if address.parse::<std::net::Ipv4Addr>().is_ok() && zone.is_none() {
        return Err("invalid IP-literal".to_owned());
    }
    if address.parse::<Ipv6Addr>().is_err() || zone.is_some_and(str::is_empty) {
        return Err(format!("invalid host: ParseAddr({}): unable to parse IP", quote(text)));
    }
    Ok(())
}

fn user_of(text: &[u8]) -> Result<User, String> {
    let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(byte);
    if !text.iter().all(known) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = cut(text, b':');
    Ok(User {
        name: Part::User.unescape(name)?,
        password: password.map(|password| Part::User.unescape(password)).transpose()?,
    })
}

fn parse(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let url = Url::parse(call.bytes(0)).map_err(|problem| format!("unable to parse url: {problem}"))?;
    let user = url.user.as_ref().map(User::spelled).unwrap_or_default();
    call.makes_items(8)?;
    let members: [(&str, &[u8]); 8] = [
        ("fragment", &url.fragment),
        ("host", &url.host),
        ("hostname", url.hostname()),
        ("opaque", &url.opaque),
        ("path", &url.path),
        ("query", &url.query),
        ("scheme", &url.scheme),
        ("userinfo", &user),
    ];
    Ok(Value::Map(
        members.into_iter().map(|(name, text)| (name, Value::Text(Text::from_bytes(text)))).collect::<Map>(),
    ))
}

fn join(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let map = call.map(0);
    let member = |name: &str| match map.get(name.as_bytes()) {
        None => Ok(Vec::new()),
        Some(Value::Text(text)) => Ok(text.as_bytes().to_vec()),
        Some(Value::Nil) => Err(super::convert::nil_pointer()),
        Some(other) => Err(Failure::new(format!(
            "unable to parse {name} key, must be of type string, but {} found",
            kind_name(&other)
        ))),
    };
    let mut url = Url {
        scheme: member("scheme")?,
        host: member("host")?,
        path: member("path")?,
        query: member("query")?,
        opaque: member("opaque")?,
        fragment: member("fragment")?,
        user: None,
    };
    let user = member("userinfo")?;
    if !user.is_empty() {
        let whole = [b"proto://", user.as_slice(), b"@host"].concat();
        let parsed =
            Url::parse(&whole).map_err(|problem| format!("unable to parse userinfo in dict: {problem}"))?;
        url.user = parsed.user;
    }
    let text = url.spelled();
    call.answer_text(text)
}
