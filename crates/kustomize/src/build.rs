//! One build from begin to end.

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_tree::{Tree, TreePath};

use crate::budget::Budget;
use crate::chart::{ChartInflator, NoCharts};
use crate::config::FieldSpec;
use crate::edit::Edits;
use crate::error::KustomizeError;
use crate::fault::{Fault, Result};
use crate::graph::Graph;
use crate::kustomization::SortOptions;
use crate::load::{Loader, Reading};
use crate::options::{Options, Reorder, Restriction};
use crate::origin::{ORIGIN, TRANSFORMATIONS};
use crate::remote::{Fetched, NothingFetched};
use crate::resource::{TextMap, check_name};
use crate::resources::Resources;
use crate::schema::Schemas;
use crate::target::{Accumulated, Target};
use crate::transform::{self, Work};
use crate::value::{printed, to_value};
use crate::{nameref, refvar};

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGED_BY_VALUE: &str = "kustomize-v5.8.1";
/// The version of kustomize whose results these are.
pub const VERSION: &str = "v5.8.1";
const LOCAL_CONFIG: &str = "config.kubernetes.io/local-config";

/// What a build has besides the tree.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// Content that others have fetched.
    pub fetched: &'c dyn Fetched,
    /// Who inflates charts.
    pub charts: &'c dyn ChartInflator,
    /// Fields of the source, which change the root kustomization (RND-81). Variables in it are replaced already.
    pub edits: Option<&'c Edits>,
}

impl Default for Context<'_> {
    fn default() -> Self {
        Self { fetched: &NothingFetched, charts: &NoCharts, edits: None }
    }
}

/// The outcome of a build.
#[derive(Clone, Debug, Default)]
pub struct Built {
    /// The objects, in the order of the output.
    pub objects: Vec<Value>,
    /// What the program would tell the user besides.
    pub warnings: Vec<String>,
}

/// Builds the kustomization of a directory.
///
/// # Errors
/// With the text of the program when the input is wrong; with everything that is to be fetched when something is
/// missing; when a bound of the budget is reached.
///
/// ```
/// use tiphys_kustomize::{Budget, Context, Options, build};
/// use tiphys_tree::{MemoryTree, TreePath};
///
/// let tree = MemoryTree::from_files([
///     ("app/kustomization.yaml", "namePrefix: a-\nresources: [service.yaml]"),
///     ("app/service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}"),
/// ])
/// .unwrap();
/// let directory = TreePath::parse("app").unwrap();
/// let built = build(&tree, &directory, &Options::default(), &Context::default(), &Budget::default()).unwrap();
/// assert_eq!(built.objects[0]["metadata"]["name"], "a-web");
/// ```
pub fn build(
    tree: &dyn Tree,
    directory: &TreePath,
    options: &Options,
    context: &Context<'_>,
    budget: &Budget,
) -> std::result::Result<Built, KustomizeError> {
    let mut session = Session {
        graph: Graph::new(budget.allowance()),
        schemas: Schemas::default(),
        reading: Reading {
            fetched: context.fetched,
            missing: Vec::new(),
            bytes_left: budget.input_bytes,
            bytes_limit: budget.input_bytes,
            files_left: budget.files,
        },
        charts: context.charts,
        options,
        warnings: Vec::new(),
        depth_left: budget.depth,
        objects_left: budget.objects,
        objects_limit: budget.objects,
    };
    let outcome = session.build(tree, directory, context.edits);
    match outcome {
        // What came to nothing because something is missing is no error of the input.
        Ok(_) | Err(Fault::Input { .. }) if !session.reading.missing.is_empty() => {
            Err(KustomizeError::Missing { specs: session.reading.missing })
        }
        Ok(objects) => Ok(Built { objects, warnings: session.warnings }),
        Err(Fault::Input { text, .. }) => Err(KustomizeError::Invalid(text)),
        Err(Fault::Stop(error)) => Err(*error),
    }
}

/// A build while it runs.
pub(crate) struct Session<'b> {
    pub(crate) graph: Graph,
    pub(crate) schemas: Schemas,
    pub(crate) reading: Reading<'b>,
    pub(crate) charts: &'b dyn ChartInflator,
    pub(crate) options: &'b Options,
    pub(crate) warnings: Vec<String>,
    /// Kustomizations that may still be inside of this one.
    pub(crate) depth_left: usize,
    objects_left: usize,
    objects_limit: usize,
}

impl<'b> Session<'b> {
    /// Counts objects that are read.
    pub(crate) fn count_objects(&mut self, count: usize) -> Result<()> {
        match self.objects_left.checked_sub(count) {
            Some(left) => {
                self.objects_left = left;
                Ok(())
            }
            None => Err(Fault::exhausted(format!("more than {} objects", self.objects_limit))),
        }
    }

    /// What transformers work on.
    pub(crate) fn work<'w>(&'w mut self, resources: &'w mut Resources) -> Work<'w> {
        Work { graph: &mut self.graph, schemas: &mut self.schemas, resources }
    }

    fn build(
        &mut self,
        tree: &'b dyn Tree,
        directory: &TreePath,
        edits: Option<&Edits>,
    ) -> Result<Vec<Value>> {
        let is_restricted = self.options.restriction == Restriction::RootOnly;
        let loader = Loader::root(tree, directory, is_restricted)?;
        let mut target = Target::load(self, loader, edits)?;
        target.set_schema(self, true)?;
        let metadata = target.kustomization.build_metadata.clone();
        let has = |option: &str| metadata.iter().any(|known| known == option);
        if !metadata.is_empty() {
            target.origin = Some(crate::origin::Origin::default());
        }
        let Accumulated { mut resources, config, vars } = target.accumulate(self, Accumulated::default())?;

        transform::add_hashes(&mut self.work(&mut resources))?;
        nameref::fix_references(&mut self.graph, &mut self.schemas, &resources, &config, &mut self.warnings)?;
        let unused = refvar::resolve(&mut self.graph, &resources, &vars, &config.var_reference)?;
        if !unused.is_empty() {
            let names = unused.iter().map(SmolStr::as_str).collect::<Vec<_>>().join(",");
            self.warnings.push(format!("well-defined vars that were never replaced: {names}"));
        }
        self.drop_local(&mut resources)?;
        self.sort(&mut resources, target.kustomization.sort_options.as_ref())?;
        if self.options.managed_by_label || has("managedByLabel") {
            let labels = [(SmolStr::new_static(MANAGED_BY), SmolStr::new_static(MANAGED_BY_VALUE))].into();
            let fields = vec![FieldSpec::everywhere("metadata/labels")];
            transform::label(&mut self.work(&mut resources), &labels, &fields)?;
        }
        let unwanted: Vec<&str> =
            [(ORIGIN, "originAnnotations"), (TRANSFORMATIONS, "transformerAnnotations")]
                .into_iter()
                .filter(|(_, option)| !has(option))
                .map(|(annotation, _)| annotation)
                .collect();
        let mut objects = Vec::with_capacity(resources.len());
        for resource in resources.list() {
            resource.remove_build_annotations(&mut self.graph)?;
            for annotation in &unwanted {
                self.remove_annotation(resource, annotation)?;
            }
            if let Some(node) = resource.node() {
                let value =
                    to_value(&mut self.graph, node).and_then(|value| printed(value, 0)).map_err(|fault| {
                        // The original shows the value, which there is none of then.
                        let is_unreadable =
                            fault.text().starts_with("yaml: ") && !fault.text().ends_with("not allowed");
                        if is_unreadable { fault.before("map[string]interface {}(nil)") } else { fault }
                    })?;
                objects.push(value);
            }
        }
        Ok(objects)
    }

    /// Removes an annotation. That all others are written anew, and an empty mapping is removed, is seen in the output.
    fn remove_annotation(&mut self, resource: &crate::resource::Resource, name: &str) -> Result<()> {
        let mut annotations: TextMap = resource.annotations(&self.graph);
        annotations.remove(name);
        resource.set_annotations(&mut self.graph, &annotations)
    }

    fn drop_local(&mut self, resources: &mut Resources) -> Result<()> {
        let graph = &self.graph;
        resources.drop_empty(graph);
        let mut locals = Vec::with_capacity(resources.len());
        for resource in resources.list() {
            if let Some(node) = resource.node() {
                check_name(graph, node)?;
            }
            let value = resource.annotation(graph, LOCAL_CONFIG);
            locals.push(value.is_some_and(|value| value != "false"));
        }
        if locals.contains(&true) {
            let mut locals = locals.into_iter();
            resources.list_mut().retain(|_| locals.next() != Some(true));
        }
        Ok(())
    }

    fn sort(&mut self, resources: &mut Resources, options: Option<&SortOptions>) -> Result<()> {
        let legacy = SortOptions { order: "legacy".into(), legacy: None };
        let options = match (options, self.options.reorder) {
            (Some(options), _) => options,
            (None, Reorder::Legacy) => &legacy,
            (None, Reorder::None) => return Ok(()),
        };
        transform::sort(&mut self.work(resources), options)
    }
}
