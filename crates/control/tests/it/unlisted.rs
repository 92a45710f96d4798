//! A kind that the API server does not let us list, or read, for as long as a test wants it so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_sim::{Fault, Status};

use crate::support::{HOME, control_plane};
use crate::world::World;

const HOOK: &str = "/apis/batch/v1/namespaces/default/jobs/migrate";
const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/shop";
/// Long enough for several comparisons and self-heals.
const LONG: Duration = Duration::from_mins(10);

/// What is refused of Jobs.
#[derive(Clone, Default)]
struct Refusal {
    lists: Arc<AtomicBool>,
    reads: Arc<AtomicBool>,
}

impl Refusal {
    fn of(&self, request: &Request<Bytes>) -> Option<Status> {
        let path = request.uri().path();
        let flag = if path.ends_with("/jobs") { &self.lists } else { &self.reads };
        let is_refused =
            request.method() == Method::GET && path.contains("/jobs") && flag.load(Ordering::Relaxed);
        is_refused.then(|| Status::new(500, "InternalError", "the test refuses"))
    }

    fn set(&self, lists: bool, reads: bool) {
        self.lists.store(lists, Ordering::Relaxed);
        self.reads.store(reads, Ordering::Relaxed);
    }
}

async fn start(refusal: &Refusal) -> World {
    let (sim, refusal) = (control_plane(), refusal.clone());
    let own = sim.clone();
    let connection = Connection::over(HOME, move |request: Request<Bytes>| {
        let fault = Fault { refused: refusal.of(&request), ..Fault::default() };
        let sim = own.clone();
        async move { Ok(sim.handle_with(request, fault)) }
    });
    World::start_on(sim, connection, |_| {}).await
}

/// INV-17: a hook whose kind cannot be listed is known from the status alone; a comparison in which it could not be
/// read either forgets nothing, and the application waits for it.
#[tokio::test(start_paused = true)]
async fn inv_17_a_hook_that_could_not_be_read_once_is_not_forgotten() {
    let refusal = Refusal::default();
    refusal.set(true, false);
    let world = start(&refusal).await;
    let hook = json!({"name": "migrate", "annotations": {"argocd.argoproj.io/hook": "PreSync"}});
    world.commit_with_job(&hook, "one");
    world.create_with(&json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}));
    world.pass(LONG).await;
    assert_eq!(world.value(), "one");
    // A sync of the other object alone: the hook is no longer among the results of the last one.
    world.change_object(CONFIG_MAP, &json!({"data": {"value": "drift"}}));
    world.pass(LONG).await;
    assert_eq!(world.value(), "one");

    refusal.set(true, true);
    world.change(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
    world.pass(LONG).await;
    assert_eq!(world.app().pointer("/status/sync/status"), Some(&json!("Unknown")));
    world.delete();
    world.pass(LONG).await;
    assert!(world.app().pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string));

    refusal.set(false, false);
    world.pass(LONG).await;
    for gone in [world.app(), world.get(HOOK), world.get(CONFIG_MAP)] {
        assert_eq!(gone.pointer("/reason"), Some(&json!("NotFound")), "{gone}");
    }
}

/// INV-15: what the last sync made may be in its results alone, when the watch was late and another commit took it out
/// of the source. While its kind cannot be listed, nobody calls the application in sync.
#[tokio::test(start_paused = true)]
async fn inv_15_what_the_last_sync_made_is_not_forgotten_while_its_kind_cannot_be_listed() {
    let refusal = Refusal::default();
    refusal.set(true, false);
    let world = start(&refusal).await;
    world.commit("one");
    world.create();
    world.pass(LONG).await;
    assert_eq!(world.app().pointer("/status/sync/status"), Some(&json!("Synced")));
    let made = json!({"group": "batch", "version": "v1", "kind": "Job", "namespace": "default", "name": "left",
        "status": "Synced", "syncPhase": "Sync", "hookPhase": "Running", "message": "job.batch/left created"});
    let mut results = world.app().pointer("/status/operationState/syncResult/resources").cloned().unwrap();
    results.as_array_mut().unwrap().push(made);
    world.change(&json!({"status": {"operationState": {"syncResult": {"resources": results}}},
        "metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
    world.pass(LONG).await;
    let app = world.app();
    assert_eq!(app.pointer("/status/sync/status"), Some(&json!("Unknown")), "{app}");
    let why = app.pointer("/status/conditions/0/message").and_then(Value::as_str).unwrap_or_default();
    assert!(why.contains("batch/Job/default/left"), "{why}");
    // It can be listed: there is no such object.
    refusal.set(false, false);
    world.pass(LONG).await;
    assert_eq!(world.app().pointer("/status/sync/status"), Some(&json!("Synced")));
}
