//! Small edits of manifests as text, so that a diff shows what was meant and nothing else.

use regex::Regex;
use serde_json::Value;
use tiphys_go::yaml::{Dialect, Limits};

/// The annotation of a Pod that says how it behaves.
pub(crate) const SIMULATION: &str = "tiphys.dev/sim";

/// Makes the Pods of the first workload in a file crash. `None` when the file has none that says how its Pods
/// behave, and is no value file that says it either.
pub(crate) fn crash(text: &str) -> Option<String> {
    let marker = Regex::new(r"(tiphys\.dev/sim:[ \t]*)[^,}\s]+").ok()?;
    let edited = marker.replace(text, "${1}crashloop").into_owned();
    let places = ["/spec/template/metadata/annotations", "/podAnnotations"];
    let behaviours = |text: &str| -> Option<Vec<String>> {
        let behaves =
            |value: &Value, at: &str| Some(value.pointer(at)?.get(SIMULATION)?.as_str()?.to_owned());
        Some(looked_up(text, places)?.iter().filter_map(|(value, at)| behaves(value, at)).collect())
    };
    (behaviours(text)? != behaviours(&edited)?).then_some(edited)
}

/// Changes the first number of replicas in a file that has a workload, or in a value file; returns the text and both
/// numbers.
pub(crate) fn scale(text: &str, replicas: Option<u32>) -> Option<(String, u32, u32)> {
    let line = Regex::new(r"(?m)^([ \t]*replicas:[ \t]*)(\d+)").ok()?;
    let found = line.captures(text)?;
    let old = found.get(2)?.as_str().parse::<u32>().ok()?;
    let new = replicas.unwrap_or(old.saturating_add(1));
    let edited = line.replace(text, format!("${{1}}{new}")).into_owned();
    let found = looked_up(&edited, ["/spec/replicas", "/replicas"])?;
    let has = |(value, at): &(Value, &str)| value.pointer(at).and_then(Value::as_u64) == Some(new.into());
    found.iter().any(has).then_some((edited, old, new))
}

/// The Deployments and `StatefulSets` of a file, or the values of a chart, each with where to look; `None` when it
/// cannot be read.
fn looked_up<'a>(text: &str, [workload, values]: [&'a str; 2]) -> Option<Vec<(Value, &'a str)>> {
    let found = tiphys_go::yaml::parse_documents(text, Dialect::Sigs, &Limits::default()).ok()?;
    let place = |document: &Value| match document.get("kind") {
        Some(kind) => matches!(kind.as_str(), Some("Deployment" | "StatefulSet")).then_some(workload),
        None => document.is_object().then_some(values),
    };
    Some(found.into_iter().filter_map(|document| place(&document).map(|at| (document, at))).collect())
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
    fn cli_1003_values_of_a_chart_are_edited_like_workloads() {
        let values = "replicas: 1 # few\npodAnnotations: {tiphys.dev/sim: ready-after=1s}\n";
        assert_eq!(crash(values).unwrap(), values.replace("ready-after=1s", "crashloop"));
        assert_eq!(scale(values, None).unwrap(), (values.replace("s: 1", "s: 2"), 1, 2));
        assert_eq!(scale("spec: {template: {}}\n", None), None);
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
