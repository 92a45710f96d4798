//! Writing to a cluster: the one place from which requests that change something leave.
//!
//! Every change needs the [`Permit`] of exactly that object, in the scope that its kind has on this cluster (INV-6), and
//! is made as the account that the permit names (REP-193).
//! Conflicts are answered by reading again and trying again, three times at most; an empty patch is no request at all.
//! A connection that may only be read refuses every change.

mod apply;
mod message;
mod migrate;
mod recreate;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_api::names::FIELD_MANAGER;
use tiphys_object::{Gvk, Metadata, Object, ResourceKey, access};
use tiphys_policy::permit::Permit;

pub use apply::{ApplyMethod, ApplyOptions, Known};
pub use message::{Outcome, hinted, without_values};

use crate::connection::{Answer, Call, Connection, Impersonation, encode};
use crate::error::ApiError;
use crate::kinds::{ApiResource, Discovery, Served};
use crate::observer::Observer;
use crate::watch::parse::Head;

/// Time for a read.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a write; admission webhooks may take up to 30 s of it (F9).
const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
/// Attempts at a change that meets conflicts (F11).
const CONFLICT_ATTEMPTS_MAX: u32 = 3;

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Identity of an object to read or change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Group, version and kind.
    pub gvk: Gvk,
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: SmolStr,
    /// Name.
    pub name: SmolStr,
}

impl Target {
    /// Makes one from its parts.
    pub fn new(gvk: Gvk, namespace: &str, name: &str) -> Self {
        Self { gvk, namespace: namespace.into(), name: name.into() }
    }

    /// Identity of a manifest.
    pub fn of(object: &Value) -> Self {
        Self::new(Gvk::of(object), access::namespace(object), access::name(object))
    }

    /// The same without the version.
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.gvk.group, &self.gvk.kind, &self.namespace, &self.name)
    }
}

/// How dependants of a deleted object go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Dependants first; the object stays until they are gone.
    #[default]
    Foreground,
    /// The object first.
    Background,
    /// Dependants stay.
    Orphan,
}

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// How dependants go.
    pub propagation: Propagation,
    /// Delete only the object with this uid, so that a namesake made meanwhile survives.
    pub uid: Option<SmolStr>,
    /// Delete only the object in this version: another one is a conflict.
    pub version: Option<SmolStr>,
    /// Seconds that it gets to end; without them the object's own.
    pub grace_seconds: Option<u32>,
    /// Ask what would happen, without doing it.
    pub is_dry_run: bool,
}

/// How somebody wants an object deleted (API-140).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// At once, without the time that it would get to end.
    pub force: bool,
    /// What it owns stays.
    pub orphan: bool,
}

impl Removal {
    /// What that means for the object that was seen: a namesake that was made meanwhile is another one.
    pub fn options(self, seen: &Metadata) -> DeleteOptions {
        DeleteOptions {
            propagation: match self {
                Self { orphan: true, .. } => Propagation::Orphan,
                Self { force: true, .. } => Propagation::Background,
                Self { .. } => Propagation::Foreground,
            },
            uid: Some(seen.uid.clone()),
            grace_seconds: (self.force && !self.orphan).then_some(0),
            ..DeleteOptions::default()
        }
    }
}

/// How a patch is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// As the server merges the lists of its own kinds.
    Strategic,
}

impl PatchKind {
    /// The kind of a media type.
    pub fn parse(media_type: &str) -> Option<Self> {
        [Self::Merge, Self::Json, Self::Strategic].into_iter().find(|kind| kind.as_str() == media_type)
    }

    /// Its media type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Merge => MERGE_PATCH,
            Self::Json => JSON_PATCH,
            Self::Strategic => STRATEGIC_PATCH,
        }
    }
}

/// What a deletion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// The object is gone or going.
    Accepted,
    /// There was no such object, or only a namesake with another uid.
    Absent,
}

/// What an apply did.
#[derive(Clone, Debug)]
pub struct Applied {
    /// What happened.
    pub outcome: Outcome,
    /// Text for the result of a sync (ENG-180).
    pub message: String,
    /// The object as the server returned it; the live one when nothing changed; `None` after a dry run.
    pub object: Option<Arc<Object>>,
}

/// Reads and changes objects of one cluster. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Writer {
    connection: Connection,
    discovery: Discovery,
    limits: Option<Arc<Limits>>,
}

/// What of a cluster in namespaced mode may be read and changed (ENG-21).
#[derive(Debug)]
struct Limits {
    namespaces: Vec<SmolStr>,
    cluster_resources: bool,
}

impl Limits {
    fn check(&self, resource: &ApiResource, target: &Target) -> Result<(), ApiError> {
        let is_own_namespace = target.gvk.group.is_empty()
            && target.gvk.kind == "Namespace"
            && self.namespaces.contains(&target.name);
        let is_inside = if resource.is_namespaced() {
            self.namespaces.contains(&target.namespace)
        } else {
            self.cluster_resources || is_own_namespace
        };
        if is_inside { Ok(()) } else { Err(ApiError::not_managed(target, resource.is_namespaced())) }
    }
}

impl Writer {
    /// Writes over the given connection.
    pub fn new(connection: Connection, discovery: Discovery) -> Self {
        Self { connection, discovery, limits: None }
    }

    /// The same writer, which neither reads nor writes outside of these namespaces, nor cluster-scoped objects unless
    /// they are managed; an empty list means everything (ENG-21, ENG-22). The namespaces themselves are inside.
    #[must_use]
    pub fn within(self, namespaces: &[SmolStr], cluster_resources: bool) -> Self {
        let limits = Limits { namespaces: namespaces.to_vec(), cluster_resources };
        Self { limits: (!namespaces.is_empty()).then(|| Arc::new(limits)), ..self }
    }

    /// The same writer, of whose requests one more is told (CTL-120).
    #[must_use]
    pub fn observed(&self, observer: Arc<dyn Observer>) -> Self {
        Self { connection: self.connection.observed(observer), ..self.clone() }
    }

    /// Reads one object; `None` when it does not exist.
    pub async fn get(&self, target: &Target) -> Result<Option<Arc<Object>>, ApiError> {
        self.get_with_books(target, &[]).await
    }

    /// Reads one object, with what these field managers own in its `managedFields` (ENG-70).
    pub async fn get_with_books(
        &self,
        target: &Target,
        managers: &[SmolStr],
    ) -> Result<Option<Arc<Object>>, ApiError> {
        let resource = self.place(target).await?;
        match self.read(&resource, &target.namespace, &target.name, managers).await {
            Ok(object) => Ok(Some(Arc::new(object))),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object; its name may be left to the server.
    pub async fn create(&self, permit: &Permit, desired: &Value) -> Result<Arc<Object>, ApiError> {
        let target = Target::of(desired);
        let resource = self.place_permitted(permit, &target).await?;
        let path = resource.collection_path(&target.namespace)?;
        let answer = self.send(permit, "create", Method::POST, &path, desired, JSON).await?;
        object_of(&answer, "create")
    }

    /// Creates an object that nobody wants to see: what the API server answers is not read, which is most of the work
    /// of writing many small ones.
    ///
    /// # Errors
    /// When it refuses.
    pub async fn create_unread(&self, permit: &Permit, desired: &Value) -> Result<(), ApiError> {
        let target = Target::of(desired);
        let resource = self.place_permitted(permit, &target).await?;
        let path = resource.collection_path(&target.namespace)?;
        self.send(permit, "create", Method::POST, &path, desired, JSON).await.map(drop)
    }

    /// Whether the API server would create an object: it is asked by a dry run (ENG-139), and nothing is changed.
    ///
    /// # Errors
    /// When it would refuse.
    pub async fn try_create(&self, permit: &Permit, desired: &Value) -> Result<(), ApiError> {
        let target = Target::of(desired);
        let resource = self.place_permitted(permit, &target).await?;
        let path = format!("{}?dryRun=All", resource.collection_path(&target.namespace)?);
        self.send(permit, "create", Method::POST, &path, desired, JSON).await.map(drop)
    }

    /// Replaces an object; the manifest's `resourceVersion`, if it has one, must be the current one.
    pub async fn update(&self, permit: &Permit, desired: &Value) -> Result<Arc<Object>, ApiError> {
        let target = Target::of(desired);
        let resource = self.place_permitted(permit, &target).await?;
        let path = resource.object_path(&target.namespace, &target.name)?;
        let answer = self.send(permit, "update", Method::PUT, &path, desired, JSON).await?;
        object_of(&answer, "update")
    }

    /// Changes an object by a JSON merge patch (RFC 7386), on a subresource when one is given.
    pub async fn merge_patch(
        &self,
        permit: &Permit,
        target: &Target,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Arc<Object>, ApiError> {
        self.patch(permit, target, subresource, patch, MERGE_PATCH).await
    }

    /// The same for an object that somebody follows: an answer with a version that is `known`, by uid and version, is
    /// not read a second time.
    pub async fn merge_patch_followed(
        &self,
        permit: &Permit,
        target: &Target,
        patch: &Value,
        known: impl Fn(&str, &str) -> Option<Arc<Object>>,
    ) -> Result<Arc<Object>, ApiError> {
        let answer = self.send_patch(permit, target, None, patch, MERGE_PATCH).await?;
        let seen = serde_json::from_slice(&answer.bytes).ok().and_then(|head: Head<'_>| {
            known(head.metadata.uid.as_str(), head.metadata.resource_version.as_str())
        });
        seen.map_or_else(|| object_of(&answer, "patch"), Ok)
    }

    /// Changes an object by a JSON patch (RFC 6902), on a subresource when one is given.
    pub async fn json_patch(
        &self,
        permit: &Permit,
        target: &Target,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Arc<Object>, ApiError> {
        self.patch(permit, target, subresource, patch, JSON_PATCH).await
    }

    /// Changes an object by a patch of whichever kind (API-140).
    pub async fn patch_of(
        &self,
        permit: &Permit,
        target: &Target,
        kind: PatchKind,
        patch: &Value,
    ) -> Result<Arc<Object>, ApiError> {
        self.patch(permit, target, None, patch, kind.as_str()).await
    }

    /// Deletes an object. One that is gone, or has another uid than asked for, counts as absent.
    pub async fn delete(
        &self,
        permit: &Permit,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Deleted, ApiError> {
        let resource = self.place_permitted(permit, target).await?;
        let path = resource.object_path(&target.namespace, &target.name)?;
        let body = delete_body(options);
        match self.send(permit, "delete", Method::DELETE, &path, &body, JSON).await {
            Ok(_) => Ok(Deleted::Accepted),
            Err(error) if error.is_not_found() => Ok(Deleted::Absent),
            // The only precondition is the uid, and a deletion meets no other conflict.
            Err(error) if error.is_conflict() && options.uid.is_some() && options.version.is_none() => {
                Ok(Deleted::Absent)
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes an object for a reason that was `seen`, by a watch that may be late. When it is another version by
    /// now it is read again, and goes only if the reason `holds` for what it is (INV-1, F3): a mark that was taken
    /// away a moment ago counts at once. [`Deleted::Absent`] also says that the reason does not hold any more.
    ///
    /// # Errors
    /// When the server refuses, or somebody changes the object all the time.
    pub async fn delete_seen(
        &self,
        permit: &Permit,
        target: &Target,
        seen: &Object,
        propagation: Propagation,
        holds: impl Fn(&Object) -> bool,
    ) -> Result<Deleted, ApiError> {
        let known = |text: &SmolStr| Some(text.clone()).filter(|text| !text.is_empty());
        let (uid, version) = (known(&seen.metadata().uid), known(&seen.metadata().resource_version));
        let mut options = DeleteOptions { propagation, uid, version, ..DeleteOptions::default() };
        let mut attempt = 1;
        loop {
            match self.delete(permit, target, &options).await {
                Err(error) if error.is_conflict() && attempt < CONFLICT_ATTEMPTS_MAX => {
                    attempt += 1;
                    let Some(live) = self.get(target).await? else { return Ok(Deleted::Absent) };
                    if live.metadata().uid != seen.metadata().uid || !holds(&live) {
                        return Ok(Deleted::Absent);
                    }
                    options.version = known(&live.metadata().resource_version);
                }
                done => return done,
            }
        }
    }

    /// Removes one finalizer, leaving the others; says whether it was there. The position is checked, so a
    /// finalizer that moved meanwhile is looked for again.
    pub async fn remove_finalizer(
        &self,
        permit: &Permit,
        target: &Target,
        finalizer: &str,
    ) -> Result<bool, ApiError> {
        let mut attempt = 1;
        loop {
            let Some(live) = self.get(target).await? else { return Ok(false) };
            let Some(at) = live.metadata().finalizers.iter().position(|found| found == finalizer) else {
                return Ok(false);
            };
            let path = format!("/metadata/finalizers/{at}");
            let patch = json!([
                {"op": "test", "path": path, "value": finalizer},
                {"op": "remove", "path": path},
            ]);
            match self.json_patch(permit, target, None, &patch).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_not_found() => return Ok(false),
                // A failed test of a JSON patch is answered with 422.
                Err(error)
                    if (error.is_conflict() || error.code() == 422) && attempt < CONFLICT_ATTEMPTS_MAX =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn patch(
        &self,
        permit: &Permit,
        target: &Target,
        subresource: Option<&str>,
        patch: &Value,
        kind: &'static str,
    ) -> Result<Arc<Object>, ApiError> {
        let answer = self.send_patch(permit, target, subresource, patch, kind).await?;
        object_of(&answer, "patch")
    }

    async fn send_patch(
        &self,
        permit: &Permit,
        target: &Target,
        subresource: Option<&str>,
        patch: &Value,
        kind: &'static str,
    ) -> Result<Answer, ApiError> {
        let resource = self.place_permitted(permit, target).await?;
        let mut path = resource.object_path(&target.namespace, &target.name)?;
        if let Some(subresource) = subresource {
            path.push('/');
            path.push_str(subresource);
        }
        self.send(permit, "patch", Method::PATCH, &path, patch, kind).await
    }

    /// How the cluster serves the kind of an object that may be read and changed here.
    pub(super) async fn place(&self, target: &Target) -> Result<Arc<ApiResource>, ApiError> {
        let resource = self.resource(&target.gvk).await?;
        if let Some(limits) = &self.limits {
            limits.check(&resource, target)?;
        }
        Ok(resource)
    }

    /// How the cluster serves the kind of an object that may be changed: by this permit, which was given for the
    /// scope that discovery knows (INV-6).
    pub(super) async fn place_permitted(
        &self,
        permit: &Permit,
        target: &Target,
    ) -> Result<Arc<ApiResource>, ApiError> {
        let resource = self.place(target).await?;
        if permit.covers(&target.key(), resource.is_namespaced()) {
            Ok(resource)
        } else {
            Err(ApiError::NotPermitted(Box::new(target.key())))
        }
    }

    /// How the cluster serves a kind. One that is not known is looked for once more.
    pub(super) async fn resource(&self, gvk: &Gvk) -> Result<Arc<ApiResource>, ApiError> {
        if let Served::Yes(resource) = self.discovery.kinds().await?.served(gvk) {
            return Ok(resource);
        }
        match self.discovery.refresh().await?.served(gvk) {
            Served::Yes(resource) => Ok(resource),
            Served::No => Err(ApiError::NotServed(gvk.clone())),
            Served::Unknown => Err(ApiError::GroupUnavailable(gvk.clone())),
        }
    }

    async fn read(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
        managers: &[SmolStr],
    ) -> Result<Object, ApiError> {
        let call = Call::get("get", resource.object_path(namespace, name)?, READ_TIMEOUT);
        let answer = self.connection.call(&call).await?;
        read_object(&answer, "get", managers)
    }

    /// Sends a change as whoever the permit says (REP-193); reading stays with the connection's own identity.
    async fn send(
        &self,
        permit: &Permit,
        what: &'static str,
        method: Method,
        path: &str,
        body: &Value,
        kind: &'static str,
    ) -> Result<Answer, ApiError> {
        // Server-side apply must name its manager itself.
        let target = if path.contains('?') {
            path.to_owned()
        } else {
            format!("{path}?fieldManager={}", encode(FIELD_MANAGER))
        };
        let bytes = serde_json::to_vec(body).map_err(|error| ApiError::malformed(what, &error))?;
        let call = Call::get(what, target, WRITE_TIMEOUT).with_body(method, bytes, kind);
        let Some(account) = permit.account() else { return self.connection.call(&call).await };
        let identity = Impersonation { user: account.user().to_owned(), groups: Vec::new() };
        let impersonating = self.connection.impersonating(&identity);
        impersonating.map_err(|_invalid| ApiError::Account(identity.user))?.call(&call).await
    }
}

fn delete_body(options: &DeleteOptions) -> Value {
    let propagation = match options.propagation {
        Propagation::Foreground => "Foreground",
        Propagation::Background => "Background",
        Propagation::Orphan => "Orphan",
    };
    let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation});
    if let Some(map) = body.as_object_mut() {
        let conditions = [("uid", &options.uid), ("resourceVersion", &options.version)];
        let conditions =
            conditions.into_iter().filter_map(|(name, it)| Some((name.to_owned(), json!(it.as_ref()?))));
        let conditions: serde_json::Map<_, _> = conditions.collect();
        if !conditions.is_empty() {
            map.insert("preconditions".to_owned(), conditions.into());
        }
        if let Some(seconds) = options.grace_seconds {
            map.insert("gracePeriodSeconds".to_owned(), seconds.into());
        }
        if options.is_dry_run {
            map.insert("dryRun".to_owned(), json!(["All"]));
        }
    }
    body
}

fn object_of(answer: &Answer, what: &'static str) -> Result<Arc<Object>, ApiError> {
    read_object(answer, what, &[]).map(Arc::new)
}

fn read_object(answer: &Answer, what: &'static str, managers: &[SmolStr]) -> Result<Object, ApiError> {
    crate::watch::parse::stored_object(&answer.bytes, "", "", managers)
        .map_err(|error| ApiError::Malformed { what, reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ENG-21, ENG-22: what the settings of a cluster leave out is not read or written around them.
    #[tokio::test]
    async fn eng_22_nothing_outside_of_the_managed_namespaces_is_read_or_written() {
        use crate::fake::{Fake, Reply};
        let fake = Fake::start(|request, _| match request {
            "GET /version" => Reply::json(r#"{"gitVersion":"v1.36.1"}"#),
            "GET /api" => Reply::json(
                r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1","resources":[
                    {"resource":"configmaps","responseKind":{"kind":"ConfigMap"},"scope":"Namespaced","verbs":["get"]},
                    {"resource":"namespaces","responseKind":{"kind":"Namespace"},"scope":"Cluster","verbs":["get"]},
                    {"resource":"nodes","responseKind":{"kind":"Node"},"scope":"Cluster","verbs":["get"]}],
                    "freshness":"Current"}]}]}"#,
            ),
            "GET /apis" => Reply::json(r#"{"kind":"APIGroupDiscoveryList","items":[]}"#),
            _ => Reply::refused(404, "NotFound"),
        })
        .await;
        let writer = |namespaces: &[SmolStr], cluster_resources| {
            Writer::new(fake.connection.clone(), Discovery::new(fake.connection.clone()))
                .within(namespaces, cluster_resources)
        };
        let target =
            |kind: &str, namespace: &str, name: &str| Target::new(Gvk::new("", "v1", kind), namespace, name);
        let limited = writer(&["n".into()], false);
        for (target, text) in [
            (target("ConfigMap", "m", "a"), "namespace \"m\" for ConfigMap \"a\" is not managed"),
            (target("Node", "", "a"), "cluster level Node \"a\" can not be managed when in namespaced mode"),
            (
                target("Namespace", "", "m"),
                "cluster level Namespace \"m\" can not be managed when in namespaced mode",
            ),
        ] {
            assert_eq!(limited.get(&target).await.unwrap_err().to_string(), text);
            let manifest = json!({"apiVersion": "v1", "kind": target.gvk.kind,
                "metadata": {"name": target.name, "namespace": target.namespace}});
            let permit = Permit::operator(target.key());
            let (update, create) =
                (limited.update(&permit, &manifest).await, limited.create(&permit, &manifest).await);
            let apply = limited.apply(&permit, &manifest, &ApplyOptions::default()).await;
            let delete = limited.delete(&permit, &target, &DeleteOptions::default()).await;
            let patch = limited.merge_patch(&permit, &target, None, &manifest).await;
            let unread = limited.create_unread(&permit, &manifest).await;
            let refused = [update.err(), create.err(), unread.err(), apply.err(), delete.err(), patch.err()];
            assert!(
                refused.iter().all(|error| matches!(error, Some(ApiError::NotManaged(_)))),
                "{refused:?}"
            );
        }
        let beyond = fake.requests().into_iter().filter(|one| one.contains("/v1/")).collect::<Vec<_>>();
        assert!(beyond.is_empty(), "{beyond:?}");
        // What is inside is asked for; an empty list of namespaces limits nothing.
        assert_eq!(limited.get(&target("ConfigMap", "n", "a")).await.unwrap(), None);
        assert_eq!(limited.get(&target("Namespace", "", "n")).await.unwrap(), None);
        assert_eq!(writer(&["n".into()], true).get(&target("Node", "", "a")).await.unwrap(), None);
        assert_eq!(writer(&[], false).get(&target("ConfigMap", "m", "a")).await.unwrap(), None);
    }

    #[test]
    fn eng_174_deletion_says_propagation_and_uid() {
        let options = DeleteOptions { uid: Some("u".into()), ..DeleteOptions::default() };
        let body = delete_body(&options);
        assert_eq!(body["propagationPolicy"], "Foreground");
        assert_eq!(body["preconditions"]["uid"], "u");
        assert!(body.get("dryRun").is_none());
    }
}
