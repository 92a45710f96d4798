//! Rules for definitions.

use serde_json::{Value, json};

use super::{names, schema};
use crate::resource::Scope;
use crate::status::FieldError;
use crate::tree::{self, flag, items, text};
use crate::validate::{dns_1035_label, dns_subdomain, immutable, metadata_create_with, metadata_update};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 9] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "name", "password"];
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Errors of a definition.
pub(super) fn validate(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let wanted = format!("{}.{}", text(spec, &["names", "plural"]), text(spec, &["group"]));
    let mut errors = match old {
        None => metadata_create_with(Scope::Cluster, definition, |name| {
            let mut problems = dns_subdomain(name);
            if name != wanted {
                problems.push("must be spec.names.plural+\".\"+spec.group".to_owned());
            }
            problems
        }),
        Some(old) => metadata_update(old, definition),
    };
    errors.extend(of_spec(spec));
    if let Some(old) = old {
        errors.extend(unchanged(spec, old));
    }
    errors.extend(stored(definition));
    errors.extend(approval(definition, old));
    if flag(spec, &["preserveUnknownFields"]) {
        let problem = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                       spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), problem));
    }
    errors
}

fn of_spec(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let group = text(spec, &["group"]);
    let problems = dns_subdomain(group).join(",");
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid("spec.group", &json!(group), &problems));
    } else if !group.contains('.') {
        let problem = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", &json!(group), problem));
    }
    match text(spec, &["scope"]) {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            errors.push(FieldError::not_supported("spec.scope", &json!(other), &["Cluster", "Namespaced"]));
        }
    }
    let versions = items(spec, &["versions"]);
    for (at, version) in versions.iter().enumerate() {
        if tree::at(version, &["schema", "openAPIV3Schema"]).is_none_or(Value::is_null) {
            let field = format!("spec.versions[{at}].schema.openAPIV3Schema");
            errors.push(FieldError::required(field, ""));
        }
    }
    let same =
        |name: &str| versions.windows(2).all(|pair| matches!(pair, [a, b] if a.get(name) == b.get(name)));
    for (at, version) in versions.iter().enumerate() {
        errors.extend(of_version(version, &format!("spec.versions[{at}]"), &same));
    }
    let shown: Vec<String> = versions.iter().map(|version| internal(version, &same)).collect();
    let invalid = |problem: &str| FieldError {
        reason: "FieldValueInvalid",
        field: "spec.versions".to_owned(),
        message: match shown.as_slice() {
            [] if spec.get("versions").is_none_or(Value::is_null) => {
                format!("Invalid value: null: {problem}")
            }
            _ => format!("Invalid value: [{}]: {problem}", shown.join(",")),
        },
    };
    let name = |version: &Value| text(version, &["name"]).to_owned();
    let is_twice =
        |(at, one): (usize, &Value)| versions.iter().take(at).any(|other| name(other) == name(one));
    if versions.iter().enumerate().any(is_twice) {
        errors.push(invalid("must contain unique version names"));
    }
    if versions.iter().filter(|version| flag(version, &["storage"])).count() != 1 {
        errors.push(invalid("must have exactly one version marked as storage version"));
    }
    if let Some(first) = versions.first() {
        errors.extend(of_name(first, "spec.version"));
    }
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(spec, &["names", name]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
    errors.extend(names::validate(spec.get("names").unwrap_or(&Value::Null), "spec.names"));
    // What all versions share is looked at once, as if it stood above them.
    if let Some(first) = versions.first() {
        errors.extend(shared(first, &same));
    }
    errors.extend(conversion(spec));
    errors
}

fn shared(version: &Value, same: &dyn Fn(&str) -> bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if same("schema") {
        errors.extend(of_schema(version, "spec.validation"));
    }
    if same("subresources") {
        errors.extend(of_subresources(version, "spec.subresources"));
    }
    if same("additionalPrinterColumns") {
        errors.extend(of_columns(version, "spec.additionalPrinterColumns"));
    }
    errors
}

/// A version as the server prints it: without what all versions share.
fn internal(version: &Value, same: &dyn Fn(&str) -> bool) -> String {
    let own = |name: &str| version.get(name).filter(|_| !same(name)).cloned().unwrap_or_default();
    format!(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":{},\
         \"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":null}}",
        json!(text(version, &["name"])),
        flag(version, &["served"]),
        flag(version, &["storage"]),
        flag(version, &["deprecated"]),
        version.get("deprecationWarning").cloned().unwrap_or_default(),
        own("schema"),
        own("subresources"),
        own("additionalPrinterColumns"),
    )
}

fn of_name(version: &Value, field: &str) -> Option<FieldError> {
    let name = text(version, &["name"]);
    let problems = dns_1035_label(name).join(",");
    (!problems.is_empty()).then(|| FieldError::invalid(field, &json!(name), &problems))
}

fn of_schema(version: &Value, field: &str) -> Vec<FieldError> {
    let found = tree::at(version, &["schema", "openAPIV3Schema"]).filter(|schema| !schema.is_null());
    found.map_or_else(Vec::new, |found| schema::validate(found, &format!("{field}.openAPIV3Schema")))
}

fn of_subresources(version: &Value, field: &str) -> Vec<FieldError> {
    let scale = tree::at(version, &["subresources", "scale"]).filter(|scale| !scale.is_null());
    scale.map_or_else(Vec::new, |scale| of_scale(scale, &format!("{field}.scale")))
}

fn of_columns(version: &Value, field: &str) -> Vec<FieldError> {
    let columns = items(version, &["additionalPrinterColumns"]).iter().enumerate();
    columns.flat_map(|(at, column)| of_column(column, &format!("{field}[{at}]"))).collect()
}

fn of_version(version: &Value, field: &str, same: &dyn Fn(&str) -> bool) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = of_name(version, &format!("{field}.name")).into_iter().collect();
    if !flag(version, &["deprecated"]) && version.get("deprecationWarning").is_some_and(Value::is_string) {
        let problem = "can only be set for deprecated versions";
        let warning = version.get("deprecationWarning").cloned().unwrap_or_default();
        errors.push(FieldError::invalid(format!("{field}.deprecationWarning"), &warning, problem));
    }
    if !same("schema") {
        errors.extend(of_schema(version, &format!("{field}.schema")));
    }
    if !same("subresources") {
        errors.extend(of_subresources(version, &format!("{field}.subresources")));
    }
    if !same("additionalPrinterColumns") {
        errors.extend(of_columns(version, &format!("{field}.additionalPrinterColumns")));
    }
    errors
}

fn of_scale(scale: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, under) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let path = text(scale, &[name]);
        let field = format!("{field}.{name}");
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if !path.starts_with('.') {
            let problem = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(field, &json!(path), problem));
        } else if !path.starts_with(under) {
            let problem = format!("should be a json path under {}", under.trim_end_matches('.'));
            errors.push(FieldError::invalid(field, &json!(path), &problem));
        }
    }
    let selector = text(scale, &["labelSelectorPath"]);
    if !selector.is_empty() && !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let problem = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(format!("{field}.labelSelectorPath"), &json!(selector), problem));
    }
    errors
}

fn of_column(column: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(column, &["name"]).is_empty() {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    }
    let types = format!("must be one of {}", COLUMN_TYPES.join(","));
    match text(column, &["type"]) {
        "" => errors.push(FieldError::required(format!("{field}.type"), &types)),
        known if COLUMN_TYPES.contains(&known) => {}
        other => errors.push(FieldError::invalid(format!("{field}.type"), &json!(other), &types)),
    }
    let format = text(column, &["format"]);
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        let problem = format!("must be one of {}", COLUMN_FORMATS.join(","));
        errors.push(FieldError::invalid(format!("{field}.format"), &json!(format), &problem));
    }
    if text(column, &["jsonPath"]).is_empty() {
        errors.push(FieldError::required(format!("{field}.JSONPath"), ""));
    }
    errors
}

fn conversion(spec: &Value) -> Vec<FieldError> {
    let is_set = |name: &str| tree::at(spec, &["conversion", name]).is_some_and(|one| !one.is_null());
    match text(spec, &["conversion", "strategy"]) {
        "" => vec![FieldError::required("spec.conversion.strategy", "")],
        "None" if is_set("webhook") => vec![FieldError::forbidden(
            "spec.conversion.webhookClientConfig",
            "should not be set when strategy is not set to Webhook",
        )],
        "None" => Vec::new(),
        "Webhook" if !is_set("webhook") => vec![
            FieldError::required(
                "spec.conversion.webhookClientConfig",
                "required when strategy is set to Webhook",
            ),
            FieldError::required("spec.conversion.conversionReviewVersions", ""),
        ],
        "Webhook" => Vec::new(),
        other => {
            vec![FieldError::not_supported("spec.conversion.strategy", &json!(other), &["None", "Webhook"])]
        }
    }
}

/// What may not change; the kind and the scope only once the definition is established.
fn unchanged(spec: &Value, old: &Value) -> Vec<FieldError> {
    let is_established = items(old, &["status", "conditions"])
        .iter()
        .any(|one| text(one, &["type"]) == "Established" && text(one, &["status"]) == "True");
    let before = old.get("spec").unwrap_or(&Value::Null);
    let mut kept: Vec<&[&str]> = Vec::new();
    if is_established {
        kept.extend([["scope"].as_slice(), &["names", "kind"]]);
    }
    kept.extend([["group"].as_slice(), &["names", "plural"]]);
    let changed = kept.into_iter().filter(|path| text(spec, path) != text(before, path));
    changed.map(|path| immutable(&format!("spec.{}", path.join(".")), &json!(text(spec, path)))).collect()
}

/// A version that objects may be stored at must stay.
fn stored(definition: &Value) -> Vec<FieldError> {
    let stored = items(definition, &["status", "storedVersions"]);
    if stored.is_empty() {
        let problem = "must have at least one stored version";
        return vec![FieldError::invalid("status.storedVersions", &Value::Null, problem)];
    }
    let mut errors = Vec::new();
    let mut left: Vec<&Value> = stored.iter().collect();
    for version in items(definition, &["spec", "versions"]) {
        let name = text(version, &["name"]);
        let at = left.iter().position(|one| *one == name);
        if at.is_none() && flag(version, &["storage"]) {
            let problem = format!("must have the storage version {name}");
            errors.push(FieldError::invalid("status.storedVersions", &json!(stored), &problem));
        }
        if let Some(at) = at {
            left.remove(at);
        }
    }
    for (at, name) in stored.iter().enumerate().filter(|(_, name)| left.contains(name)) {
        let shown = name.as_str().unwrap_or("");
        let problem = format!(
            "missing from spec.versions; {shown} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {shown} and removes {shown} from \
             status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("status.storedVersions[{at}]"), name, &problem));
    }
    errors
}

/// Groups of the community need an approval.
fn approval(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let group = text(definition, &["spec", "group"]);
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let path = ["metadata", "annotations", APPROVAL];
    if !is_protected || old.is_some_and(|old| text(old, &path) == text(definition, &path)) {
        return Vec::new();
    }
    let field = format!("metadata.annotations[{APPROVAL}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match text(definition, &path) {
        "" => vec![FieldError::required(
            field,
            &format!("protected groups must have approval annotation \"{APPROVAL}\", {see}"),
        )],
        said if said.starts_with("unapproved") || said.starts_with("http") => Vec::new(),
        said => vec![FieldError::invalid(
            field,
            &json!(said),
            &format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting \
                 with \"unapproved\", {see}"
            ),
        )],
    }
}
