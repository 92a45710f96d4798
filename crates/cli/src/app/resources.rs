//! `app resources`: what an application has, and what nobody has beside it (CLI-540, REP-195).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use tiphys_api::Application;
use tiphys_api::codes::HealthCode;
use tiphys_engine::health::{Health, HealthError, HealthOverrides, assess_with};
use tiphys_engine::scripts::Runner;
use tiphys_engine::seen::Seen;
use tiphys_engine::tree::node_info;
use tiphys_object::{Object, ResourceKey};

use crate::app::summary::parse_time;
use crate::app::tree::{UNKNOWN_AGE, age, order};
use crate::app::{Ended, NAMESPACE, OK, Session, tree};
use crate::core::{Destination, Node, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::unknown_format;
use crate::scripts;
use crate::table::Table;

/// Flags of `resources`.
pub(super) const FLAGS: &[Flag] = &[
    flag("orphaned", Kind::Bool, "false", "Only orphaned resources, or with =false only managed ones"),
    flag("output", Kind::Text, "", "Output format: empty, tree or tree=detailed").or('o'),
    flag("project", Kind::Text, "", "Project of the application"),
    NAMESPACE,
];

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    key: ResourceKey,
    /// Version of the kind.
    version: String,
    is_orphaned: bool,
}

/// What a line says besides with `tree=detailed`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    age: String,
    health: String,
    reason: String,
}

/// `app resources`.
pub(super) async fn resources(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let output = flags.text("output");
    if !matches!(output, "" | "wide" | "tree" | "tree=detailed") {
        return Err(unknown_format(output));
    }
    let (with_managed, with_orphans) = match (flags.is_set("orphaned"), flags.is_on("orphaned")) {
        (false, _) => (true, true),
        (true, only_orphans) => (!only_orphans, only_orphans),
    };
    let core = session.connect().await?;
    let app = core.application(&session.only_name(&core)).await?.app;
    let project = flags.text("project");
    if !project.is_empty() && project != app.project() {
        return Err(Failure::status("PermissionDenied", "permission denied"));
    }
    let is_tree = output.starts_with("tree");
    let is_detailed = output == "tree=detailed";
    let world = if with_orphans || is_detailed { Some(World::load(&core).await?) } else { None };
    let mut lines = if with_managed { managed(&app, is_tree) } else { Vec::new() };
    if let Some(world) = world.as_ref().filter(|_| with_orphans) {
        let found = core.orphans(&app, world).await?;
        for what in &found.unknown {
            session.warn(&format!("nobody knows whether there are orphans of {what}"));
        }
        lines.extend(orphaned(&found.nodes, is_tree));
    }
    let now = session.terminal.now();
    let details = match world.as_ref().filter(|_| is_detailed) {
        None => None,
        Some(world) if core.server().is_some() => {
            let tree = core.tree(&app, world).await?;
            let nodes = tree.nodes.iter().chain(&tree.orphans);
            let known: BTreeMap<&ResourceKey, &Node> = nodes.map(|node| (&node.key, node)).collect();
            Some(lines.iter().map(|line| told(known.get(&line.key).copied(), now)).collect::<Vec<_>>())
        }
        Some(world) => {
            let destination = Destination::of(&app, &core, world).await?;
            let objects = lines.iter().map(|line| (line.key.clone(), line.version.clone()));
            let seen = destination.look_at_all(objects).await;
            let overrides = HealthOverrides::from_settings(world.settings.cm());
            let scripts = scripts::runner(&app.metadata.name, &world.settings);
            Some(
                seen.into_iter()
                    .map(|seen| details(&seen, overrides.as_ref(), &scripts, now))
                    .collect::<Vec<_>>(),
            )
        }
    };
    session.terminal.print(&table(&lines, details.as_deref()));
    Ok(OK)
}

/// What the application has, without hooks; trees are sorted by kind, then name (CLI-447).
fn managed(app: &Application, is_tree: bool) -> Vec<Line> {
    let resources = app.status.resources.iter().filter(|resource| !resource.hook);
    let mut lines: Vec<Line> = resources
        .map(|r| Line {
            key: ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name),
            version: r.version.clone(),
            is_orphaned: false,
        })
        .collect();
    if is_tree {
        lines.sort_by(|a, b| order(&a.key, &b.key));
    }
    lines
}

/// Orphans; in trees what is below one comes right after it.
fn orphaned(nodes: &[Node], is_tree: bool) -> Vec<Line> {
    let line = |node: &Node| Line { key: node.key.clone(), version: node.version.clone(), is_orphaned: true };
    if is_tree {
        tree::lines(nodes).into_iter().map(|(_, node)| line(node)).collect()
    } else {
        nodes.iter().map(line).collect()
    }
}

/// Age, health and reason as a server tells of them.
fn told(node: Option<&Node>, now: Timestamp) -> Details {
    let missing = || HealthCode::Missing.as_str().to_owned();
    Details {
        age: age(node.and_then(|node| node.created), now),
        health: node.map_or_else(missing, |node| node.health.clone()),
        reason: node.map_or_else(String::new, |node| node.reason.clone()),
    }
}

/// Age, health and reason of an object. What cannot be seen is unknown, and why is said.
fn details(
    seen: &Seen<Arc<Object>>,
    overrides: Result<&HealthOverrides, &HealthError>,
    scripts: &Runner,
    now: Timestamp,
) -> Details {
    let unknown = |health: HealthCode, reason: &str| Details {
        age: UNKNOWN_AGE.to_owned(),
        health: health.as_str().to_owned(),
        reason: reason.to_owned(),
    };
    let object = match seen {
        Seen::Present(object) => object,
        Seen::Absent => return unknown(HealthCode::Missing, ""),
        Seen::Unknown(why) => return unknown(HealthCode::Unknown, why),
    };
    let value = match object.to_value() {
        Ok(value) => value,
        Err(error) => return unknown(HealthCode::Unknown, &error.to_string()),
    };
    let made = parse_time(&object.metadata().creation_timestamp);
    let health = match overrides {
        Ok(overrides) => assess_with(&value, overrides, scripts),
        Err(error) => Some(Health::new(HealthCode::Unknown, error.to_string())),
    };
    let status_reason = node_info(&value, &[]).info.into_iter().find(|item| item.name == "Status Reason");
    let reason = match (status_reason, &health) {
        (Some(item), _) => item.value,
        (None, Some(health)) => health.message.clone(),
        (None, None) => String::new(),
    };
    Details {
        age: age(made, now),
        health: health.map_or_else(String::new, |health| health.status.as_str().to_owned()),
        reason,
    }
}

/// The table; each line has details, or none has.
fn table(lines: &[Line], details: Option<&[Details]>) -> String {
    let mut header = vec!["GROUP", "KIND", "NAMESPACE", "NAME", "ORPHANED"];
    if details.is_some() {
        header.extend(["AGE", "HEALTH", "REASON"]);
    }
    let mut table = Table::new(&header);
    for (nth, Line { key, is_orphaned, .. }) in lines.iter().enumerate() {
        let mut cells = [&key.group, &key.kind, &key.namespace, &key.name].map(ToString::to_string).to_vec();
        cells.push(if *is_orphaned { "Yes" } else { "No" }.to_owned());
        if let Some(Details { age, health, reason }) = details.and_then(|all| all.get(nth)) {
            cells.extend([age, health, reason].map(String::clone));
        }
        table.row(cells);
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(kind: &str, name: &str, parent: Option<&str>) -> Node {
        let key = |kind: &str, name: &str| ResourceKey::new("", kind, "n", name);
        let parents = parent.map(|name| (key("Set", name), name.to_owned()));
        Node {
            key: key(kind, name),
            uid: name.to_owned(),
            parents: parents.into_iter().collect(),
            ..Node::default()
        }
    }

    #[test]
    fn cli_540_in_a_tree_of_orphans_each_comes_after_its_owner() {
        let nodes = [
            node("Set", "b", None),
            node("Set", "a", None),
            node("Map", "c", None),
            node("Pod", "b-2", Some("b")),
            node("Pod", "b-1", Some("b")),
            node("Set", "ring", Some("ring")),
            node("Pod", "of-somebody", Some("not-here")),
        ];
        let names = |is_tree| {
            let lines = orphaned(&nodes, is_tree);
            lines.iter().map(|line| line.key.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(false), "b a c b-2 b-1 ring of-somebody");
        assert_eq!(names(true), "c of-somebody a b b-1 b-2 ring");
    }

    #[test]
    fn cli_540_details_of_what_is_seen_and_of_what_is_not() {
        let now = "2026-08-01T10:00:00Z".parse().unwrap();
        let of = |seen: Seen<Arc<Object>>| {
            let Details { age, health, reason } =
                details(&seen, Ok(&HealthOverrides::default()), &Runner::default(), now);
            [age, health, reason]
        };
        let present = |value: serde_json::Value| Seen::Present(Arc::new(Object::from_value(&value).unwrap()));
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n",
                "creationTimestamp": "2026-08-01T09:57:30Z"},
            "status": {"phase": "Pending", "containerStatuses": [
                {"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}});
        assert_eq!(of(present(pod)), ["2m30s", "Progressing", "ImagePullBackOff"]);
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
            "status": {"phase": "Pending"}});
        assert_eq!(of(present(claim)), ["<unknown>", "Progressing", ""]);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        assert_eq!(of(present(map)), ["<unknown>", "", ""]);
        assert_eq!(of(Seen::Absent), ["<unknown>", "Missing", ""]);
        assert_eq!(of(Seen::Unknown("forbidden".to_owned())), ["<unknown>", "Unknown", "forbidden"]);
        let known = Node { health: "Healthy".to_owned(), ..node("Set", "a", None) };
        assert_eq!(
            (told(Some(&known), now).health, told(None, now).health),
            ("Healthy".into(), "Missing".into())
        );
    }
}
