//! Rounds as the scheduler sees them: an Application in, patches and a requeue out.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_object::Object;
use tiphys_sim::Sim;
use tiphys_source::MemoryRepositories;

use super::reconcile;
use crate::app_key::AppKey;
use crate::applications::{self, Options};
use crate::context::Context;
use crate::control_plane::{Access, ControlPlane};
use crate::controller::ControllerOptions;
use crate::queue::Priority;
use crate::scheduler::Requeue;
use crate::settings_watch::SettingsWatch;
use crate::support::{HOME, ask, control_plane, options};

const URL: &str = "https://git.example/shop.git";
const APPS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// One write: method, the last two parts of the path, and the body.
type Write = (Method, String, Value);

/// A control plane without workers: a test runs the rounds.
struct Bench {
    sim: Sim,
    context: Arc<Context>,
    writes: Arc<Mutex<Vec<Write>>>,
    /// The next writes to Applications meet somebody else's.
    conflicts: Arc<Mutex<usize>>,
    _plane: ControlPlane,
}

impl Bench {
    async fn start() -> Self {
        let sim = control_plane();
        let servers = MemoryRepositories::default();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}});
        let files = BTreeMap::from([("shop/shop.yaml".to_owned(), Bytes::from(object.to_string()))]);
        servers.commit(URL, "main", files, 0).unwrap();
        let (writes, conflicts) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let connection = recorded(&sim, &writes, &conflicts);
        let ControllerOptions { namespace, cache_dir, env, surroundings, .. } =
            options(connection.clone(), &servers);
        let access = Access { namespace, connection, read_only: false, identity: None };
        let plane = ControlPlane::connect(access, surroundings).await.unwrap();
        let settings = SettingsWatch::start(&plane, &cache_dir, env).await.unwrap();
        let options = Options { cache_dir, own_dirs: Vec::new(), workers: 2 };
        let context = applications::prepare(&plane, &settings, options).await.unwrap().context;
        context.store.listed();
        Self { sim, context, writes, conflicts, _plane: plane }
    }

    /// Makes an Application with these members besides the ordinary ones.
    fn create(&self, change: impl FnOnce(&mut Value)) {
        let mut app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": {"project": "default",
                "source": {"repoURL": URL, "path": "shop", "targetRevision": "main"},
                "destination": {"server": HOME, "namespace": "default"}}});
        change(&mut app);
        ask(&self.sim, Method::POST, APPS, &app);
        self.take();
    }

    /// Takes the stored Application, as its watch would.
    fn take(&self) {
        let stored = ask(&self.sim, Method::GET, &format!("{APPS}/shop"), &Value::Null);
        let object = Arc::new(Object::from_value(&stored).unwrap());
        let tracking = &self.context.world.load().tracking;
        self.context.store.upsert(object, tracking).unwrap();
    }

    /// One round, with what it wrote.
    async fn round(&self) -> (Requeue, Vec<Write>) {
        self.writes.lock().clear();
        let requeue = reconcile(&self.context, &AppKey::new("argocd", "shop"), Priority::Urgent).await;
        (requeue, std::mem::take(&mut *self.writes.lock()))
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }
}

fn recorded(sim: &Sim, writes: &Arc<Mutex<Vec<Write>>>, conflicts: &Arc<Mutex<usize>>) -> Connection {
    let (sim, writes, conflicts) = (sim.clone(), Arc::clone(writes), Arc::clone(conflicts));
    Connection::over(HOME, move |request: Request<Bytes>| {
        let sim = sim.clone();
        let path = request.uri().path().to_owned();
        let is_of_application = path.contains("/applications/");
        let is_refused = {
            let mut left = conflicts.lock();
            let is_refused = is_of_application && request.method() == Method::PATCH && *left > 0;
            *left -= usize::from(is_refused);
            is_refused
        };
        if request.method() != Method::GET {
            let parts: Vec<&str> = path.rsplit('/').take(2).collect();
            let name = parts.into_iter().rev().collect::<Vec<_>>().join("/");
            let body = serde_json::from_slice(request.body()).unwrap_or(Value::Null);
            writes.lock().push((request.method().clone(), name, body));
        }
        let request = if is_refused { outdated(request) } else { request };
        async move { Ok(sim.call(request).await) }
    })
}

/// The same write, of somebody who has read an older version.
fn outdated(request: Request<Bytes>) -> Request<Bytes> {
    request.map(|body| {
        let mut patch: Value = serde_json::from_slice(&body).unwrap();
        patch["metadata"]["resourceVersion"] = json!("1");
        Bytes::from(patch.to_string())
    })
}

fn names(writes: &[Write]) -> Vec<(&str, &str)> {
    writes.iter().map(|(method, name, _)| (method.as_str(), name.as_str())).collect()
}

/// CTL-9, CTL-28: what was found is one patch, and the periodic refresh is what is wanted next.
#[tokio::test(start_paused = true)]
async fn ctl_9_a_refresh_is_one_patch_and_comes_back_with_its_interval() {
    let bench = Bench::start().await;
    bench.create(|_| {});
    let (requeue, writes) = bench.round().await;
    assert_eq!(names(&writes), [("PATCH", "applications/shop")]);
    let status = &writes[0].2["status"];
    assert_eq!(
        (&status["sync"]["status"], &status["health"]["status"]),
        (&json!("OutOfSync"), &json!("Missing"))
    );
    let Requeue::At(at) = requeue else { panic!("{requeue:?}") };
    let wait = at.duration_since(bench.now());
    assert!(wait > SignedDuration::from_secs(100) && wait < SignedDuration::from_mins(4), "{wait:?}");
}

/// INV-5: a round that finds what is known writes nothing.
#[tokio::test(start_paused = true)]
async fn inv_5_a_second_round_writes_nothing() {
    let bench = Bench::start().await;
    bench.create(|_| {});
    bench.round().await;
    let (requeue, writes) = bench.round().await;
    assert!(writes.is_empty(), "{writes:?}");
    assert!(matches!(requeue, Requeue::At(_)), "{requeue:?}");
}

/// CTL-57, INV-2: the beginning is on record before anything is made, the end with the comparison after it.
#[tokio::test(start_paused = true)]
async fn inv_2_an_automatic_sync_is_recorded_before_its_first_write() {
    let bench = Bench::start().await;
    bench.create(|app| app["spec"]["syncPolicy"] = json!({"automated": {}}));
    let (requeue, writes) = bench.round().await;
    assert_eq!(
        names(&writes),
        [("PATCH", "applications/shop"), ("POST", "default/configmaps"), ("PATCH", "applications/shop"),]
    );
    let first = &writes[0].2;
    assert_eq!(first["status"]["operationState"]["phase"], "Running");
    assert!(first["operation"].is_object() && first["metadata"]["resourceVersion"].is_string());
    let last = &writes[2].2;
    assert_eq!(last["status"]["operationState"]["phase"], "Succeeded");
    assert_eq!(last["status"]["sync"]["status"], "Synced");
    assert!(last["operation"].is_null());
    assert_eq!(requeue, Requeue::Now(Priority::Urgent), "whether the branch moved meanwhile");
}

/// F11: somebody else's write ends the round, and the next one begins with what is stored.
#[tokio::test(start_paused = true)]
async fn f11_a_conflict_is_another_round_a_little_later() {
    let bench = Bench::start().await;
    bench.create(|_| {});
    *bench.conflicts.lock() = 1;
    let (requeue, _) = bench.round().await;
    assert_eq!(requeue, Requeue::After(SignedDuration::from_millis(100)));
    let (_, writes) = bench.round().await;
    assert_eq!(writes[0].2["status"]["sync"]["status"], "OutOfSync");
}

/// CTL-15: a wrong spec is told in one patch, and nothing is done.
#[tokio::test(start_paused = true)]
async fn ctl_15_a_wrong_spec_is_told() {
    let bench = Bench::start().await;
    bench.create(|app| {
        app["spec"]["project"] = json!("nobody");
        app["spec"]["syncPolicy"] = json!({"automated": {}});
    });
    let (requeue, writes) = bench.round().await;
    assert_eq!(names(&writes), [("PATCH", "applications/shop")]);
    let status = &writes[0].2["status"];
    assert_eq!(status["conditions"][0]["type"], "InvalidSpecError");
    assert_eq!(status["sync"]["status"], "Unknown");
    assert!(matches!(requeue, Requeue::At(_)), "{requeue:?}");
}

/// CTL-78: the objects first, the finalizer when they are gone.
#[tokio::test(start_paused = true)]
async fn ctl_78_a_deletion_is_steps_with_requeues_between() {
    let bench = Bench::start().await;
    bench.create(|app| {
        app["metadata"]["finalizers"] = json!([FINALIZER]);
        app["spec"]["syncPolicy"] = json!({"automated": {}});
    });
    bench.round().await;
    ask(&bench.sim, Method::DELETE, &format!("{APPS}/shop"), &Value::Null);
    bench.take();
    let (requeue, writes) = bench.round().await;
    assert_eq!(names(&writes), [("DELETE", "configmaps/shop")]);
    assert_eq!(requeue, Requeue::After(SignedDuration::from_millis(100)));
    let (requeue, writes) = bench.round().await;
    assert_eq!(names(&writes), [("PATCH", "applications/shop")]);
    assert_eq!(writes[0].2["metadata"]["finalizers"], json!([]));
    assert_eq!(requeue, Requeue::Done);
}

/// CTL-141: where too many are busy already, the gate brings the application back, and no timer does.
#[tokio::test(start_paused = true)]
async fn ctl_141_a_full_gate_is_no_requeue() {
    use crate::gate::Shared;
    let bench = Bench::start().await;
    bench.create(|_| {});
    let key = AppKey::new("argocd", "other");
    let inside = bench.context.gates.enter(&key, Priority::Urgent, [Shared::Cluster(HOME.to_owned())]);
    assert!(inside.is_some());
    let (requeue, writes) = bench.round().await;
    assert_eq!((requeue, writes.len()), (Requeue::Done, 0));
    drop(inside);
    assert_eq!(bench.context.scheduler.depth(), 1);
}

/// INV-15: an application that cannot be read says so, and a write that failed is made again.
#[tokio::test(start_paused = true)]
async fn inv_15_what_cannot_be_read_is_told() {
    let bench = Bench::start().await;
    bench.create(|_| {});
    bench.context.store.hold(AppKey::new("argocd", "shop"), "nested too deep".to_owned());
    *bench.conflicts.lock() = 1;
    let (requeue, _) = bench.round().await;
    assert_eq!(requeue, Requeue::After(SignedDuration::from_secs(30)));
    let (requeue, writes) = bench.round().await;
    assert_eq!(requeue, Requeue::Done);
    assert_eq!(writes[0].2["status"]["conditions"][0]["type"], "UnknownError");
}
