//! What becomes of the installation ID when the control plane starts (TRK-67..69).

use std::collections::BTreeMap;

use super::setting;

/// What is done about the installation ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdAction {
    /// There is one; it is never changed.
    Keep,
    /// There is none, and none is wanted.
    None,
    /// The key is there and empty: never make one.
    OptOut,
    /// Make one, before anything is written to a cluster.
    Generate,
    /// The one in use was lost from the settings; put it back. A new one would orphan every object (TRK-69).
    Restore,
}

impl IdAction {
    /// The name that `tiphys eval` shows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::None => "none",
            Self::OptOut => "opt-out",
            Self::Generate => "generate",
            Self::Restore => "restore",
        }
    }
}

/// Decides from `argocd-cm` and the ID that was stored when it was last in use.
pub fn installation_id_at_start(settings: &BTreeMap<String, String>, stored: Option<&str>) -> IdAction {
    match settings.get(setting::INSTALLATION_ID).map(String::as_str) {
        Some("") => IdAction::OptOut,
        Some(_) => IdAction::Keep,
        None if settings.get(setting::AUTO_GENERATE).map(String::as_str) != Some("true") => IdAction::None,
        None if stored.is_some_and(|stored| !stored.is_empty()) => IdAction::Restore,
        None => IdAction::Generate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trk_67_an_id_is_made_once_and_never_against_the_users_word() {
        let decide = |pairs: &[(&str, &str)], stored| {
            let settings =
                pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            installation_id_at_start(&settings, stored)
        };
        let auto = (setting::AUTO_GENERATE, "true");
        assert_eq!(decide(&[], None), IdAction::None);
        assert_eq!(decide(&[], Some("old")), IdAction::None);
        assert_eq!(decide(&[auto], None), IdAction::Generate);
        assert_eq!(decide(&[auto], Some("")), IdAction::Generate);
        assert_eq!(decide(&[auto], Some("old")), IdAction::Restore);
        assert_eq!(decide(&[auto, (setting::INSTALLATION_ID, "")], Some("old")), IdAction::OptOut);
        assert_eq!(decide(&[auto, (setting::INSTALLATION_ID, "eu")], Some("old")), IdAction::Keep);
        assert_eq!(decide(&[(setting::AUTO_GENERATE, "True")], None), IdAction::None);
    }
}
