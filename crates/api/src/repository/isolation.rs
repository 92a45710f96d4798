//! Which accesses may share what was fetched (REP A7).

use crate::repo_url::normalize;

/// What keeps working copies apart (REP-64).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// The project of the Secret whose credentials were used: projects without credentials of their own share.
    #[default]
    Credential,
    /// The project of the Application: one copy for each.
    Project,
    /// Nothing: who may name a URL may see what others fetched from it.
    Shared,
}

impl Isolation {
    /// The scope of an access: accesses of other scopes see nothing of it (REP-60).
    pub fn scope<'a>(self, project: &'a str, credential_project: &'a str) -> &'a str {
        match self {
            Self::Credential => credential_project,
            Self::Project => project,
            Self::Shared => "",
        }
    }
}

/// What a working copy is known by: the URL in the spelling that decides, and the scope (REP-61). A broken URL stands
/// for itself.
pub fn working_copy<'a>(url: &str, scope: &'a str) -> (String, &'a str) {
    let normalized = normalize(url);
    (if normalized.is_empty() { url.to_owned() } else { normalized }, scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rep_60_64_who_shares_a_working_copy() {
        let scope = |isolation: Isolation| isolation.scope("shop", "");
        assert_eq!(
            [scope(Isolation::Credential), scope(Isolation::Project), scope(Isolation::Shared)],
            ["", "shop", ""]
        );
        assert_eq!(Isolation::Credential.scope("shop", "shop"), "shop");
        assert_eq!(working_copy("https://H/o/r.git", ""), working_copy("https://h/o/r", ""));
        assert_ne!(working_copy("https://h/o/r", ""), working_copy("https://h/o/r", "shop"));
        assert_ne!(working_copy("ssh://git@h:o/a", ""), working_copy("ssh://git@h:o/b", ""), "broken ones");
    }
}
