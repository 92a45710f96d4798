//! Follows the objects of one kind in full, for those who act on each of them: Applications, projects,
//! settings, Secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use smol_str::SmolStr;
use tiphys_object::{Object, ResourceKey};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::connection::{Call, Connection, encode};
use crate::error::ApiError;
use crate::kinds::ApiResource;
use crate::watch::parse::{Head, Page, stored_object};
use crate::watch::{Form, Jitter, Sink, Source, Verdict, Witness, follow};

/// Objects per page of a list.
const PAGE_OBJECTS: u32 = 500;
/// Time for a list that is asked for at once.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// Age after which everything is listed again.
const RESYNC: Duration = Duration::from_hours(1);
/// A list that loses fewer objects is believed at once.
const DOUBT_OBJECTS_MIN: usize = 10;

/// What to follow.
#[derive(Clone, Debug)]
pub struct ObjectQuery {
    /// The kind as the cluster serves it.
    pub resource: Arc<ApiResource>,
    /// One namespace, or all when empty.
    pub namespace: SmolStr,
    /// Label selector, empty for all.
    pub label_selector: String,
    /// Field selector, empty for all.
    pub field_selector: String,
}

/// An object that exists and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {}/{} cannot be read: {reason}", key.kind, key.namespace, key.name)]
pub struct Unreadable {
    /// The object.
    pub key: ResourceKey,
    /// Why.
    pub reason: String,
}

/// An object as it was sent. Whoever holds this version already needs not read it.
#[derive(Clone, Debug)]
pub struct Received {
    resource: Arc<ApiResource>,
    key: ResourceKey,
    uid: SmolStr,
    version: SmolStr,
    text: Arc<[u8]>,
}

impl Received {
    /// Which object.
    #[must_use]
    pub fn key(&self) -> &ResourceKey {
        &self.key
    }

    /// Its `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its `metadata.resourceVersion`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The text itself, for whoever looks at what cannot be read as a whole.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The object.
    ///
    /// # Errors
    /// When it cannot be read, for example because it is nested too deep. The others go on (INV-15, INV-16).
    pub fn read(&self) -> Result<Arc<Object>, Unreadable> {
        let gvk = &self.resource.gvk;
        stored_object(&self.text, &gvk.api_version(), &gvk.kind, &[])
            .map(Arc::new)
            .map_err(|error| Unreadable { key: self.key.clone(), reason: error.to_string() })
    }
}

/// What happened to the objects followed.
#[derive(Clone, Debug)]
pub enum ObjectEvent {
    /// An object is there, like this: listed, added or changed.
    Upsert(Received),
    /// An object is gone.
    Delete(ResourceKey),
    /// Every object that exists was sent; sent again after each new list.
    Synced,
    /// Nothing can be known at the moment, for this reason. What was sent before stays as it was.
    Failed(String),
}

/// The next event of the first list; `None` when the list is complete.
///
/// # Errors
/// When the list cannot be had.
pub async fn next_of_first_list(
    events: &mut mpsc::Receiver<ObjectEvent>,
) -> Result<Option<ObjectEvent>, String> {
    match events.recv().await {
        Some(ObjectEvent::Synced) => Ok(None),
        Some(ObjectEvent::Failed(reason)) => Err(reason),
        Some(event) => Ok(Some(event)),
        None => Err("the watch ended".to_owned()),
    }
}

/// The objects of a collection with a label, as they are at a version or later: a list that does not say how new it has to
/// be may come from a copy that is behind (F3). Without a version, and where the server does not know this one (it is of
/// another store), the newest that it has. `read` gets the name and the JSON of each.
///
/// # Errors
/// When they are not all known.
pub async fn list_since<T>(
    connection: &Connection,
    path: &str,
    label_selector: &str,
    version: Option<u64>,
    read: impl Fn(&str, &[u8]) -> T,
) -> Result<Vec<T>, ApiError> {
    let newest = format!("{path}?labelSelector={}", encode(label_selector));
    let ask = |target: String| async { connection.call(&Call::get("list", target, LIST_TIMEOUT)).await };
    let asked = match version {
        Some(version) => {
            let since = format!("{newest}&resourceVersion={version}&resourceVersionMatch=NotOlderThan");
            match ask(since).await {
                Err(error) if error.code() == 504 => ask(newest).await,
                other => other,
            }
        }
        None => ask(newest).await,
    };
    let answer = asked?;
    let page: Page<'_> =
        serde_json::from_slice(&answer.bytes).map_err(|error| ApiError::malformed("list", &error))?;
    if page.metadata.continue_token.is_some_and(|token| !token.is_empty()) {
        return Err(ApiError::Malformed { what: "list", reason: "it is only a part of the list".to_owned() });
    }
    let read_one = |item: &RawValue| {
        let text = item.get().as_bytes();
        let head: Head<'_> = serde_json::from_slice(text)
            .map_err(|error| ApiError::malformed("read a listed object", &error))?;
        Ok(read(head.metadata.name.as_str(), text))
    };
    page.items.into_iter().map(read_one).collect()
}

/// Follows the objects of a query until cancelled. When `events` is full the watch stalls, which is the
/// backpressure we want; when it is closed the watch ends.
pub async fn watch_objects(
    connection: Connection,
    query: ObjectQuery,
    events: mpsc::Sender<ObjectEvent>,
    jitter: Jitter,
    cancel: CancellationToken,
) {
    let mut selectors = Vec::new();
    for (name, selector) in
        [("labelSelector", &query.label_selector), ("fieldSelector", &query.field_selector)]
    {
        if !selector.is_empty() {
            selectors.push(format!("{name}={}", encode(selector)));
        }
    }
    let source = Source {
        connection,
        path: query.resource.path(&query.namespace, None),
        query: selectors.join("&"),
        page_size: PAGE_OBJECTS,
        lists: Arc::new(Semaphore::new(1)),
        resync: Some(RESYNC),
        jitter,
    };
    let stop = cancel.child_token();
    let mut sink = ObjectSink {
        resource: query.resource,
        events,
        stop: stop.clone(),
        known: BTreeMap::new(),
        seen: BTreeSet::new(),
        pending: Vec::new(),
        is_failed: false,
    };
    follow(&source, &mut sink, &stop).await;
}

/// Receives one watch. It knows keys and versions only, to tell what vanished and what is new.
struct ObjectSink {
    resource: Arc<ApiResource>,
    events: mpsc::Sender<ObjectEvent>,
    stop: CancellationToken,
    known: BTreeMap<ResourceKey, SmolStr>,
    seen: BTreeSet<ResourceKey>,
    pending: Vec<ObjectEvent>,
    is_failed: bool,
}

impl ObjectSink {
    fn key(&self, head: &Head<'_>) -> ResourceKey {
        ResourceKey {
            group: self.resource.gvk.group.clone(),
            kind: self.resource.gvk.kind.clone(),
            namespace: head.metadata.namespace.as_str().into(),
            name: head.metadata.name.as_str().into(),
        }
    }
}

impl Sink for ObjectSink {
    fn begin(&mut self) {
        self.seen.clear();
    }

    fn upsert<'a>(&mut self, head: &Head<'a>, raw: &'a [u8], form: Form, listed: bool) {
        let key = self.key(head);
        if listed {
            self.seen.insert(key.clone());
        }
        let version = SmolStr::new(head.metadata.resource_version.as_str());
        if self.known.get(&key) == Some(&version) {
            return;
        }
        self.known.insert(key.clone(), version.clone());
        // An event without an object in it is read as one that has nothing, and that error names it.
        let text = form.object(raw).unwrap_or_default().into();
        let uid = SmolStr::new(head.metadata.uid.as_str());
        let resource = Arc::clone(&self.resource);
        self.pending.push(ObjectEvent::Upsert(Received { resource, key, uid, version, text }));
    }

    fn delete(&mut self, head: &Head<'_>, _raw: &[u8]) {
        let key = self.key(head);
        if self.known.remove(&key).is_some() {
            self.pending.push(ObjectEvent::Delete(key));
        }
    }

    fn end(&mut self, _resource_version: &str, witness: Witness) -> Verdict {
        let gone: Vec<ResourceKey> =
            self.known.keys().filter(|key| !self.seen.contains(*key)).cloned().collect();
        // Also the very first list: settings that are called absent are all defaults, and nothing would correct them.
        let is_suspicious =
            self.seen.is_empty() || (gone.len() >= DOUBT_OBJECTS_MIN && gone.len() * 2 > self.known.len());
        if is_suspicious && witness == Witness::First {
            return Verdict::Doubted;
        }
        for key in gone {
            self.known.remove(&key);
            self.pending.push(ObjectEvent::Delete(key));
        }
        self.seen.clear();
        self.is_failed = false;
        self.pending.push(ObjectEvent::Synced);
        Verdict::Accepted
    }

    fn lost(&mut self, error: &ApiError) {
        if !self.is_failed {
            self.is_failed = true;
            self.pending.push(ObjectEvent::Failed(error.to_string()));
        }
    }

    fn advanced(&mut self, _resource_version: &str) {
        if self.is_failed {
            self.is_failed = false;
            self.pending.push(ObjectEvent::Synced);
        }
    }

    async fn flush(&mut self) {
        for event in self.pending.drain(..) {
            if self.events.send(event).await.is_err() {
                // Nobody listens any more.
                self.stop.cancel();
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fake, Reply};
    use crate::kinds::Scope;

    /// What is told until everything was listed.
    async fn until_synced(fake: &Fake) -> Vec<String> {
        let resource = ApiResource {
            gvk: tiphys_object::Gvk::new("argoproj.io", "v1alpha1", "Application"),
            plural: "applications".into(),
            scope: Scope::Namespaced,
            verbs: BTreeSet::new(),
        };
        let query = ObjectQuery {
            resource: Arc::new(resource),
            namespace: SmolStr::default(),
            label_selector: String::new(),
            field_selector: String::new(),
        };
        let (sender, mut events) = mpsc::channel(16);
        let cancel = CancellationToken::new();
        let _stop = cancel.clone().drop_guard();
        tokio::spawn(watch_objects(fake.connection.clone(), query, sender, Arc::new(|| 0.0), cancel));
        let mut seen = Vec::new();
        loop {
            let event = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
            match event.unwrap_or_else(|_| panic!("never synced: {seen:?}")).unwrap() {
                ObjectEvent::Upsert(received) => seen.push(match received.read() {
                    Ok(object) => format!("{} is good", object.name()),
                    Err(bad) => format!("{bad:?}"),
                }),
                ObjectEvent::Synced => return seen,
                other => seen.push(format!("{other:?}")),
            }
        }
    }

    /// F7: a first list that shows nothing is read again before anybody takes settings for their defaults.
    #[tokio::test]
    async fn f7_an_empty_first_list_is_not_believed() {
        let fake = Fake::start(|request, _| {
            if request.contains("sendInitialEvents") {
                Reply::stream(
                    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\",\"annotations\":\
                     {\"k8s.io/initial-events-end\":\"true\"}}}}\n",
                )
            } else if request.contains("watch=true") {
                Reply::stream(String::new())
            } else {
                Reply::json(
                    "{\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[{\"metadata\":{\"name\":\"there\",\"namespace\":\"n\",\
                     \"uid\":\"u\",\"resourceVersion\":\"1\"}}]}",
                )
            }
        })
        .await;
        assert_eq!(until_synced(&fake).await, ["there is good"]);
    }

    /// CTL-37, SEC-07: one tenant's Application does not end the Applications of the others.
    #[tokio::test]
    async fn ctl_37_an_application_that_is_nested_too_deep_is_one_bad_application() {
        let fake = Fake::start(|_, _| {
            let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
            let line = |name: &str, spec: &str| {
                format!(
                    "{{\"type\":\"ADDED\",\"object\":{{\"metadata\":{{\"name\":\"{name}\",\"namespace\":\"n\",\"uid\":\"u\",\
                     \"resourceVersion\":\"1\"}},\"spec\":{spec}}}}}\n"
                )
            };
            let end = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"7\",\"annotations\":\
                       {\"k8s.io/initial-events-end\":\"true\"}}}}\n";
            Reply::stream(line("bad", &deep) + &line("good", "{}") + end)
        })
        .await;
        let seen = until_synced(&fake).await;
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert!(
            seen[0].contains("Unreadable") && seen[0].contains("bad") && seen[0].contains("spec"),
            "{seen:?}"
        );
        assert_eq!(seen[1], "good is good");
    }

    /// INV-1, F3: what is asked for is no older than a version, and an answer that is no whole list is none.
    #[tokio::test]
    async fn inv_1_a_part_of_a_list_is_no_list() {
        let list = async |version: Option<u64>, answer: fn(&str) -> Reply| {
            let fake = Fake::start(move |request, _| answer(request)).await;
            let name = |name: &str, _: &[u8]| name.to_owned();
            (list_since(&fake.connection, "/x", "a=b", version, name).await, fake.requests())
        };
        let newest = "GET /x?labelSelector=a%3Db";
        let since = format!("{newest}&resourceVersion=7&resourceVersionMatch=NotOlderThan");
        let (found, asked) =
            list(Some(7), |_| Reply::json(r#"{"items": [{"metadata": {"name": "n"}}]}"#)).await;
        assert_eq!((found.unwrap(), asked), (vec!["n".to_owned()], vec![since.clone()]));
        let too_large = |request: &str| {
            if request.contains("NotOlderThan") {
                Reply::refused(504, "Timeout")
            } else {
                Reply::json(r#"{"items": null}"#)
            }
        };
        let (found, asked) = list(Some(7), too_large).await;
        assert_eq!((found.unwrap().len(), asked), (0, vec![since, newest.to_owned()]));
        let (found, asked) = list(None, too_large).await;
        assert_eq!((found.unwrap().len(), asked), (0, vec![newest.to_owned()]));
        let none: [fn(&str) -> Reply; 3] = [
            |_| Reply::json("{}"),
            |_| Reply::json(r#"{"metadata": {"continue": "c"}, "items": []}"#),
            |_| Reply::refused(403, "Forbidden"),
        ];
        for answer in none {
            assert!(list(None, answer).await.0.is_err());
        }
    }
}
