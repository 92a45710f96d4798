//! From sources to desired objects and their comparison, inside this process (CLI-141, CLI-500).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tiphys_api::Application;
use tiphys_api::application::ApplicationSource;
use tiphys_api::names::LAST_APPLIED;
use tiphys_cluster::{Scope as ClusterScope, error_chain};
use tiphys_engine::compare::{
    CompareInput, ComparedResource, DiffMemo, Scope, compare, managed_namespace_changed,
};
use tiphys_engine::diff::{DiffOptions, DiffSettings, diff};
use tiphys_engine::mask::SecretMask;
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::seen::Seen;
use tiphys_engine::tracking::{Ownership, TrackingMethod};
use tiphys_object::{GroupKind, Object, ResourceKey, access};
use tiphys_plugin::PluginOptions;
use tiphys_policy::signature::Verdict;
use tiphys_render::needs::{Conversation, Need, Outcome, Supply};
use tiphys_render::plan::{ClusterFacts, Content, PlanError, PlannedSource, Purpose, RenderContext, plan};
use tiphys_render::{
    Budget, Comparison, ContentKind, Inputs, RenderError, RenderRequest, Tree, World as RenderWorld, render,
};
use tiphys_service::fetcher::Fetcher;
use tiphys_source::{
    AzureIdentity, Freshness, Repository, Signed, SourceOptions, Sources, TokenUse, read_directory,
};

use crate::core::{Core, Destination, World};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Objects read at a time.
const READS_MAX: usize = 16;
/// Time to clone and fetch a repository for a terminal.
const FETCH_TIMEOUT: Duration = Duration::from_mins(10);
/// Variables that git inherits where a repository names no proxy.
const PROXY_VARIABLES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];

/// What is rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RenderPlan {
    /// The sources at these revisions, one per source; an empty one takes the target revision.
    Revisions(Vec<String>),
    /// A directory of this machine, `path` inside `root`.
    Local {
        /// The directory that stands for the repository.
        root: PathBuf,
        /// The source's directory inside it.
        path: String,
    },
}

/// Files that stand for those of a repository, and what their revision is called.
pub(crate) type StandIn<'a> = dyn Fn(&str) -> Option<(Arc<dyn Tree>, String)> + Sync + 'a;

/// What stands for parts of an installation while something is rendered that is not what would be applied (CLI-1030).
pub(crate) struct Instead<'a> {
    /// What stands for a repository, by its URL.
    pub(crate) directory: &'a StandIn<'a>,
    /// Version of Kubernetes; that of the destination when empty.
    pub(crate) kube_version: &'a str,
    /// What the cluster serves; what the destination does when empty.
    pub(crate) api_versions: &'a [String],
    /// How objects are marked.
    pub(crate) marks: Marks,
}

/// How objects are marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// As the installation does.
    Own,
    /// In this way.
    Method(TrackingMethod),
    /// Not at all.
    Nothing,
}

impl Instead<'_> {
    /// Nothing stands for anything.
    pub(crate) const NOTHING: Self =
        Instead { directory: &|_| None, kube_version: "", api_versions: &[], marks: Marks::Own };
}

/// The objects of an application, marked as its own (TRK-82).
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) objects: Vec<Arc<Object>>,
}

/// One object that differs: both sides as they are shown; null where there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) key: ResourceKey,
    pub(crate) live: Value,
    pub(crate) target: Value,
}

/// A cache directory of this process: the shared one when nobody else uses it, else one that goes with us.
struct CacheDirectory {
    path: PathBuf,
    _lock: Option<std::fs::File>,
    _temporary: Option<tempfile::TempDir>,
}

impl CacheDirectory {
    fn open(terminal: &Terminal) -> Result<Self, Failure> {
        let home = terminal.variable("HOME");
        let base = match terminal.variable("XDG_CACHE_HOME") {
            "" => Path::new(home).join(".cache"),
            named => PathBuf::from(named),
        };
        let path = base.join("tiphys").join("cli");
        if !base.as_os_str().is_empty() && std::fs::create_dir_all(&path).is_ok() {
            let lock = std::fs::File::create(path.join("lock"));
            if let Ok(lock) = lock
                && lock.try_lock().is_ok()
            {
                return Ok(Self { path: path.join("git"), _lock: Some(lock), _temporary: None });
            }
        }
        let temporary =
            tempfile::tempdir().map_err(|error| Failure::generic(format!("no cache directory: {error}")))?;
        Ok(Self { path: temporary.path().to_owned(), _lock: None, _temporary: Some(temporary) })
    }
}

/// The repositories that this process reads, with the directory that keeps what it read.
pub(crate) struct Origins {
    pub(crate) sources: Sources,
    _cache: CacheDirectory,
}

impl Origins {
    /// Opens the cache.
    pub(crate) fn open(world: &World, terminal: &Terminal) -> Result<Self, Failure> {
        let cache = CacheDirectory::open(terminal)?;
        Ok(Self { sources: open_sources(&cache.path, world, terminal)?, _cache: cache })
    }
}

impl Core {
    /// Renders the sources of an application as the controller would.
    pub(crate) async fn render(
        &self,
        app: &Application,
        world: &World,
        wanted: &RenderPlan,
        terminal: &Terminal,
    ) -> Result<Rendered, Failure> {
        self.render_instead(app, world, (wanted, &Instead::NOTHING), terminal).await
    }

    /// The same, with what stands for parts of the installation.
    pub(crate) async fn render_instead(
        &self,
        app: &Application,
        world: &World,
        (wanted, instead): (&RenderPlan, &Instead<'_>),
        terminal: &Terminal,
    ) -> Result<Rendered, Failure> {
        let destination = Destination::of(app, self, world).await?;
        let namespace =
            if app.metadata.namespace.is_empty() { &self.namespace } else { &app.metadata.namespace };
        let tracking = match instead.marks {
            Marks::Method(method) => world.tracking_of(app).with_method(method),
            Marks::Own | Marks::Nothing => world.tracking_of(app),
        };
        let instance = tracking.instance_name(namespace, &app.metadata.name);
        let kinds = &destination.kinds;
        let kube_version = match instead.kube_version {
            "" => kinds.server_version(),
            given => given,
        };
        let api_versions = match instead.api_versions {
            [] => kinds.api_versions(),
            given => given.to_vec(),
        };
        let context = RenderContext {
            instance_name: instance.to_string(),
            destination_namespace: app.spec.destination.namespace.clone(),
            project: app.project().to_owned(),
            cluster: ClusterFacts::new(kube_version, api_versions),
            ..RenderContext::default()
        };
        let sources = app.sources().to_vec();
        // Opened first: it says which plugins are there.
        let origins = Origins::open(world, terminal)?;
        let paths = app.metadata.annotations.get(tiphys_api::names::annotation::MANIFEST_GENERATE_PATHS);
        let context = context.with_plugins(origins.sources.plugins().settings(paths, app.was_plugin()));
        let annotation = app.metadata.annotations.get(tiphys_api::names::annotation::RENDERER);
        let context = context.with_settings(&world.settings).with_renderer(annotation);
        let mut context = context.with_sources(&sources);
        context.helm.repositories = world.named_chart_repositories(world.project(app)?);
        let subject = Subject { app, world, context, terminal };
        let mut values = Vec::new();
        match wanted {
            RenderPlan::Local { root, path } => {
                let Some(source) = sources.first() else {
                    return Err(Failure::generic(PlanError::NoSource.to_string()));
                };
                let tree = read_directory(root).map_err(|error| Failure::generic(error_chain(&error)))?;
                let source = ApplicationSource { path: path.clone(), ..source.clone() };
                let mut request = subject.context.request(&source, "");
                request.content = ContentKind::StreamedFiles;
                values = subject.run(request, Arc::new(tree), &source, &[], &origins.sources).await?;
            }
            RenderPlan::Revisions(revisions) => {
                let planned =
                    plan(&sources, revisions).map_err(|error| Failure::generic(error.to_string()))?;
                let mut resolved = Vec::with_capacity(planned.len());
                for planned in planned {
                    let place = match (instead.directory)(&planned.source.repo_url) {
                        Some((tree, revision)) => Place::Directory(tree, revision),
                        None => subject.resolve(&planned, &origins.sources).await?,
                    };
                    resolved.push(Resolved { planned, place });
                }
                for one in &resolved {
                    if one.planned.purpose == Purpose::Revision {
                        continue;
                    }
                    let tree = one.tree(&origins.sources).await?;
                    let source = one.planned.source;
                    let request = subject.context.request(source, one.revision());
                    let mut objects = subject.run(request, tree, source, &resolved, &origins.sources).await?;
                    values.append(&mut objects);
                }
            }
        }
        let mut objects = Vec::with_capacity(values.len());
        for mut value in values {
            if instead.marks != Marks::Nothing {
                tracking
                    .stamp(&mut value, &instance, &app.spec.destination.namespace)
                    .map_err(|error| Failure::generic(error.to_string()))?;
            }
            let object = Object::from_value(&value).map_err(|error| Failure::generic(error.to_string()))?;
            objects.push(Arc::new(object));
        }
        Ok(Rendered { objects })
    }

    /// Compares rendered objects with what lives, and gives the pairs that differ, ordered by key (CLI-501,
    /// CLI-502).
    pub(crate) async fn differences(
        &self,
        app: &Application,
        world: &World,
        rendered: &Rendered,
    ) -> Result<Vec<Difference>, Failure> {
        let destination = Destination::of(app, self, world).await?;
        let tracking = world.tracking_of(app);
        let namespace =
            if app.metadata.namespace.is_empty() { &self.namespace } else { &app.metadata.namespace };
        let instance = tracking.instance_name(namespace, &app.metadata.name);
        let previous = world.previous_tracking_of(app, &tracking);
        let cm = world.settings.cm();
        let ignore = IgnoreRules::compile(&app.spec.ignore_differences, cm)
            .map_err(|error| Failure::generic(error.to_string()))?;
        let managed = self.managed(app, &destination, &ignore).await?;
        let by_key = look_up(app, &destination, rendered, &ignore).await;
        let settings =
            DiffSettings::from_settings(cm).map_err(|error| Failure::generic(error.to_string()))?;
        let policy = app.spec.sync_policy.as_ref();
        let input = CompareInput {
            application_namespace: namespace,
            application_name: &app.metadata.name,
            destination_namespace: &app.spec.destination.namespace,
            targets: &rendered.objects,
            managed: &managed,
            by_key: &|key| by_key.get(key).cloned().unwrap_or(Seen::Absent),
            scope: &|kind| scope(&destination, kind),
            excluded: &|_| false,
            permitted_live: &|_| true,
            permitted_kind: &|_| true,
            // The command line shows no warnings about shared objects.
            ownership: Ownership {
                current: &tracking,
                previous: &previous,
                instance: &instance,
                others: &(),
            },
            ignore: &ignore,
            diff: &settings,
            sync_options: app.sync_options(),
            managed_namespace: policy.and_then(|policy| policy.managed_namespace_metadata.as_ref()),
            managed_namespace_changed: managed_namespace_changed(app),
        };
        let comparison = compare(&input, &mut DiffMemo::default());
        if let Some(why) = comparison.failed {
            return Err(Failure::generic(why));
        }
        let options = DiffOptions { ignore: &ignore, settings: settings.for_application(app.sync_options()) };
        let mask = SecretMask::from_settings(cm);
        let mut differences = Vec::new();
        for resource in comparison.resources.iter().filter(|resource| !resource.hook) {
            differences.extend(difference(resource, &options, &mask, &tracking.annotation_key)?);
        }
        Ok(differences)
    }

    /// The live objects that the status names, as far as they exist, with what the field managers own that the
    /// rules name.
    pub(crate) async fn managed(
        &self,
        app: &Application,
        destination: &Destination,
        ignore: &IgnoreRules,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        let reads = app.status.resources.iter().filter(|resource| !resource.hook).map(|resource| {
            let key = ResourceKey::new(&resource.group, &resource.kind, &resource.namespace, &resource.name);
            let target = Self::target_of(&key, &resource.version);
            let managers = ignore.managers_of(&target.gvk, &key.namespace, &key.name);
            async move { destination.read(&target, &managers).await }
        });
        let read: Vec<_> = futures::stream::iter(reads).buffered(READS_MAX).collect().await;
        let mut objects = Vec::with_capacity(read.len());
        for result in read {
            objects.extend(result?);
        }
        Ok(objects)
    }
}

fn open_sources(cache: &Path, world: &World, terminal: &Terminal) -> Result<Sources, Failure> {
    let mut options = SourceOptions::new(cache);
    terminal.variable("PATH").clone_into(&mut options.path);
    options.token_use = TokenUse::of(|name| Some(terminal.variable(name)));
    options.azure_identity = AzureIdentity::of(|name| Some(terminal.variable(name)));
    options.submodules = terminal.variable("ARGOCD_GIT_MODULES_ENABLED") != "false";
    options.exec_timeout = FETCH_TIMEOUT;
    options.tls_dir = None;
    options.docker_config = docker_config(terminal);
    options.local_roots = world.settings.local_repositories().to_vec();
    options.proxy_environment = PROXY_VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), terminal.env.get(*name)?.clone())))
        .collect();
    if !terminal.variable("ARGOCD_PLUGINSOCKFILEPATH").is_empty() {
        let plugins =
            PluginOptions::of_environment(|name| Some(terminal.variable(name)), options.exec_timeout);
        options.plugins = plugins.map_err(Failure::generic)?;
    }
    options.known_hosts_file = Path::new(terminal.variable("HOME")).join(".ssh/known_hosts");
    let sources = Sources::new(options).map_err(|error| Failure::generic(error_chain(&error)))?;
    sources.set_trust(world.trust());
    Ok(sources)
}

/// Where Docker keeps its logins (RND-113).
fn docker_config(terminal: &Terminal) -> Option<PathBuf> {
    let directory = match terminal.variable("DOCKER_CONFIG") {
        "" => Path::new(Some(terminal.variable("HOME")).filter(|home| !home.is_empty())?).join(".docker"),
        named => PathBuf::from(named),
    };
    Some(directory.join("config.json"))
}

/// For whom sources are fetched and rendered.
struct Subject<'a> {
    app: &'a Application,
    world: &'a World,
    context: RenderContext,
    terminal: &'a Terminal,
}

/// A source with where its files are.
struct Resolved<'a> {
    planned: PlannedSource<'a>,
    place: Place,
}

/// Where the files of a source are.
enum Place {
    /// In a repository, at a revision.
    Repository(Box<Repository>, String),
    /// In a directory that stands for one.
    Directory(Arc<dyn Tree>, String),
}

impl Resolved<'_> {
    fn revision(&self) -> &str {
        match &self.place {
            Place::Repository(_, revision) | Place::Directory(_, revision) => revision,
        }
    }

    async fn tree(&self, sources: &Sources) -> Result<Arc<dyn Tree>, Failure> {
        let (repository, revision) = match &self.place {
            Place::Repository(repository, revision) => (repository, revision),
            Place::Directory(tree, _) => return Ok(Arc::clone(tree)),
        };
        let tree = match self.planned.content {
            Content::Git => sources.tree(repository, revision).await,
            Content::Chart => {
                let chart = &self.planned.source.chart;
                sources.chart(repository, chart, revision, false).await.map(|chart| chart.tree)
            }
            Content::Oci => sources.artifact(repository, revision, false).await,
        };
        tree.map_err(|error| failed(&error))
    }
}

fn failed(error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::status("Unknown", error_chain(error))
}

impl Subject<'_> {
    async fn resolve(&self, planned: &PlannedSource<'_>, sources: &Sources) -> Result<Place, Failure> {
        let PlannedSource { source, revision, content, .. } = *planned;
        let project = self.world.project(self.app)?;
        if let Some(why) = self.world.repository_refusal(project, &source.repo_url) {
            return Err(Failure::status("PermissionDenied", why));
        }
        let mut repository = self.world.repository(&source.repo_url, self.app.project())?;
        repository.pass_credentials = source.helm.as_ref().is_some_and(|helm| helm.pass_credentials);
        let revision = match content {
            Content::Git => self.commit(planned, &repository, sources).await?,
            Content::Chart => sources
                .resolve_chart(&repository, &source.chart, revision, Freshness::Fetch)
                .await
                .map_err(|error| failed(&error))?,
            Content::Oci => sources
                .resolve_artifact(&repository, revision, Freshness::Fetch)
                .await
                .map_err(|error| failed(&error))?,
        };
        Ok(Place::Repository(Box::new(repository), revision))
    }

    /// The commit of a source, signed as the project wants it.
    async fn commit(
        &self,
        planned: &PlannedSource<'_>,
        repository: &Repository,
        sources: &Sources,
    ) -> Result<String, Failure> {
        let source = planned.source;
        let project = self.world.project(self.app)?;
        let resolved = sources
            .resolve_tag(repository, planned.revision, &source.tag_prefix, Freshness::Fetch)
            .await
            .map_err(|error| failed(&error))?;
        let rule = self.world.signature_rule(project, &source.repo_url);
        if let Some(rule) = rule.map_err(|error| Failure::status("FailedPrecondition", error))? {
            let signed = Signed {
                commit: &resolved.commit,
                named: planned.signed_revision(),
                tag_prefix: &source.tag_prefix,
                mode: rule.mode,
                keyring: &self.world.keyring,
            };
            let mut verdict = Verdict::new(&rule);
            let looked = sources.signatures(repository, signed, &mut |object| verdict.take(object)).await;
            looked.map_err(|error| failed(&error))?;
            if let Some(why) = verdict.refusal() {
                return Err(Failure::status("FailedPrecondition", why));
            }
        }
        Ok(resolved.commit)
    }

    /// Renders a source; what it lacks is fetched.
    async fn run(
        &self,
        request: RenderRequest,
        tree: Arc<dyn Tree>,
        source: &ApplicationSource,
        all: &[Resolved<'_>],
        sources: &Sources,
    ) -> Result<Vec<Value>, Failure> {
        let project = self.world.project(self.app)?;
        let request = Arc::new(request);
        let secret = self.world.settings.secret("server.secretkey").unwrap_or_default();
        let mut conversation = Conversation::default();
        let refused = |error: RenderError| {
            Failure::status(error.code().as_str(), format!("Manifest generation error: {error}"))
        };
        loop {
            let (request, files) = (Arc::clone(&request), Arc::clone(&tree));
            let (supplies, secret) = (Arc::clone(conversation.supplies()), secret.clone());
            let job = tokio::task::spawn_blocking(move || {
                let inputs = Inputs {
                    supplies: &supplies,
                    world: RenderWorld { now: jiff::Timestamp::now(), chance: Some(chance) },
                    secret: secret.expose().as_bytes(),
                    ..Inputs::of(files.as_ref())
                };
                render(&request, &inputs, &Budget::default())
            });
            let needs = match job.await {
                Ok(Ok(Outcome::Done(rendered))) => {
                    let compared = rendered.compared.filter(|one| one.comparison != Comparison::Equal);
                    if let Some(compared) = compared {
                        self.terminal.warn(&format!("{compared}\n"));
                    }
                    return Ok(rendered.objects);
                }
                Ok(Ok(Outcome::Needs(needs))) => needs,
                Ok(Err(error)) => return Err(refused(error)),
                Err(_panic) => return Err(Failure::generic("rendering failed unexpectedly")),
            };
            for need in conversation.wanted(needs).map_err(refused)? {
                let referred = match &need {
                    Need::Ref { name } => all.iter().find(|other| other.planned.source.r#ref == *name),
                    _ => None,
                };
                let supply = if let Some(other) = referred {
                    Supply::tree(other.tree(sources).await?)
                } else {
                    let fetcher = Fetcher {
                        installation: self.world,
                        project,
                        sources,
                        source,
                        tree: &tree,
                        is_fresh: false,
                    };
                    fetcher.bring(&need).await.map_err(|error| failed(&error))?
                };
                conversation.add(need, supply).map_err(refused)?;
            }
        }
    }
}

/// Chance of the machine, for templates that want it.
fn chance(bytes: &mut [u8]) {
    if aws_lc_rs::rand::fill(bytes).is_err() {
        bytes.fill(0);
    }
}

fn scope(destination: &Destination, kind: &GroupKind) -> Option<Scope> {
    destination.kinds.scope(kind).map(|scope| match scope {
        ClusterScope::Namespaced => Scope::Namespaced,
        ClusterScope::Cluster => Scope::Cluster,
    })
}

/// Reads the live object of each desired one.
async fn look_up(
    app: &Application,
    destination: &Destination,
    rendered: &Rendered,
    ignore: &IgnoreRules,
) -> HashMap<ResourceKey, Seen<Arc<Object>>> {
    let looks = rendered.objects.iter().map(|object| {
        let key = match scope(destination, &object.gvk().group_kind()) {
            Some(Scope::Cluster) => object.key().in_namespace(""),
            _ if object.namespace().is_empty() => object.key().in_namespace(&app.spec.destination.namespace),
            _ => object.key(),
        };
        let version = object.gvk().version.clone();
        let managers = ignore.managers_of(object.gvk(), &key.namespace, &key.name);
        async move { (key.clone(), destination.look(&key, &version, &managers).await) }
    });
    futures::stream::iter(looks).buffered(READS_MAX).collect().await
}

fn difference(
    resource: &ComparedResource,
    options: &DiffOptions<'_>,
    mask: &SecretMask,
    mark: &str,
) -> Result<Option<Difference>, Failure> {
    let is_pair = resource.target.is_some() && resource.live.is_some();
    if is_pair && !resource.modified || resource.status.is_none() && !is_pair {
        return Ok(None);
    }
    let target = resource.target.as_deref().map(super::value_of).transpose()?;
    let live = resource.live.as_deref().map(super::value_of).transpose()?;
    let result = diff(target.as_ref(), live.as_ref(), options)
        .map_err(|error| Failure::generic(format!("{}: {error}", resource.key)))?;
    let (mut live, mut target) = (result.normalized_live, result.predicted_live);
    mask.hide(&mut [&mut target, &mut live])
        .map_err(|error| Failure::generic(format!("{}: {error}", resource.key)))?;
    // Beside the objects themselves these tell nothing. A pair that differs in its mark alone keeps it.
    let mut bare = (live.clone(), target.clone());
    for side in [&mut bare.0, &mut bare.1] {
        access::remove_annotation(side, LAST_APPLIED);
        access::remove_annotation(side, mark);
        access::metadata_mut(side).remove("managedFields");
    }
    if bare.0 != bare.1 {
        (live, target) = bare;
    }
    Ok(Some(Difference { key: resource.key.clone(), live, target }))
}
