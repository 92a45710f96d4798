//! What is served below built-in objects, besides what the table of resources says.

use super::Subresource;

const CHANGE: &[&str] = &["get", "patch", "update"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
const STREAM: &[&str] = &["create", "get"];
const CREATE: &[&str] = &["create"];

/// `status`.
pub(super) const STATUS: Subresource = own("status", CHANGE);
/// `scale`.
pub(super) const SCALE: Subresource =
    Subresource { name: "scale", group: "autoscaling", version: "v1", kind: "Scale", verbs: CHANGE };

const EVICTION: Subresource =
    Subresource { name: "eviction", group: "policy", version: "v1", kind: "Eviction", verbs: CREATE };
const TOKEN: Subresource = Subresource {
    name: "token",
    group: "authentication.k8s.io",
    version: "v1",
    kind: "TokenRequest",
    verbs: CREATE,
};

/// Subresources other than `status` and `scale`.
pub(super) fn others(group: &str, plural: &str) -> &'static [Subresource] {
    match (group, plural) {
        ("", "namespaces") => const { &[own("finalize", &["update"])] },
        ("", "nodes") => const { &[of("proxy", "NodeProxyOptions", PROXY)] },
        ("", "pods") => PODS,
        ("", "serviceaccounts") => const { &[TOKEN] },
        ("", "services") => const { &[of("proxy", "ServiceProxyOptions", PROXY)] },
        ("certificates.k8s.io", "certificatesigningrequests") => const { &[own("approval", CHANGE)] },
        _ => &[],
    }
}

const PODS: &[Subresource] = &[
    of("attach", "PodAttachOptions", STREAM),
    of("binding", "Binding", CREATE),
    own("ephemeralcontainers", CHANGE),
    EVICTION,
    of("exec", "PodExecOptions", STREAM),
    own("log", &["get"]),
    of("portforward", "PodPortForwardOptions", STREAM),
    of("proxy", "PodProxyOptions", PROXY),
    own("resize", CHANGE),
];

/// With the kind of the resource itself.
const fn own(name: &'static str, verbs: &'static [&'static str]) -> Subresource {
    of(name, "", verbs)
}

const fn of(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Subresource {
    Subresource { name, group: "", version: "", kind, verbs }
}
