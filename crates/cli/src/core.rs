//! The way to one installation: through Kubernetes, or through its API server.
//!
//! Core mode: the kubeconfig is the way in, Applications are read, patched and watched directly (CLI-140). What an API
//! server would check before it changes an Application is checked here by the same pure rules. Kubernetes decides what
//! the user may do. With a server, the server checks and decides (`remote`).

mod destination;
mod differences;
pub(crate) mod generation;
mod health;
mod look;
mod objects;
mod orphans;
mod remote;
mod remote_sets;
mod sets;
mod stream;
mod targets;
mod tree;
mod world;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::names::{GROUP, SETTINGS_CONFIG_MAP, VERSION, annotation};
use tiphys_api::settings::{ClientLimits, ClientRate};
use tiphys_cluster::{
    ApiError, Connection, DeleteOptions, Deleted, Discovery, KubeOverrides, ObjectEvent, ObjectQuery,
    PluginPolicy, Propagation, Target, Writer, watch_objects,
};
use tiphys_engine::tracking::split_qualified_name;
use tiphys_lifecycle::refresh::request;
use tiphys_object::{Gvk, Object, ResourceKey, access};
use tiphys_policy::permit::{Own, Permit};
use tiphys_service::Store;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::failure::Failure;

pub(crate) use destination::Destination;
pub(crate) use differences::Difference;
pub(crate) use generation::Outcome;
pub(crate) use remote::{Live, LogQuery, Remote, Revisions, items, object, project_object, state, word};
pub(crate) use remote_sets::Told as ToldSet;
pub(crate) use sets::StoredSet;
pub(crate) use targets::{Instead, Marks, Origins, RenderPlan};
pub(crate) use tree::{Node, Tree};
pub(crate) use world::{Loaded, World};

/// Where settings are when the context's namespace has none.
const NAMESPACE: &str = "argocd";
/// Events that may wait between the watch and the command; when full the watch stalls.
const EVENTS_MAX: usize = 64;
/// Attempts at a change that others may be making at the same time.
const ATTEMPTS_MAX: u32 = 10;
/// Time for a comparison that was asked for.
const REFRESH_TIMEOUT: Duration = Duration::from_mins(5);
/// Time for a list.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);
/// Time for a second attempt at a list that failed.
const LIST_PATIENCE: Duration = Duration::from_secs(3);

/// An application's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AppName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl AppName {
    /// Reads `namespace/name`; a bare name is in the given namespace (CLI-304).
    pub(crate) fn parse(text: &str, namespace: &str) -> Self {
        let (namespace, name) = split_qualified_name(text, namespace);
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The identity of an application.
    pub(crate) fn of(app: &Application) -> Self {
        Self { namespace: app.metadata.namespace.clone(), name: app.metadata.name.clone() }
    }
}

impl std::fmt::Display for AppName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An application as it was read: typed, and whole.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) app: Application,
    pub(crate) object: Arc<Object>,
}

impl Stored {
    fn new(object: Arc<Object>) -> Result<Self, Failure> {
        let app = serde_json::from_slice(&object.raw()).map_err(|error| {
            Failure::generic(format!("application {} cannot be read: {error}", object.name()))
        })?;
        Ok(Self { app, object })
    }

    /// The application as the API shows it.
    pub(crate) fn value(&self) -> Value {
        // It was read as an Application, so that it is JSON is known.
        crate::output::as_api(self.object.to_value().unwrap_or_default())
    }

    /// Its identity.
    pub(crate) fn name(&self) -> AppName {
        AppName { namespace: self.object.namespace().to_owned(), name: self.object.name().to_owned() }
    }
}

/// An object as a tree.
pub(crate) fn value_of(object: &Object) -> Result<Value, Failure> {
    object.to_value().map_err(|error| Failure::generic(format!("{} cannot be read: {error}", object.key())))
}

/// What happened to the application that is followed.
#[derive(Debug)]
pub(crate) enum Change {
    /// It is like this now.
    Now(Box<Stored>),
    /// It is gone.
    Gone,
}

/// Follows one application; dropping it ends the watch.
pub(crate) enum Follow {
    /// In Kubernetes.
    Watch(Watch),
    /// By a server's stream.
    Stream(Box<stream::Stream>),
}

impl Follow {
    /// The next change. An application that is not there when the watch begins counts as gone (CLI-530).
    pub(crate) async fn next(&mut self) -> Result<Change, Failure> {
        match self {
            Self::Watch(watch) => watch.next().await,
            Self::Stream(stream) => match stream.next().await? {
                Some(value) => Ok(Change::Now(Box::new(remote::stored(value)?))),
                None => Ok(Change::Gone),
            },
        }
    }
}

/// A watch of one application.
pub(crate) struct Watch {
    events: mpsc::Receiver<ObjectEvent>,
    was_there: bool,
    _guard: DropGuard,
}

impl Watch {
    async fn next(&mut self) -> Result<Change, Failure> {
        loop {
            match self.events.recv().await {
                Some(ObjectEvent::Upsert(received)) => {
                    self.was_there = true;
                    let object = received.read().map_err(|bad| Failure::generic(bad.to_string()))?;
                    return Ok(Change::Now(Box::new(Stored::new(object)?)));
                }
                Some(ObjectEvent::Delete(_)) => return Ok(Change::Gone),
                Some(ObjectEvent::Synced) if !self.was_there => return Ok(Change::Gone),
                // The watch goes on by itself once the cluster answers again.
                Some(ObjectEvent::Synced | ObjectEvent::Failed(_)) => {}
                None => return Err(Failure::generic("the watch of the application ended")),
            }
        }
    }
}

/// Which installation is meant; empty parts take their defaults.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    /// Path of the kubeconfig.
    pub(crate) kubeconfig: &'a str,
    /// Its context.
    pub(crate) context: &'a str,
    /// Namespace of the settings.
    pub(crate) namespace: &'a str,
    /// What is said in place of the kubeconfig.
    pub(crate) overrides: KubeOverrides,
    /// Time for one request, where it is bounded.
    pub(crate) timeout: Option<Duration>,
    /// Whether somebody reads advice.
    pub(crate) advises: bool,
    /// Our environment.
    pub(crate) environment: &'a std::collections::BTreeMap<String, String>,
}

/// A cluster, as the kubeconfig leads there.
struct Kubernetes {
    connection: Connection,
    discovery: Discovery,
    writer: Writer,
}

impl Place<'_> {
    /// The way to the cluster.
    pub(crate) async fn connection(&self) -> Result<Connection, Failure> {
        let context = (!self.context.is_empty()).then_some(self.context);
        let path = (!self.kubeconfig.is_empty()).then(|| Path::new(self.kubeconfig));
        let limits = ClientLimits::of(self.environment);
        let limits = ClientLimits { request: self.timeout.or(limits.request), ..limits };
        Connection::from_kubeconfig_with(path, context, &self.overrides, limits).await.map_err(|error| {
            Failure::fatal(tiphys_cluster::error_chain(&error))
                .hint("set KUBECONFIG, or name a context with `--kube-context`")
        })
    }
}

/// What requests go to.
enum Way {
    Kubernetes(Box<Kubernetes>),
    Server(Box<Remote>),
}

/// A way to one installation.
pub(crate) struct Core {
    way: Way,
    /// Namespace of the settings.
    pub(crate) namespace: String,
    advises: bool,
    /// Our environment, for credential plugins.
    environment: std::collections::BTreeMap<String, String>,
    left_out: Mutex<Vec<String>>,
}

impl Core {
    /// What lists of Applications so far had to leave out, with the reasons.
    pub(crate) fn left_out(&self) -> Vec<String> {
        std::mem::take(&mut self.left_out.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Connects with the kubeconfig.
    pub(crate) async fn connect(place: &Place<'_>) -> Result<Self, Failure> {
        let connection = place.connection().await?;
        let connection = match ClientRate::of(place.environment) {
            Some(rate) => connection.paced(rate),
            None => connection,
        };
        let discovery = Discovery::new(connection.clone());
        let writer = Writer::new(connection.clone(), discovery.clone());
        let kinds = discovery.kinds().await?;
        if kinds.resource(&application_gvk()).is_none() {
            return Err(Failure::generic(format!(
                "the cluster at {} does not serve Applications ({GROUP}/{VERSION})",
                connection.server()
            ))
            .hint(
                "`tiphys install | kubectl apply --server-side -f -`, or choose another `--kube-context`",
            ));
        }
        let own = connection.default_namespace();
        let settings = Target::new(Gvk::new("", "v1", "ConfigMap"), own, SETTINGS_CONFIG_MAP);
        let namespace = if !place.namespace.is_empty() {
            place.namespace.to_owned()
        } else if own != NAMESPACE && matches!(writer.get(&settings).await, Ok(Some(_))) {
            own.to_owned()
        } else {
            // No settings there, or nobody may read them: that is not where the installation is.
            NAMESPACE.to_owned()
        };
        Ok(Self {
            way: Way::Kubernetes(Box::new(Kubernetes { connection, discovery, writer })),
            namespace,
            advises: place.advises,
            environment: place.environment.clone(),
            left_out: Mutex::default(),
        })
    }

    /// The cluster itself; behind a server nobody sees it.
    fn kubernetes(&self) -> Result<&Kubernetes, Failure> {
        match &self.way {
            Way::Kubernetes(kubernetes) => Ok(kubernetes),
            Way::Server(_) => Err(Failure::fatal("this command does not ask a server yet")
                .hint("add `--core` to talk to Kubernetes with your kubeconfig")),
        }
    }

    /// The way to the cluster of the kubeconfig.
    pub(crate) fn connection(&self) -> Result<&Connection, Failure> {
        Ok(&self.kubernetes()?.connection)
    }

    /// The service layer's way to the objects of the installation.
    pub(crate) fn store(&self) -> Result<Store, Failure> {
        Ok(Store::new(self.kubernetes()?.writer.clone(), &self.namespace))
    }

    /// How fast clusters are asked, where somebody bounds it (REP-108).
    pub(crate) fn rate(&self, world: &World) -> Option<ClientRate> {
        ClientRate::of(&self.environment).or(world.settings.controller().client_rate)
    }

    /// Which credential plugins may run for clusters, and with what.
    pub(crate) fn plugin_policy(&self, world: &World) -> PluginPolicy {
        PluginPolicy {
            programs: world.settings.controller().cluster_exec_programs.clone(),
            environment: self.environment.clone(),
        }
    }

    /// Reads one object; `None` when it does not exist.
    pub(crate) async fn get(&self, target: &Target) -> Result<Option<Arc<Object>>, Failure> {
        Ok(self.kubernetes()?.writer.get(target).await?)
    }

    /// Reads an application.
    pub(crate) async fn application(&self, name: &AppName) -> Result<Stored, Failure> {
        match self.find(name).await? {
            Some(stored) => Ok(stored),
            None => Err(self.missing(name).await),
        }
    }

    /// The failure of an application that does not exist, with names like it where somebody reads them.
    async fn missing(&self, name: &AppName) -> Failure {
        let failure = not_found(name);
        if !self.advises || self.server().is_some() {
            return failure;
        }
        // Who may not list gets the general advice.
        let Ok(all) = self.applications(&name.namespace, "").await else { return failure };
        let names: Vec<&str> = all.iter().map(|stored| stored.object.name()).collect();
        match nearest(&name.name, &names) {
            Some(near) => failure.hint(format!("did you mean `{near}`?")),
            None => failure,
        }
    }

    /// Reads an application that may not exist.
    pub(crate) async fn find(&self, name: &AppName) -> Result<Option<Stored>, Failure> {
        if let Some(server) = self.server() {
            return server.find(name).await;
        }
        self.kubernetes()?.writer.get(&app_target(name)).await?.map(Stored::new).transpose()
    }

    /// Reads all applications of a namespace (all namespaces when empty) that match a label selector, by name.
    pub(crate) async fn applications(&self, namespace: &str, selector: &str) -> Result<Vec<Stored>, Failure> {
        if let Some(server) = self.server() {
            return server.applications(namespace, selector).await;
        }
        let objects = self.list(&application_gvk(), namespace, selector).await?;
        let mut apps = objects.into_iter().map(Stored::new).collect::<Result<Vec<_>, _>>()?;
        apps.sort_by_key(Stored::name);
        Ok(apps)
    }

    /// Reads all projects of the installation, by name.
    pub(crate) async fn projects(&self) -> Result<Vec<Arc<Object>>, Failure> {
        let mut found = match self.server() {
            Some(server) => server.projects().await?,
            None => self.list(&Gvk::new(GROUP, VERSION, "AppProject"), &self.namespace, "").await?,
        };
        found.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(found)
    }

    /// Reads all objects of a kind.
    async fn list(&self, gvk: &Gvk, namespace: &str, selector: &str) -> Result<Vec<Arc<Object>>, Failure> {
        self.listed(self.watch(gvk, namespace, selector, "").await?, gvk).await
    }

    /// Reads all objects of a kind in a destination cluster.
    pub(crate) async fn list_at(&self, at: &Destination, gvk: &Gvk) -> Result<Vec<Arc<Object>>, Failure> {
        self.listed(watch(&at.connection, &at.discovery, gvk, ("", "", "")).await?, gvk).await
    }

    /// The first list of a watch.
    async fn listed(
        &self,
        (mut events, _guard): (mpsc::Receiver<ObjectEvent>, DropGuard),
        gvk: &Gvk,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        let mut objects = Vec::new();
        let mut deadline = Instant::now() + LIST_TIMEOUT;
        let mut failure =
            Failure::status("DeadlineExceeded", format!("{} objects were not listed in time", gvk.kind));
        loop {
            match tokio::time::timeout_at(deadline, events.recv()).await {
                Ok(Some(ObjectEvent::Upsert(received))) => match received.read() {
                    Ok(object) => objects.push(object),
                    // One that cannot be read does not hide the others; nothing else may look as if it were not there.
                    Err(bad) if gvk.kind == "Application" => {
                        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).push(bad.to_string());
                    }
                    Err(bad) => return Err(Failure::generic(bad.to_string())),
                },
                Ok(Some(ObjectEvent::Synced)) => return Ok(objects),
                Ok(Some(ObjectEvent::Failed(why))) => {
                    // A server that was just told of a kind refuses for a moment; the watch tries again.
                    failure = Failure::status("Unavailable", why);
                    deadline = Instant::now() + LIST_PATIENCE;
                }
                Ok(Some(ObjectEvent::Delete(_))) => {}
                Ok(None) => return Err(Failure::generic("the list ended early")),
                Err(_) => return Err(failure),
            }
        }
    }

    async fn watch(
        &self,
        gvk: &Gvk,
        namespace: &str,
        label_selector: &str,
        field_selector: &str,
    ) -> Result<(mpsc::Receiver<ObjectEvent>, DropGuard), Failure> {
        let Kubernetes { connection, discovery, .. } = self.kubernetes()?;
        watch(connection, discovery, gvk, (namespace, label_selector, field_selector)).await
    }

    /// Follows an application from now on; the first change is its present state.
    pub(crate) async fn follow(&self, name: &AppName) -> Result<Follow, Failure> {
        if let Some(server) = self.server() {
            return Ok(server.follow(name));
        }
        let selector = format!("metadata.name={}", name.name);
        let (events, guard) = self.watch(&application_gvk(), &name.namespace, "", &selector).await?;
        Ok(Follow::Watch(Watch { events, was_there: false, _guard: guard }))
    }

    /// Creates an application.
    pub(crate) async fn create(&self, desired: &Value) -> Result<Stored, Failure> {
        let permit = Permit::own(Own::Application, access::namespace(desired), access::name(desired));
        Stored::new(self.kubernetes()?.writer.create(&permit, desired).await?)
    }

    /// Changes an application by a merge patch.
    pub(crate) async fn patch(&self, name: &AppName, patch: &Value) -> Result<Stored, Failure> {
        if let Some(server) = self.server() {
            return server.patch(name, &patch.to_string(), "merge").await;
        }
        match self.kubernetes()?.writer.merge_patch(&app_permit(name), &app_target(name), None, patch).await {
            Ok(object) => Stored::new(object),
            Err(error) if error.is_not_found() => Err(not_found(name)),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks for a comparison and waits until it was made (CLI-440).
    pub(crate) async fn refresh(&self, name: &AppName, hard: bool) -> Result<Stored, Failure> {
        if let Some(server) = self.server() {
            return server.refresh(name, hard).await;
        }
        let known = self.get(&app_target(name)).await?;
        let known = known.and_then(|object| object.to_value().ok());
        let is_hydrated =
            known.is_some_and(|app| app.pointer("/spec/sourceHydrator").is_some_and(Value::is_object));
        let annotations = request(is_hydrated, hard, Timestamp::now());
        self.patch(name, &json!({"metadata": {"annotations": annotations}})).await?;
        let mut follow = self.follow(name).await?;
        let deadline = Instant::now() + REFRESH_TIMEOUT;
        loop {
            let Ok(change) = tokio::time::timeout_at(deadline, follow.next()).await else {
                let seconds = REFRESH_TIMEOUT.as_secs();
                let text = format!("application {name} was not compared within {seconds} s");
                return Err(Failure::status("DeadlineExceeded", text)
                    .hint("is the controller running in this cluster? `tiphys run` starts one here"));
            };
            match change? {
                Change::Now(stored) if stored.app.annotation(annotation::REFRESH).is_none() => {
                    return Ok(*stored);
                }
                Change::Now(_) => {}
                Change::Gone => return Err(not_found(name)),
            }
        }
    }

    /// Reads an application, changes it and writes it back, again when somebody else was faster. `edit` makes the
    /// new object from the state just read; `None` leaves it.
    pub(crate) async fn change(
        &self,
        name: &AppName,
        edit: impl Fn(&Stored) -> Result<Option<Value>, Failure>,
    ) -> Result<Stored, Failure> {
        let mut attempt = 1;
        loop {
            let stored = self.application(name).await?;
            let Some(value) = edit(&stored)? else { return Ok(stored) };
            match self.kubernetes()?.writer.update(&app_permit(name), &value).await {
                Ok(object) => return Stored::new(object),
                Err(error) if error.is_conflict() && attempt < ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Starts an operation: sets it and removes the state of the last one (CTL-53). `make` builds the operation
    /// for the state just read, or refuses.
    pub(crate) async fn start_operation(
        &self,
        name: &AppName,
        make: impl Fn(&Application) -> Result<Value, Failure>,
    ) -> Result<Stored, Failure> {
        if let Some(server) = self.server() {
            let stored = self.application(name).await?;
            return server.sync(name, &make(&stored.app)?).await;
        }
        self.change(name, |stored| {
            if stored.app.operation.is_some() {
                return Err(Failure::status(
                    "FailedPrecondition",
                    "another operation is already in progress",
                ));
            }
            let operation = make(&stored.app)?;
            let mut value = value_of(&stored.object)?;
            let members = access::ensure_object(&mut value);
            members.insert("operation".to_owned(), operation);
            if let Some(status) = members.get_mut("status").and_then(Value::as_object_mut) {
                status.remove("operationState");
            }
            Ok(Some(value))
        })
        .await
    }

    /// Asks a running operation to end (CTL-51).
    pub(crate) async fn terminate(&self, name: &AppName) -> Result<(), Failure> {
        if let Some(server) = self.server() {
            return server.terminate(name).await;
        }
        let mut attempt = 1;
        loop {
            let stored = self.application(name).await?;
            let state = stored.app.status.operation_state.as_ref();
            let is_running =
                stored.app.operation.is_some() && state.is_some_and(|state| state.finished_at.is_none());
            if !is_running {
                return Err(Failure::status(
                    "InvalidArgument",
                    "Unable to terminate operation. No operation is in progress",
                ));
            }
            let patch = json!([
                {"op": "test", "path": "/metadata/resourceVersion", "value": stored.app.metadata.resource_version},
                {"op": "replace", "path": "/status/operationState/phase", "value": "Terminating"},
            ]);
            match self
                .kubernetes()?
                .writer
                .json_patch(&app_permit(name), &app_target(name), None, &patch)
                .await
            {
                Ok(_) => return Ok(()),
                Err(error) if (error.is_conflict() || error.code() == 422) && attempt < ATTEMPTS_MAX => {
                    attempt += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes an application; its finalizers decide about its resources.
    pub(crate) async fn delete(&self, stored: &Stored) -> Result<(), Failure> {
        let options = DeleteOptions {
            propagation: Propagation::Background,
            uid: Some(stored.app.metadata.uid.as_str().into()),
            ..DeleteOptions::default()
        };
        let writer = &self.kubernetes()?.writer;
        match writer.delete(&app_permit(&stored.name()), &app_target(&stored.name()), &options).await? {
            Deleted::Accepted => Ok(()),
            Deleted::Absent => Err(not_found(&stored.name())),
        }
    }

    /// What lives in a namespace-qualified identity, for lists of keys.
    pub(crate) fn target_of(key: &ResourceKey, version: &str) -> Target {
        Target::new(Gvk::new(&key.group, version, &key.kind), &key.namespace, &key.name)
    }
}

/// Follows the objects of a kind: namespace, labels and fields may be empty.
async fn watch(
    connection: &Connection,
    discovery: &Discovery,
    gvk: &Gvk,
    (namespace, label_selector, field_selector): (&str, &str, &str),
) -> Result<(mpsc::Receiver<ObjectEvent>, DropGuard), Failure> {
    let kinds = discovery.kinds().await?;
    let resource = kinds.resource(gvk).ok_or_else(|| ApiError::NotServed(gvk.clone()))?;
    let query = ObjectQuery {
        resource: Arc::clone(resource),
        namespace: namespace.into(),
        label_selector: label_selector.to_owned(),
        field_selector: field_selector.to_owned(),
    };
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    let cancel = CancellationToken::new();
    let guard = cancel.clone().drop_guard();
    let task = watch_objects(connection.clone(), query, sender, Arc::new(|| 0.5), cancel);
    drop(tokio::spawn(task));
    Ok((receiver, guard))
}

fn application_gvk() -> Gvk {
    Gvk::new(GROUP, VERSION, "Application")
}

fn app_target(name: &AppName) -> Target {
    Target::new(application_gvk(), &name.namespace, &name.name)
}

fn app_permit(name: &AppName) -> Permit {
    Permit::own(Own::Application, &name.namespace, &name.name)
}

/// The failure of an application that does not exist.
pub(crate) fn not_found(name: &AppName) -> Failure {
    Failure::status("NotFound", format!("applications.{GROUP} \"{}\" not found", name.name)).hint(format!(
        "look in another namespace than {:?} with `-N NAMESPACE`, or see `app list`",
        name.namespace
    ))
}

/// Letters by which a name may differ from what was typed.
const TYPO_LETTERS_MAX: usize = 2;

/// The known name that is most like a mistyped one.
pub(crate) fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|name| (distance(typed, name), *name));
    scored.filter(|(distance, _)| *distance <= TYPO_LETTERS_MAX).min().map(|(_, name)| name)
}

/// Insertions, deletions and replacements that lead from one text to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut next = vec![index + 1];
        let mut left = index + 1;
        for ((other, diagonal), above) in to.iter().zip(&row).zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(*other != letter)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_304_names_may_carry_a_namespace() {
        assert_eq!(AppName::parse("web", "argocd").to_string(), "argocd/web");
        assert_eq!(AppName::parse("team/web", "argocd").to_string(), "team/web");
    }

    #[test]
    fn cli_1101_a_mistyped_name_is_recognised() {
        let known = ["guestbook", "web", "webhook"];
        assert_eq!(nearest("guestbok", &known), Some("guestbook"));
        assert_eq!(nearest("wbe", &known), Some("web"));
        assert_eq!(nearest("database", &known), None);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "ab"), 2);
    }
}
