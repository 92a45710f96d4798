//! Override files of a source: `.argocd-source.yaml` and `.argocd-source-<instance>.yaml` (RND-57..60).
//!
//! Each file is a mapping that is merged onto the source as a JSON merge patch. Two accidents of the reference
//! are kept unless [`Merge::Strict`] is asked for, because manifests depend on them: `null` removes nothing, and
//! an element of a replaced list keeps members that the new element does not mention.

use serde_json::{Map, Value};
use tiphys_api::application::ApplicationSource;
use tiphys_go::yaml::{self, Dialect, Limits};

use crate::{Reason, RenderError, Tree, TreePath};

/// Bytes of one override file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Bytes that one override file takes in memory.
const BYTES_MAX: usize = 16 * 1024 * 1024;
/// Nesting of an override file.
const DEPTH_MAX: usize = tiphys_go::nesting::DEPTH_MAX;

/// How a patched source is decoded (RND-58).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Over the existing structure, as the reference does.
    InPlace,
    /// Into a fresh structure.
    Strict,
}

/// The source with the overrides of the application's directory (RND-57).
///
/// `repoURL`, `path`, `targetRevision` and `chart` never change.
///
/// # Errors
/// When a file is no mapping of the right shape (RND-59).
pub fn apply(
    source: &ApplicationSource,
    tree: &dyn Tree,
    directory: &TreePath,
    instance_name: &str,
    mode: Merge,
) -> Result<ApplicationSource, RenderError> {
    let mut source = source.clone();
    let named = format!(".argocd-source-{instance_name}.yaml");
    let named = Some(named).filter(|name| !name.contains('/') && !instance_name.is_empty());
    for name in [Some(".argocd-source.yaml".to_owned()), named].into_iter().flatten() {
        let path = directory.child(&name);
        if !tree.entry(&path)?.is_some_and(|entry| entry.is_file()) {
            continue;
        }
        let fail = |text: String| {
            let message = format!("error while parsing source parameters: {name}: {text}");
            RenderError::new(Reason::SourceParameters, message)
        };
        let content = match tree.read(&path, FILE_BYTES_MAX) {
            Err(error @ crate::TreeError::TooLarge { .. }) => return Err(fail(error.to_string())),
            other => other?,
        };
        let text = std::str::from_utf8(&content).map_err(|error| fail(error.to_string()))?;
        let limits = Limits { bytes_max: BYTES_MAX, depth_max: DEPTH_MAX };
        let patch = yaml::parse(text, Dialect::Sigs, &limits).map_err(|error| fail(error.to_string()))?;
        match patch {
            None => {}
            Some(Value::Object(patch)) => {
                source = patched(&source, &patch, mode).map_err(|error| fail(error.to_string()))?;
            }
            Some(_) => return Err(fail("the file is not a mapping".to_owned())),
        }
    }
    Ok(source)
}

fn patched(
    source: &ApplicationSource,
    patch: &Map<String, Value>,
    mode: Merge,
) -> Result<ApplicationSource, serde_json::Error> {
    let existing = serde_json::to_value(source)?;
    let mut merged = existing.clone();
    merge(&mut merged, patch);
    let decoded = match mode {
        Merge::Strict => merged,
        Merge::InPlace => decode_over(Some(existing), merged),
    };
    let mut result: ApplicationSource = serde_json::from_value(decoded)?;
    result.repo_url.clone_from(&source.repo_url);
    result.path.clone_from(&source.path);
    result.target_revision.clone_from(&source.target_revision);
    result.chart.clone_from(&source.chart);
    Ok(result)
}

/// JSON merge patch (RFC 7396). The depth is that of the patch, which its reader bounds.
fn merge(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                target.remove(key);
            }
            Value::Object(inner) => merge(target.entry(key.as_str()).or_insert(Value::Null), inner),
            other => {
                target.insert(key.clone(), other.clone());
            }
        }
    }
}

/// What Go's decoder leaves when it decodes `new` over a structure that holds `existing`.
fn decode_over(existing: Option<Value>, new: Value) -> Value {
    match (existing, new) {
        (Some(existing), Value::Null) => existing,
        (Some(Value::Object(mut existing)), Value::Object(new)) => {
            for (key, value) in new {
                // Free-form values are taken as a whole.
                let old = existing.remove(&key).filter(|_| key != "valuesObject");
                existing.insert(key, decode_over(old, value));
            }
            Value::Object(existing)
        }
        (Some(Value::Array(existing)), Value::Array(new)) => {
            let mut old = existing.into_iter();
            Value::Array(new.into_iter().map(|item| decode_over(old.next(), item)).collect())
        }
        (_, new) => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryTree;
    use serde_json::json;

    fn run(source: Value, files: &[(&str, &str)], mode: Merge) -> Result<Value, String> {
        let source: ApplicationSource = serde_json::from_value(source).unwrap();
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let tree = MemoryTree::from_files(files).unwrap();
        let root = TreePath::root();
        apply(&source, &tree, &root, "guestbook", mode)
            .map(|source| serde_json::to_value(source).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn rnd_57_files_merge_in_order_and_identity_stays() {
        let files = [
            (
                ".argocd-source.yaml",
                r#"{"kustomize":{"images":["a=1"],"namePrefix":"p-"},"repoURL":"x","path":"y"}"#,
            ),
            (".argocd-source-guestbook.yaml", r#"{"kustomize":{"images":["nginx=1.27"]}}"#),
            (".argocd-source-other.yaml", r#"{"kustomize":{"images":["no"]}}"#),
        ];
        let result = run(
            json!({"repoURL": "r", "path": "", "kustomize": {"images": ["old", "z"]}}),
            &files,
            Merge::InPlace,
        );
        assert_eq!(
            result,
            Ok(json!({"repoURL": "r", "kustomize": {"images": ["nginx=1.27"], "namePrefix": "p-"}}))
        );
    }

    #[test]
    fn rnd_58_null_and_list_elements_follow_the_mode() {
        let source = json!({"repoURL": "r", "helm": {"releaseName": "n", "parameters": [{"name": "a", "value": "1"}]}});
        let files = [(".argocd-source.yaml", r#"{"helm":{"releaseName":null,"parameters":[{"name":"b"}]}}"#)];
        let kept = json!({"repoURL": "r", "helm": {"releaseName": "n", "parameters": [{"name": "b", "value": "1"}]}});
        assert_eq!(run(source.clone(), &files, Merge::InPlace), Ok(kept));
        let fresh = json!({"repoURL": "r", "helm": {"parameters": [{"name": "b"}]}});
        assert_eq!(run(source, &files, Merge::Strict), Ok(fresh));
    }

    #[test]
    fn rnd_59_failures_name_the_file() {
        for text in ["[1]", r#"{"helm": 7}"#, r#"{"directory":{"recurse":"x"}}"#, "{"] {
            let error =
                run(json!({"repoURL": "r"}), &[(".argocd-source.yaml", text)], Merge::InPlace).unwrap_err();
            assert!(
                error.starts_with("error while parsing source parameters: .argocd-source.yaml: "),
                "{error}"
            );
        }
    }
}
