//! A file with a policy: `argocd-rbac-cm` as a manifest, or plain CSV (CLI-910).

use std::collections::BTreeMap;

use serde_json::Value;
use tiphys_api::names::RBAC_CONFIG_MAP;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_policy::rbac::{PolicyError, RbacConfig};

use crate::failure::Failure;

/// What a file says; a policy that is wrong in itself is an answer, not a failure.
pub(super) fn read(path: &str, text: &str) -> Result<Result<RbacConfig, PolicyError>, Failure> {
    match config_map(path, text)? {
        Some(data) => Ok(RbacConfig::read(&data)),
        None => Ok(RbacConfig::of_text(if path == "-" { "standard input" } else { path }, text)),
    }
}

/// The data of a `ConfigMap`.
pub(super) fn data(path: &str, manifest: &Value) -> Result<BTreeMap<String, String>, Failure> {
    let mut data = BTreeMap::new();
    for (key, value) in manifest.get("data").and_then(Value::as_object).into_iter().flatten() {
        match value {
            Value::String(text) => data.insert(key.clone(), text.clone()),
            Value::Null => data.insert(key.clone(), String::new()),
            _ => {
                return Err(Failure::generic(format!(
                    "{path}: data.{key} of the ConfigMap is no text; put it into quotes or behind |"
                )));
            }
        };
    }
    Ok(data)
}

/// The data of the manifest in a file; `None` for CSV, of which no line begins like one of a manifest.
fn config_map(path: &str, text: &str) -> Result<Option<BTreeMap<String, String>>, Failure> {
    let is_manifest = text.trim_start().starts_with('{')
        || text.lines().any(|line| ["apiVersion:", "kind:", "data:"].iter().any(|key| line.starts_with(key)));
    if !is_manifest {
        return Ok(None);
    }
    let mut found = yaml::parse_documents(text, Dialect::Sigs, &Limits::default())
        .map_err(|error| Failure::generic(format!("{path}: {error}")))?;
    found.retain(|value| value.get("kind").is_none_or(|kind| kind == "ConfigMap"));
    let is_named =
        |value: &&Value| value.pointer("/metadata/name").is_some_and(|name| name == RBAC_CONFIG_MAP);
    match (found.iter().find(is_named), found.as_slice()) {
        (Some(named), _) => data(path, named).map(Some),
        (None, [only]) => data(path, only).map(Some),
        (None, []) => Err(Failure::generic(format!("{path}: there is no ConfigMap in this file"))),
        (None, _) => Err(Failure::generic(format!(
            "{path}: none of the ConfigMaps in this file is called {RBAC_CONFIG_MAP}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "kind: ConfigMap\nmetadata:\n  name: argocd-rbac-cm\ndata:\n  policy.csv: |\n    g, kim, role:admin\n  policy.default: role:x\n";

    fn config(text: &str) -> RbacConfig {
        read("f", text).unwrap().unwrap()
    }

    #[test]
    fn cli_910_a_file_is_a_config_map_or_csv() {
        assert_eq!(config(MAP).default_role, "role:x");
        assert_eq!(config(MAP).policies, [("policy.csv".into(), "g, kim, role:admin\n".to_owned())]);
        let csv = "# kind: of\np, kim, logs, get, */*, allow\n";
        assert_eq!(config(csv).policies, [("f".into(), csv.to_owned())]);
        assert!(config("").is_empty());
        let json = r#"{"kind": "ConfigMap", "data": {"policy.csv": "g, a, b"}}"#;
        assert_eq!(config(json).policies[0].1, "g, a, b");
        assert_eq!(config(&format!("kind: ConfigMap\ndata: {{a: b}}\n---\n{MAP}")).default_role, "role:x");
    }

    #[test]
    fn cli_910_other_files_are_refused() {
        let refused = |text: &str| read("f", text).unwrap_err().message;
        assert_eq!(refused("kind: Secret\ndata: {}\n"), "f: there is no ConfigMap in this file");
        assert_eq!(
            refused("kind: ConfigMap\n---\nkind: ConfigMap\n"),
            "f: none of the ConfigMaps in this file is called argocd-rbac-cm"
        );
        assert!(refused("kind: ConfigMap\n  x: [\n").starts_with("f: yaml: line "));
        assert!(refused("data:\n  scopes: [groups]\n").contains("data.scopes of the ConfigMap is no text"));
    }
}
