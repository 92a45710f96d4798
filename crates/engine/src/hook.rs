//! Hooks, their delete policies, and waves, as annotations spell them (ENG-143..149, CTL-81).
//!
//! Everything here reads annotations only, through [`Annotated`], so that stored objects and momentary trees
//! give the same answers. [`Role`] is the one question the rest of the engine asks about an object.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;
pub use tiphys_api::codes::SyncPhase;
use tiphys_api::names::annotation;
use tiphys_object::{Object, access};

/// Something with annotations.
pub trait Annotated {
    /// One annotation.
    fn annotation(&self, key: &str) -> Option<&str>;

    /// Items of an annotation CSV: split at `,`, trimmed, empty ones and repeats dropped (ENG notation).
    fn annotation_list(&self, key: &str) -> Vec<&str> {
        let mut known = HashSet::new();
        let items = self.annotation(key).unwrap_or("").split(',').map(str::trim);
        items.filter(|item| !item.is_empty() && known.insert(*item)).collect()
    }

    /// Whether an annotation CSV has an item equal to `item`, case-sensitively.
    fn has_option(&self, key: &str, item: &str) -> bool {
        let mut items = self.annotation(key).unwrap_or("").split(',').map(str::trim);
        !item.is_empty() && items.any(|found| found == item)
    }
}

impl Annotated for Object {
    fn annotation(&self, key: &str) -> Option<&str> {
        Self::annotation(self, key)
    }
}

impl Annotated for Value {
    fn annotation(&self, key: &str) -> Option<&str> {
        access::annotation(self, key)
    }
}

/// A value of the hook annotation (ENG-143).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookType {
    /// Runs before the sync.
    PreSync,
    /// Runs with the objects.
    Sync,
    /// Runs after the sync.
    PostSync,
    /// Runs after a failed sync.
    SyncFail,
    /// Never applied.
    Skip,
    /// Runs before an application's objects are deleted.
    PreDelete,
    /// Runs after an application's objects were deleted.
    PostDelete,
}

impl HookType {
    /// Reads an item of `argocd.argoproj.io/hook`; case matters.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "PreSync" => Self::PreSync,
            "Sync" => Self::Sync,
            "PostSync" => Self::PostSync,
            "SyncFail" => Self::SyncFail,
            "Skip" => Self::Skip,
            "PreDelete" => Self::PreDelete,
            "PostDelete" => Self::PostDelete,
            _ => return None,
        })
    }

    /// Reads an item of `helm.sh/hook`.
    pub fn parse_helm(text: &str) -> Option<Self> {
        Some(match text {
            "pre-install" | "pre-upgrade" => Self::PreSync,
            "post-install" | "post-upgrade" => Self::PostSync,
            "pre-delete" => Self::PreDelete,
            "post-delete" => Self::PostDelete,
            _ => return None,
        })
    }

    /// The phase of a sync in which such a hook runs, if it runs in one at all.
    pub fn phase(self) -> Option<SyncPhase> {
        match self {
            Self::PreSync => Some(SyncPhase::PreSync),
            Self::Sync => Some(SyncPhase::Sync),
            Self::PostSync => Some(SyncPhase::PostSync),
            Self::SyncFail => Some(SyncPhase::SyncFail),
            Self::Skip | Self::PreDelete | Self::PostDelete => None,
        }
    }
}

/// What an object is to a sync (ENG-144).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// An ordinary managed object.
    Resource,
    /// A managed object that is compared but never applied: its only hook type is `Skip`.
    Skipped,
    /// A hook of these types, never empty, never `Skip`.
    Hook(BTreeSet<HookType>),
    /// A hook without any valid type: never applied, pruned or compared.
    Ignored,
}

impl Role {
    /// Reads the role from the annotations of an object.
    pub fn of(object: &(impl Annotated + ?Sized)) -> Self {
        let mut types: BTreeSet<HookType> =
            object.annotation_list(annotation::HOOK).into_iter().filter_map(HookType::parse).collect();
        if types.is_empty() {
            types = object
                .annotation_list(annotation::HELM_HOOK)
                .into_iter()
                .filter_map(HookType::parse_helm)
                .collect();
        }
        let is_skipped = types.remove(&HookType::Skip);
        if is_skipped && types.is_empty() {
            return Self::Skipped;
        }
        let is_hook = object.annotation(annotation::HOOK).is_some()
            || object.annotation(annotation::HELM_HOOK).is_some_and(|text| text != "crd-install");
        match (is_hook, types.is_empty()) {
            (false, _) => Self::Resource,
            (true, true) => Self::Ignored,
            (true, false) => Self::Hook(types),
        }
    }

    /// Whether the object is a hook, with or without a valid type.
    pub fn is_hook(&self) -> bool {
        matches!(self, Self::Hook(_) | Self::Ignored)
    }

    /// Whether the object is a hook of this type.
    pub fn has_type(&self, hook_type: HookType) -> bool {
        matches!(self, Self::Hook(types) if types.contains(&hook_type))
    }

    /// Phases in which the object is applied: one task each (ENG-145).
    pub fn phases(&self) -> Vec<SyncPhase> {
        match self {
            Self::Resource => vec![SyncPhase::Sync],
            Self::Skipped | Self::Ignored => Vec::new(),
            Self::Hook(types) => types.iter().filter_map(|hook_type| hook_type.phase()).collect(),
        }
    }
}

/// When a hook object is deleted (ENG-147).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookDeletePolicy {
    /// Before the hook is created anew. The default.
    BeforeHookCreation,
    /// When the sync succeeded.
    HookSucceeded,
    /// When the sync failed.
    HookFailed,
}

impl HookDeletePolicy {
    /// The delete policies of a hook: both annotations together, never empty.
    pub fn of(object: &(impl Annotated + ?Sized)) -> BTreeSet<Self> {
        let ours =
            object.annotation_list(annotation::HOOK_DELETE_POLICY).into_iter().filter_map(
                |text| match text {
                    "BeforeHookCreation" => Some(Self::BeforeHookCreation),
                    "HookSucceeded" => Some(Self::HookSucceeded),
                    "HookFailed" => Some(Self::HookFailed),
                    _ => None,
                },
            );
        let mut policies: BTreeSet<Self> = ours.collect();
        let helm = object.annotation_list(annotation::HELM_HOOK_DELETE_POLICY);
        policies.extend(helm.into_iter().filter_map(|text| match text {
            "before-hook-creation" => Some(Self::BeforeHookCreation),
            "hook-succeeded" => Some(Self::HookSucceeded),
            "hook-failed" => Some(Self::HookFailed),
            _ => None,
        }));
        if policies.is_empty() {
            policies.insert(Self::BeforeHookCreation);
        }
        policies
    }
}

/// Position of a task inside a phase. Lower waves finish before higher ones start.
///
/// ```
/// # use tiphys_engine::hook::Wave;
/// assert_eq!(Wave::from_annotations(Some("-1"), None), Wave(-1));
/// assert_eq!(Wave::from_annotations(Some("1.5"), Some("7")), Wave(7));
/// assert_eq!(Wave::from_annotations(None, None), Wave(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wave(pub i64);

impl Wave {
    /// The wave of an object.
    pub fn of(object: &(impl Annotated + ?Sized)) -> Self {
        Self::from_annotations(
            object.annotation(annotation::SYNC_WAVE),
            object.annotation(annotation::HELM_HOOK_WEIGHT),
        )
    }

    /// Reads the wave from the sync-wave annotation, else from Helm's hook weight, else 0 (ENG-148).
    ///
    /// A value that is not a signed decimal integer counts as absent; it is never an error.
    pub fn from_annotations(sync_wave: Option<&str>, hook_weight: Option<&str>) -> Self {
        let parse = |text: &str| text.parse().ok();
        Self(sync_wave.and_then(parse).or_else(|| hook_weight.and_then(parse)).unwrap_or(0))
    }

    /// Whether the annotations name a wave at all.
    pub fn is_set(object: &(impl Annotated + ?Sized)) -> bool {
        [annotation::SYNC_WAVE, annotation::HELM_HOOK_WEIGHT]
            .into_iter()
            .filter_map(|key| object.annotation(key))
            .any(|text| text.parse::<i64>().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn annotated(annotations: &Value) -> Value {
        json!({"metadata": {"annotations": annotations}})
    }

    fn role(annotations: &Value) -> Role {
        Role::of(&annotated(annotations))
    }

    fn hook(types: &[HookType]) -> Role {
        Role::Hook(types.iter().copied().collect())
    }

    const OURS: &str = annotation::HOOK;

    #[test]
    fn eng_143_types_are_case_sensitive_and_unknown_ones_are_dropped() {
        assert_eq!(role(&json!({OURS: "PreSync, presync,Foo"})), hook(&[HookType::PreSync]));
        assert_eq!(
            role(&json!({OURS: "PostSync,PreSync"})).phases(),
            [SyncPhase::PreSync, SyncPhase::PostSync]
        );
    }

    #[test]
    fn eng_144_presence_makes_a_hook_and_skip_only_does_not() {
        assert_eq!(role(&json!({})), Role::Resource);
        assert_eq!(role(&json!({OURS: ""})), Role::Ignored);
        assert_eq!(role(&json!({OURS: "Skip"})), Role::Skipped);
        assert_eq!(role(&json!({OURS: "Skip,Foo"})), Role::Skipped);
        assert_eq!(role(&json!({OURS: "Skip,PostSync"})), hook(&[HookType::PostSync]));
        assert_eq!(role(&json!({"helm.sh/hook": "crd-install"})), Role::Resource);
        assert_eq!(role(&json!({"helm.sh/hook": "crd-install,pre-install"})), hook(&[HookType::PreSync]));
        assert_eq!(role(&json!({"helm.sh/hook": "test"})), Role::Ignored);
        assert!(Role::Skipped.phases().is_empty());
    }

    /// A manifest's annotation has no bound but that of its file: with each item compared with those before it,
    /// this one took hours.
    #[test]
    fn sec_07_a_long_list_is_read_once() {
        let items: Vec<String> = (0..300_000).map(|item| format!("x{item}")).collect();
        let object = annotated(&json!({OURS: format!("{0},Sync,{0}", items.join(","))}));
        assert_eq!(object.annotation_list(OURS).len(), 300_001);
        assert!(object.has_option(OURS, "Sync") && !object.has_option(OURS, "PreSync"));
        assert_eq!(Role::of(&object), hook(&[HookType::Sync]));
        assert!(!object.has_option(OURS, "") && !annotated(&json!({OURS: ""})).has_option(OURS, ""));
    }

    #[test]
    fn eng_146_examples() {
        let both = role(&json!({"helm.sh/hook": "pre-install,post-upgrade"}));
        assert_eq!(both.phases(), [SyncPhase::PreSync, SyncPhase::PostSync]);
        assert_eq!(role(&json!({OURS: "Foo", "helm.sh/hook": "pre-install"})), hook(&[HookType::PreSync]));
        assert_eq!(role(&json!({OURS: "Foo"})), Role::Ignored);
    }

    #[test]
    fn eng_147_policies_of_both_annotations_are_united() {
        let policies = |annotations: &Value| HookDeletePolicy::of(&annotated(annotations));
        assert_eq!(policies(&json!({})), BTreeSet::from([HookDeletePolicy::BeforeHookCreation]));
        assert_eq!(
            policies(&json!({
                "argocd.argoproj.io/hook-delete-policy": "HookFailed,nonsense",
                "helm.sh/hook-delete-policy": "hook-succeeded"
            })),
            BTreeSet::from([HookDeletePolicy::HookSucceeded, HookDeletePolicy::HookFailed])
        );
    }

    #[test]
    fn eng_148_only_whole_decimals_count() {
        for text in ["", " 1", "1 ", "1.0", "0x1", "99999999999999999999"] {
            assert_eq!(Wave::from_annotations(Some(text), None), Wave(0), "{text:?}");
            assert_eq!(Wave::from_annotations(Some(text), Some("3")), Wave(3), "{text:?}");
        }
        assert_eq!(Wave::from_annotations(Some("-5"), Some("3")), Wave(-5));
    }

    #[test]
    fn eng_193_deletion_hooks_have_no_sync_phase() {
        assert!(role(&json!({OURS: "PreDelete"})).phases().is_empty());
        assert_eq!(role(&json!({OURS: "PreDelete,Sync"})).phases(), [SyncPhase::Sync]);
        assert!(role(&json!({"helm.sh/hook": "post-delete"})).has_type(HookType::PostDelete));
    }
}
