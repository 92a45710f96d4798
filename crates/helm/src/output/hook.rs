//! Hooks: what the annotation `helm.sh/hook` makes of a manifest (RND-203).

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// `pre-install`.
    PreInstall,
    /// `post-install`.
    PostInstall,
    /// `pre-delete`.
    PreDelete,
    /// `post-delete`.
    PostDelete,
    /// `pre-upgrade`.
    PreUpgrade,
    /// `post-upgrade`.
    PostUpgrade,
    /// `pre-rollback`.
    PreRollback,
    /// `post-rollback`.
    PostRollback,
    /// `test`, or `test-success` of Helm 2.
    Test,
}

/// What makes a manifest a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// When it runs, in the order of the annotation.
    pub events: Vec<HookEvent>,
    /// `helm.sh/hook-weight`; 0 when that is no whole number.
    pub weight: i64,
    /// `helm.sh/hook-delete-policy`, in lower case.
    pub delete_policies: Vec<String>,
}

impl Hook {
    /// Whether the hook is a test (RND-108).
    pub fn is_test(&self) -> bool {
        self.events.contains(&HookEvent::Test)
    }
}

impl HookEvent {
    /// The event of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "pre-install" => Self::PreInstall,
            "post-install" => Self::PostInstall,
            "pre-delete" => Self::PreDelete,
            "post-delete" => Self::PostDelete,
            "pre-upgrade" => Self::PreUpgrade,
            "post-upgrade" => Self::PostUpgrade,
            "pre-rollback" => Self::PreRollback,
            "post-rollback" => Self::PostRollback,
            "test" | "test-success" => Self::Test,
            _ => return None,
        })
    }
}

/// What the annotations say.
pub(super) enum Found {
    /// An ordinary manifest.
    None,
    /// A hook.
    Hook(Hook),
    /// A name that is none: the manifest is left out.
    Unknown,
}

pub(super) fn find(annotations: &[(String, String)]) -> Found {
    let annotation =
        |name: &str| annotations.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let words =
        |text: &str| -> Vec<String> { text.split(',').map(|word| word.trim().to_lowercase()).collect() };
    let Some(events) = annotation("helm.sh/hook") else { return Found::None };
    let events: Option<Vec<HookEvent>> =
        words(events).iter().map(|name| HookEvent::from_name(name)).collect();
    let Some(events) = events else { return Found::Unknown };
    // Go takes a sign; so does Rust.
    let weight = annotation("helm.sh/hook-weight").and_then(|weight| weight.parse().ok()).unwrap_or(0);
    let delete_policies = annotation("helm.sh/hook-delete-policy").map(words).unwrap_or_default();
    Found::Hook(Hook { events, weight, delete_policies })
}
