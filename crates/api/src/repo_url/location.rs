//! Where a repository URL leads: one grammar for those who permit a URL and for those who fetch it (SEC-58).

use std::net::Ipv6Addr;
use std::path::PathBuf;

/// Bytes of a URL.
const URL_BYTES_MAX: usize = 4096;
/// How often a path may have been percent-encoded before it is called hopeless.
const ENCODINGS_MAX: usize = 8;
/// Bytes of a host name.
const HOST_BYTES_MAX: usize = 253;

/// How a repository is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `https://`
    Https,
    /// `http://`
    Http,
    /// `ssh://`, or `user@host:path`.
    Ssh,
    /// `git://`
    Git,
    /// `file://`, or an absolute path.
    File,
}

impl Scheme {
    /// The port that is meant where none is written.
    pub fn default_port(self) -> Option<u16> {
        match self {
            Self::Https => Some(443),
            Self::Http => Some(80),
            Self::Ssh => Some(22),
            Self::Git => Some(9418),
            Self::File => None,
        }
    }
}

/// Why nothing may be fetched from a URL; reads on behind `repository URL "…" `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Nothing was written.
    #[error("is empty")]
    Empty,
    /// A bound of ours.
    #[error("is longer than {URL_BYTES_MAX} bytes")]
    TooLong,
    /// A line break, an escape, or one of their relatives, also when encoded.
    #[error("contains control characters")]
    Control,
    /// Nothing we speak.
    #[error("has a scheme that is not supported; use https, http, ssh, git, user@host:path or file")]
    Scheme,
    /// A name that is none.
    #[error("has no valid host; international names are written in their ASCII form")]
    Host,
    /// Not a number from 1 to 65535.
    #[error("has no valid port")]
    Port,
    /// An account name with other characters than letters, digits and `.`, `_`, `-`, `+`, `~`.
    #[error("has no valid user for SSH")]
    User,
    /// No path, or one that could be taken for an option.
    #[error("has no valid path")]
    Path,
    /// A server would go up from there.
    #[error("has a segment \".\" or \"..\" in its path")]
    DotSegment,
    /// What follows is not a part of the path that is compared.
    #[error("has a query or a fragment; write ? as %3F and # as %23 where they are part of the path")]
    Query,
}

/// The parts of a URL that something can be fetched from. User information of HTTP is not among them: it says
/// who asks, not what for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    scheme: Scheme,
    user: Option<String>,
    host: String,
    port: Option<u16>,
    path: String,
    local: Option<PathBuf>,
}

impl Location {
    /// Reads a URL as it is written in an Application.
    ///
    /// # Errors
    /// For everything that could mean another thing to whoever fetches it.
    pub fn parse(url: &str) -> Result<Self, UrlError> {
        if url.len() > URL_BYTES_MAX {
            return Err(UrlError::TooLong);
        }
        if url.chars().any(char::is_control) {
            return Err(UrlError::Control);
        }
        let url = url.trim();
        if url.is_empty() {
            return Err(UrlError::Empty);
        }
        if url.starts_with('/') {
            check_path(url)?;
            return Ok(Self::file(url.to_owned(), PathBuf::from(url)));
        }
        match url.split_once("://") {
            Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
                "https" => Self::remote(Scheme::Https, rest),
                "http" => Self::remote(Scheme::Http, rest),
                "ssh" => Self::remote(Scheme::Ssh, rest),
                "git" => Self::remote(Scheme::Git, rest),
                "file" => {
                    check_path(rest)?;
                    if !rest.starts_with('/') || rest.starts_with("//") {
                        return Err(UrlError::Host);
                    }
                    let decoded = percent_decoded(rest).ok_or(UrlError::Path)?;
                    Ok(Self::file(rest.to_owned(), PathBuf::from(decoded)))
                }
                _ => Err(UrlError::Scheme),
            },
            None => Self::scp(url),
        }
    }

    fn file(path: String, local: PathBuf) -> Self {
        Self { scheme: Scheme::File, user: None, host: String::new(), port: None, path, local: Some(local) }
    }

    fn remote(scheme: Scheme, rest: &str) -> Result<Self, UrlError> {
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if path.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let (host, port) = split_port(host)?;
        let port = match port {
            Some(text) => Some(parse_port(text)?),
            None => None,
        };
        let user = match (scheme, user) {
            (Scheme::Ssh, Some(user)) => Some(ssh_account(user)?),
            // A backslash ends the authority for some readers.
            (_, Some(user)) if user.contains('\\') => return Err(UrlError::Host),
            _ => None,
        };
        let is_http = matches!(scheme, Scheme::Https | Scheme::Http);
        if path.len() < 2 && !is_http {
            return Err(UrlError::Path);
        }
        check_path(path)?;
        Ok(Self { scheme, user, host: parse_host(host)?, port, path: path.to_owned(), local: None })
    }

    /// `user@host:path`; the path has no port before it.
    fn scp(url: &str) -> Result<Self, UrlError> {
        let (user, rest) = url.split_once('@').ok_or(UrlError::Scheme)?;
        if user.contains([':', '/']) {
            return Err(UrlError::Scheme);
        }
        let end = if rest.starts_with('[') { rest.find("]:").map(|end| end + 1) } else { rest.find(':') };
        let (host, path) = rest.split_at(end.ok_or(UrlError::Scheme)?);
        let path = path.strip_prefix(':').unwrap_or(path);
        if path.contains(['?', '#']) {
            return Err(UrlError::Query);
        }
        if path.is_empty() || path.starts_with('-') || path.contains('@') {
            return Err(UrlError::Path);
        }
        let user = Some(ssh_account(user)?);
        let host = parse_host(host)?;
        check_path(path)?;
        Ok(Self { scheme: Scheme::Ssh, user, host, port: None, path: format!("/{path}"), local: None })
    }

    /// How it is spoken to.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The account on the server; only SSH has one.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Host in lower case, IPv6 without brackets; empty for a path of this machine.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port, where one is written.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Path as written; it begins with `/`, or is empty.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Host and path in one form, without what may differ between two URLs of one repository: scheme, port, account,
    /// case, escapes, repeated slashes and `.git`.
    pub fn place(&self) -> String {
        let mut path = self.path.clone();
        for _ in 0..ENCODINGS_MAX {
            match percent_decoded(&path).filter(|decoded| *decoded != path) {
                Some(decoded) => path = decoded,
                None => break,
            }
        }
        let path = path.to_lowercase();
        let mut place = self.host.clone();
        for segment in path.split(['/', '\\']).filter(|segment| !segment.is_empty()) {
            place.push('/');
            place.push_str(segment);
        }
        while let Some(shorter) = place.strip_suffix(".git").filter(|shorter| !shorter.ends_with('/')) {
            place.truncate(shorter.len());
        }
        place
    }

    /// The path on this machine, as git would open it.
    pub fn local_path(&self) -> Option<&std::path::Path> {
        self.local.as_deref()
    }
}

/// Whether a text has a segment `.` or `..`, however often it was encoded and whatever parameters it carries.
pub fn has_dot_segment(text: &str) -> bool {
    check_path(text) == Err(UrlError::DotSegment)
}

/// Some servers decode twice, some take `\` for `/`, and some cut `;…` off a segment before they look at it.
fn check_path(path: &str) -> Result<(), UrlError> {
    let mut path = path.as_bytes().to_vec();
    for _ in 0..ENCODINGS_MAX {
        let mut segments = path.split(|byte| matches!(byte, b'/' | b'\\'));
        let name = |segment: &[u8]| segment.split(|byte| *byte == b';').next().map(<[u8]>::to_vec);
        if segments.any(|segment| matches!(name(segment).as_deref(), Some(b"." | b".."))) {
            return Err(UrlError::DotSegment);
        }
        if path.iter().any(u8::is_ascii_control) {
            return Err(UrlError::Control);
        }
        let decoded = decoded_bytes(&path);
        if decoded == path {
            return Ok(());
        }
        path = decoded;
    }
    Err(UrlError::Path)
}

/// Host, and the text behind its `:`.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), UrlError> {
    if authority.starts_with('[') {
        let end = authority.find(']').ok_or(UrlError::Host)?;
        let (host, rest) = authority.split_at(end + 1);
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(UrlError::Host),
        };
    }
    Ok(authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))))
}

fn parse_port(text: &str) -> Result<u16, UrlError> {
    let is_number = !text.is_empty() && text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.parse::<u16>().ok().filter(|port| is_number && *port > 0);
    port.ok_or(UrlError::Port)
}

fn parse_host(host: &str) -> Result<String, UrlError> {
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        let address: Ipv6Addr = inner.parse().map_err(|_error| UrlError::Host)?;
        return Ok(address.to_string());
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let is_host = host.len() <= HOST_BYTES_MAX && host.split('.').all(is_label);
    if is_host { Ok(host.to_ascii_lowercase()) } else { Err(UrlError::Host) }
}

fn ssh_account(user: &str) -> Result<String, UrlError> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+~".contains(&byte);
    let is_account = !user.is_empty() && !user.starts_with('-') && user.bytes().all(valid);
    if is_account { Ok(user.to_owned()) } else { Err(UrlError::User) }
}

fn percent_decoded(text: &str) -> Option<String> {
    String::from_utf8(decoded_bytes(text.as_bytes())).ok()
}

/// The text with its valid percent escapes decoded once.
fn decoded_bytes(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if let (b'%', [high, low, after @ ..]) = (byte, tail)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            decoded.push(high << 4 | low);
            rest = after;
        } else {
            decoded.push(byte);
        }
    }
    decoded
}
