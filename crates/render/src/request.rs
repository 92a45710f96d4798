//! What is rendered and within which bounds, and the pipeline from request to objects (RND section 2).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tiphys_api::application::ApplicationSource;
use tiphys_api::settings::{Renderers, Settings};
use tiphys_go::live;

use crate::comparison::{Compared, Made};
use crate::environment::build_environment;
use crate::jsonnet::{Evaluator, InProcess};
use crate::needs::{Outcome, Supplies};
use crate::plan::RenderContext;
use crate::plugins::{self, Asked};
use crate::templates::World;
use crate::{
    Reason, RenderError, Tree, TreePath, WalkLimit, directory, helm, kind, kustomize, links, manifests,
    overrides,
};

/// Type of a source (RND-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceType {
    /// A Helm chart.
    Helm,
    /// A kustomization.
    Kustomize,
    /// Plain manifests.
    Directory,
    /// A config management plugin.
    Plugin,
}

impl SourceType {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Helm => "Helm",
            Self::Kustomize => "Kustomize",
            Self::Directory => "Directory",
            Self::Plugin => "Plugin",
        }
    }
}

impl SourceType {
    /// Whether the manifests may differ from cluster to cluster (RND-4). Plain ones are what they are.
    pub fn depends_on_cluster(self) -> bool {
        match self {
            Self::Helm | Self::Kustomize | Self::Plugin => true,
            Self::Directory => false,
        }
    }
}

/// Which tools the settings allow (RND-63).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnabledTools {
    /// `helm.enable`.
    pub helm: bool,
    /// `kustomize.enable`.
    pub kustomize: bool,
    /// `jsonnet.enable`.
    pub jsonnet: bool,
}

impl From<&Settings> for EnabledTools {
    fn from(settings: &Settings) -> Self {
        Self {
            helm: settings.renderer_enabled("helm"),
            kustomize: settings.renderer_enabled("kustomize"),
            jsonnet: settings.renderer_enabled("jsonnet"),
        }
    }
}

impl Default for EnabledTools {
    fn default() -> Self {
        Self { helm: true, kustomize: true, jsonnet: true }
    }
}

/// What the tree was taken from; named in errors about links (RND-54).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentKind {
    /// A git repository.
    #[default]
    Repository,
    /// A chart from a chart repository.
    Chart,
    /// An OCI artifact.
    OciImage,
    /// Files sent by a client.
    StreamedFiles,
}

impl ContentKind {
    /// The words in errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Chart => "chart",
            Self::OciImage => "oci image",
            Self::StreamedFiles => "streamed files",
        }
    }
}

/// Bounds of one rendering. A rendering that reaches one fails; it never yields a part of the objects.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Sum of the sizes of plain manifests; 0 means unlimited (RND-73).
    pub combined_manifest_bytes: u64,
    /// Bytes read in total, whatever the previous limit says.
    pub input_bytes: u64,
    /// Bytes that all parsed documents together take in memory, after anchors are expanded (SEC-07).
    pub memory: usize,
    /// Bytes that everything takes which the rendering holds at the same time, by the count of the allocator (SEC-07).
    pub live_bytes: usize,
    /// Steps that the templates of a chart take together, some forty nanoseconds each.
    pub template_steps: u64,
    /// Bytes that one object takes in memory. Whoever compares or applies it has it several times.
    pub object_memory: usize,
    /// Number of objects.
    pub objects: usize,
    /// Nesting of a document; more than an object may have is of no use.
    pub depth: usize,
    /// Directories and files that a source's own walk looks at.
    pub files: usize,
    /// Bytes that the list of the files which it finds takes in memory, mostly paths.
    pub path_bytes: usize,
    /// Members of directories that the check of all links of a tree looks at.
    pub tree_entries: usize,
    /// Steps that matching the files of a directory with its include and exclude patterns takes (SEC-07).
    pub pattern_steps: u64,
    /// Set by the caller when the time is up (RND-20).
    pub cancelled: Option<Arc<AtomicBool>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            combined_manifest_bytes: 10_000_000,
            input_bytes: 32 * 1024 * 1024,
            memory: LIVE_BYTES_MAX,
            live_bytes: LIVE_BYTES_MAX,
            template_steps: TEMPLATE_STEPS_MAX,
            object_memory: 24 * 1024 * 1024,
            objects: 100_000,
            depth: tiphys_go::nesting::DEPTH_MAX,
            files: 500_000,
            path_bytes: 32 * 1024 * 1024,
            tree_entries: 2_000_000,
            pattern_steps: 500_000_000,
            cancelled: None,
        }
    }
}

/// Bytes that a rendering may hold, unless the settings say otherwise.
const LIVE_BYTES_MAX: usize = 96 * 1024 * 1024;
/// Steps that templates may take, unless the settings say otherwise: some eight seconds.
const TEMPLATE_STEPS_MAX: u64 = 200_000_000;

// What a small rendering has: some hundred objects of common size.
const SMALL_MEMORY: usize = 6 * 1024 * 1024;
const SMALL_LIVE_BYTES: usize = 16 * 1024 * 1024;
const SMALL_INPUT_BYTES: u64 = 512 * 1024;
const SMALL_PATH_BYTES: usize = 512 * 1024;
const SMALL_FILES: usize = 20_000;

impl Budget {
    /// The bounds that settings give.
    pub fn of(renderers: Renderers) -> Self {
        let Renderers { template_steps, live_bytes, .. } = renderers;
        // What is parsed is a part of what is held.
        Self { memory: live_bytes.max(LIVE_BYTES_MAX), live_bytes, template_steps, ..Self::default() }
    }

    /// What nearly every source can do with, so that several may be rendered at the same time. One that cannot fails
    /// with [`Reason::MemoryExceeded`], and may be tried with this whole budget.
    #[must_use]
    pub fn small(&self) -> Self {
        Self {
            memory: self.memory.min(SMALL_MEMORY),
            live_bytes: self.live_bytes.min(SMALL_LIVE_BYTES),
            input_bytes: self.input_bytes.min(SMALL_INPUT_BYTES),
            path_bytes: self.path_bytes.min(SMALL_PATH_BYTES),
            // Not for their memory: a walk through half a million would keep the turn of others for long.
            files: self.files.min(SMALL_FILES),
            ..self.clone()
        }
    }

    /// The bound of one walk over a whole tree.
    pub fn walk(&self) -> WalkLimit<'_> {
        WalkLimit::new(self.tree_entries, self.cancelled.as_deref())
    }

    /// Fails once the caller's time is up, or when more is held than the rendering may hold.
    pub fn check(&self) -> Result<(), RenderError> {
        self.check_time()?;
        live::check().map_err(|exceeded| {
            let text = format!("the rendering holds more than {} bytes of memory", exceeded.bound);
            RenderError::new(Reason::MemoryExceeded, text)
        })
    }

    /// Fails once the caller's time is up.
    pub fn check_time(&self) -> Result<(), RenderError> {
        match &self.cancelled {
            Some(flag) if flag.load(Ordering::Relaxed) => {
                Err(RenderError::new(Reason::BudgetExceeded, "timeout after 1m30s"))
            }
            _ => Ok(()),
        }
    }
}

/// Everything a rendering depends on besides the tree (RND-1).
#[derive(Clone, Debug, Default)]
pub struct RenderRequest {
    /// The source as in the Application.
    pub source: ApplicationSource,
    /// The resolved revision.
    pub revision: String,
    /// For whom it is rendered.
    pub context: RenderContext,
    /// Whether links may leave the root as long as nothing follows them (RND-54).
    pub allow_out_of_bounds_links: bool,
    /// What the tree was taken from.
    pub content: ContentKind,
}

impl RenderRequest {
    /// Everything of it that the manifests depend on, in a form that is equal for equal inputs only (RND-141, RND-142).
    ///
    /// Where the tree comes from and which commit it is do not count unless the source names them: the same files give the
    /// same manifests.
    pub fn identity(&self) -> Vec<u8> {
        self.identity_at(Some(self.context.cluster.digest()))
    }

    /// The same without the cluster: the identity of a rendering that does not depend on it
    /// ([`SourceType::depends_on_cluster`]).
    pub fn identity_anywhere(&self) -> Vec<u8> {
        self.identity_at(None)
    }

    fn identity_at(&self, cluster_facts: Option<&[u8; 32]>) -> Vec<u8> {
        // Taken apart by name: a new input does not compile before somebody has decided about it.
        let Self {
            source,
            revision,
            context:
                RenderContext {
                    instance_name,
                    destination_namespace,
                    project,
                    cluster: _,
                    enabled: EnabledTools { helm, kustomize, jsonnet },
                    strict_overrides,
                    helm: helm_settings,
                    kustomize_options,
                    tools: tool_settings,
                    plugins,
                    refs,
                },
            allow_out_of_bounds_links,
            content,
        } = self;
        // Where a value may name a variable, its revision and origin count as well (RND-66, RND-68).
        let named =
            mentions_variables(source).then_some((revision, &source.repo_url, &source.target_revision));
        let named = serde_json::to_string(&named).unwrap_or_default();
        let mut source = source.clone();
        source.repo_url.clear();
        source.target_revision.clear();
        let plugins = plugins.identity(&source);
        let application = (instance_name, destination_namespace, project);
        let tools = (helm_settings, kustomize_options, tool_settings, plugins, refs.as_deref());
        let settings = (helm, kustomize, jsonnet, strict_overrides, allow_out_of_bounds_links, tools);
        // Texts and flags, which can always be written. If not, it is nobody else's identity rather than everybody's.
        serde_json::to_vec(&(source, named, application, cluster_facts, settings, content.as_str()))
            .unwrap_or_else(|_unwritable| format!("{self:?}").into_bytes())
    }
}

/// Whether a text of the source may name a variable of the build environment. That one does where none is filled in is
/// no harm.
fn mentions_variables(source: &ApplicationSource) -> bool {
    serde_json::to_string(source).map_or(true, |text| text.contains('$'))
}

/// Result of a rendering.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Objects in render order; lists are expanded, tracking metadata is not written (RND-16).
    pub objects: Vec<Value>,
    /// Type the source turned out to have.
    pub source_type: SourceType,
    /// Whether a file in the tree names variables of the build environment, which differ from one revision to the next.
    /// What the source itself names is a part of the identity of the request.
    pub is_pinned: bool,
    /// How a program and this process compare, where the settings say `compare` (RND-159).
    pub compared: Option<Compared>,
}

/// What a rendering reads, besides its request: files, and who evaluates programs.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Files of the source.
    pub tree: &'a dyn Tree,
    /// What was brought for it.
    pub supplies: &'a Supplies,
    /// Who evaluates Jsonnet.
    pub jsonnet: &'a dyn Evaluator,
    /// Time and chance of templates.
    pub world: World,
    /// A secret of the installation, for chance that is the same each time (RND-163).
    pub secret: &'a [u8],
}

/// Nothing was brought.
static NOTHING: Supplies = Supplies::none();

impl<'a> Inputs<'a> {
    /// These files, programs evaluated on the thread of the caller, and a world that stands still.
    pub fn of(tree: &'a dyn Tree) -> Self {
        Self { tree, supplies: &NOTHING, jsonnet: &InProcess, world: World::default(), secret: &[] }
    }
}

/// Renders one source.
///
/// Overrides and type are found in the tree; the order of the checks is that of RND-13. Default namespaces and
/// tracking metadata are not set. Cost is dominated by reading YAML, about 40 MB/s.
///
/// # Errors
/// With the text users see.
pub fn render(
    request: &RenderRequest,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<Rendered>, RenderError> {
    live::within(budget.live_bytes, || rendered(request, inputs, budget))
}

fn rendered(
    request: &RenderRequest,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<Rendered>, RenderError> {
    let context = &request.context;
    let tree = inputs.tree;
    let (directory, source) = prepared(request, tree, budget)?;
    let is_pinned = mentions_variables(&source) && !mentions_variables(&request.source);
    let is_explicit = kind::explicit_type(&source)?.is_some();
    if let Some(choice) = plugins::choice(&source, is_explicit, &context.plugins) {
        let call = plugins::call(request, &source, &directory, choice)?;
        match plugins::result(call, inputs.supplies, budget)? {
            Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
            Outcome::Done(Asked::Objects(objects)) => {
                let objects = manifests::expand_lists(objects, budget)?;
                return Ok(Outcome::Done(Rendered {
                    objects,
                    source_type: SourceType::Plugin,
                    is_pinned,
                    compared: None,
                }));
            }
            Outcome::Done(Asked::NoPlugin) => {}
        }
    }
    let source_type = kind::source_type(&source, tree, &directory, context.enabled)?;
    let Made { objects, compared } = match source_type {
        SourceType::Directory => {
            let options = source.directory.unwrap_or_default();
            let environment = build_environment(request);
            let jsonnet = directory::Jsonnet { evaluator: inputs.jsonnet, environment: &environment };
            let jsonnet = context.enabled.jsonnet.then_some(&jsonnet);
            directory::render(tree, &directory, &options, jsonnet, budget)?.into()
        }
        SourceType::Helm => {
            let options = source.helm.unwrap_or_default();
            match helm::render(request, &options, &directory, inputs, budget)? {
                Outcome::Done(made) => made,
                Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
            }
        }
        SourceType::Kustomize => {
            let options = source.kustomize.unwrap_or_default();
            match kustomize::render(request, &options, &directory, inputs, budget)? {
                Outcome::Done(made) => made,
                Outcome::Needs(needs) => return Ok(Outcome::Needs(needs)),
            }
        }
        SourceType::Plugin => {
            // Who says that it is a plugin's was asked about above.
            return Err(RenderError::new(Reason::PluginNotFound, "no plugin was asked"));
        }
    };
    let objects = manifests::expand_lists(objects, budget)?;
    Ok(Outcome::Done(Rendered { objects, source_type, is_pinned, compared }))
}

/// The commands that make the same objects, for people who want to see for themselves (RND-2): run in the directory of
/// the source. Sources that no program renders have none.
///
/// # Errors
/// As [`render`].
pub fn command_lines(
    request: &RenderRequest,
    source_type: SourceType,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Outcome<Vec<String>>, RenderError> {
    let (directory, source) = prepared(request, inputs.tree, budget)?;
    Ok(match source_type {
        SourceType::Helm => {
            let options = source.helm.unwrap_or_default();
            match helm::command_line(request, &options, &directory, inputs, budget)? {
                Outcome::Done(line) => Outcome::Done(vec![line]),
                Outcome::Needs(needs) => Outcome::Needs(needs),
            }
        }
        SourceType::Kustomize => {
            let options = source.kustomize.unwrap_or_default();
            Outcome::Done(kustomize::command_lines(request, &options, &directory, inputs)?)
        }
        SourceType::Directory | SourceType::Plugin => Outcome::Done(Vec::new()),
    })
}

/// The directory of a source and what it is with its overrides, once no link leaves the tree.
pub(crate) fn prepared(
    request: &RenderRequest,
    tree: &dyn Tree,
    budget: &Budget,
) -> Result<(TreePath, ApplicationSource), RenderError> {
    let context = &request.context;
    if !request.allow_out_of_bounds_links
        && let Some(link) = tree.escaping_link(&mut budget.walk())?
    {
        let what = request.content.as_str();
        let text = format!("{what} contains out-of-bounds symlinks. file: {link}");
        return Err(RenderError::new(Reason::SymlinkOutOfBounds, text));
    }
    let directory = match request.content {
        ContentKind::Chart => chart_directory(tree, &request.source.chart)?,
        ContentKind::Repository | ContentKind::OciImage | ContentKind::StreamedFiles => {
            links::app_directory(tree, &request.source.path)?
        }
    };
    let source = if request.content == ContentKind::Chart {
        request.source.clone()
    } else {
        let mode =
            if context.strict_overrides { overrides::Merge::Strict } else { overrides::Merge::InPlace };
        overrides::apply(&request.source, tree, &directory, &context.instance_name, mode)?
    };
    Ok((directory, source))
}

/// Renders one source for which nothing is brought.
///
/// # Errors
/// As [`render`], and when something would have to be.
pub fn render_offline(
    request: &RenderRequest,
    inputs: &Inputs<'_>,
    budget: &Budget,
) -> Result<Rendered, RenderError> {
    render(request, inputs, budget)?.or_offline()
}

/// The directory of a chart in its archive: the last part of its name (RND-111). What is given as a chart without such
/// a directory is the chart itself.
fn chart_directory(tree: &dyn Tree, chart: &str) -> Result<TreePath, RenderError> {
    let name = chart.rsplit('/').next().unwrap_or(chart);
    match links::app_directory(tree, name) {
        Err(error) if error.reason == Reason::PathNotFound => {
            let is_chart = tree.entry(&TreePath::root().child("Chart.yaml"))?.is_some();
            if is_chart { Ok(TreePath::root()) } else { Err(error) }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ClusterFacts;
    use crate::tools::ToolSettings;

    /// RND-141, RND-142: every input makes another identity; where the tree comes from does not.
    #[test]
    fn rnd_141_every_input_counts_and_the_origin_does_not() {
        let plain = RenderRequest::default();
        let changes: [fn(&mut RenderRequest); 20] = [
            |one| one.source.path = "app".to_owned(),
            |one| one.source.name = "a".to_owned(),
            |one| one.context.instance_name = "a".to_owned(),
            |one| one.context.destination_namespace = "a".to_owned(),
            |one| one.context.project = "a".to_owned(),
            |one| one.context.cluster = ClusterFacts::new("a", Vec::new()),
            |one| one.context.cluster = ClusterFacts::new("", vec!["a".to_owned()]),
            |one| one.context.enabled.helm = !one.context.enabled.helm,
            |one| one.context.enabled.kustomize = !one.context.enabled.kustomize,
            |one| one.context.enabled.jsonnet = !one.context.enabled.jsonnet,
            |one| one.context.strict_overrides = true,
            |one| one.allow_out_of_bounds_links = true,
            |one| one.content = ContentKind::Chart,
            |one| one.context.helm.v3_compat = true,
            |one| one.context.helm.deterministic = true,
            |one| one.context.helm.value_file_schemes.clear(),
            |one| one.context.helm.repositories.push(("a".to_owned(), "b".to_owned())),
            |one| one.context.kustomize_options = "a".to_owned(),
            |one| one.context.refs = Some(Arc::from([])),
            |one| one.context.tools = ToolSettings::default().with_annotation("helm=exec"),
        ];
        let mut seen = vec![plain.identity()];
        for (number, change) in changes.iter().enumerate() {
            let mut other = plain.clone();
            change(&mut other);
            let identity = other.identity();
            assert!(!identity.is_empty() && !seen.contains(&identity), "change {number}");
            seen.push(identity);
        }
        let mut elsewhere = plain.clone();
        elsewhere.source.repo_url = "https://h/r".to_owned();
        elsewhere.source.target_revision = "main".to_owned();
        elsewhere.revision = "abc".to_owned();
        assert_eq!(elsewhere.identity(), plain.identity());
        elsewhere.context.cluster = ClusterFacts::new("v1.36.1", Vec::new());
        assert_eq!(elsewhere.identity_anywhere(), plain.identity_anywhere());
        // Unless a value names it.
        let with = |revision: &str| {
            let mut one = RenderRequest { revision: revision.to_owned(), ..plain.clone() };
            one.source.name = "$ARGOCD_APP_REVISION".to_owned();
            one.identity_anywhere()
        };
        assert_ne!(with("abc"), with("abd"));
    }
}
