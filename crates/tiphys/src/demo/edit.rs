//! Small edits of manifests as text, so that a diff shows what was meant and nothing else.

use regex::Regex;
use serde_json::Value;
use tiphys_go::yaml::{Dialect, Limits};

/// The annotation of a Pod that says how it behaves.
pub(crate) const SIMULATION: &str = "tiphys.dev/sim";

/// Makes the Pods of the first workload in a file crash. `None` when the file has none that says how its Pods
/// behave.
pub(crate) fn crash(text: &str) -> Option<String> {
    let marker = Regex::new(r"(tiphys\.dev/sim:[ \t]*)[^,}\s]+").ok()?;
    let edited = marker.replace(text, "${1}crashloop").into_owned();
    let path = "/spec/template/metadata/annotations";
    let behaves = |manifest: &Value| manifest.pointer(path)?.get(SIMULATION)?.as_str().map(str::to_owned);
    let changed =
        workloads(text)?.iter().filter_map(behaves).ne(workloads(&edited)?.iter().filter_map(behaves));
    changed.then_some(edited)
}

/// Changes the first number of replicas in a file that has a workload; returns the text and both numbers.
pub(crate) fn scale(text: &str, replicas: Option<u32>) -> Option<(String, u32, u32)> {
    let line = Regex::new(r"(?m)^([ \t]+replicas:[ \t]*)(\d+)").ok()?;
    let found = line.captures(text)?;
    let old = found.get(2)?.as_str().parse::<u32>().ok()?;
    let new = replicas.unwrap_or(old.saturating_add(1));
    let edited = line.replace(text, format!("${{1}}{new}")).into_owned();
    let has =
        |workload: &Value| workload.pointer("/spec/replicas").and_then(Value::as_u64) == Some(new.into());
    workloads(&edited)?.iter().any(has).then_some((edited, old, new))
}

/// The Deployments and `StatefulSets` of a file; `None` when it cannot be read.
fn workloads(text: &str) -> Option<Vec<Value>> {
    let mut found = tiphys_go::yaml::parse_documents(text, Dialect::Sigs, &Limits::default()).ok()?;
    let kind = |manifest: &Value| manifest.get("kind").and_then(Value::as_str).map(str::to_owned);
    found.retain(|manifest| matches!(kind(manifest).as_deref(), Some("Deployment" | "StatefulSet")));
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPLOYMENT: &str = "# mine\nkind: Deployment\nspec:\n  replicas: 2 # two\n  template:\n    metadata:\n      \
        annotations: {a: b, tiphys.dev/sim: ready-after=1s}\n";

    #[test]
    fn cli_1003_edits_change_one_word() {
        assert_eq!(crash(DEPLOYMENT).unwrap(), DEPLOYMENT.replace("ready-after=1s", "crashloop"));
        assert_eq!(scale(DEPLOYMENT, Some(5)).unwrap(), (DEPLOYMENT.replace("s: 2", "s: 5"), 2, 5));
        assert_eq!(scale(DEPLOYMENT, None).unwrap().2, 3);
    }

    #[test]
    fn cli_1003_what_is_no_workload_is_left_alone() {
        let job = DEPLOYMENT.replace("Deployment", "Job");
        assert_eq!(crash(&job), None);
        assert_eq!(scale(&job, Some(5)), None);
        for text in ["kind: ConfigMap\n", "kind: Deployment\nspec: [", "", "kind: Deployment\n"] {
            assert_eq!((crash(text), scale(text, None)), (None, None), "{text}");
        }
    }
}
