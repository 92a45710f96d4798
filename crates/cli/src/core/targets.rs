//! From sources to desired objects, inside this process (CLI-141).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tiphys_api::Application;
use tiphys_api::application::ApplicationSource;
use tiphys_cluster::error_chain;
use tiphys_engine::tracking::TrackingMethod;
use tiphys_object::Object;
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
        let facts = self.facts(app, world, (instead, terminal)).await?;
        let namespace =
            if app.metadata.namespace.is_empty() { &self.namespace } else { &app.metadata.namespace };
        let tracking = match instead.marks {
            Marks::Method(method) => world.tracking_of(app).with_method(method),
            Marks::Own | Marks::Nothing => world.tracking_of(app),
        };
        let instance = tracking.instance_name(namespace, &app.metadata.name);
        let context = RenderContext {
            instance_name: instance.to_string(),
            destination_namespace: app.spec.destination.namespace.clone(),
            project: app.project().to_owned(),
            cluster: facts,
            ..RenderContext::default()
        };
        let sources = app.sources().to_vec();
        // Opened first: it says which plugins are there.
        let origins = Origins::open(world, terminal)?;
        let paths = app.metadata.annotations.get(tiphys_api::names::annotation::MANIFEST_GENERATE_PATHS);
        let context = context.with_plugins(origins.sources.plugins().settings(paths, app.was_plugin()));
        let annotation = app.metadata.annotations.get(tiphys_api::names::annotation::RENDERER);
        let context = context.with_settings(&world.settings).with_renderer(annotation, &world.settings);
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
}

impl Core {
    /// What templates are told of the destination.
    async fn facts(
        &self,
        app: &Application,
        world: &World,
        (instead, terminal): (&Instead<'_>, &Terminal),
    ) -> Result<ClusterFacts, Failure> {
        let (version, served) = if let Some(server) = self.server() {
            let (version, served) = server.served(app).await?;
            if served.is_empty() && instead.api_versions.is_empty() {
                terminal.warn(
                    "Warning: the server does not say what the cluster serves; templates that ask see nothing\n",
                );
            }
            (version, served)
        } else {
            let kinds = Destination::of(app, self, world).await?.kinds;
            (kinds.server_version().to_owned(), kinds.api_versions())
        };
        let version = if instead.kube_version.is_empty() { &version } else { instead.kube_version };
        let served = if instead.api_versions.is_empty() { served } else { instead.api_versions.to_vec() };
        Ok(ClusterFacts::new(version, served))
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
        let budget = Budget::of(self.world.settings.renderers());
        let mut conversation = Conversation::default();
        let refused = |error: RenderError| {
            Failure::status(error.code().as_str(), format!("Manifest generation error: {error}"))
        };
        loop {
            let (request, files) = (Arc::clone(&request), Arc::clone(&tree));
            let (supplies, secret) = (Arc::clone(conversation.supplies()), secret.clone());
            let budget = budget.clone();
            let job = tokio::task::spawn_blocking(move || {
                let inputs = Inputs {
                    supplies: &supplies,
                    world: RenderWorld { now: jiff::Timestamp::now(), chance: Some(chance) },
                    secret: secret.expose().as_bytes(),
                    ..Inputs::of(files.as_ref())
                };
                render(&request, &inputs, &budget)
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
