//! `helmCharts` (RND-236): which chart is inflated, and with which values.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use smol_str::SmolStr;
use tiphys_tree::{Tree, TreePath};

use crate::build::Session;
use crate::chart::ChartRequest;
use crate::fault::{Before as _, Fault, Result};
use crate::kustomization::{HelmChart, HelmGlobals};
use crate::load::{Found, Loader};
use crate::merge::{NewItems, merge};
use crate::remote::{Content, RemoteSpec};
use crate::resource::{Resource, read_objects};
use crate::value::{from_value, to_value_of_any};
use crate::yaml::parse_first;

/// Where charts are when the kustomization says nothing.
const CHART_HOME: &str = "charts";

/// How the values of the kustomization and those of a file go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Merging {
    Override,
    Merge,
    Replace,
}

/// A chart that is configured.
pub(crate) struct HelmGenerator<'b> {
    chart: HelmChart,
    merging: Merging,
    /// The directory of all charts, as seen from that of the kustomization.
    home: String,
    additional: Vec<Bytes>,
    loader: Rc<Loader<'b>>,
}

/// A chart that is found.
enum ChartTree<'b> {
    Here(Rc<Loader<'b>>, TreePath),
    Pulled(Arc<dyn Tree>),
}

impl ChartTree<'_> {
    fn place(&self) -> (&dyn Tree, TreePath) {
        match self {
            Self::Here(loader, directory) => (loader.checkout().tree(), directory.clone()),
            Self::Pulled(tree) => (tree.as_ref(), TreePath::root()),
        }
    }
}

impl<'b> HelmGenerator<'b> {
    /// Looks at what is configured; `None` when something is not fetched yet.
    pub(crate) fn new(
        session: &mut Session<'b>,
        loader: &Rc<Loader<'b>>,
        globals: &HelmGlobals,
        chart: HelmChart,
    ) -> Result<Option<Self>> {
        if !session.options.allows_helm() {
            return Err(Fault::new("must specify --enable-helm"));
        }
        if chart.name.is_empty() {
            return Err(Fault::new("chart name cannot be empty"));
        }
        let mut additional = Vec::new();
        let mut is_complete = true;
        for path in &chart.additional_values_files {
            let loaded = loader.load(&mut session.reading, path);
            match loaded.before(|| "could not load additionalValuesFile".to_owned())? {
                Found::Here(bytes) => additional.push(bytes),
                Found::NotYet => is_complete = false,
            }
        }
        let merging = match chart.values_merge.as_str() {
            "" | "override" => Merging::Override,
            "merge" => Merging::Merge,
            "replace" => Merging::Replace,
            _ => return Err(Fault::new("valuesMerge must be one of [merge override replace]")),
        };
        let mut home =
            if globals.chart_home.is_empty() { CHART_HOME } else { &globals.chart_home }.to_owned();
        if home.starts_with('/') {
            return Err(Fault::new(format!("helmGlobals.chartHome '{home}' cannot be absolute")));
        }
        if !chart.version.is_empty() && !chart.repo.is_empty() {
            home = format!("{home}/{}-{}", chart.name, chart.version);
        }
        let generator = Self { chart, merging, home, additional, loader: Rc::clone(loader) };
        Ok(is_complete.then_some(generator))
    }

    /// Inflates the chart; `None` when something is not fetched yet.
    pub(crate) fn generate(&self, session: &mut Session<'b>) -> Result<Option<Vec<Resource>>> {
        let Some(tree) = self.find(session)? else { return Ok(None) };
        let Some(values) = self.values(session, &tree)? else { return Ok(None) };
        let mut texts = vec![values];
        texts.extend(self.additional.iter().cloned());
        let chart = &self.chart;
        let (tree, directory) = tree.place();
        let text = session.charts.inflate(&ChartRequest {
            tree,
            directory,
            name: &chart.name,
            version: &chart.version,
            repository: &chart.repo,
            release_name: &chart.release_name,
            name_template: &chart.name_template,
            namespace: &chart.namespace,
            values: texts,
            include_crds: chart.include_crds,
            skip_hooks: chart.skip_hooks,
            skip_tests: chart.skip_tests,
            api_versions: if chart.api_versions.is_empty() {
                &session.options.helm_api_versions
            } else {
                &chart.api_versions
            },
            kube_version: if chart.kube_version.is_empty() {
                &session.options.helm_kube_version
            } else {
                &chart.kube_version
            },
            devel: chart.devel,
        });
        let text = text.map_err(Fault::new)?;
        session.graph.take(text.len())?;
        let nodes = read_objects(&mut session.graph, text.as_bytes())
            .before(|| "could not parse bytes into resource map".to_owned())?;
        session.count_objects(nodes.len())?;
        let resources: Vec<Resource> = nodes.into_iter().map(Resource::new).collect();
        for resource in &resources {
            resource.mark_helm(&mut session.graph)?;
        }
        Ok(Some(resources))
    }

    fn chart_path(&self) -> String {
        format!("{}/{}", self.home, self.chart.name)
    }

    /// The chart in the tree, or one that was pulled.
    fn find(&self, session: &mut Session<'b>) -> Result<Option<ChartTree<'b>>> {
        let path = self.chart_path();
        if let Some(directory) = self.loader.directory_at(&path)? {
            return Ok(Some(ChartTree::Here(Rc::clone(&self.loader), directory)));
        }
        let chart = &self.chart;
        if chart.repo.is_empty() {
            // The original has forgotten the path by then.
            return Err(Fault::new("no repo specified for pull, no chart found at ''"));
        }
        let spec = RemoteSpec::Chart {
            repository: chart.repo.to_string(),
            name: chart.name.to_string(),
            version: chart.version.to_string(),
            devel: chart.devel,
        };
        match session.reading.fetched.look_up(&spec) {
            None => {
                session.reading.note_missing(spec);
                Ok(None)
            }
            Some(Ok(Content::Tree(tree))) => Ok(Some(ChartTree::Pulled(tree))),
            Some(Ok(Content::File(_))) => Err(Fault::new(format!("{spec} is a file; expecting directory"))),
            Some(Err(reason)) => Err(Fault::new(reason)),
        }
    }

    /// The file of values: that of the kustomization or that of the chart, with what is written inline.
    fn values(&self, session: &mut Session<'b>, tree: &ChartTree<'b>) -> Result<Option<Bytes>> {
        let inline = &self.chart.values_inline;
        if !inline.is_empty() && self.merging == Merging::Replace {
            return yaml_of(&Value::Object(inline.clone())).map(Some);
        }
        let loaded = match (self.chart.values_file.as_str(), tree) {
            ("", ChartTree::Pulled(tree)) => {
                // It lies where charts are pulled to, so the kustomization has to be allowed to read there.
                self.loader.check_below(&self.chart_path())?;
                Loader::load_from(&mut session.reading, tree.as_ref(), "values.yaml")?
            }
            ("", ChartTree::Here(..)) => {
                self.loader.load(&mut session.reading, &format!("{}/values.yaml", self.chart_path()))?
            }
            (path, _) => self.loader.load(&mut session.reading, path)?,
        };
        let Found::Here(file) = loaded else { return Ok(None) };
        if inline.is_empty() {
            return Ok(Some(file));
        }
        self.merged(session, &file).map(Some)
    }

    fn merged(&self, session: &mut Session<'b>, file: &[u8]) -> Result<Bytes> {
        let graph = &mut session.graph;
        let text = tiphys_go::yaml::decode_text(file).map_err(|error| Fault::new(error.to_string()))?;
        let words = || "could not parse values file into rnode".to_owned();
        let read = parse_first(graph, &text).before(words)?;
        // A file without values is an error of the original.
        let file = read.ok_or_else(|| Fault::new("EOF")).before(words)?;
        let inline = from_value(graph, &Value::Object(self.chart.values_inline.clone()))?;
        let file = crate::yaml::remove_aliases(graph, file)?;
        let (destination, patch) = match self.merging {
            Merging::Override => (file, inline),
            Merging::Merge | Merging::Replace => (inline, file),
        };
        session.schemas.read()?;
        let merged = merge(graph, &session.schemas, destination, patch, NewItems::Last)
            .before(|| "could not merge values".to_owned())?;
        let value = match merged {
            Some(node) => {
                to_value_of_any(graph, node).before(|| "could not parse merged values into map".to_owned())?
            }
            None => Value::Object(serde_json::Map::new()),
        };
        yaml_of(&value)
    }
}

fn yaml_of(value: &Value) -> Result<Bytes> {
    tiphys_go::yaml::to_string(value).map(Bytes::from).map_err(|error| Fault::new(error.to_string()))
}

/// The namespace of a chart: its own, that of its kustomization, or one that it inherits.
pub(crate) fn namespace_of(chart: &HelmChart, own: &SmolStr, inherited: &SmolStr) -> SmolStr {
    [&chart.namespace, own, inherited].into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default()
}
