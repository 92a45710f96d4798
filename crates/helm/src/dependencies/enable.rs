//! Aliases, tags and conditions (RND-170, RND-171).

use tiphys_go::semver;
use tiphys_go::template::{Map, Value};

use super::part::{Part, PartsError};
use crate::chart::Dependency;
use crate::values::{Nulls, Work, table, value_at};

/// Gives aliases and leaves out what is disabled, in a chart and in those below it. Charts in `charts/` of one that
/// lists no dependencies stay as they are, with everything in them.
pub(super) fn enable(
    part: &mut Part,
    values: &Map,
    path: &str,
    work: &mut Work,
    left: &mut usize,
) -> Result<(), PartsError> {
    let Some(mut dependencies) = part.dependencies.take() else { return Ok(()) };
    part.children = matched(part, &mut dependencies, left)?;
    let values = work.coalesce(part, values, Nulls::Remove)?;
    for dependency in &mut dependencies {
        dependency.enabled =
            by_condition(dependency, &values, path).unwrap_or_else(|| by_tags(dependency, &values));
    }
    // Names decide, so a chart goes with another of its name.
    let is_disabled =
        |name: &str| dependencies.iter().any(|dependency| !dependency.enabled && dependency.name == name);
    part.children.retain(|child| !is_disabled(&child.name));
    let kept: Vec<Dependency> =
        dependencies.iter().filter(|dependency| !is_disabled(&dependency.name)).cloned().collect();
    for child in &mut part.children {
        let path = format!("{path}{}.", child.name);
        enable(child, &values, &path, work, left)?;
    }
    part.dependencies = Some(kept).filter(|kept| !kept.is_empty());
    Ok(())
}

/// The charts below one: first those that nothing lists, then the listed ones under their aliases. From then on a
/// dependency is called by its alias.
fn matched(part: &Part, dependencies: &mut [Dependency], left: &mut usize) -> Result<Vec<Part>, PartsError> {
    let fits = |dependency: &Dependency, child: &Part| {
        let version = &child.chart.metadata.version;
        child.name == dependency.name && semver::satisfies(&dependency.version, version).unwrap_or(false)
    };
    let is_listed = |child: &&Part| dependencies.iter().any(|dependency| fits(dependency, child));
    let mut children = Vec::new();
    for child in part.children.iter().filter(|child| !is_listed(child)) {
        children.push(child.copy(left)?);
    }
    for dependency in dependencies.iter_mut() {
        if let Some(child) = part.children.iter().find(|child| fits(dependency, child)) {
            let mut child = child.copy(left)?;
            if !dependency.alias.is_empty() {
                child.name.clone_from(&dependency.alias);
            }
            children.push(child);
        }
        if !dependency.alias.is_empty() {
            dependency.name.clone_from(&dependency.alias);
        }
    }
    Ok(children)
}

/// What the first condition with a boolean says.
fn by_condition(dependency: &Dependency, values: &Map, path: &str) -> Option<bool> {
    let conditions = dependency.condition.trim().split(',').filter(|condition| !condition.is_empty());
    let mut found = conditions.map(|condition| value_at(values, &format!("{path}{condition}")));
    found.find_map(|value| match value {
        Some(Value::Bool(enabled)) => Some(enabled),
        _ => None,
    })
}

/// Disabled when a tag says so and none says otherwise.
fn by_tags(dependency: &Dependency, values: &Map) -> bool {
    let Some(tags) = table(values, "tags") else { return true };
    let mut said = dependency.tags.iter().filter_map(|tag| match tags.get(tag.as_bytes()) {
        Some(Value::Bool(enabled)) => Some(enabled),
        _ => None,
    });
    match said.next() {
        None => true,
        Some(first) => first || said.any(|enabled| enabled),
    }
}
