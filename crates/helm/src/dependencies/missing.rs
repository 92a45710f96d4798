//! Charts that are listed and not there (RND-103, RND-104, RND-169).

use std::sync::Arc;

use crate::HelmVersion;
use crate::chart::{Chart, Dependency, LockError, LockState, Subchart, is_packed};

/// A chart that has to be fetched before a rendering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeededChart {
    /// Its name.
    pub name: String,
    /// The version that the lock file names; without one a constraint.
    pub version: String,
    /// Whether the version is one and no constraint.
    pub is_locked: bool,
    /// Where it is, as the chart says: a URL, `oci://…`, `file://…`, `@name` or `alias:name`.
    pub repository: String,
}

/// What a chart lists and does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingCharts {
    /// Names of the charts that are not there.
    pub names: Vec<String>,
    /// All charts that a build of the dependencies fetches: also those that are there, because it replaces them. An
    /// error when the lock file was made for other dependencies: then nothing may be fetched.
    pub needed: Result<Vec<NeededChart>, LockError>,
}

impl MissingCharts {
    /// What Helm says. Argo CD recognises it by its end.
    pub fn text(&self, version: HelmVersion) -> String {
        let (first, quote) = match version {
            HelmVersion::V3 => ('A', '`'),
            HelmVersion::V4 => ('a', '\''),
        };
        format!(
            "{first}n error occurred while checking for chart dependencies. You may need to run {quote}helm dependency \
             build{quote} to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
            self.names.join(", ")
        )
    }
}

/// What a chart lists and does not have; `None` when it has everything, whatever the versions.
///
/// `repository` gives the URL behind the name of a registered repository.
pub fn missing(chart: &Chart, repository: &dyn Fn(&str) -> Option<String>) -> Option<MissingCharts> {
    let listed = chart.metadata.dependencies.as_deref().unwrap_or_default();
    let is_there = |dependency: &&Dependency| {
        chart.subcharts.iter().any(|subchart| subchart.chart.name() == dependency.name)
    };
    let names: Vec<String> = listed
        .iter()
        .filter(|dependency| !is_there(dependency))
        .map(|dependency| dependency.name.clone())
        .collect();
    if names.is_empty() {
        return None;
    }
    let needed = chart.lock_state(repository).map(|state| match state {
        LockState::Absent => to_fetch(listed, false),
        LockState::InSync(locked) => to_fetch(&locked, true),
    });
    Some(MissingCharts { names, needed })
}

fn to_fetch(dependencies: &[Dependency], is_locked: bool) -> Vec<NeededChart> {
    let needed = dependencies.iter().filter(|dependency| !dependency.repository.is_empty());
    let needed = needed.map(|dependency| NeededChart {
        name: dependency.name.clone(),
        version: dependency.version.clone(),
        is_locked,
        repository: dependency.repository.clone(),
    });
    needed.collect()
}

impl Chart {
    /// The chart with its dependencies built: what was fetched takes the place of packed charts, but of those that
    /// are listed without a repository. Charts in directories stay.
    #[must_use]
    pub fn with_fetched(&self, fetched: Vec<Arc<Self>>) -> Self {
        let listed = self.metadata.dependencies.as_deref().unwrap_or_default();
        let is_local = |name: &str| {
            listed.iter().any(|dependency| dependency.repository.is_empty() && dependency.name == name)
        };
        let mut chart = self.clone();
        chart.subcharts.retain(|subchart| !is_packed(&subchart.member) || is_local(subchart.chart.name()));
        for inner in fetched {
            let member = format!("{}-{}.tgz", inner.metadata.name, inner.metadata.version);
            if !chart.subcharts.iter().any(|subchart| subchart.member == member) {
                chart.subcharts.push(Subchart { chart: inner, member });
            }
        }
        chart.subcharts.sort_by(|one, other| one.member.cmp(&other.member));
        chart
    }
}
