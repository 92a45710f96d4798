//! Which addresses are ours: where a browser may be sent after a login (API-62, API-79).

use tiphys_oidc::Url;

/// Bytes of an address to return to.
const RETURN_BYTES_MAX: usize = 2_000;

/// `url` and `additionalUrls`, as far as they are addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bases {
    url: Url,
    additional: Vec<Url>,
}

impl Bases {
    /// Reads them; without `url` there is none. The texts of the others that are no addresses come with it.
    pub(crate) fn read(url: &str, additional: &[String]) -> Option<(Self, Vec<String>)> {
        let base = |text: &String| {
            let found = Url::parse(text).ok();
            found.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        };
        let url = base(&url.to_owned())?;
        let bad = additional.iter().filter(|text| base(text).is_none()).cloned().collect();
        Some((Self { url, additional: additional.iter().filter_map(base).collect() }, bad))
    }

    fn all(&self) -> impl Iterator<Item = &Url> {
        std::iter::once(&self.url).chain(&self.additional)
    }

    /// Where to return to, as browsers read it; `None` when it is not ours (SEC-34). What is empty is the base itself.
    pub(crate) fn permitted(&self, return_url: &str, base: &str) -> Option<String> {
        if return_url.is_empty() {
            return Some(format!("{base}/"));
        }
        if return_url.len() > RETURN_BYTES_MAX {
            return None;
        }
        let wanted = Url::parse(return_url).ok()?;
        let is_bare = wanted.username().is_empty() && wanted.password().is_none();
        let is_ours = |base: &Url| {
            wanted.origin() == base.origin()
                && wanted.scheme() == base.scheme()
                && is_below(wanted.path(), base.path())
        };
        (is_bare && self.all().any(is_ours)).then(|| wanted.into())
    }

    /// The one of ours that a request came to, without a slash at its end: by its host and path, else `url`.
    pub(crate) fn of_request(&self, host: &str, path: &str) -> String {
        let is_asked = |base: &&Url| {
            let own = match (base.host_str(), base.port()) {
                (Some(name), Some(port)) => format!("{name}:{port}"),
                (name, _) => name.unwrap_or_default().to_owned(),
            };
            own.eq_ignore_ascii_case(host) && is_below(path, base.path())
        };
        let found = self.all().find(is_asked).unwrap_or(&self.url);
        found.as_str().trim_end_matches('/').to_owned()
    }
}

/// Whether a path is another one or below it, in whole words.
fn is_below(path: &str, base: &str) -> bool {
    let base = base.trim_end_matches('/');
    path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bases() -> Bases {
        let additional = ["https://other.test:8443/argo/".to_owned(), "no address".to_owned()];
        let (bases, bad) = Bases::read("https://cd.test", &additional).unwrap();
        assert_eq!(bad, ["no address"]);
        bases
    }

    #[test]
    fn api_62_browsers_return_to_our_own_addresses() {
        let bases = bases();
        for (asked, expected) in [
            ("", "https://cd.test/"),
            ("https://cd.test", "https://cd.test/"),
            ("https://cd.test/applications?proj=a#x", "https://cd.test/applications?proj=a#x"),
            ("HTTPS://CD.test:443/a", "https://cd.test/a"),
            ("https://other.test:8443/argo", "https://other.test:8443/argo"),
            ("https://other.test:8443/argo/a/../b", "https://other.test:8443/argo/b"),
        ] {
            assert_eq!(bases.permitted(asked, "https://cd.test").as_deref(), Some(expected), "{asked}");
        }
    }

    #[test]
    fn api_62_browsers_are_sent_to_nobody_else() {
        let bases = bases();
        for hostile in [
            "https://evil.test/",
            "http://cd.test/",
            "https://cd.test:444/",
            "https://cd.test.evil.test/",
            "https://cd.test@evil.test/",
            "https://kim:x@cd.test/",
            "//evil.test",
            "/applications",
            "\\\\evil.test",
            "https:\\\\evil.test/",
            "https://other.test:8443/",
            "https://other.test:8443/argoevil",
            "https://other.test:8443/argo/../x",
            "https://other.test:8443/argo/%2e%2e/x",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://cd.test\t.evil.test",
            " ",
            &format!("https://cd.test/{}", "a".repeat(3_000)),
        ] {
            assert_eq!(bases.permitted(hostile, "https://cd.test"), None, "{hostile:.60}");
        }
    }

    #[test]
    fn api_79_a_request_belongs_to_the_address_it_came_to() {
        let bases = bases();
        for (host, path, expected) in [
            ("cd.test", "/auth/logout", "https://cd.test"),
            ("other.test:8443", "/argo/auth/logout", "https://other.test:8443/argo"),
            ("other.test:8443", "/auth/logout", "https://cd.test"),
            ("evil.test", "/auth/logout", "https://cd.test"),
            ("", "", "https://cd.test"),
        ] {
            assert_eq!(bases.of_request(host, path), expected, "{host}{path}");
        }
        assert!(Bases::read("", &[]).is_none() && Bases::read("cd.test", &[]).is_none());
    }
}
