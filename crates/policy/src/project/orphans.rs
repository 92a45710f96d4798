//! Objects of a destination that nobody declares (REP-195..197, TRK-135).

use tiphys_api::AppProject;
use tiphys_object::ResourceKey;

use super::orphan_ignored;

/// A live object of a destination namespace that no other object owns.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The object.
    pub key: &'a ResourceKey,
    /// Whether it is part of the application, or was made by what is.
    pub is_in_tree: bool,
    /// Whether it is marked as an object of an application that exists, be it this one or another.
    pub has_application: bool,
    /// Whether the project shows it at all: its kind, and its namespace on this cluster.
    pub is_visible: bool,
}

/// Whether a project wants orphans to be looked for (REP-195).
pub fn monitors_orphans(project: &AppProject) -> bool {
    project.spec.orphaned_resources.is_some()
}

/// Whether an object is an orphan for the applications of a project (REP-195, REP-196).
pub fn is_orphan(project: &AppProject, found: &Candidate<'_>) -> bool {
    monitors_orphans(project)
        && !found.key.namespace.is_empty()
        && !found.is_in_tree
        && !found.has_application
        && found.is_visible
        && !orphan_ignored(project, found.key)
}

/// The text of the condition about so many orphans, those below them included; `None` where the project wants no warning
/// (REP-197).
pub fn orphan_warning(project: &AppProject, count: usize) -> Option<String> {
    let warns = project.spec.orphaned_resources.as_ref().is_some_and(|orphaned| orphaned.warn == Some(true));
    (warns && count > 0).then(|| format!("Application has {count} orphaned resources"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(spec: &str) -> AppProject {
        serde_json::from_str(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#)).unwrap()
    }

    #[test]
    fn rep_195_an_orphan_is_what_nobody_declares_and_everybody_may_see() {
        let project = project(r#"{"orphanedResources":{"ignore":[{"group":"batch"}]}}"#);
        let key = ResourceKey::new("", "ConfigMap", "shop", "old");
        let orphan = Candidate { key: &key, is_in_tree: false, has_application: false, is_visible: true };
        assert!(is_orphan(&project, &orphan));
        assert!(!is_orphan(&project, &Candidate { is_in_tree: true, ..orphan }));
        assert!(!is_orphan(&project, &Candidate { has_application: true, ..orphan }), "TRK-135");
        assert!(!is_orphan(&project, &Candidate { is_visible: false, ..orphan }));
        let job = ResourceKey::new("batch", "Job", "shop", "old");
        assert!(!is_orphan(&project, &Candidate { key: &job, ..orphan }), "REP-196");
        let node = ResourceKey::new("", "Node", "", "n");
        assert!(!is_orphan(&project, &Candidate { key: &node, ..orphan }), "it is in no namespace");
        assert!(!is_orphan(&self::project("{}"), &orphan), "nobody looks for them");
    }

    #[test]
    fn rep_197_a_warning_is_asked_for_and_has_a_reason() {
        let warning = |spec: &str, count| orphan_warning(&project(spec), count);
        let on = r#"{"orphanedResources":{"warn":true}}"#;
        assert_eq!(warning(on, 3).as_deref(), Some("Application has 3 orphaned resources"));
        assert_eq!(warning(on, 0), None);
        for silent in ["{}", r#"{"orphanedResources":{}}"#, r#"{"orphanedResources":{"warn":false}}"#] {
            assert_eq!(warning(silent, 3), None, "{silent}");
        }
    }
}
