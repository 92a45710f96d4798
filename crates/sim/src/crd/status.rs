//! The status of a definition: whether its names are free.

use serde_json::{Value, json};

use super::without;
use crate::resource::Registry;
use crate::tree::{self, items, text};

/// The status that the definition gets.
pub(super) fn status(definition: &Value, registry: &Registry, now: &str) -> Value {
    let names = tree::at(definition, &["spec", "names"]).cloned().unwrap_or(Value::Null);
    let before = tree::at(definition, &["status", "acceptedNames"]).cloned().unwrap_or(Value::Null);
    let taken = Taken::by_others(definition, registry);
    let mut accepted = without(&before, &["categories"]);
    let mut conflict: Option<(&str, String)> = None;
    for (name, reason, used) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        let wanted: Vec<&str> = match names.get(name) {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one],
            _ => Vec::new(),
        };
        let had = items(&before, &[name]);
        let is_known = |one: &str| text(&before, &[name]) == one || had.iter().any(|had| had == one);
        let problems: Vec<String> = wanted
            .iter()
            .filter(|one| !is_known(one) && used.iter().any(|used| used == *one))
            .map(|one| format!("{one:?} is already in use"))
            .collect();
        match (problems.as_slice(), names.get(name)) {
            ([], Some(value)) => {
                accepted.insert(name.to_owned(), value.clone());
            }
            ([], None) => {
                accepted.remove(name);
            }
            ([one], _) => conflict = Some((reason, one.clone())),
            (many, _) => conflict = Some((reason, format!("[{}]", many.join(", ")))),
        }
    }
    if let Some(categories) = names.get("categories") {
        accepted.insert("categories".to_owned(), categories.clone());
    }
    let (names_accepted, established) = match &conflict {
        None => {
            (("True", "NoConflicts", "no conflicts found"), ("True", "InitialNamesAccepted", "the initial names have been accepted"))
        }
        Some((reason, message)) => {
            (("False", *reason, message.as_str()), ("False", "NotAccepted", "not all names are accepted"))
        }
    };
    let conditions = [
        condition(definition, "NamesAccepted", names_accepted, now),
        established_before(definition).unwrap_or_else(|| condition(definition, "Established", established, now)),
    ];
    let mut status = without(tree::at(definition, &["status"]).unwrap_or(&Value::Null), &[]);
    status.insert("acceptedNames".to_owned(), Value::Object(accepted));
    let others = items(definition, &["status", "conditions"]).iter();
    let others = others.filter(|one| !matches!(text(one, &["type"]), "NamesAccepted" | "Established"));
    let conditions: Vec<Value> = conditions.into_iter().chain(others.cloned()).collect();
    status.insert("conditions".to_owned(), json!(conditions));
    Value::Object(status)
}

/// Once established, a definition stays so.
fn established_before(definition: &Value) -> Option<Value> {
    let known = items(definition, &["status", "conditions"]).iter();
    let mut known = known.filter(|one| text(one, &["type"]) == "Established" && text(one, &["status"]) == "True");
    known.next().cloned()
}

/// A condition; its time is that of its last change.
fn condition(definition: &Value, kind: &str, (status, reason, message): (&str, &str, &str), now: &str) -> Value {
    let before = items(definition, &["status", "conditions"]).iter().find(|one| text(one, &["type"]) == kind);
    let since = before.filter(|one| text(one, &["status"]) == status);
    let time = since.map_or(now, |one| text(one, &["lastTransitionTime"]));
    json!({"type": kind, "status": status, "lastTransitionTime": time, "reason": reason, "message": message})
}

/// Names in use.
struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Taken {
    /// Names of other definitions in the same group.
    fn by_others(definition: &Value, registry: &Registry) -> Self {
        let mut taken = Self { resources: Vec::new(), kinds: Vec::new() };
        let name = text(definition, &["metadata", "name"]);
        let group = text(definition, &["spec", "group"]);
        for resource in registry.iter().filter(|one| one.group == group) {
            if resource.custom.as_ref().is_some_and(|custom| custom.definition == name) {
                continue;
            }
            taken.resources.extend([resource.plural.to_string(), resource.singular.to_string()]);
            taken.resources.extend(resource.short_names.iter().map(ToString::to_string));
            taken.kinds.extend([resource.kind.to_string(), resource.list_kind.to_string()]);
        }
        taken
    }
}
