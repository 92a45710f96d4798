//! Content that is not in the tree: bases in other repositories, files behind URLs, charts to be pulled
//! (RND-89, RND-210, RND-236).
//!
//! Nothing is fetched here. A build asks [`Fetched`] for what others have fetched, and says in the end which
//! [`RemoteSpec`]s it found missing. A spec is parsed data: no part of it can be taken for an option of a program
//! (SEC-50).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tiphys_tree::Tree;

use crate::fault::{Fault, Result};

/// How long kustomize waits for a repository.
const TIMEOUT: Duration = Duration::from_secs(27);
const SEPARATOR: char = '/';

/// Something that a build needs and the tree has not.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum RemoteSpec {
    /// A repository at a reference; given as a tree.
    Repository {
        /// URL of the repository.
        url: String,
        /// Directory in it, without a slash at either end. The whole tree is given, whatever it is.
        path: String,
        /// Branch, tag or commit; empty for the default branch. Never begins with `-`.
        reference: String,
        /// Whether submodules are wanted.
        submodules: bool,
        /// How long fetching it may take.
        timeout: Duration,
    },
    /// A file behind a URL; given as bytes.
    File {
        /// The URL, `http` or `https`.
        url: String,
    },
    /// A chart of a chart repository or an OCI registry; given as a tree whose root is the chart's directory.
    Chart {
        /// URL of the repository.
        repository: String,
        /// Name of the chart.
        name: String,
        /// Version or constraint; empty for the latest.
        version: String,
        /// Whether development versions count.
        devel: bool,
    },
}

impl fmt::Display for RemoteSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository { url, path, reference, .. } => {
                f.write_str(&without_user(url))?;
                if !path.is_empty() {
                    write!(f, "//{path}")?;
                }
                if reference.is_empty() { Ok(()) } else { write!(f, "?ref={reference}") }
            }
            Self::File { url } => f.write_str(&without_user(url)),
            Self::Chart { repository, name, version, .. } => {
                write!(f, "chart {name} {version} of {}", without_user(repository))
            }
        }
    }
}

/// A URL without what may be a password (STY-56).
fn without_user(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => return url.to_owned(),
    };
    let host_end = rest.find('/').unwrap_or(rest.len());
    let host = rest.get(..host_end).unwrap_or_default();
    match host.rfind('@') {
        Some(at) => format!("{scheme}{}", rest.get(at + 1..).unwrap_or_default()),
        None => url.to_owned(),
    }
}

/// What was fetched for a spec.
#[derive(Clone)]
pub enum Content {
    /// For a repository or a chart.
    Tree(Arc<dyn Tree>),
    /// For a file.
    File(Bytes),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(tree) => f.debug_tuple("Tree").field(&tree.id()).finish(),
            Self::File(bytes) => f.debug_tuple("File").field(&bytes.len()).finish(),
        }
    }
}

/// What others have fetched for a build so far.
pub trait Fetched {
    /// The content for a spec, or why it could not be fetched; `None` when nobody has tried yet.
    ///
    /// That a server has no file, or an answer that is none, is an error: then the URL may be that of a repository.
    fn look_up(&self, spec: &RemoteSpec) -> Option<std::result::Result<Content, String>>;
}

/// Nothing is fetched, and nothing will be.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingFetched;

impl Fetched for NothingFetched {
    fn look_up(&self, _spec: &RemoteSpec) -> Option<std::result::Result<Content, String>> {
        None
    }
}

/// A URL of a repository, taken apart as kustomize does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    /// The URL as written.
    pub(crate) raw: String,
    /// What is cloned.
    pub(crate) url: String,
    /// The directory.
    pub(crate) path: String,
    pub(crate) reference: String,
    pub(crate) submodules: bool,
    pub(crate) timeout: Duration,
}

impl Repository {
    /// Takes a URL apart; `None` when the text is none of a repository, and so the name of a file or directory.
    ///
    /// # Errors
    /// When it is one that must not be fetched.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>> {
        let Some(repository) = Self::parse_any(text) else { return Ok(None) };
        if repository.url.starts_with("file://") {
            return Err(Fault::new("repositories of the local file system are not fetched"));
        }
        let host = repository.url.rsplit("://").next().unwrap_or_default();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        // SEC-50: git and ssh take what begins with a hyphen for an option.
        if repository.reference.starts_with('-') || host.starts_with('-') || repository.url.starts_with('-') {
            return Err(Fault::new(format!("illegal reference or host in {}", crate::fault::quoted(text))));
        }
        if repository.reference.contains(|c: char| c.is_control())
            || repository.url.contains(|c: char| c.is_control())
        {
            return Err(Fault::new("control characters in the URL of a repository"));
        }
        Ok(Some(repository))
    }

    fn parse_any(text: &str) -> Option<Self> {
        if text.starts_with(SEPARATOR) {
            return None;
        }
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (reference, timeout, submodules) = parse_query(query);
        let (host, rest) = split_host(address)?;
        let (repository, path) = split_path(rest, host.starts_with("file://"))?;
        if repository.is_empty() || leaves_repository(path) {
            return None;
        }
        Some(Self {
            raw: text.to_owned(),
            url: format!("{host}{repository}"),
            path: path.strip_prefix(SEPARATOR).unwrap_or(path).to_owned(),
            reference,
            submodules,
            timeout,
        })
    }

    pub(crate) fn spec(&self) -> RemoteSpec {
        RemoteSpec::Repository {
            url: self.url.clone(),
            path: self.path.trim_matches(SEPARATOR).to_owned(),
            reference: self.reference.clone(),
            submodules: self.submodules,
            timeout: self.timeout,
        }
    }
}

fn strip_ignoring_case<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// Scheme, user and host, and what follows.
fn split_host(text: &str) -> Option<(String, &str)> {
    let text = strip_ignoring_case(text, "git::").unwrap_or(text);
    let schemes = ["ssh://", "https://", "http://", "file://"];
    let (scheme, rest) = schemes
        .into_iter()
        .find_map(|scheme| strip_ignoring_case(text, scheme).map(|rest| (scheme, rest)))
        .unwrap_or(("", text));
    let (user, rest) = split_user(rest);
    let is_github = strip_ignoring_case(rest, "github.com/")
        .or_else(|| strip_ignoring_case(rest, "github.com:"))
        .is_some();
    let is_short = scheme.is_empty() && (!user.is_empty() || is_github);
    if scheme.is_empty() && !is_short {
        return None;
    }
    if scheme == "file://" {
        // The user is a part of the path there.
        let start = text.len() - user.len() - rest.len();
        return Some((scheme.to_owned(), text.get(start..).unwrap_or(rest)));
    }
    let mut end = rest.find(SEPARATOR);
    if is_short {
        let colon = rest.find(':').filter(|colon| *colon > 0);
        end = match (end, colon) {
            (None, _) => rest.find(':'),
            (Some(end), Some(colon)) if colon < end => Some(colon),
            (end, _) => end,
        };
    }
    let (host, path) = match end {
        Some(end) => rest.split_at_checked(end + 1).unwrap_or((rest, "")),
        None => (rest, ""),
    };
    let host = if is_github {
        if scheme == "ssh://" || !user.is_empty() {
            format!("{user}github.com:")
        } else {
            "https://github.com/".to_owned()
        }
    } else if host.is_empty() {
        return None;
    } else {
        format!("{scheme}{user}{host}")
    };
    Some((host, path))
}

/// `name@` at the beginning.
fn split_user(text: &str) -> (&str, &str) {
    let Some(at) = text.find('@') else { return ("", text) };
    let name = text.get(..at).unwrap_or_default();
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_name { text.split_at_checked(at + 1).unwrap_or(("", text)) } else { ("", text) }
}

/// The path of the repository and the one inside of it: at `_git/`, `//`, `.git`, else behind two parts.
fn split_path(text: &str, is_file: bool) -> Option<(&str, &str)> {
    if let Some(at) = text.find("_git/") {
        let end = text.get(at + 5..)?.find(SEPARATOR).map(|end| at + 5 + end);
        return Some(match end {
            Some(end) => (text.get(..end)?, text.get(end + 1..)?),
            None => (text, ""),
        });
    }
    if let Some(at) = text.find("//") {
        return Some((text.get(..at)?, text.get(at + 2..)?));
    }
    if let Some(at) = text.find(".git") {
        return text.split_at_checked(at + 4);
    }
    if is_file {
        return Some((text, ""));
    }
    let first = text.find(SEPARATOR)?;
    match text.get(first + 1..)?.find(SEPARATOR).map(|second| first + 1 + second) {
        Some(second) => Some((text.get(..second)?, text.get(second + 1..)?)),
        None => Some((text, "")),
    }
}

fn leaves_repository(path: &str) -> bool {
    let mut depth = 0_i64;
    for part in path.strip_prefix(SEPARATOR).unwrap_or(path).split(SEPARATOR) {
        match part {
            "" | "." => {}
            ".." => depth -= 1,
            _ => depth += 1,
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

fn parse_query(query: &str) -> (String, Duration, bool) {
    let mut reference = (String::new(), String::new());
    let (mut timeout, mut submodules) = (None, None);
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(value) = unescape(value) else { return (String::new(), TIMEOUT, true) };
        match name {
            "ref" if reference.0.is_empty() => reference.0 = value,
            "version" if reference.1.is_empty() => reference.1 = value,
            "timeout" => timeout = timeout.or(Some(value)),
            "submodules" => submodules = submodules.or(Some(value)),
            _ => {}
        }
    }
    let reference = if reference.0.is_empty() { reference.1 } else { reference.0 };
    let timeout = timeout.and_then(|text| match text.parse::<u64>() {
        Ok(seconds) => (seconds > 0).then(|| Duration::from_secs(seconds)),
        Err(_no_number) => {
            let duration = tiphys_go::duration::parse(&text).ok()?;
            Duration::try_from(duration).ok().filter(|duration| !duration.is_zero())
        }
    });
    let submodules = !matches!(submodules.as_deref(), Some("0" | "f" | "F" | "false" | "False" | "FALSE"));
    (reference, timeout.unwrap_or(TIMEOUT), submodules)
}

/// A value of a query; `None` when an escape is none.
fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            b';' => return None,
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Whether a path is fetched by HTTP.
pub(crate) fn is_remote_file(path: &str) -> bool {
    let scheme = path.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https"))
        && !path.contains(|c: char| c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(String, String, String)> {
        Repository::parse(text).unwrap().map(|found| (found.url, found.path, found.reference))
    }

    #[test]
    fn rnd_210_urls_of_repositories_are_taken_apart() {
        for (text, url, path, reference) in [
            ("https://github.com/o/r//a/b?ref=v1", "https://github.com/o/r", "a/b", "v1"),
            ("github.com/o/r/a/b", "https://github.com/o/r", "a/b", ""),
            ("git@github.com:o/r.git//a?version=2", "git@github.com:o/r.git", "a", "2"),
            ("ssh://git@github.com/o/r", "git@github.com:o/r", "", ""),
            ("https://h/o/r.git/a", "https://h/o/r.git", "a", ""),
            ("https://dev.azure.com/o/p/_git/r/a/b?ref=x", "https://dev.azure.com/o/p/_git/r", "a/b", "x"),
            ("git@gitlab.example.com:o/r//a", "git@gitlab.example.com:o/r", "a", ""),
            ("git::https://h/o/r//a", "https://h/o/r", "a", ""),
        ] {
            let expected = Some((url.to_owned(), path.to_owned(), reference.to_owned()));
            assert_eq!(parsed(text), expected, "{text}");
        }
        for text in ["base", "../base", "/abs", "a/b/c.yaml", "https://h/only", "https://h/o/r//../x"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn sec_50_no_reference_is_an_option() {
        for text in [
            "https://h/o/r?ref=--upload-pack=x",
            "https://h/o/r?ref=%2d-upload-pack",
            "git@-oProxyCommand=x:o/r",
            "ssh://-oProxyCommand=x/o/r",
            "file:///srv/other-tenant",
            "https://h/o/r?ref=a%0ab",
        ] {
            assert!(Repository::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sty_56_no_password_is_shown() {
        let spec = RemoteSpec::File { url: "https://user:secret@h/x".to_owned() };
        assert_eq!(spec.to_string(), "https://h/x");
    }
}
