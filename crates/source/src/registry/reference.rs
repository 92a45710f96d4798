//! Names in registries: hosts, repositories, tags and digests.

/// A repository of a registry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference {
    /// Host, with a port if it is not the usual one.
    pub(crate) host: String,
    /// Path of the repository.
    pub(crate) name: String,
}

impl Reference {
    /// Reads `oci://host/path`, or the same without scheme, by the grammar of registries (SEC-58).
    ///
    /// # Errors
    /// With what is wrong.
    pub(crate) fn parse(url: &str) -> Result<Self, &'static str> {
        let rest = url.strip_prefix("oci://").unwrap_or(url);
        if rest.contains("://") {
            return Err("is not one of a registry");
        }
        let rest = rest.trim_end_matches('/');
        let (host, name) = rest.split_once('/').ok_or("names no repository")?;
        if !is_host(host) {
            return Err("has no valid host");
        }
        let (host, name) = match host {
            // What everybody calls it, and where it is.
            "docker.io" | "index.docker.io" => {
                let name = if name.contains('/') { name.to_owned() } else { format!("library/{name}") };
                ("registry-1.docker.io".to_owned(), name)
            }
            host => (host.to_owned(), name.to_owned()),
        };
        if is_name(&name) { Ok(Self { host, name }) } else { Err("has no valid path") }
    }
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, "")) => (address, None),
            Some((address, port)) => (address, port.strip_prefix(':')),
            None => return false,
        },
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let is_v6 =
        host.starts_with('[') && name.bytes().all(|b| b.is_ascii_hexdigit() || b == b':' || b == b'.');
    let is_name = !name.starts_with(['-', '.'])
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
    !name.is_empty() && (is_v6 || is_name) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        edge(part.chars().next())
            && edge(part.chars().last())
            && !part.contains("..")
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-'))
    };
    name.len() <= 255 && name.split('/').all(is_part)
}

/// Whether a text can be a tag.
pub(crate) fn is_tag(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        && text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// The hex digits of a digest that we can compute.
pub(crate) fn sha256_of(digest: &str) -> Option<&str> {
    let digits = digest.strip_prefix("sha256:")?;
    let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    (digits.len() == 64 && digits.bytes().all(is_digit)).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_113_references_have_a_grammar() {
        let read = |url: &str| Reference::parse(url).map(|found| format!("{} {}", found.host, found.name));
        assert_eq!(read("oci://ghcr.io/org/charts"), Ok("ghcr.io org/charts".to_owned()));
        assert_eq!(read("ghcr.io/org/charts/"), Ok("ghcr.io org/charts".to_owned()));
        assert_eq!(read("127.0.0.1:5000/a"), Ok("127.0.0.1:5000 a".to_owned()));
        assert_eq!(read("[::1]:5000/a"), Ok("[::1]:5000 a".to_owned()));
        assert_eq!(read("docker.io/web"), Ok("registry-1.docker.io library/web".to_owned()));
        assert_eq!(read("oci://docker.io/org/web"), Ok("registry-1.docker.io org/web".to_owned()));
        for url in [
            "https://h/a",
            "oci://h",
            "oci://h/",
            "oci:///a",
            "oci://user:pw@h/a",
            "oci://h/A",
            "oci://h/a/../b",
            "oci://h/a//b",
            "oci://h/a?x=1",
            "oci://h/a#x",
            "oci://h:port/a",
            "oci://-h/a",
            "oci://h/a b",
            "oci://h/.a",
            "oci://h/a\nb",
            "oci://h/%2e%2e",
        ] {
            assert!(read(url).is_err(), "{url}");
        }
        assert!(is_tag("1.2.3_a") && !is_tag("") && !is_tag("a/b") && !is_tag(">=1") && !is_tag("-a"));
        assert!(sha256_of(&format!("sha256:{}", "a".repeat(64))).is_some());
        assert!(
            sha256_of("sha256:abc").is_none() && sha256_of(&format!("sha512:{}", "a".repeat(64))).is_none()
        );
    }
}
