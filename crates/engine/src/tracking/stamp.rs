//! Marking desired objects (TRK-20..25, 40..44, 75..77).

use std::borrow::Cow;

use serde_json::{Map, Value};
use smol_str::SmolStr;
use tiphys_api::names::annotation;
use tiphys_go::json::print_go;
use tiphys_object::structured::go_type;
use tiphys_object::{Gvk, access};

use super::{
    Carrier, NameAnnotation, TrackingId, TrackingMethod, TrackingSettings, qualified_name,
    split_instance_name,
};

/// Longest value of a label, in bytes.
const LABEL_BYTES_MAX: usize = 63;
/// Label key of releases before 0.11; it is written into pod templates too (TRK-25).
const LEGACY_LABEL_KEY: &str = "applications.argoproj.io/app-name";

/// Why an object could not be marked. The texts are those of TRK-24.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StampError {
    /// The annotations cannot be read.
    #[error(
        "failed to set app instance tracking info on manifest: failed to get annotations {preposition} {object}: .metadata.annotations accessor error: {problem}"
    )]
    Annotations {
        /// `for`, or `from target object` when an installation ID is set.
        preposition: &'static str,
        /// Type, namespace and name of the object.
        object: String,
        /// What is wrong with the map.
        problem: String,
    },
    /// The labels cannot be read.
    #[error(
        "failed to set app instance tracking info on manifest: failed to set app instance label: failed to get labels from target object {object}: .metadata.labels accessor error: {problem}"
    )]
    Labels {
        /// Type, namespace and name of the object.
        object: String,
        /// What is wrong with the map.
        problem: String,
    },
    /// The instance name cannot be shortened to a label value (TRK-40).
    #[error("failed to set app instance label: unable to truncate label to not end with a special character")]
    Truncate,
}

impl TrackingSettings {
    /// Marks a desired object as belonging to `instance`, overwriting any mark it has (TRK-20).
    ///
    /// Custom resource definitions get no mark (TRK-77), and nothing is done when the label key or the instance name
    /// is empty (TRK-75). `destination_namespace` stands in for the namespace of an object without one (TRK-31).
    pub fn stamp(
        &self,
        object: &mut Value,
        instance: &str,
        destination_namespace: &str,
    ) -> Result<(), StampError> {
        if self.label_key.is_empty() || instance.is_empty() || is_custom_resource_definition(object) {
            return Ok(());
        }
        if self.method.is_annotation_family() {
            self.stamp_annotations(object, instance, destination_namespace)?;
        }
        if let Some(value) = self.label_value(instance)? {
            stamp_label(object, &self.label_key, &value)?;
            if self.label_key == LEGACY_LABEL_KEY {
                stamp_legacy_template(object, &value);
            }
        }
        self.stamp_name(object, instance)?;
        self.stamp_installation(object)
    }

    /// Takes the marks of these settings off an object, whoever set them, and maps that are empty then (TRK-81).
    pub fn unstamp(&self, object: &mut Value) {
        if is_custom_resource_definition(object) {
            return;
        }
        if self.method.is_annotation_family() {
            access::remove_annotation(object, &self.annotation_key);
            access::remove_annotation(object, annotation::INSTALLATION_ID);
        }
        if self.method.writes_label() {
            access::remove_label(object, &self.label_key);
        }
        if self.writes_name() {
            access::remove_annotation(object, &self.name_annotation_key);
        }
        match self.installation_place() {
            None => {}
            Some(Place::Annotation) => drop(access::remove_annotation(object, &self.installation_id_key)),
            Some(Place::Label) => drop(access::remove_label(object, &self.installation_id_key)),
        }
    }

    /// The instance label the method writes; `None` when it writes none (TRK-40, TRK-44, TRK-50).
    pub fn label_value<'a>(&self, instance: &'a str) -> Result<Option<Cow<'a, str>>, StampError> {
        match self.method {
            TrackingMethod::Annotation => Ok(None),
            TrackingMethod::AnnotationAndLabel => {
                truncated_label(instance).map(|value| Some(value.into())).ok_or(StampError::Truncate)
            }
            TrackingMethod::Label => Ok(Some(instance.into())),
            TrackingMethod::Hash | TrackingMethod::AnnotationAndHash => {
                Ok(Some(self.hash_algorithm.digest(&self.hash_input(instance)).into()))
            }
        }
    }

    /// The text whose digest stands for an application (TRK-50).
    pub fn hash_input<'a>(&self, instance: &'a str) -> Cow<'a, str> {
        if self.carrier == Carrier::Hash && !self.installation_id.is_empty() {
            format!("{}.{instance}", self.installation_id).into()
        } else {
            instance.into()
        }
    }

    /// Digests that are recognised as an application's, the one that is written first (TRK-53).
    pub fn digests(&self, instance: &str) -> impl Iterator<Item = String> + use<> {
        let input = self.hash_input(instance).into_owned();
        self.hash_algorithm.accepted().iter().map(move |algorithm| algorithm.digest(&input))
    }

    /// The readable name of an application (TRK-56).
    pub fn readable_name(&self, instance: &str) -> SmolStr {
        let (namespace, name) = split_instance_name(instance, "");
        qualified_name(namespace, name)
    }

    /// Whether the readable name is written (TRK-56).
    pub(super) fn writes_name(&self) -> bool {
        match self.name_annotation {
            NameAnnotation::Auto => self.method.is_hashed(),
            NameAnnotation::Always => true,
            NameAnnotation::Never => false,
        }
    }

    /// The condition text when method `label` cannot carry the instance name (TRK-44).
    pub fn label_too_long(&self, instance: &str) -> Option<String> {
        (self.method == TrackingMethod::Label && instance.len() > LABEL_BYTES_MAX).then(|| {
            format!(
                "instance name \"{instance}\" is {} bytes long, more than the 63 allowed by tracking method \"label\"; \
                 use annotation, annotation+label, hash or annotation+hash",
                instance.len()
            )
        })
    }

    fn stamp_annotations(
        &self,
        object: &mut Value,
        instance: &str,
        destination: &str,
    ) -> Result<(), StampError> {
        self.check_annotations(object)?;
        let tracking_id = TrackingId::for_object(instance, object, destination).write(self.annotation_format);
        access::set_annotation(object, &self.annotation_key, &tracking_id);
        if self.installation_id.is_empty() {
            // A label of that key is no annotation; what an installation with an annotation wrote is taken away.
            let key = match self.carrier {
                Carrier::Label => annotation::INSTALLATION_ID,
                _ => &self.installation_id_key,
            };
            access::remove_annotation(object, key);
        }
        Ok(())
    }

    fn stamp_name(&self, object: &mut Value, instance: &str) -> Result<(), StampError> {
        if self.writes_name() {
            self.check_annotations(object)?;
            access::set_annotation(object, &self.name_annotation_key, &self.readable_name(instance));
        }
        Ok(())
    }

    /// Writes the installation ID where the carrier says (TRK-61..66).
    fn stamp_installation(&self, object: &mut Value) -> Result<(), StampError> {
        match self.installation_place() {
            None => Ok(()),
            Some(Place::Annotation) => {
                self.check_annotations(object)?;
                access::set_annotation(object, &self.installation_id_key, &self.installation_id);
                Ok(())
            }
            Some(Place::Label) => stamp_label(object, &self.installation_id_key, &self.installation_id),
        }
    }

    /// Where objects of this installation carry its ID; `None` when they carry none that would be looked for.
    pub(super) fn installation_place(&self) -> Option<Place> {
        if self.installation_id.is_empty() {
            return None;
        }
        match self.carrier {
            Carrier::Label => Some(Place::Label),
            Carrier::AnnotationStrict => Some(Place::Annotation),
            Carrier::Annotation | Carrier::Hash => {
                self.method.is_annotation_family().then_some(Place::Annotation)
            }
        }
    }

    fn check_annotations(&self, object: &Value) -> Result<(), StampError> {
        check_text_map(object, "annotations").map_err(|problem| StampError::Annotations {
            preposition: if self.installation_id.is_empty() { "for" } else { "from target object" },
            object: describe(object),
            problem,
        })
    }
}

/// Where an installation ID stands on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Annotation,
    Label,
}

fn stamp_label(object: &mut Value, key: &str, value: &str) -> Result<(), StampError> {
    check_text_map(object, "labels")
        .map_err(|problem| StampError::Labels { object: describe(object), problem })?;
    access::set_label(object, key, value);
    Ok(())
}

/// The instance name as a label value: at most 63 bytes, then without trailing bytes that are no ASCII letter or
/// digit (TRK-40, TRK-41). `None` when nothing would be left.
///
/// ```
/// # use tiphys_engine::tracking::truncated_label;
/// let long = format!("{}-b", "a".repeat(62));
/// assert_eq!(truncated_label(&long), Some(&long[..62]));
/// ```
pub fn truncated_label(instance: &str) -> Option<&str> {
    if instance.len() <= LABEL_BYTES_MAX {
        return Some(instance);
    }
    let head = instance.as_bytes().get(..LABEL_BYTES_MAX)?;
    let last = head.iter().rposition(u8::is_ascii_alphanumeric)?;
    instance.get(..=last)
}

/// Replaces objects of a list kind by their items, and drops empty shells whose `items` is null (TRK-76).
pub fn expand_lists(objects: Vec<Value>) -> Vec<Value> {
    let mut expanded = Vec::with_capacity(objects.len());
    for mut object in objects {
        let is_list = access::text(&object, "kind").ends_with("List");
        let is_shell = object.get("spec").is_none() && object.get("status").is_none();
        match object.get_mut("items") {
            Some(Value::Array(items)) if is_list => expanded.append(items),
            Some(Value::Null) if is_shell => {}
            _ => expanded.push(object),
        }
    }
    expanded
}

fn is_custom_resource_definition(object: &Value) -> bool {
    access::text(object, "kind") == "CustomResourceDefinition"
        && access::text(object, "apiVersion").starts_with("apiextensions.k8s.io/")
}

fn stamp_legacy_template(object: &mut Value, value: &str) {
    let Gvk { group, version, kind } = Gvk::of(object);
    let has_template = match group.as_str() {
        "apps" | "extensions" => {
            matches!(kind.as_str(), "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
        }
        "batch" => kind == "Job",
        _ => false,
    };
    if !has_template {
        return;
    }
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let labels_before = spec
        .get("template")
        .and_then(|template| access::at(template, &["metadata", "labels"]))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let metadata = access::member_object_mut(access::member_object_mut(spec, "template"), "metadata");
    access::member_object_mut(metadata, "labels").insert(LEGACY_LABEL_KEY.to_owned(), Value::from(value));
    // These versions let the server fill the selector from the template, which must not pick the mark up.
    let fills_selector = version == "v1beta1" && group != "batch";
    let selector_is_empty = spec
        .get("selector")
        .is_none_or(|selector| selector.is_null() || selector.as_object().is_some_and(Map::is_empty));
    if fills_selector && selector_is_empty && !labels_before.is_empty() {
        access::member_object_mut(spec, "selector")
            .insert("matchLabels".to_owned(), Value::Object(labels_before));
    }
}

fn describe(object: &Value) -> String {
    format!("{} {}/{}", Gvk::of(object), access::namespace(object), access::name(object))
}

/// Finds the first value of `metadata.<member>` that is no text, in Go's words.
fn check_text_map(object: &Value, member: &str) -> Result<(), String> {
    match object.get("metadata").and_then(|metadata| metadata.get(member)) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Object(map)) => match map.iter().find(|(_, value)| !value.is_string()) {
            None => Ok(()),
            Some((key, value)) => Err(format!(
                "contains non-string value in the map under key \"{key}\": {} is of the type {}, expected string",
                print_go(value),
                go_type(value)
            )),
        },
        Some(other) => Err(format!(
            "{} is of the type {}, expected map[string]interface{{}}",
            print_go(other),
            go_type(other)
        )),
    }
}

#[cfg(test)]
mod tests;
