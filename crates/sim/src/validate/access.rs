//! Roles and their bindings.

use serde_json::{Value, json};

use super::names;
use crate::status::FieldError;
use crate::tree::{items, text};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Errors of a role.
pub(super) fn role(object: &Value, is_namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, rule) in items(object, &["rules"]).iter().enumerate() {
        let field = format!("rules[{at}]");
        let lacks = |name: &str| items(rule, &[name]).is_empty();
        if lacks("verbs") {
            errors.push(FieldError::required(
                format!("{field}.verbs"),
                "verbs must contain at least one value",
            ));
        }
        if !lacks("nonResourceURLs") {
            let urls = format!("{field}.nonResourceURLs");
            let said = json!(items(rule, &["nonResourceURLs"]));
            if is_namespaced {
                let problem = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(urls, &said, problem));
            } else if !(lacks("apiGroups") && lacks("resources") && lacks("resourceNames")) {
                let problem = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(urls, &said, problem));
            }
            continue;
        }
        for (name, what) in [("apiGroups", "api group"), ("resources", "resource")] {
            if lacks(name) {
                let problem = format!("resource rules must supply at least one {what}");
                errors.push(FieldError::required(format!("{field}.{name}"), &problem));
            }
        }
    }
    errors
}

/// Errors of a binding.
pub(super) fn binding(object: &Value, is_namespaced: bool, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let group = text(object, &["roleRef", "apiGroup"]);
    if group != GROUP {
        errors.push(FieldError::not_supported("roleRef.apiGroup", &json!(group), &[GROUP]));
    }
    let kind = text(object, &["roleRef", "kind"]);
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", &json!(kind), kinds));
    }
    let name = text(object, &["roleRef", "name"]);
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    } else {
        let problems = names::path_segment(name);
        errors.extend(problems.iter().map(|one| FieldError::invalid("roleRef.name", &json!(name), one)));
    }
    for (at, found) in items(object, &["subjects"]).iter().enumerate() {
        errors.extend(subject(found, is_namespaced, &format!("subjects[{at}]")));
    }
    if let Some(old) = old.filter(|old| old.get("roleRef") != object.get("roleRef")) {
        let _ = old;
        let reference =
            format!("{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}", json!(group), json!(kind), json!(name));
        errors.push(FieldError {
            reason: "FieldValueInvalid",
            field: "roleRef".to_owned(),
            message: format!("Invalid value: {reference}: cannot change roleRef"),
        });
    }
    errors
}

fn subject(subject: &Value, is_namespaced: bool, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (kind, name) = (text(subject, &["kind"]), text(subject, &["name"]));
    let group = text(subject, &["apiGroup"]);
    if name.is_empty() {
        errors.push(FieldError::required(format!("{field}.name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            let problems = if name.is_empty() { Vec::new() } else { names::dns_subdomain(name) };
            errors.extend(
                problems.iter().map(|one| FieldError::invalid(format!("{field}.name"), &json!(name), one)),
            );
            if !group.is_empty() {
                errors.push(FieldError::not_supported(format!("{field}.apiGroup"), &json!(group), &[""]));
            }
            if !is_namespaced && text(subject, &["namespace"]).is_empty() {
                errors.push(FieldError::required(format!("{field}.namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => {
            errors.push(FieldError::not_supported(format!("{field}.apiGroup"), &json!(group), &[GROUP]));
        }
        "User" | "Group" => {}
        other => errors.push(FieldError::not_supported(
            format!("{field}.kind"),
            &json!(other),
            &["ServiceAccount", "User", "Group"],
        )),
    }
    errors
}
