//! Charts that a chart depends on and does not have (RND-103..106).

use std::sync::Arc;

use tiphys_helm::{Chart, HelmVersion, NeededChart, load_archive, load_directory, missing};

use super::{limits, of_chart};
use crate::needs::{Need, Outcome};
use crate::request::{Budget, Inputs};
use crate::tools::AddedChart;
use crate::{Reason, RenderError, TreePath};

/// A chart with all that it depends on, and what was added for that.
type Complete = (Chart, Vec<(String, AddedChart)>);

/// The chart with all that it depends on, or what has to be brought for that.
pub(super) fn complete(
    chart: Chart,
    version: HelmVersion,
    inputs: &Inputs<'_>,
    directory: &TreePath,
    repositories: &[(String, String)],
    budget: &Budget,
) -> Result<Outcome<Complete>, RenderError> {
    let url_of = |name: &str| {
        let found = repositories.iter().find(|(known, _)| known == name);
        found.map(|(_, url)| url.clone())
    };
    let Some(absent) = missing(&chart, &url_of) else { return Ok(Outcome::Done((chart, Vec::new()))) };
    let needed = absent.needed.map_err(|error| RenderError::new(Reason::HelmRender, error.to_string()))?;
    let (mut fetched, mut added, mut needs) = (Vec::new(), Vec::new(), Vec::new());
    for one in &needed {
        match place_of(one, directory, &url_of)? {
            Place::Directory(path) => {
                let inner =
                    load_directory(inputs.tree, &path, version, &limits(budget)).map_err(|error| {
                        let shown = &one.repository;
                        RenderError::new(
                            Reason::HelmRender,
                            format!("dependency {:?} of {shown:?}: {}", one.name, of_chart(&error)),
                        )
                    })?;
                fetched.push(Arc::new(inner));
                added.push((one.name.clone(), AddedChart::Directory(path)));
            }
            Place::Repository(repository) => {
                let need = Need::Chart { repository, name: one.name.clone(), version: one.version.clone() };
                match inputs.supplies.bytes(&need) {
                    Some(bytes) => {
                        let inner = load_archive(bytes, version, &limits(budget)).map_err(|error| {
                            RenderError::new(
                                Reason::HelmRender,
                                format!("dependency {:?}: {}", one.name, of_chart(&error)),
                            )
                        })?;
                        fetched.push(Arc::new(inner));
                        added.push((one.name.clone(), AddedChart::Packed(bytes.clone())));
                    }
                    None => needs.push(need),
                }
            }
        }
    }
    if !needs.is_empty() {
        return Ok(Outcome::Needs(needs));
    }
    let complete = chart.with_fetched(fetched);
    // Those without a repository cannot be brought by anybody.
    match missing(&complete, &url_of) {
        Some(still) => Err(RenderError::new(Reason::HelmRender, still.text(version))),
        None => Ok(Outcome::Done((complete, added))),
    }
}

enum Place {
    Directory(TreePath),
    Repository(String),
}

fn place_of(
    one: &NeededChart,
    directory: &TreePath,
    url_of: &dyn Fn(&str) -> Option<String>,
) -> Result<Place, RenderError> {
    let repository = one.repository.as_str();
    let wrong = |text: String| RenderError::new(Reason::HelmRender, text);
    if let Some(path) = repository.strip_prefix("file://") {
        let path = match path.strip_prefix('/') {
            Some(_) => {
                return Err(wrong(format!("dependency {:?}: the path {path:?} is absolute", one.name)));
            }
            None => directory.join(path),
        };
        return path.map(Place::Directory).map_err(|_error| {
            let text = format!("file '{repository}' resolved to outside repository root");
            RenderError::new(Reason::ResolvedOutsideRepo, text)
        });
    }
    let name = repository.strip_prefix('@').or_else(|| repository.strip_prefix("alias:"));
    if let Some(name) = name {
        let url = url_of(name).ok_or_else(|| {
            wrong(format!(
                "no repository definition for {repository}. Please add the missing repos via 'helm repo add'"
            ))
        })?;
        return Ok(Place::Repository(url));
    }
    let is_known = ["https://", "http://", "oci://"].iter().any(|scheme| repository.starts_with(scheme));
    if is_known {
        return Ok(Place::Repository(repository.to_owned()));
    }
    Err(wrong(format!("dependency {:?}: {repository:?} is no repository of charts", one.name)))
}
