//! What a registry asks for when it lets nobody in.

use std::collections::BTreeMap;

/// What a registry wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// User name and password.
    Basic,
    /// A token from somewhere.
    Bearer {
        /// Where tokens are.
        realm: String,
        /// For whom.
        service: String,
        /// What for.
        scope: String,
    },
}

impl Challenge {
    /// Reads `WWW-Authenticate` headers; a token is better than a password.
    pub(super) fn read(headers: &[String]) -> Option<Self> {
        let all: Vec<Self> = headers.iter().filter_map(|header| Self::one(header)).collect();
        all.iter().find(|one| matches!(one, Self::Bearer { .. })).or(all.first()).cloned()
    }

    fn one(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut parameters = parameters(rest);
        let mut take = |name: &str| parameters.remove(name).unwrap_or_default();
        let realm = take("realm");
        (!realm.is_empty()).then(|| Self::Bearer { realm, service: take("service"), scope: take("scope") })
    }
}

/// `name="value"` pairs between commas; commas inside of quotes belong to the value.
fn parameters(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut rest = text.trim_start();
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim().trim_start_matches(',').trim().to_ascii_lowercase();
        let (value, tail) = if let Some(quoted) = after.strip_prefix('"') {
            let mut value = String::new();
            let mut characters = quoted.char_indices();
            let mut end = quoted.len();
            while let Some((at, c)) = characters.next() {
                match c {
                    '\\' => value.extend(characters.next().map(|(_, c)| c)),
                    '"' => {
                        end = at + 1;
                        break;
                    }
                    c => value.push(c),
                }
            }
            (value, quoted.get(end..).unwrap_or_default())
        } else {
            let (value, tail) = after.split_once(',').unwrap_or((after, ""));
            (value.trim().to_owned(), tail)
        };
        found.insert(name, value);
        rest = tail.trim_start().trim_start_matches(',').trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_113_challenges() {
        let read = |headers: &[&str]| {
            Challenge::read(&headers.iter().map(|&one| one.to_owned()).collect::<Vec<_>>())
        };
        let bearer = |realm: &str, service: &str, scope: &str| Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.to_owned(),
            scope: scope.to_owned(),
        };
        assert_eq!(
            read(&[r#"Bearer realm="https://auth/token",service="reg,istry",scope="repository:a:pull""#]),
            Some(bearer("https://auth/token", "reg,istry", "repository:a:pull"))
        );
        assert_eq!(read(&["Basic realm=x", "bearer realm=\"y\""]), Some(bearer("y", "", "")));
        assert_eq!(read(&["Basic"]), Some(Challenge::Basic));
        for odd in
            ["", "Digest realm=x", "Bearer", "Bearer realm", "Bearer service=\"x\"", "Bearer realm=\"\\"]
        {
            assert!(
                !matches!(read(&[odd]), Some(Challenge::Bearer { ref realm, .. }) if realm.is_empty()),
                "{odd}"
            );
        }
        assert_eq!(read(&["Digest realm=x"]), None);
    }
}
