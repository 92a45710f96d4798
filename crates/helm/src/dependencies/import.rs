//! Values that a chart takes over from those below it (RND-172).

use tiphys_go::template::Map;

use super::part::{Part, PartsError};
use crate::chart::{Dependency, ImportValue};
use crate::values::{Nulls, Work, nest, table};

/// Imports in a chart and in those below it, the deepest first. A chart that lists dependencies has the values of all
/// charts below it among its defaults from then on.
pub(super) fn import(part: &mut Part, work: &mut Work) -> Result<(), PartsError> {
    for child in &mut part.children {
        import(child, work)?;
    }
    let Some(dependencies) = &part.dependencies else { return Ok(()) };
    let values = work.coalesce(part, &Map::new(), Nulls::Keep)?;
    let imported = Map::new();
    for dependency in dependencies {
        for import in &dependency.import_values {
            let Some((child, parent)) = paths(import) else { continue };
            let path = format!("{}.{child}", dependency.name);
            let Some(found) = table(&values, &path) else { continue };
            work.lay_over(&imported, &nest(parent, found)?, Nulls::Keep, 0)?;
        }
    }
    let defaults = work.copy(&values)?;
    work.lay_over(&defaults, &imported, Nulls::Keep, 0)?;
    part.defaults = Some(defaults);
    part.dependencies.iter_mut().flatten().for_each(write_as_paths);
    Ok(())
}

/// The path of the table in the child and that in the parent.
fn paths(import: &ImportValue) -> Option<(String, &str)> {
    match import {
        ImportValue::Export(name) => Some((format!("exports.{name}"), ".")),
        ImportValue::Table { child, parent, .. } => Some((child.clone(), parent)),
        ImportValue::Other(_) => None,
    }
}

/// Every import has two paths from now on, and templates see it so.
fn write_as_paths(dependency: &mut Dependency) {
    let imports = std::mem::take(&mut dependency.import_values);
    for import in imports {
        let Some((child, parent)) = paths(&import) else { continue };
        let written = serde_json::json!({"child": child, "parent": parent});
        let parent = parent.to_owned();
        dependency.import_values.push(ImportValue::Table { child, parent, written });
    }
}
