//! Instance names: the only application identity that is written on objects (TRK-1..4).

use smol_str::{SmolStr, format_smolstr};

/// The instance name of an application: its name, prefixed by `<namespace>_` unless the namespace is empty or
/// the control plane's (TRK-1).
///
/// ```
/// # use tiphys_engine::tracking::instance_name;
/// assert_eq!(instance_name("team-a", "web", "argocd"), "team-a_web");
/// assert_eq!(instance_name("argocd", "web", "argocd"), "web");
/// ```
pub fn instance_name(namespace: &str, name: &str, control_plane_namespace: &str) -> SmolStr {
    if namespace.is_empty() || namespace == control_plane_namespace {
        name.into()
    } else {
        format_smolstr!("{namespace}_{name}")
    }
}

/// The `namespace/name` an instance name denotes (TRK-2).
///
/// A value with `/` is used unchanged; otherwise every `_` becomes `/`, so that a value that is no real instance
/// name yields a key that matches no application.
pub fn app_key(instance: &str, control_plane_namespace: &str) -> String {
    if instance.contains('/') {
        instance.to_owned()
    } else if instance.contains('_') {
        instance.replace('_', "/")
    } else {
        format!("{control_plane_namespace}/{instance}")
    }
}

/// Namespace and name of an instance name, cut at the first `_` (TRK-3).
pub fn split_instance_name<'a>(instance: &'a str, default_namespace: &'a str) -> (&'a str, &'a str) {
    instance.split_once('_').unwrap_or((default_namespace, instance))
}

/// Namespace and name of a qualified name, cut at the first `/` (TRK-3).
pub fn split_qualified_name<'a>(qualified: &'a str, default_namespace: &'a str) -> (&'a str, &'a str) {
    qualified.split_once('/').unwrap_or((default_namespace, qualified))
}

/// `namespace/name`, or just the name when the namespace is empty (TRK-4).
pub fn qualified_name(namespace: &str, name: &str) -> SmolStr {
    if namespace.is_empty() { name.into() } else { format_smolstr!("{namespace}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trk_1_the_control_plane_namespace_is_left_out() {
        assert_eq!(instance_name("", "web", "argocd"), "web");
        assert_eq!(instance_name("argocd", "web", "argocd"), "web");
        assert_eq!(instance_name("team-a", "web", "argocd"), "team-a_web");
    }

    #[test]
    fn trk_2_every_underscore_becomes_a_slash() {
        assert_eq!(app_key("web", "argocd"), "argocd/web");
        assert_eq!(app_key("a_b", "argocd"), "a/b");
        assert_eq!(app_key("a_b_c", "argocd"), "a/b/c");
        assert_eq!(app_key("a/b_c", "argocd"), "a/b_c");
    }

    #[test]
    fn trk_3_names_are_cut_at_the_first_separator() {
        assert_eq!(split_instance_name("ns_name_x", "d"), ("ns", "name_x"));
        assert_eq!(split_instance_name("name", "d"), ("d", "name"));
        assert_eq!(split_qualified_name("ns/name/x", "d"), ("ns", "name/x"));
        assert_eq!(split_qualified_name("name", "d"), ("d", "name"));
    }

    #[test]
    fn trk_4_an_empty_namespace_is_not_shown() {
        assert_eq!(qualified_name("", "web"), "web");
        assert_eq!(qualified_name("a", "web"), "a/web");
    }
}
