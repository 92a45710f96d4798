//! The fields of an Argo CD source as edits of the root kustomization (RND-81..86).
//!
//! Nothing is written: the kustomization that was read is changed in memory, with the results of `kustomize edit`.
//! Build variables (RND-68) are the caller's business.

use std::collections::BTreeMap;

use smol_str::SmolStr;
use tiphys_api::application::{KustomizePatch, KustomizeSource};

use crate::id::{Gvk, ResourceId};
use crate::kustomization::{Image, Kustomization, Label, Patch, Replica, Selector};
use crate::transform::split_image;

/// The edits of a source.
pub type Edits = KustomizeSource;

/// An edit that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// There is no file to edit.
    #[error("{0}")]
    NoFile(&'static str),
    /// An image that says nothing but its name (RND-83).
    #[error("invalid format of image {0:?}: expected [NAME=]NEWNAME[:TAG][@DIGEST] with something to change")]
    Image(String),
    /// A number of replicas that is none (RND-84).
    #[error("expected integer value for count. Received: {0}")]
    Count(String),
    /// A label or annotation that the file has already (RND-85).
    #[error("{what} {name} already in kustomization file. Use --force to override.")]
    Exists {
        /// `label` or `annotation`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Templates get labels only where selectors do not (RND-85).
    #[error("--without-selector flag must be specified for --include-templates to work")]
    TemplatesWithSelectors,
    /// An option of a patch that there is not.
    #[error("invalid Kustomization: json: unknown field {0:?}")]
    PatchOption(String),
}

/// Whether a source has any edit.
pub(crate) fn has_edits(edits: &Edits) -> bool {
    first_edit(edits).is_some()
}

/// What is wrong when there is no file to edit.
pub(crate) fn no_file(edits: &Edits) -> Option<EditError> {
    first_edit(edits).map(EditError::NoFile)
}

fn first_edit(edits: &Edits) -> Option<&'static str> {
    let by_program = !edits.name_prefix.is_empty()
        || !edits.name_suffix.is_empty()
        || !edits.images.is_empty()
        || !edits.replicas.is_empty()
        || !edits.common_labels.is_empty()
        || !edits.common_annotations.is_empty()
        || !edits.namespace.is_empty();
    if by_program {
        Some("Missing kustomization file 'kustomization.yaml'.")
    } else if !edits.patches.is_empty() {
        Some("kustomization file not found in the path")
    } else {
        (!edits.components.is_empty()).then_some("Missing kustomization file 'kustomization.yaml'.")
    }
}

/// Makes the edits. `is_directory` says whether a component is there.
pub(crate) fn apply<E: From<EditError>>(
    kustomization: &mut Kustomization,
    edits: &Edits,
    is_directory: &mut dyn FnMut(&str) -> Result<bool, E>,
) -> Result<(), E> {
    for (field, value) in [
        (&mut kustomization.name_prefix, &edits.name_prefix),
        (&mut kustomization.name_suffix, &edits.name_suffix),
    ] {
        if !value.is_empty() {
            *field = value.into();
        }
    }
    set_images(kustomization, &edits.images)?;
    set_replicas(kustomization, edits)?;
    add_labels(kustomization, edits)?;
    let annotations = Pairs { what: "annotation", force: edits.force_common_annotations };
    for (name, value) in &edits.common_annotations {
        annotations.add(&mut kustomization.common_annotations, name, value)?;
    }
    if !edits.namespace.is_empty() {
        kustomization.namespace = edits.namespace.as_str().into();
    }
    for patch in &edits.patches {
        kustomization.patches.push(patch_of(patch)?);
    }
    for component in &edits.components {
        let is_known = kustomization.components.iter().any(|known| known == component);
        if is_known || (edits.ignore_missing_components && !is_directory(component)?) {
            continue;
        }
        kustomization.components.push(component.into());
    }
    Ok(())
}

fn set_images(kustomization: &mut Kustomization, images: &[String]) -> Result<(), EditError> {
    const KEEP: &str = "*";
    if images.is_empty() {
        return Ok(());
    }
    let mut by_name: BTreeMap<SmolStr, Image> = BTreeMap::new();
    for text in images {
        let image = parse_image(text)?;
        by_name.insert(image.name.clone(), image);
    }
    for known in std::mem::take(&mut kustomization.images) {
        match by_name.get_mut(&known.name) {
            None => {
                by_name.insert(known.name.clone(), known);
            }
            Some(image) => {
                for (field, known) in [
                    (&mut image.new_name, known.new_name),
                    (&mut image.new_tag, known.new_tag),
                    (&mut image.digest, known.digest),
                ] {
                    if field == KEEP {
                        *field = known;
                    }
                }
            }
        }
    }
    let without_marks = |mut image: Image| {
        for field in [&mut image.new_name, &mut image.new_tag, &mut image.digest] {
            if field == KEEP {
                *field = SmolStr::default();
            }
        }
        image
    };
    kustomization.images = by_name.into_values().map(without_marks).collect();
    Ok(())
}

fn parse_image(text: &str) -> Result<Image, EditError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value),
        None => ("", text),
    };
    let (new_name, tag, digest) = split_image(value);
    if new_name == text {
        return Err(EditError::Image(text.to_owned()));
    }
    let mut image = Image { new_tag: tag.into(), digest: digest.into(), ..Image::default() };
    if name.is_empty() {
        image.name = new_name.into();
    } else {
        (image.name, image.new_name) = (name.into(), new_name.into());
    }
    Ok(image)
}

fn set_replicas(kustomization: &mut Kustomization, edits: &Edits) -> Result<(), EditError> {
    if edits.replicas.is_empty() {
        return Ok(());
    }
    let mut by_name: BTreeMap<SmolStr, Replica> = BTreeMap::new();
    for replica in &edits.replicas {
        let count = replica.count.number().ok_or_else(|| EditError::Count(replica.count.to_string()))?;
        let name = SmolStr::new(&replica.name);
        by_name.insert(name.clone(), Replica { name, count });
    }
    for known in std::mem::take(&mut kustomization.replicas) {
        by_name.entry(known.name.clone()).or_insert(known);
    }
    kustomization.replicas = by_name.into_values().collect();
    Ok(())
}

/// Labels or annotations, and whether they win over those of the file.
struct Pairs {
    what: &'static str,
    force: bool,
}

impl Pairs {
    fn add(&self, map: &mut BTreeMap<SmolStr, SmolStr>, name: &str, value: &str) -> Result<(), EditError> {
        if map.contains_key(name) && !self.force {
            return Err(EditError::Exists { what: self.what, name: name.to_owned() });
        }
        // The program takes a pair of quotes off.
        let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        map.insert(name.into(), inner.unwrap_or(value).into());
        Ok(())
    }
}

fn add_labels(kustomization: &mut Kustomization, edits: &Edits) -> Result<(), EditError> {
    if edits.common_labels.is_empty() {
        return Ok(());
    }
    if edits.label_include_templates && !edits.label_without_selector {
        return Err(EditError::TemplatesWithSelectors);
    }
    let pairs = Pairs { what: "label", force: edits.force_common_labels };
    let map = if edits.label_without_selector {
        let fits = |label: &Label| {
            !label.include_selectors && label.include_templates == edits.label_include_templates
        };
        let index = kustomization.labels.iter().position(fits).unwrap_or_else(|| {
            let include_templates = edits.label_include_templates;
            kustomization.labels.push(Label { include_templates, ..Label::default() });
            kustomization.labels.len() - 1
        });
        match kustomization.labels.get_mut(index) {
            Some(label) => &mut label.pairs,
            None => return Ok(()),
        }
    } else {
        &mut kustomization.common_labels
    };
    edits.common_labels.iter().try_for_each(|(name, value)| pairs.add(map, name, value))
}

fn patch_of(patch: &KustomizePatch) -> Result<Patch, EditError> {
    let mut result =
        Patch { path: patch.path.as_str().into(), patch: patch.patch.as_str().into(), ..Patch::default() };
    for (name, value) in &patch.options {
        match name.as_str() {
            "allowNameChange" => result.allow_name_change = *value,
            "allowKindChange" => result.allow_kind_change = *value,
            _ => return Err(EditError::PatchOption(name.clone())),
        }
    }
    result.target = patch.target.as_ref().map(|target| Selector {
        id: ResourceId {
            gvk: Gvk {
                group: target.group.as_str().into(),
                version: target.version.as_str().into(),
                kind: target.kind.as_str().into(),
                is_cluster_scoped: false,
            },
            name: target.name.as_str().into(),
            namespace: target.namespace.as_str().into(),
        },
        annotations: target.annotation_selector.as_str().into(),
        labels: target.label_selector.as_str().into(),
    });
    Ok(result)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edited(file: &serde_json::Value, edits: &serde_json::Value) -> Result<Kustomization, EditError> {
        let edits: Edits = serde_json::from_value(edits.clone()).unwrap();
        let mut kustomization = Kustomization::read(file).unwrap();
        apply(&mut kustomization, &edits, &mut |path| Ok::<_, EditError>(path == "there"))?;
        Ok(kustomization)
    }

    #[test]
    fn rnd_82_scalars_replace_those_of_the_file() {
        let file = json!({"namePrefix": "a-", "nameSuffix": "-z", "namespace": "old"});
        let k = edited(&file, &json!({"namePrefix": "b-", "namespace": "new"})).unwrap();
        assert_eq!((&*k.name_prefix, &*k.name_suffix, &*k.namespace), ("b-", "-z", "new"));
    }

    #[test]
    fn rnd_83_an_image_replaces_the_whole_entry_and_stars_keep_parts() {
        let file = json!({"images": [
            {"name": "z", "newTag": "1"},
            {"name": "nginx", "newName": "mirror/nginx", "newTag": "1.26", "digest": "sha256:0"},
            {"name": "kept", "newName": "mirror/kept", "newTag": "1"},
        ]});
        let images = ["nginx:1.27", "kept=*:2", "a=h:5000/b/c:v1@sha256:ff", "new=*@*"];
        let k = edited(&file, &json!({"images": images})).unwrap();
        let shown: Vec<[&str; 4]> =
            k.images.iter().map(|i| [&*i.name, &*i.new_name, &*i.new_tag, &*i.digest]).collect();
        let expected = [
            ["a", "h:5000/b/c", "v1", "sha256:ff"],
            ["kept", "mirror/kept", "2", ""],
            ["new", "", "", ""],
            ["nginx", "", "1.27", ""],
            ["z", "", "1", ""],
        ];
        assert_eq!(shown, expected);
        let error = edited(&json!({"namePrefix": "a"}), &json!({"images": ["nginx"]})).unwrap_err();
        assert_eq!(error, EditError::Image("nginx".to_owned()));
    }

    #[test]
    fn rnd_84_replicas_are_numbers_or_texts_of_numbers() {
        let file = json!({"replicas": [{"name": "b", "count": 1}, {"name": "c", "count": 1}]});
        let replicas = json!([{"name": "b", "count": "2"}, {"name": "a", "count": 3}]);
        let k = edited(&file, &json!({"replicas": replicas})).unwrap();
        let shown: Vec<(&str, i64)> = k.replicas.iter().map(|r| (&*r.name, r.count)).collect();
        assert_eq!(shown, [("a", 3), ("b", 2), ("c", 1)]);
        let error = edited(&file, &json!({"replicas": [{"name": "a", "count": "x"}]})).unwrap_err();
        assert_eq!(error.to_string(), "expected integer value for count. Received: x");
    }

    #[test]
    fn rnd_85_labels_go_where_the_switches_say() {
        let file = json!({"commonLabels": {"a": "1"}, "labels": [{"pairs": {"b": "1"}}]});
        let common = edited(&file, &json!({"commonLabels": {"c": "\"2\""}})).unwrap();
        assert_eq!(common.common_labels.get("c").map(SmolStr::as_str), Some("2"));

        let edits = json!({"commonLabels": {"c": "2"}, "labelWithoutSelector": true});
        let extended = edited(&file, &edits).unwrap();
        assert_eq!(extended.labels.len(), 1);
        assert_eq!(extended.labels[0].pairs.len(), 2);

        let edits =
            json!({"commonLabels": {"c": "2"}, "labelWithoutSelector": true, "labelIncludeTemplates": true});
        let added = edited(&file, &edits).unwrap();
        assert_eq!(added.labels.len(), 2);
        assert!(added.labels[1].include_templates);

        let edits = json!({"commonLabels": {"c": "2"}, "labelIncludeTemplates": true});
        assert_eq!(edited(&file, &edits).unwrap_err(), EditError::TemplatesWithSelectors);
    }

    #[test]
    fn rnd_85_what_the_file_has_is_replaced_only_by_force() {
        let file = json!({"commonLabels": {"a": "1"}, "commonAnnotations": {"a": "1"}});
        let error = edited(&file, &json!({"commonLabels": {"a": "2"}})).unwrap_err();
        assert_eq!(error.to_string(), "label a already in kustomization file. Use --force to override.");
        let error = edited(&file, &json!({"commonAnnotations": {"a": "2"}})).unwrap_err();
        assert_eq!(error.to_string(), "annotation a already in kustomization file. Use --force to override.");
        let edits = json!({
            "commonLabels": {"a": "2"}, "forceCommonLabels": true,
            "commonAnnotations": {"a": "3"}, "forceCommonAnnotations": true,
        });
        let k = edited(&file, &edits).unwrap();
        assert_eq!((&*k.common_labels["a"], &*k.common_annotations["a"]), ("2", "3"));
    }

    #[test]
    fn rnd_86_patches_and_components_are_appended() {
        let file = json!({"patches": [{"path": "a.yaml"}], "components": ["x"]});
        let patch = json!({"patch": "- op: remove", "target": {"kind": "Deployment", "labelSelector": "a=b"},
            "options": {"allowNameChange": true}});
        let edits = json!({"patches": [patch], "components": ["x", "there", "gone"]});
        let k = edited(&file, &edits).unwrap();
        assert_eq!(k.patches.len(), 2);
        assert!(k.patches[1].allow_name_change);
        assert_eq!(k.patches[1].target.as_ref().unwrap().labels, "a=b");
        assert_eq!(k.components, ["x", "there", "gone"]);

        let edits = json!({"components": ["there", "gone"], "ignoreMissingComponents": true});
        assert_eq!(edited(&file, &edits).unwrap().components, ["x", "there"]);
    }

    #[test]
    fn rnd_81_edits_need_a_file() {
        let read = |value| serde_json::from_value::<Edits>(value).unwrap();
        assert!(no_file(&read(json!({"version": "v5"}))).is_none());
        let error = no_file(&read(json!({"patches": [{"path": "a"}]}))).unwrap();
        assert_eq!(error.to_string(), "kustomization file not found in the path");
    }
}
