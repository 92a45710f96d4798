//! Rules about the roles of a project (REP C7).

use std::collections::BTreeSet;

use tiphys_api::AppProject;
use tiphys_api::project::ProjectRole;

use super::validate::Violation;

const RESOURCES: [&str; 6] = ["applications", "applicationsets", "repositories", "exec", "logs", "clusters"];
const ACTIONS: [&str; 8] = ["get", "create", "update", "delete", "sync", "override", "rollback", "*"];

/// First violation among the roles, in order (REP-160..162).
pub(super) fn validate(project: &AppProject) -> Result<(), Violation> {
    let mut names = BTreeSet::new();
    for role in &project.spec.roles {
        if !names.insert(role.name.as_str()) {
            return Err(Violation::exists(format!("role '{}' already exists", role.name)));
        }
        validate_name(&role.name)?;
        validate_policies(project.name(), role)?;
        validate_groups(role)?;
    }
    Ok(())
}

/// First line that would not be read as a policy (API-112).
pub(super) fn validate_syntax(project: &AppProject) -> Result<(), Violation> {
    crate::rbac::syntax(project).map_err(|error| Violation::invalid(format!("policy syntax error: {error}")))
}

/// A policy line with exactly one blank after each comma (API-111).
pub fn normalized_policy(policy: &str) -> String {
    let mut parts = policy.split(',');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| format!("{line}, {}", part.trim_matches(' ')))
}

/// The lines that a role means when it is asked about: it sees its project, then its policies, then who has it
/// (REP-163).
pub fn runtime_policy(project: &AppProject, role: &ProjectRole) -> Vec<String> {
    let (name, subject) = (project.name(), format!("proj:{}:{}", project.name(), role.name));
    let mut lines = vec![format!("p, {subject}, projects, get, {name}, allow")];
    lines.extend(role.policies.iter().cloned());
    lines.extend(role.groups.iter().map(|group| format!("g, {group}, {subject}")));
    lines
}

fn validate_name(name: &str) -> Result<(), Violation> {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if name.chars().all(inner) && edge(name.chars().next()) && edge(name.chars().next_back()) {
        return Ok(());
    }
    Err(Violation::invalid(format!(
        "invalid role name '{name}'. Must consist of alphanumeric characters, '-' or '_', and must start and end with an alphanumeric character"
    )))
}

fn validate_policies(project: &str, role: &ProjectRole) -> Result<(), Violation> {
    let mut seen = BTreeSet::new();
    for policy in &role.policies {
        let policy = normalized_policy(policy);
        if seen.contains(&policy) {
            return Err(Violation::exists(format!(
                "policy '{policy}' already exists for role '{}'",
                role.name
            )));
        }
        validate_policy(project, &role.name, &policy)
            .map_err(|reason| Violation::invalid(format!("invalid policy rule '{policy}': {reason}")))?;
        seen.insert(policy);
    }
    Ok(())
}

fn validate_policy(project: &str, role: &str, policy: &str) -> Result<(), String> {
    let parts: Vec<&str> = policy.split(',').map(|part| part.trim_matches(' ')).collect();
    let [kind, subject, resource, action, object, effect] = parts.as_slice() else {
        return Err("must be of the form: 'p, sub, res, act, obj, eft'".to_owned());
    };
    if *kind != "p" {
        return Err("must be of the form: 'p, sub, res, act, obj, eft'".to_owned());
    }
    let expected = format!("proj:{project}:{role}");
    if *subject != expected {
        return Err(format!("policy subject must be: '{expected}', not '{subject}'"));
    }
    if !RESOURCES.contains(resource) {
        return Err(format!(
            "project resource must be: 'applications', 'applicationsets', 'repositories', 'exec', 'logs' or 'clusters', not '{resource}'"
        ));
    }
    let fine_grained = ["action/", "update/", "delete/"].iter().any(|prefix| action.contains(prefix));
    if !ACTIONS.contains(action) && !fine_grained {
        return Err(format!("invalid action '{action}'"));
    }
    if !is_object(project, object) {
        return Err(format!(
            "object must be of form '{project}/*', '{project}[/<NAMESPACE>]/<APPNAME>' or '{project}/<APPNAME>', not '{object}'"
        ));
    }
    if !["allow", "deny"].contains(effect) {
        return Err("effect must be: 'allow' or 'deny'".to_owned());
    }
    Ok(())
}

/// The project, then one or two segments.
fn is_object(project: &str, object: &str) -> bool {
    let Some(rest) = object.strip_prefix(project).and_then(|rest| rest.strip_prefix('/')) else {
        return false;
    };
    let segments: Vec<&str> = rest.split('/').collect();
    let is_segment = |segment: &&str| {
        !segment.is_empty() && segment.chars().all(|c| c.is_ascii_alphanumeric() || "_*-.".contains(c))
    };
    segments.len() <= 2 && segments.iter().all(is_segment)
}

fn validate_groups(role: &ProjectRole) -> Result<(), Violation> {
    let mut seen = BTreeSet::new();
    for group in &role.groups {
        if !seen.insert(group.as_str()) {
            return Err(Violation::exists(format!(
                "group '{group}' already exists for role '{}'",
                role.name
            )));
        }
        validate_group(group)
            .map_err(|reason| Violation::invalid(format!("group '{}' {reason}", group.trim())))?;
    }
    Ok(())
}

fn validate_group(group: &str) -> Result<(), &'static str> {
    let trimmed = group.trim();
    let quoted = trimmed.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    if group.contains(',') && quoted.is_none() {
        return Err("must be quoted");
    }
    let inner = quoted.unwrap_or(trimmed);
    if inner.is_empty() {
        Err("is empty")
    } else if inner.contains(['"', '\n', '\r', '\t']) {
        Err("contains invalid characters")
    } else if group.starts_with(char::is_whitespace) {
        Err("contains a leading space")
    } else if group.ends_with(char::is_whitespace) {
        Err("contains a trailing space")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::validate::Code;
    use super::*;

    fn role(name: &str, policies: &[&str], groups: &[&str]) -> ProjectRole {
        ProjectRole {
            name: name.to_owned(),
            policies: policies.iter().map(|p| (*p).to_owned()).collect(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..ProjectRole::default()
        }
    }

    fn check(roles: Vec<ProjectRole>) -> Option<(Code, String)> {
        let mut project = AppProject::default();
        "p".clone_into(&mut project.metadata.name);
        project.spec.roles = roles;
        validate(&project).err().map(|violation| (violation.code, violation.message))
    }

    fn policy(line: &str) -> Option<String> {
        check(vec![role("r", &[line], &[])]).map(|(code, message)| {
            assert_eq!(code, Code::InvalidArgument);
            message
        })
    }

    fn group(name: &str) -> Option<String> {
        check(vec![role("r", &[], &[name])]).map(|(_, message)| message)
    }

    #[test]
    fn rep_160_role_names() {
        for name in ["a", "a-b_c", "A1", "0"] {
            assert_eq!(check(vec![role(name, &[], &[])]), None, "{name}");
        }
        for name in ["", "-a", "a-", "a b", "a.b", "ä"] {
            assert_eq!(check(vec![role(name, &[], &[])]).unwrap().0, Code::InvalidArgument, "{name}");
        }
        let twice = check(vec![role("a", &[], &[]), role("a", &[], &[])]);
        assert_eq!(twice, Some((Code::AlreadyExists, "role 'a' already exists".to_owned())));
    }

    #[test]
    fn rep_160_api_111_duplicates() {
        let line = "p, proj:p:r, applications, get, p/*, allow";
        let twice = check(vec![role("r", &[line, "p,proj:p:r,applications,get,p/*,allow"], &[])]);
        assert_eq!(
            twice,
            Some((Code::AlreadyExists, format!("policy '{line}' already exists for role 'r'")))
        );
        let groups = check(vec![role("r", &[], &["g", "g"])]);
        assert_eq!(groups, Some((Code::AlreadyExists, "group 'g' already exists for role 'r'".to_owned())));
    }

    #[test]
    fn rep_161_policies() {
        for line in [
            "p, proj:p:r, applications, get, p/*, allow",
            "p,proj:p:r,applicationsets,delete,p/ns/app,deny",
            "p, proj:p:r, applications, action/apps/Deployment/restart, p/a-b.c_*, allow",
            "p, proj:p:r, applications, update/*, p/*, allow",
            "p, proj:p:r, applications, myaction/x, p/*, allow",
            "p, proj:p:r, logs, *, p/*, allow",
        ] {
            assert_eq!(policy(line), None, "{line}");
        }
        for (line, reason) in [
            ("p, proj:p:r, applications, get, p/*", "must be of the form: 'p, sub, res, act, obj, eft'"),
            (
                "g, proj:p:r, applications, get, p/*, allow",
                "must be of the form: 'p, sub, res, act, obj, eft'",
            ),
            (
                "p, proj:q:r, applications, get, p/*, allow",
                "policy subject must be: 'proj:p:r', not 'proj:q:r'",
            ),
            (
                "p, proj:p:r, projects, get, p/*, allow",
                "project resource must be: 'applications', 'applicationsets', 'repositories', 'exec', 'logs' or 'clusters', not 'projects'",
            ),
            ("p, proj:p:r, applications, read, p/*, allow", "invalid action 'read'"),
            (
                "p, proj:p:r, applications, get, q/*, allow",
                "object must be of form 'p/*', 'p[/<NAMESPACE>]/<APPNAME>' or 'p/<APPNAME>', not 'q/*'",
            ),
            ("p, proj:p:r, applications, get, p/*, maybe", "effect must be: 'allow' or 'deny'"),
        ] {
            assert_eq!(policy(line), Some(format!("invalid policy rule '{line}': {reason}")));
        }
        for object in ["p", "p/", "p/a/b/c", "p/https://x", "pp/*", "p/a?"] {
            let line = format!("p, proj:p:r, applications, get, {object}, allow");
            assert!(policy(&line).unwrap().contains("object must be of form"), "{object}");
        }
    }

    #[test]
    fn rep_162_groups() {
        for name in ["g", "my group", "\"a,b\"", "\"a\""] {
            assert_eq!(group(name), None, "{name}");
        }
        for (name, reason) in [
            ("a,b", "must be quoted"),
            ("", "is empty"),
            ("\"\"", "is empty"),
            ("a\"b", "contains invalid characters"),
            ("a\tb", "contains invalid characters"),
            (" a", "contains a leading space"),
            ("a ", "contains a trailing space"),
        ] {
            assert_eq!(group(name), Some(format!("group '{}' {reason}", name.trim())));
        }
    }
}
