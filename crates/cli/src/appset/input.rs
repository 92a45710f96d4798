//! Sets as files hold them (CLI-602, CLI-607).

use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_api::names::{GROUP, VERSION};
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::access;

use crate::failure::Failure;

/// The kind of the documents that are meant.
const KIND: &str = "ApplicationSet";

/// The sets of a file, in order. Documents of other kinds are passed over.
pub(super) fn sets_of(text: &str) -> Result<Vec<Value>, Failure> {
    documents_of(text, KIND)
}

/// The documents of a kind in a file, in order; one that names none counts.
pub(super) fn documents_of(text: &str, kind: &str) -> Result<Vec<Value>, Failure> {
    let documents = yaml::parse_documents(text, Dialect::Sigs, &Limits::default())
        .map_err(|error| Failure::generic(error.to_string()))?;
    let is_meant = |document: &Value| match document.get("kind").and_then(Value::as_str) {
        None | Some("") => document.is_object(),
        Some(named) => named == kind,
    };
    Ok(documents.into_iter().filter(is_meant).collect())
}

/// A document as a set.
pub(super) fn read(document: &Value) -> Result<ApplicationSet, Failure> {
    serde_json::from_value(document.clone()).map_err(|error| Failure::generic(error.to_string()))
}

/// Where the document has no namespace, the given one is put in; whether it was (CLI-602).
pub(super) fn put_namespace(document: &mut Value, given: &str) -> bool {
    if given.is_empty() || !access::namespace(document).is_empty() {
        return false;
    }
    access::metadata_mut(document).insert("namespace".to_owned(), given.into());
    true
}

/// Confines a set to a project; one that belongs to another is left alone (CLI-607).
pub(super) fn put_project(document: &mut Value, project: &str) -> Result<(), Failure> {
    if project.is_empty() {
        return Ok(());
    }
    let own = document.pointer("/spec/project").and_then(Value::as_str).unwrap_or_default();
    if !own.is_empty() && own != project {
        return Err(Failure::generic(format!(
            "--project {project}: ApplicationSet {} belongs to project {own}",
            access::name(document)
        )));
    }
    let spec = access::ensure_object(document).entry("spec").or_insert_with(|| Value::Object(<_>::default()));
    access::ensure_object(spec).insert("project".to_owned(), project.into());
    Ok(())
}

/// The object as it is stored: with kind, without what only controllers write.
pub(super) fn whole(mut document: Value) -> Value {
    let members = access::ensure_object(&mut document);
    members.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
    members.insert("kind".to_owned(), KIND.into());
    members.remove("status");
    let metadata = access::metadata_mut(&mut document);
    for member in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"] {
        metadata.remove(member);
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cli_602_all_sets_of_a_file_are_meant() {
        let text = "kind: ApplicationSet\nmetadata: {name: a}\n---\nkind: Secret\n---\nmetadata: {name: b}\n";
        let names: Vec<String> =
            sets_of(text).unwrap().iter().map(|set| access::name(set).to_owned()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(sets_of("kind: Secret\n").unwrap().is_empty());
        assert!(sets_of("{").is_err());
        let mut set = json!({"metadata": {"name": "a"}});
        assert!(!put_namespace(&mut set, ""));
        assert!(put_namespace(&mut set, "team"));
        assert!(!put_namespace(&mut set, "other"));
        assert_eq!(access::namespace(&set), "team");
    }

    #[test]
    fn cli_607_a_set_stays_in_its_project() {
        let mut set = json!({"metadata": {"name": "a"}});
        put_project(&mut set, "red").unwrap();
        assert_eq!(set["spec"]["project"], "red");
        put_project(&mut set, "").unwrap();
        put_project(&mut set, "red").unwrap();
        let failure = put_project(&mut set, "blue").unwrap_err();
        assert_eq!(
            (failure.message.as_str(), failure.code),
            ("--project blue: ApplicationSet a belongs to project red", 20)
        );
    }
}
