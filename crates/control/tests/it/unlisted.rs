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
