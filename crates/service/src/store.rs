//! The shell: carries changes out, each on the state that it was decided on.

use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_cluster::{ApiError, DeleteOptions, Deleted, Propagation, Target, Writer};
use tiphys_object::{Gvk, Object, access};
use tiphys_policy::permit::{Own, Permit};

use crate::access::Caller;
use crate::change::{Change, Seen};
use crate::error::Error;
use crate::planned::Planned;
use crate::secrets::Secrets;

/// Attempts at a change that others may be making at the same time.
const ATTEMPTS_MAX: u32 = 40;
/// The same for an application, to which a controller writes all the time (API-117).
const APPLICATION_ATTEMPTS_MAX: u32 = 10;

/// The control plane's own objects: Secrets and `AppProjects` of one namespace.
#[derive(Clone, Debug)]
pub struct Store {
    writer: Writer,
    namespace: String,
}

/// Kinds of the installation's own records: one of a name, whose owner is the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Its keys, passwords and tokens.
    Secret,
    /// Whom it trusts.
    Trust,
}

impl From<Record> for Own {
    fn from(record: Record) -> Self {
        match record {
            Record::Secret => Self::Secret,
            Record::Trust => Self::Trust,
        }
    }
}

/// Kinds whose objects have several owners: they are written for callers with the rights that a change needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// Projects.
    Project,
    /// Applications.
    Application,
    /// Sets of them.
    ApplicationSet,
}

impl From<Guarded> for Own {
    fn from(kind: Guarded) -> Self {
        match kind {
            Guarded::Project => Self::Project,
            Guarded::Application => Self::Application,
            Guarded::ApplicationSet => Self::ApplicationSet,
        }
    }
}

/// How a change went.
enum Carried {
    /// It is done; the object as it is now, `None` when it is gone.
    Done(SmolStr, Option<Arc<Object>>),
    /// The object with this name is not what it was when the change was decided.
    Stale(SmolStr),
    /// There was nothing to do.
    Kept,
}

impl Store {
    /// Writes to a namespace.
    pub fn new(writer: Writer, namespace: &str) -> Self {
        Self { writer, namespace: namespace.to_owned() }
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads one of the objects; `None` when it does not exist, as none does under a text that cannot be a name.
    ///
    /// # Errors
    /// When the cluster does not say.
    pub async fn get(&self, kind: Own, name: &str) -> Result<Option<Arc<Object>>, ApiError> {
        match self.writer.get(&self.target(kind, name)).await {
            Err(ApiError::Name(_)) => Ok(None),
            answer => answer,
        }
    }

    /// The same for another namespace.
    #[must_use]
    pub fn of(&self, namespace: &str) -> Self {
        Self::new(self.writer.clone(), namespace)
    }

    /// Deletes one of the objects; its finalizers decide what goes with it.
    ///
    /// # Errors
    /// When the cluster refuses.
    pub async fn delete(&self, kind: Own, name: &str, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        self.writer.delete(&self.permit(kind, name), &self.target(kind, name), options).await
    }

    /// Writes an Event.
    ///
    /// # Errors
    /// When the cluster refuses.
    pub async fn record(&self, name: &str, event: &Value) -> Result<(), ApiError> {
        self.writer.create_unread(&self.permit(Own::Event, name), event).await
    }

    /// Decides, asks whether the caller may, and writes, until what was decided is written: when an object is not what the
    /// decision saw, it is read again, and all of that happens again. Says whether something changed.
    ///
    /// # Errors
    /// Those of the decision, those of the cluster, what the caller may not, and [`Error::Busy`].
    pub async fn settle<E: Into<Error>>(
        &self,
        secrets: &mut Secrets,
        caller: Caller<'_>,
        plan: impl Fn(&Secrets) -> Result<Planned, E>,
    ) -> Result<bool, Error> {
        let mut last = SmolStr::default();
        for _ in 0..ATTEMPTS_MAX {
            let planned = plan(secrets).map_err(Into::into)?;
            match self.carry_out(Own::Secret, planned.for_caller(caller)?).await? {
                Carried::Kept => return Ok(false),
                Carried::Done(name, object) => {
                    secrets.put(&name, object);
                    return Ok(true);
                }
                Carried::Stale(name) => {
                    secrets.put(&name, self.get(Own::Secret, &name).await?);
                    last = name;
                }
            }
        }
        Err(Error::Busy { name: last.to_string(), attempts: ATTEMPTS_MAX })
    }

    /// The same for one object of a kind that has several owners: it is read, decided about and written, again when somebody
    /// else was faster. Answers with the object as it is then; `None` when it is gone.
    ///
    /// # Errors
    /// Those of the decision, those of the cluster, what the caller may not, and [`Error::Busy`].
    pub async fn settle_guarded<E: From<Error>>(
        &self,
        (kind, name): (Guarded, &str),
        caller: Caller<'_>,
        plan: impl Fn(Option<&Object>) -> Result<Planned, E>,
    ) -> Result<Option<Arc<Object>>, E> {
        let checked = |stored: Option<&Object>| -> Result<(Change, ()), E> {
            let planned = plan(stored)?;
            Ok((planned.for_caller(caller)?.clone(), ()))
        };
        Ok(self.settle_object(kind.into(), name, checked).await?.0)
    }

    /// The same for a record of the installation, of which there is one.
    ///
    /// # Errors
    /// Those of the decision, those of the cluster, and [`Error::Busy`].
    pub async fn settle_one<E: From<Error>>(
        &self,
        kind: Record,
        name: &str,
        plan: impl Fn(Option<&Object>) -> Result<Change, E>,
    ) -> Result<Option<Arc<Object>>, E> {
        let telling = |stored: Option<&Object>| plan(stored).map(|change| (change, ()));
        Ok(self.settle_telling(kind, name, telling).await?.0)
    }

    /// The same for a decision that has something to tell: what was told with the change that was carried out.
    ///
    /// # Errors
    /// Those of the decision, those of the cluster, and [`Error::Busy`].
    pub async fn settle_telling<T, E: From<Error>>(
        &self,
        kind: Record,
        name: &str,
        plan: impl Fn(Option<&Object>) -> Result<(Change, T), E>,
    ) -> Result<(Option<Arc<Object>>, T), E> {
        self.settle_object(kind.into(), name, plan).await
    }

    async fn settle_object<T, E: From<Error>>(
        &self,
        kind: Own,
        name: &str,
        plan: impl Fn(Option<&Object>) -> Result<(Change, T), E>,
    ) -> Result<(Option<Arc<Object>>, T), E> {
        let is_application = kind == Own::Application;
        for _ in 0..if is_application { APPLICATION_ATTEMPTS_MAX } else { ATTEMPTS_MAX } {
            let stored = self.get(kind, name).await.map_err(Error::from)?;
            let (change, told) = plan(stored.as_deref())?;
            match self.carry_out(kind, &change).await.map_err(Error::from)? {
                Carried::Kept => return Ok((stored, told)),
                Carried::Done(_, object) => return Ok((object, told)),
                Carried::Stale(_) => {}
            }
        }
        if is_application {
            return Err(Error::Conflicts.into());
        }
        Err(Error::Busy { name: name.to_owned(), attempts: ATTEMPTS_MAX }.into())
    }

    async fn carry_out(&self, kind: Own, change: &Change) -> Result<Carried, ApiError> {
        match change {
            Change::Keep => Ok(Carried::Kept),
            Change::Create(manifest) => {
                let name = access::name(manifest.expose());
                match self.writer.create(&self.permit(kind, name), manifest.expose()).await {
                    Ok(object) => Ok(Carried::Done(name.into(), Some(object))),
                    Err(error) if error.is_already_exists() => Ok(Carried::Stale(name.into())),
                    Err(error) => Err(error),
                }
            }
            Change::Patch(seen, patch) => {
                let (permit, target) = (self.permit(kind, &seen.name), self.target(kind, &seen.name));
                carried(seen, self.writer.merge_patch(&permit, &target, None, patch.expose()).await)
            }
            Change::Replace(seen, manifest) => {
                let permit = self.permit(kind, &seen.name);
                carried(seen, self.writer.update(&permit, manifest.expose()).await)
            }
            Change::Delete(seen) => {
                let options = DeleteOptions {
                    propagation: Propagation::Background,
                    uid: Some(seen.uid.clone()),
                    version: Some(seen.version.clone()),
                    is_dry_run: false,
                    grace_seconds: None,
                };
                let (permit, target) = (self.permit(kind, &seen.name), self.target(kind, &seen.name));
                match self.writer.delete(&permit, &target, &options).await {
                    Ok(Deleted::Accepted) => Ok(Carried::Done(seen.name.as_str().into(), None)),
                    Ok(Deleted::Absent) => Ok(Carried::Stale(seen.name.as_str().into())),
                    Err(error) if error.is_conflict() => Ok(Carried::Stale(seen.name.as_str().into())),
                    Err(error) => Err(error),
                }
            }
        }
    }

    fn target(&self, kind: Own, name: &str) -> Target {
        Target::new(gvk(kind), &self.namespace, name)
    }

    fn permit(&self, kind: Own, name: &str) -> Permit {
        Permit::own(kind, &self.namespace, name)
    }
}

fn carried(seen: &Seen, written: Result<Arc<Object>, ApiError>) -> Result<Carried, ApiError> {
    let name = SmolStr::from(seen.name.as_str());
    match written {
        Ok(object) => Ok(Carried::Done(name, Some(object))),
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(Carried::Stale(name)),
        Err(error) => Err(error),
    }
}

fn gvk(kind: Own) -> Gvk {
    let (group, word) = kind.group_kind();
    let version = match kind {
        Own::Application | Own::ApplicationSet | Own::Project => tiphys_api::names::VERSION,
        Own::Event | Own::Lease | Own::Secret | Own::Settings | Own::Trust => "v1",
    };
    Gvk::new(group, version, word)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use bytes::Bytes;
    use http::{Method, Request};
    use serde_json::json;
    use tiphys_cluster::{Connection, Discovery};
    use tiphys_sim::{Options, Sim};

    use super::*;

    #[tokio::test]
    async fn api_117_an_application_that_changes_all_the_time_is_given_up_after_ten_conflicts() {
        let sim = Sim::new(Options::default()).unwrap();
        let post = |target: &str, body: &Value| {
            let request = Request::post(target).header("content-type", "application/json");
            drop(sim.handle(request.body(Bytes::from(body.to_string())).unwrap()));
        };
        for definition in tiphys_api::crd::manifests() {
            post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}});
        post("/api/v1/namespaces", &namespace);
        let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "web"},
            "spec": {"project": "default", "destination": {}}});
        post("/apis/argoproj.io/v1alpha1/namespaces/argocd/applications", &app);
        let conflicts = Arc::new(AtomicU32::new(0));
        let (called, counted) = (sim.clone(), Arc::clone(&conflicts));
        let connection = Connection::over("https://k", move |request: Request<Bytes>| {
            let (sim, conflicts) = (called.clone(), Arc::clone(&counted));
            async move {
                if request.method() != Method::PATCH {
                    return Ok(sim.call(request).await);
                }
                // Somebody else writes in between, every time.
                let nth = conflicts.fetch_add(1, Ordering::Relaxed);
                let other = json!({"metadata": {"labels": {"nth": nth.to_string()}}}).to_string();
                let mut written = Request::new(Bytes::from(other));
                (*written.method_mut(), *written.uri_mut()) = (Method::PATCH, request.uri().clone());
                written.headers_mut().insert("content-type", "application/merge-patch+json".parse().unwrap());
                assert!(sim.call(written).await.status().is_success());
                Ok(sim.call(request).await)
            }
        });
        let store = Store::new(Writer::new(connection.clone(), Discovery::new(connection)), "argocd");
        let plan = |stored: Option<&Object>| {
            let stored = stored.expect("it is there");
            let patch = json!({"metadata": {"resourceVersion": stored.metadata().resource_version.as_str()}});
            let change = Change::Patch(Seen::of(stored), crate::change::Sealed::new(patch));
            Ok::<_, Error>(Planned::created(&tiphys_api::AppProject::default(), change))
        };
        let written = store.settle_guarded((Guarded::Application, "web"), Caller::operator(), plan).await;
        let error = written.unwrap_err();
        assert_eq!(error.to_string(), "Failed to update application. Too many conflicts");
        assert_eq!((error.code(), conflicts.load(Ordering::Relaxed)), (crate::Code::Internal, 10));
    }
}
