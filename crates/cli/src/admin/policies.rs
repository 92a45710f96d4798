//! `admin proj generate-allow-list` and `update-role-policy`: rules of projects made from rules of Kubernetes, and changed
//! in many projects at a time (CLI-922).

use std::path::Path;

use serde_json::{Value, json};
use tiphys_api::AppProject;
use tiphys_api::names::{GROUP, VERSION};
use tiphys_api::project::ResourceItem;
use tiphys_cluster::{Discovery, Kinds};
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_policy::pattern;

use crate::app::diff;
use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::outfile;
use crate::output::{Format, print};
use crate::proj::work::{self, Work};
use crate::session::{Ended, OK, Session};
use crate::terminal::{io_text, read_input};

const ALLOW_LIST: &[Flag] =
    &[flag("out", Kind::Text, "-", "File to write instead of standard output").or('o')];
const UPDATE: &[Flag] = &[
    flag("resource", Kind::Text, "", "Resource, as applications"),
    flag("scope", Kind::Text, "", "Objects of the project, as *"),
    flag("role", Kind::Text, "*", "Pattern of the names of roles"),
    flag("permission", Kind::Text, "", "allow or deny"),
    flag("dry-run", Kind::Bool, "true", "Print what would be done"),
];

/// `admin proj generate-allow-list`.
pub(super) const fn allow_list_command<V: Copy>(verb: V) -> Command<V> {
    Command::new(
        verb,
        ("generate-allow-list", "CLUSTERROLE_PATH PROJ_NAME"),
        "Print a project that permits the kinds which a ClusterRole lets people create",
        &[ALLOW_LIST],
        (2, 2),
    )
}

/// `admin proj update-role-policy`.
pub(super) const fn update_command<V: Copy>(verb: V) -> Command<V> {
    Command::new(
        verb,
        ("update-role-policy", "PROJECT_GLOB MODIFICATION ACTION"),
        "Set or remove the policy of an action in roles of many projects",
        &[UPDATE],
        (3, 3),
    )
}

/// Prints the project.
pub(super) async fn allow_list(session: &Session<'_>) -> Result<Ended, Failure> {
    let (path, name) = (session.operand(0), session.operand(1));
    let text = read_input(path).await?;
    let role = yaml::parse(&text, Dialect::Sigs, &Limits::default())
        .map_err(|error| Failure::generic(format!("{path}: {error}")))?
        .unwrap_or_default();
    let rules = rules(&role).map_err(|why| Failure::generic(format!("{path}: {why}")))?;
    let kinds = Discovery::new(session.connection().await?).kinds().await?;
    let allowed = allowed(&rules, &kinds).map_err(Failure::generic)?;
    for kind in &allowed.cluster_scoped {
        session.warn(&format!(
            "{kind} is not in the list: its objects are in no namespace; see `proj allow-cluster-resource`"
        ));
    }
    let project = json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "AppProject", "metadata": {"name": name},
        "spec": {"namespaceResourceWhitelist": allowed.namespaced}});
    let text = print(&project, Format::Yaml)?;
    match session.flags.text("out") {
        "-" => session.terminal.data(&text),
        path => outfile::replace_keeping_mode(Path::new(path), text.as_bytes())
            .map_err(|error| Failure::generic(format!("open {path}: {}", io_text(&error))))?,
    }
    Ok(OK)
}

/// A rule of a `ClusterRole`, as far as it lets somebody create objects.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    groups: Vec<String>,
    resources: Vec<String>,
}

/// The rules that permit creation.
fn rules(role: &Value) -> Result<Vec<Rule>, String> {
    if role.get("kind").and_then(Value::as_str) != Some("ClusterRole") {
        return Err("there is no ClusterRole in this file".to_owned());
    }
    let texts = |rule: &Value, member: &str| -> Result<Vec<String>, String> {
        let Some(value) = rule.get(member).filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
        serde_json::from_value(value.clone()).map_err(|error| format!("rules: {member}: {error}"))
    };
    let mut found = Vec::new();
    for rule in role.get("rules").and_then(Value::as_array).into_iter().flatten() {
        let may_create =
            texts(rule, "verbs")?.iter().any(|verb| verb == "*" || verb.eq_ignore_ascii_case("create"));
        let names = texts(rule, "resourceNames")?;
        // Creation cannot be restricted to names: such a rule permits none.
        if may_create && names.is_empty() {
            found.push(Rule { groups: texts(rule, "apiGroups")?, resources: texts(rule, "resources")? });
        }
    }
    Ok(found)
}

/// Kinds that rules let somebody create.
#[derive(Debug, Default)]
struct Allowed {
    namespaced: Vec<ResourceItem>,
    cluster_scoped: Vec<String>,
}

fn allowed(rules: &[Rule], kinds: &Kinds) -> Result<Allowed, String> {
    let names = |list: &[String], name: &str| list.iter().any(|one| one == "*" || one == name);
    if let Some(silent) =
        kinds.unavailable_groups().find(|group| rules.iter().any(|rule| names(&rule.groups, group)))
    {
        return Err(format!("the cluster does not say what API group {silent:?} serves; try again later"));
    }
    let mut allowed = Allowed::default();
    for rule in rules {
        for resource in kinds.resources() {
            let (group, kind) = (&resource.gvk.group, &resource.gvk.kind);
            if !names(&rule.groups, group) || !names(&rule.resources, &resource.plural) {
                continue;
            }
            let item = ResourceItem { group: group.to_string(), kind: kind.to_string() };
            let shown = format!("{group}/{kind}");
            if resource.is_namespaced() && !allowed.namespaced.contains(&item) {
                allowed.namespaced.push(item);
            } else if !resource.is_namespaced() && !allowed.cluster_scoped.contains(&shown) {
                allowed.cluster_scoped.push(shown);
            }
        }
    }
    Ok(allowed)
}

/// What becomes of the policies of an action.
enum Modification<'a> {
    Set { resource: &'a str, scope: &'a str, permission: &'a str },
    Remove,
}

impl<'a> Modification<'a> {
    fn read(word: &str, flags: &'a Parsed) -> Result<Self, Failure> {
        let needed = |name: &'static str| match flags.text(name) {
            "" => Err(Failure::generic(format!(
                "flag --{name} cannot be empty if permission should be set in role"
            ))),
            given => Ok(given),
        };
        match word {
            "remove" => Ok(Self::Remove),
            "set" => Ok(Self::Set {
                scope: needed("scope")?,
                permission: needed("permission")?,
                resource: needed("resource")?,
            }),
            other => {
                Err(Failure::generic(format!("modification {other} is not supported"))
                    .hint("say set or remove"))
            }
        }
    }

    /// Changes the roles of a project whose names match; says whether anything is another now.
    fn apply(&self, project: &mut AppProject, roles: &str, action: &str) -> bool {
        let name = project.metadata.name.clone();
        let mut is_changed = false;
        for role in &mut project.spec.roles {
            if !pattern::path_glob(roles, &role.name) {
                continue;
            }
            let before = role.policies.clone();
            match self {
                Self::Remove => role.policies.retain(|policy| !is_about(policy, action)),
                Self::Set { resource, scope, permission } => {
                    let line = format!(
                        "p, proj:{name}:{}, {resource}, {action}, {name}/{scope}, {permission}",
                        role.name
                    );
                    match role.policies.iter_mut().find(|policy| is_about(policy, action)) {
                        Some(policy) => *policy = line,
                        None => role.policies.push(line),
                    }
                }
            }
            is_changed |= role.policies != before;
        }
        is_changed
    }
}

/// Whether a policy is a line about this action.
fn is_about(policy: &str, action: &str) -> bool {
    let parts: Vec<&str> = policy.split(',').map(str::trim).collect();
    parts.len() == 6 && parts.get(3) == Some(&action)
}

/// Changes the projects, or shows what would be changed.
pub(super) async fn update(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let [projects, word, action] = [0, 1, 2].map(|at| session.operand(at));
    let modification = Modification::read(word, flags)?;
    let roles = flags.text("role");
    let work = Work::at(session, session.connect_to_cluster().await?).await?;
    let tree = |project: &AppProject| {
        serde_json::to_value(project).map_err(|error| Failure::generic(error.to_string()))
    };
    for object in work.core().projects().await? {
        if !pattern::path_glob(projects, object.name()) {
            continue;
        }
        let stored = work::read(&object)?;
        let mut changed = stored.clone();
        if !modification.apply(&mut changed, roles, action) {
            continue;
        }
        let name = stored.name();
        // What could not be stored is not shown as if it could.
        tiphys_service::project::prepared(&changed).map_err(tiphys_service::Error::from)?;
        session.terminal.line(&format!("===== {name} ======"));
        let text = diff::text(session.terminal, name, (&tree(&stored)?, &tree(&changed)?)).await?;
        session.terminal.print(&text);
        if !flags.is_on("dry-run") {
            work.edit_project(name, |project| Ok(modification.apply(project, roles, action))).await?;
        }
    }
    Ok(OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> AppProject {
        serde_json::from_value(json!({"metadata": {"name": "shop"}, "spec": {"roles": [
            {"name": "deployer", "policies": ["p, proj:shop:deployer, applications, sync, shop/*, allow",
                "p,proj:shop:deployer,applications,override,shop/a,allow",
                "p, proj:shop:deployer, applications, override, shop/b, allow"]},
            {"name": "reader", "policies": []}]}}))
        .unwrap()
    }

    #[test]
    fn cli_922_policies_of_an_action_are_set_and_removed() {
        let set = Modification::Set { resource: "applications", scope: "*", permission: "deny" };
        let mut changed = project();
        assert!(set.apply(&mut changed, "*", "override"));
        let policies = |project: &AppProject, role: usize| project.spec.roles[role].policies.clone();
        assert_eq!(policies(&changed, 0)[1], "p, proj:shop:deployer, applications, override, shop/*, deny");
        assert_eq!(policies(&changed, 1), ["p, proj:shop:reader, applications, override, shop/*, deny"]);
        assert!(!set.apply(&mut changed, "*", "override"), "nothing is another");
        let mut changed = project();
        assert!(Modification::Remove.apply(&mut changed, "*deploy*", "override"));
        assert_eq!(policies(&changed, 0), ["p, proj:shop:deployer, applications, sync, shop/*, allow"]);
        assert!(!Modification::Remove.apply(&mut changed, "reader", "sync"));
    }

    #[test]
    fn cli_922_rules_that_permit_no_creation_do_not_count() {
        let role = json!({"kind": "ClusterRole", "rules": [
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "Create"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"], "verbs": ["*"]},
            {"nonResourceURLs": ["/metrics"], "verbs": ["*"]}]});
        let found = rules(&role).unwrap();
        assert_eq!(found[0], Rule { groups: vec!["apps".into()], resources: vec!["deployments".into()] });
        assert_eq!(found.len(), 2);
        assert!(found[1].resources.is_empty());
        assert!(rules(&json!({"kind": "Role"})).is_err());
    }
}
