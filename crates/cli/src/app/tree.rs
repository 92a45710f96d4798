//! The tree of an application's objects as `-o tree` prints it (CLI-447, CLI-448).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use tiphys_api::Application;
use tiphys_go::duration;
use tiphys_object::ResourceKey;

use crate::app::rows::{Row, rows};
use crate::core::Node;
use crate::table::Table;

/// What people are told of an age that nobody knows.
pub(super) const UNKNOWN_AGE: &str = "<unknown>";

/// How much a tree says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// `tree`
    Brief,
    /// `tree=detailed`
    Full,
}

impl Detail {
    /// Which tree an `-o` value asks for, if it asks for one.
    pub(super) fn of(output: &str) -> Option<Self> {
        match output {
            "tree" => Some(Self::Brief),
            "tree=detailed" => Some(Self::Full),
            _ => None,
        }
    }
}

/// How long there has been an object.
pub(super) fn age(created: Option<Timestamp>, now: Timestamp) -> String {
    created.map_or_else(
        || UNKNOWN_AGE.to_owned(),
        |created| duration::human(now.duration_since(created).as_secs()),
    )
}

/// The table; roots and siblings are sorted by kind, then name.
pub(super) fn table(app: &Application, nodes: &[Node], detail: Detail, now: Timestamp) -> String {
    let managed: BTreeMap<String, Row> = rows(app, &[]).into_iter().map(|row| (row.key(), row)).collect();
    let header: &[&str] = match detail {
        Detail::Brief => &["KIND/NAME", "STATUS", "HEALTH", "MESSAGE"],
        Detail::Full => &["KIND/NAME", "STATUS", "HEALTH", "AGE", "MESSAGE", "REASON"],
    };
    let mut table = Table::new(header);
    for (prefix, node) in lines(nodes) {
        let key = &node.key;
        let row = managed.get(&format!("{}/{}/{}/{}", key.group, key.kind, key.namespace, key.name));
        let health = match row {
            Some(row) if node.health.is_empty() => row.health.clone(),
            _ => node.health.clone(),
        };
        let mut cells = vec![
            format!("{prefix}{}/{}", key.kind, key.name),
            row.map_or_else(String::new, |row| row.status.clone()),
            health,
        ];
        let message = row.map_or_else(String::new, |row| row.message.clone());
        match detail {
            Detail::Brief => cells.push(message),
            Detail::Full => cells.extend([age(node.created, now), message, node.reason.clone()]),
        }
        table.row(cells);
    }
    table.print()
}

/// By kind, then name (CLI-447).
pub(super) fn order(a: &ResourceKey, b: &ResourceKey) -> std::cmp::Ordering {
    (&a.kind, &a.name, a).cmp(&(&b.kind, &b.name, b))
}

/// The nodes in the order of their lines, each with what stands before it. Those in a ring of owners are below no root
/// and come last.
pub(super) fn lines(nodes: &[Node]) -> Vec<(String, &Node)> {
    let known: BTreeSet<&str> =
        nodes.iter().map(|node| node.uid.as_str()).filter(|uid| !uid.is_empty()).collect();
    let mut below: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut roots = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        match node.parents.first().and_then(|(_, uid)| known.get(uid.as_str())) {
            Some(parent) => below.entry(parent).or_default().push(at),
            None => roots.push(at),
        }
    }
    let sort = |list: &mut Vec<usize>| {
        list.sort_by(|a, b| match (nodes.get(*a), nodes.get(*b)) {
            (Some(a), Some(b)) => order(&a.key, &b.key),
            _ => std::cmp::Ordering::Equal,
        });
    };
    sort(&mut roots);
    below.values_mut().for_each(sort);
    let mut lines = Vec::with_capacity(nodes.len());
    let mut shown = BTreeSet::new();
    // What waits, the last first: the node, what stands before it, and before what is below it.
    let mut waiting: Vec<(usize, String, String)> =
        roots.into_iter().rev().map(|at| (at, String::new(), String::new())).collect();
    while let Some((at, prefix, inner)) = waiting.pop() {
        let Some(node) = nodes.get(at).filter(|_| shown.insert(at)) else { continue };
        lines.push((prefix, node));
        let children = below.remove(node.uid.as_str()).unwrap_or_default();
        for (nth, child) in children.iter().enumerate().rev() {
            let (branch, bar) = if nth + 1 == children.len() { ("└─", "  ") } else { ("├─", "│ ") };
            waiting.push((*child, format!("{inner}{branch}"), format!("{inner}{bar}")));
        }
    }
    let rest = nodes.iter().enumerate().filter(|(at, _)| !shown.contains(at));
    lines.extend(rest.map(|(_, node)| (String::new(), node)));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(group: &str, kind: &str, name: &str, parent: &str) -> Node {
        let parents =
            if parent.is_empty() { Vec::new() } else { vec![(ResourceKey::default(), parent.to_owned())] };
        let (key, uid) = (ResourceKey::new(group, kind, "n", name), name.to_owned());
        Node { key, uid, parents, health: "Healthy".to_owned(), ..Node::default() }
    }

    fn app() -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"destination": {}}, "status": {"resources": [
            {"group": "apps", "kind": "Deployment", "namespace": "n", "name": "web", "status": "OutOfSync"},
            {"kind": "Service", "namespace": "n", "name": "web2", "status": "Synced", "health": {"status": "Missing"}}]}}))
        .unwrap()
    }

    #[test]
    fn cli_447_children_stand_below_their_owners() {
        let nodes = [
            Node { health: String::new(), ..node("", "Service", "web2", "") },
            node("", "Pod", "web-2-x", "web-2"),
            node("", "Pod", "web-1-x", "web-1"),
            node("apps", "ReplicaSet", "web-2", "web"),
            node("apps", "Deployment", "web", ""),
            node("apps", "ReplicaSet", "web-1", "web"),
        ];
        let now = "2026-08-01T10:00:00Z".parse().unwrap();
        assert_eq!(
            table(&app(), &nodes, Detail::Brief, now),
            "KIND/NAME           STATUS     HEALTH   MESSAGE\n\
             Deployment/web      OutOfSync  Healthy  \n\
             ├─ReplicaSet/web-1             Healthy  \n\
             │ └─Pod/web-1-x                Healthy  \n\
             └─ReplicaSet/web-2             Healthy  \n\
             \x20 └─Pod/web-2-x                Healthy  \n\
             Service/web2        Synced     Missing  \n"
        );
        let mut known = nodes[4].clone();
        known.created = "2026-08-01T09:57:30Z".parse().ok();
        known.reason = "because".to_owned();
        assert_eq!(
            table(&app(), &[known, nodes[0].clone()], Detail::Full, now),
            "KIND/NAME       STATUS     HEALTH   AGE        MESSAGE  REASON\n\
             Deployment/web  OutOfSync  Healthy  2m30s               because\n\
             Service/web2    Synced     Missing  <unknown>           \n"
        );
    }

    #[test]
    fn cli_447_a_ring_of_owners_ends_and_an_unknown_owner_makes_a_root() {
        let nodes = [node("", "B", "b", "a"), node("", "A", "a", "b"), node("", "C", "c", "gone")];
        let names: Vec<&str> = lines(&nodes).into_iter().map(|(_, node)| node.key.name.as_str()).collect();
        assert_eq!(names, ["c", "b", "a"]);
    }
}
