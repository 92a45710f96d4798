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
use tiphys_engine::tracking::Ownership;
use tiphys_object::{GroupKind, Object, ResourceKey, access};
use tiphys_policy::signature::Verdict;
use tiphys_render::plan::{ClusterFacts, Content, PlanError, PlannedSource, Purpose, RenderContext, plan};
use tiphys_render::{Budget, Inputs, RenderRequest, Tree, render};
use tiphys_source::{AzureIdentity, Freshness, Signed, SourceOptions, Sources, TokenUse, read_directory};

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
        let destination = Destination::of(app, self, world).await?;
        let namespace =
            if app.metadata.namespace.is_empty() { &self.namespace } else { &app.metadata.namespace };
        let tracking = world.tracking_of(app);
        let instance = tracking.instance_name(namespace, &app.metadata.name);
        let kinds = &destination.kinds;
        let context = RenderContext {
            instance_name: instance.to_string(),
            destination_namespace: app.spec.destination.namespace.clone(),
            project: app.project().to_owned(),
            cluster: ClusterFacts::new(kinds.server_version(), kinds.api_versions()),
            ..RenderContext::default()
        };
        let subject = Subject { app, world, context: context.with_settings(&world.settings) };
        let mut values = Vec::new();
        let sources = hydrated_or(app);
        match wanted {
            RenderPlan::Local { root, path } => {
                let Some(source) = sources.first() else {
                    return Err(Failure::generic(PlanError::NoSource.to_string()));
                };
                let tree = read_directory(root).map_err(|error| Failure::generic(error_chain(&error)))?;
                let source = ApplicationSource { path: path.clone(), ..source.clone() };
                let request = subject.context.request(&source, "");
                values = run(request, Arc::new(tree)).await?;
            }
            RenderPlan::Revisions(revisions) => {
                let origins = Origins::open(world, terminal)?;
                let planned = plan(&sources, revisions).map_err(|error| match error {
                    PlanError::NoSource => Failure::generic(error.to_string()),
                    PlanError::Unsupported { .. } => Failure::status("Unimplemented", error.to_string()),
                })?;
                for one in planned.iter().filter(|one| one.purpose == Purpose::Manifests) {
                    let (tree, commit) = subject.fetch(one, &origins.sources).await?;
                    let request = subject.context.request(one.source, &commit);
                    values.append(&mut run(request, tree).await?);
                }
            }
        }
        let mut objects = Vec::with_capacity(values.len());
        for mut value in values {
            tracking
                .stamp(&mut value, &instance, &app.spec.destination.namespace)
                .map_err(|error| Failure::generic(error.to_string()))?;
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

/// The sources in force: those of the hydrator's result where there is one (CTL-5).
fn hydrated_or(app: &Application) -> Vec<ApplicationSource> {
    let Some(hydrator) = &app.spec.source_hydrator else { return app.sources().to_vec() };
    let text = |block: &str, member: &str| {
        let found = hydrator.get(block).and_then(|block| block.get(member)).and_then(Value::as_str);
        found.unwrap_or_default().to_owned()
    };
    let own = text("syncSource", "repoURL");
    vec![ApplicationSource {
        repo_url: if own.is_empty() { text("drySource", "repoURL") } else { own },
        path: text("syncSource", "path"),
        target_revision: text("syncSource", "targetBranch"),
        ..ApplicationSource::default()
    }]
}

fn open_sources(cache: &Path, world: &World, terminal: &Terminal) -> Result<Sources, Failure> {
    let mut options = SourceOptions::new(cache);
    terminal.variable("PATH").clone_into(&mut options.path);
    options.token_use = TokenUse::of(|name| Some(terminal.variable(name)));
    options.azure_identity = AzureIdentity::of(|name| Some(terminal.variable(name)));
    options.submodules = terminal.variable("ARGOCD_GIT_MODULES_ENABLED") != "false";
    options.exec_timeout = FETCH_TIMEOUT;
    options.tls_dir = None;
    options.local_roots = world.settings.local_repositories().to_vec();
    options.proxy_environment = PROXY_VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), terminal.env.get(*name)?.clone())))
        .collect();
    options.known_hosts_file = Path::new(terminal.variable("HOME")).join(".ssh/known_hosts");
    let sources = Sources::new(options).map_err(|error| Failure::generic(error_chain(&error)))?;
    sources.set_trust(world.trust());
    Ok(sources)
}

/// For whom sources are fetched and rendered.
struct Subject<'a> {
    app: &'a Application,
    world: &'a World,
    context: RenderContext,
}

impl Subject<'_> {
    async fn fetch(
        &self,
        planned: &PlannedSource<'_>,
        sources: &Sources,
    ) -> Result<(Arc<dyn Tree>, String), Failure> {
        let PlannedSource { source, revision, content: Content::Git, .. } = *planned;
        let project = self.world.project(self.app)?;
        if let Some(why) = self.world.repository_refusal(project, &source.repo_url) {
            return Err(Failure::status("PermissionDenied", why));
        }
        let repository = self.world.repository(&source.repo_url, self.app.project())?;
        let failed =
            |error: &(dyn std::error::Error + 'static)| Failure::status("Unknown", error_chain(error));
        let resolved = sources
            .resolve_tag(&repository, revision, &source.tag_prefix, Freshness::Fetch)
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
            let looked = sources.signatures(&repository, signed, &mut |object| verdict.take(object)).await;
            looked.map_err(|error| failed(&error))?;
            if let Some(why) = verdict.refusal() {
                return Err(Failure::status("FailedPrecondition", why));
            }
        }
        let tree = sources.tree(&repository, &resolved.commit).await.map_err(|error| failed(&error))?;
        Ok((tree, resolved.commit))
    }
}

async fn run(request: RenderRequest, tree: Arc<dyn Tree>) -> Result<Vec<Value>, Failure> {
    let job =
        tokio::task::spawn_blocking(move || render(&request, &Inputs::of(tree.as_ref()), &Budget::default()));
    match job.await {
        Ok(Ok(rendered)) => Ok(rendered.objects),
        Ok(Err(error)) => {
            Err(Failure::status(error.code().as_str(), format!("Manifest generation error: {error}")))
        }
        Err(panic) => Err(Failure::generic(format!("rendering failed unexpectedly: {panic}"))),
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
