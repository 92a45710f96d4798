//! `ApplicationSets`: what a call would change (API-156..158).

use serde_json::{Map, Value, json};
use tiphys_api::ApplicationSet;
use tiphys_api::names::{GROUP, VERSION};
use tiphys_object::{Object, access};

use crate::change::{Change, Sealed, is_same_metadata, upserted};
use crate::error::Code;

/// Why a call about an `ApplicationSet` fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplicationSetError {
    /// There is no name.
    #[error("resource name may not be empty")]
    MissingName,
    /// There is none of this name.
    #[error("applicationsets.{GROUP} {0:?} not found")]
    NotFound(String),
    /// What was sent or is stored is none.
    #[error("ApplicationSet {name} cannot be read: {reason}")]
    Unreadable {
        /// Which.
        name: String,
        /// Why.
        reason: String,
    },
    /// Nobody can tell which project its applications will have.
    #[error(
        "the Argo CD API does not currently support creating ApplicationSets with templated `project` fields"
    )]
    TemplatedProject,
    /// Its project is not there.
    #[error("ApplicationSet references project {0} which does not exist")]
    NoProject(String),
    /// It cannot generate anything.
    #[error("ApplicationSet {name} is invalid: {reason}")]
    Invalid {
        /// Which.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// It exists and is different.
    #[error("existing ApplicationSet spec is different, use upsert flag to force update")]
    Different,
}

impl ApplicationSetError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::NotFound,
            Self::Unreadable { .. } => Code::FailedPrecondition,
            _ => Code::InvalidArgument,
        }
    }
}

fn unreadable(name: &str, reason: &dyn std::fmt::Display) -> ApplicationSetError {
    ApplicationSetError::Unreadable { name: name.to_owned(), reason: reason.to_string() }
}

/// A set as somebody wants it, in the form in which it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The object.
    pub value: Value,
    /// The same in types.
    pub set: ApplicationSet,
}

impl Wanted {
    /// Reads what was sent; where it names no namespace it gets this one.
    ///
    /// # Errors
    /// When it is none, has no name, or its project is not told.
    pub fn read(mut value: Value, namespace: &str) -> Result<Self, ApplicationSetError> {
        let name = access::name(&value).to_owned();
        if name.is_empty() {
            return Err(ApplicationSetError::MissingName);
        }
        let members = access::ensure_object(&mut value);
        members.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
        members.insert("kind".to_owned(), "ApplicationSet".into());
        members.remove("status");
        if access::namespace(&value).is_empty() {
            access::metadata_mut(&mut value).insert("namespace".to_owned(), namespace.into());
        }
        let project =
            value.pointer("/spec/template/spec/project").and_then(Value::as_str).unwrap_or_default();
        // The project of a set itself is that of its applications, whatever their template says (API-159).
        let own = value.pointer("/spec/project").and_then(Value::as_str).unwrap_or_default();
        if own.is_empty() && project.contains("{{") {
            return Err(ApplicationSetError::TemplatedProject);
        }
        let set = serde_json::from_value(value.clone()).map_err(|error| unreadable(&name, &error))?;
        Ok(Self { value, set })
    }

    /// The project of the applications that it makes.
    pub fn project(&self) -> &str {
        project_of(&self.value)
    }
}

/// The project of a set, or else of the applications that it makes (ASET-279, ASET-284).
pub fn project_of(set: &Value) -> &str {
    let places = ["/spec/project", "/spec/template/spec/project"];
    let named = places.into_iter().filter_map(|place| set.pointer(place).and_then(Value::as_str));
    named.into_iter().find(|project| !project.is_empty()).unwrap_or(tiphys_api::project::DEFAULT_PROJECT)
}

/// Reads a stored set.
///
/// # Errors
/// When it is none.
pub fn read(object: &Object) -> Result<ApplicationSet, ApplicationSetError> {
    serde_json::from_slice(&object.raw()).map_err(|error| unreadable(object.name(), &error))
}

/// What creating a set changes: nothing when it exists as wanted, the existing one with `upsert` (API-156).
///
/// # Errors
/// When it exists and is different.
pub fn plan_create(
    stored: Option<&Object>,
    wanted: &Wanted,
    upsert: bool,
) -> Result<Change, ApplicationSetError> {
    let Some(object) = stored else {
        return Ok(Change::Create(Sealed::new(wanted.value.clone())));
    };
    let existing = read(object)?;
    let (new, old) = (&wanted.set, &existing);
    let is_same = new.spec == old.spec && is_same_metadata(&new.metadata, &old.metadata);
    if is_same {
        return Ok(Change::Keep);
    }
    if !upsert {
        return Err(ApplicationSetError::Different);
    }
    let value = object.to_value().map_err(|error| unreadable(object.name(), &error))?;
    let spec = wanted.value.get("spec").cloned().unwrap_or_else(|| json!({}));
    Ok(upserted(object, value, spec, &new.metadata))
}

/// Members that an answer shows of a set.
///
/// # Errors
/// When it is none.
pub fn shown(object: &Object) -> Result<Value, ApplicationSetError> {
    let mut value = object.to_value().map_err(|error| unreadable(object.name(), &error))?;
    let members: &mut Map<String, Value> = access::ensure_object(&mut value);
    members.remove("apiVersion");
    members.remove("kind");
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    Ok(value)
}

/// The tree of a set: one node for each application that it made (API-158).
pub fn tree(object: &Object) -> Result<Value, ApplicationSetError> {
    let value = object.to_value().map_err(|error| unreadable(object.name(), &error))?;
    let parent = json!([{"group": GROUP, "version": VERSION, "kind": "ApplicationSet",
        "namespace": object.namespace(), "name": object.name(), "uid": object.metadata().uid}]);
    let resources = value.pointer("/status/resources").and_then(Value::as_array).cloned().unwrap_or_default();
    let nodes: Vec<Value> = resources
        .into_iter()
        .map(|resource| {
            let text = |key: &str| resource.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let mut node = json!({"group": text("group"), "version": text("version"), "kind": text("kind"),
                "name": text("name"), "namespace": object.namespace(), "parentRefs": parent});
            if let (Some(health), Some(members)) = (resource.get("health"), node.as_object_mut()) {
                members.insert("health".to_owned(), health.clone());
            }
            node
        })
        .collect();
    Ok(json!({"nodes": nodes}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(project: &str) -> Value {
        json!({"metadata": {"name": "all"}, "spec": {"generators": [{"list": {"elements": []}}],
            "template": {"metadata": {"name": "x"}, "spec": {"project": project,
                "source": {"repoURL": "r"}, "destination": {"name": "in-cluster"}}}}})
    }

    fn stored(wanted: &Wanted) -> Object {
        let mut value = wanted.value.clone();
        value["metadata"]["uid"] = "u".into();
        value["metadata"]["resourceVersion"] = "7".into();
        value["status"] = json!({"resources": [{"group": GROUP, "version": VERSION, "kind": "Application",
            "name": "a", "health": {"status": "Healthy"}}]});
        Object::from_value(&value).unwrap()
    }

    #[test]
    fn api_156_a_set_is_created_once_and_changed_when_asked() {
        let wanted = Wanted::read(set("shop"), "argocd").unwrap();
        assert_eq!((wanted.project(), access::namespace(&wanted.value)), ("shop", "argocd"));
        assert!(matches!(plan_create(None, &wanted, false).unwrap(), Change::Create(_)));
        let object = stored(&wanted);
        assert_eq!(plan_create(Some(&object), &wanted, false).unwrap(), Change::Keep);
        let other = Wanted::read(set("other"), "argocd").unwrap();
        assert_eq!(plan_create(Some(&object), &other, false).unwrap_err(), ApplicationSetError::Different);
        let Change::Replace(_, value) = plan_create(Some(&object), &other, true).unwrap() else { panic!() };
        assert_eq!(value.expose()["spec"]["template"]["spec"]["project"], "other");
        assert!(value.expose()["status"].is_object(), "what the controller wrote stays");
        let templated = Wanted::read(set("{{.project}}"), "argocd").unwrap_err();
        assert_eq!(templated, ApplicationSetError::TemplatedProject);
        assert_eq!(Wanted::read(json!({}), "argocd").unwrap_err(), ApplicationSetError::MissingName);
    }

    #[test]
    fn api_158_a_tree_has_a_node_for_each_application() {
        let tree = tree(&stored(&Wanted::read(set("shop"), "argocd").unwrap())).unwrap();
        assert_eq!(tree["nodes"][0]["name"], "a");
        assert_eq!(tree["nodes"][0]["parentRefs"][0]["name"], "all");
        assert_eq!(tree["nodes"][0]["health"]["status"], "Healthy");
    }
}
