//! Rounds as the scheduler sees them: an Application in, patches and a requeue out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_installation::InstallationData;
use tiphys_object::Object;
use tiphys_sim::Sim;
use tiphys_source::MemoryRepositories;

use tiphys_lifecycle::refresh::Level;

use super::reconcile;
use crate::app_key::AppKey;
use crate::applications::{self, Options};
use crate::context::Context;
use crate::control_plane::{Access, ControlPlane};
use crate::controller::ControllerOptions;
use crate::memory::AppMemory;
use crate::queue::Priority;
use crate::scheduler::Requeue;
use crate::settings_watch::SettingsWatch;
use crate::store::Change;
use crate::support::{HOME, ask, control_plane, options};
use crate::world::World;

const URL: &str = "https://git.example/shop.git";
const APPS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
const FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";

/// When a cluster that is listed is asked again.
const LISTED_SOON: SignedDuration = SignedDuration::from_millis(500);

/// One write: method, the last two parts of the path, and the body.
type Write = (Method, String, Value);

/// A control plane without workers: a test runs the rounds.
struct Bench {
    sim: Sim,
    context: Arc<Context>,
    repositories: MemoryRepositories,
    data: InstallationData,
    writes: Arc<Mutex<Vec<Write>>>,
    /// The next writes to Applications meet somebody else's.
    conflicts: Arc<Mutex<usize>>,
    _plane: ControlPlane,
}

impl Bench {
    async fn start() -> Self {
        let sim = control_plane();
        let servers = MemoryRepositories::default();
        commit(&servers, "1");
        let (writes, conflicts) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let connection = recorded(&sim, &writes, &conflicts);
        let ControllerOptions { namespace, cache_dir, env, surroundings, .. } =
            options(connection.clone(), &servers);
        let access = Access { namespace, connection, read_only: false, identity: None };
        let plane = ControlPlane::connect(access, surroundings).await.unwrap();
        let settings = SettingsWatch::start(&plane, env).await.unwrap();
        let options = Options { cache_dir, own_dirs: Vec::new(), workers: 2 };
        let context = applications::prepare(&plane, &settings, options).unwrap().context;
        context.store.listed();
        Self { sim, context, repositories: servers, data: settings.data(), writes, conflicts, _plane: plane }
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
        if self.context.store.upsert(object).unwrap() != Change::None {
            self.context.look_for_marks();
        }
    }

    /// One round, with what it wrote.
    async fn round(&self) -> (Requeue, Vec<Write>) {
        self.writes.lock().clear();
        let requeue = reconcile(&self.context, &AppKey::new("argocd", "shop"), Priority::Urgent).await;
        (requeue, std::mem::take(&mut *self.writes.lock()))
    }

    /// Rounds until one is not about a cluster that is listed anew.
    async fn round_when_listed(&self) -> (Requeue, Vec<Write>) {
        for _ in 0..100 {
            let (requeue, writes) = self.round().await;
            if requeue != Requeue::After(LISTED_SOON) || !writes.is_empty() {
                return (requeue, writes);
            }
            tokio::time::sleep(LISTED_SOON.unsigned_abs()).await;
        }
        panic!("nobody looks for the marks of the application");
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    /// New tracking settings, which rounds see at once and the indexes not before [`Self::follow_settings`].
    fn set_tracking(&self, settings: &[(&str, &str)]) {
        let mut data = self.data.clone();
        let texts = settings.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "argocd-cm", "namespace": "argocd"}, "data": Value::Object(texts.collect())});
        let object = Object::from_value(&object).unwrap();
        data.config_maps.insert("argocd-cm".into(), Arc::new(object));
        self.context.world.store(Arc::new(World::build(&data, Some(&self.context.world.load_full()))));
    }

    /// The project of the application with these sync windows, which rounds see at once.
    fn set_windows(&self, windows: &Value) {
        let mut data = self.data.clone();
        let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
            "metadata": {"name": "default", "namespace": "argocd"},
            "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
                "syncWindows": windows}});
        data.take(Arc::new(Object::from_value(&project).unwrap()));
        self.context.world.store(Arc::new(World::build(&data, Some(&self.context.world.load_full()))));
    }

    /// Lets the indexes follow.
    fn follow_settings(&self, old: &World) {
        let world = self.context.world.load_full();
        self.context.store.mark_anew(&world.tracking);
        self.context.clusters.reconfigure(&world, old, &self.context.store);
    }
}

/// The one manifest, with this value.
fn commit(repositories: &MemoryRepositories, value: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"}, "data": {"key": value}});
    let files = BTreeMap::from([("shop/shop.yaml".to_owned(), Bytes::from(object.to_string()))]);
    repositories.commit(URL, "main", files, 0).unwrap();
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

/// CTL-50, CLI-516: whoever waits for an operation that took its time waits for the comparison after it, not for the next
/// periodic one.
#[tokio::test(start_paused = true)]
async fn cli_516_an_operation_is_followed_by_a_comparison_that_tells_its_time() {
    let bench = Bench::start().await;
    bench.create(|_| {});
    bench.round().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let operation = json!({"operation": {"sync": {}}});
    ask(&bench.sim, Method::PATCH, &format!("{APPS}/shop"), &operation);
    bench.take();
    bench.round().await;
    bench.round().await;
    let status = ask(&bench.sim, Method::GET, &format!("{APPS}/shop"), &Value::Null)["status"].clone();
    assert_eq!(status["operationState"]["phase"], "Succeeded", "{status:#}");
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    assert!(time(&status["reconciledAt"]) >= time(&status["operationState"]["finishedAt"]), "{status:#}");
}

/// REP-178, REP-179: automation begins nothing while a window is closed; what was begun by hand keeps running, says why it
/// waits, and goes on when the window is open.
#[tokio::test(start_paused = true)]
async fn rep_179_a_closed_window_holds_operations_back_until_it_opens() {
    let bench = Bench::start().await;
    let closed = json!([{"kind": "deny", "schedule": "* * * * *", "duration": "1h", "applications": ["*"]}]);
    bench.set_windows(&closed);
    bench.create(|app| app["spec"]["syncPolicy"] = json!({"automated": {}}));
    let (_, writes) = bench.round().await;
    assert_eq!(names(&writes), [("PATCH", "applications/shop")], "nothing is synced");
    assert_eq!(writes[0].2["status"]["sync"]["status"], "OutOfSync");
    assert!(writes[0].2["status"].get("operationState").is_none(), "{writes:#?}");

    ask(&bench.sim, Method::PATCH, &format!("{APPS}/shop"), &json!({"operation": {"sync": {}}}));
    bench.take();
    let (requeue, _) = bench.round().await;
    let state = || {
        let stored = ask(&bench.sim, Method::GET, &format!("{APPS}/shop"), &Value::Null);
        let state = &stored["status"]["operationState"];
        (state["phase"].clone(), state["message"].clone(), stored["operation"].is_object())
    };
    assert_eq!(state(), (json!("Running"), json!("Sync operation blocked by sync window"), true));
    assert_ne!(requeue, Requeue::Done, "somebody has to look whether it opened");
    bench.take();
    let (_, writes) = bench.round().await;
    assert!(writes.is_empty(), "it says so once: {writes:#?}");

    bench.set_windows(&json!([{"kind": "deny", "schedule": "bad", "duration": "1h", "applications": ["*"]}]));
    bench.round().await;
    let (phase, message, _) = state();
    let start = "Sync operation blocked by sync window: invalid sync windows: cannot parse schedule 'bad': ";
    assert!(phase == "Running" && message.as_str().unwrap().starts_with(start), "{message}");

    bench.set_windows(&json!([]));
    bench.take();
    bench.round().await;
    assert_eq!((state().0, state().2), (json!("Succeeded"), false));
}

/// CLI-516, ASET-205: a controller that died between the end of an operation and the comparison after it leaves that
/// comparison to the next one, which does not wait for the periodic look.
#[tokio::test(start_paused = true)]
async fn cli_516_what_waits_for_a_comparison_after_an_operation_gets_it_from_the_next_process() {
    let bench = Bench::start().await;
    bench.create(|_| {});
    let operation = json!({"operation": {"sync": {}}});
    ask(&bench.sim, Method::PATCH, &format!("{APPS}/shop"), &operation);
    bench.take();
    bench.round().await;
    bench.round().await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let finished = bench.now();
    let ended = json!({"status": {"operationState": {"finishedAt": finished.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()}}});
    ask(&bench.sim, Method::PATCH, &format!("{APPS}/shop"), &ended);
    bench.take();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (_, writes) = bench.round().await;
    assert!(writes.is_empty(), "this process compared already: {writes:?}");
    *bench.context.store.get(&AppKey::new("argocd", "shop")).unwrap().memory.lock() = AppMemory::default();
    let (_, writes) = bench.round().await;
    let reconciled = writes[0].2["status"]["reconciledAt"].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert!(reconciled >= finished, "{writes:?}");
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

/// CTL-15, INV-15: nobody says of a project that it does not exist because its watch has not shown it yet.
#[tokio::test(start_paused = true)]
async fn ctl_15_a_project_that_was_just_made_is_waited_for() {
    let bench = Bench::start().await;
    let projects = "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects";
    let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "late", "namespace": "argocd"}, "spec": {}});
    ask(&bench.sim, Method::POST, projects, &project);
    bench.create(|app| {
        app["spec"]["project"] = json!("late");
        app["operation"] = json!({"sync": {}});
    });
    let (requeue, writes) = bench.round().await;
    assert_eq!(requeue, Requeue::After(LISTED_SOON));
    assert!(!writes.iter().any(|write| write.2.to_string().contains("does not exist")), "{writes:?}");
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

/// TRK-91, INV-17: an index that does not look for the marks of the settings in force knows nothing of the application.
#[tokio::test(start_paused = true)]
async fn trk_91_a_deletion_waits_until_the_index_looks_for_the_marks_in_force() {
    let bench = Bench::start().await;
    let both = [("application.resourceTrackingMethod", "annotation+label")];
    let label =
        [("application.resourceTrackingMethod", "label"), ("application.resourceTracking.migration", "off")];
    bench.set_tracking(&both);
    bench.create(|app| {
        app["metadata"]["finalizers"] = json!([FINALIZER]);
        app["spec"]["syncPolicy"] = json!({"automated": {}});
    });
    bench.round().await;
    ask(&bench.sim, Method::DELETE, &format!("{APPS}/shop"), &Value::Null);
    bench.take();
    let old = bench.context.world.load_full();
    bench.set_tracking(&label);
    let (requeue, writes) = bench.round().await;
    assert_eq!((requeue, names(&writes)), (Requeue::After(LISTED_SOON), vec![]));
    bench.follow_settings(&old);
    let (_, writes) = bench.round_when_listed().await;
    assert_eq!(names(&writes), [("DELETE", "configmaps/shop")]);
    // A round that began before is no wiser the other way round.
    bench.context.world.store(old);
    let (requeue, writes) = bench.round().await;
    assert_eq!((requeue, names(&writes)), (Requeue::After(LISTED_SOON), vec![]));
}

/// TRK-91: nothing is called missing meanwhile, and nothing is synced.
#[tokio::test(start_paused = true)]
async fn trk_91_a_comparison_waits_until_the_index_looks_for_the_marks_in_force() {
    let bench = Bench::start().await;
    bench.create(|app| app["spec"]["syncPolicy"] = json!({"automated": {"prune": true}}));
    bench.round().await;
    let old = bench.context.world.load_full();
    bench.set_tracking(&[("application.resourceTrackingMethod", "label")]);
    bench.context.request(&AppKey::new("argocd", "shop"), Level::Latest, Priority::Urgent);
    let (requeue, writes) = bench.round().await;
    assert!(matches!(requeue, Requeue::After(_)) && writes.is_empty(), "{requeue:?} {writes:?}");
    bench.follow_settings(&old);
    let (requeue, writes) = bench.round_when_listed().await;
    assert!(matches!(requeue, Requeue::At(_)) && writes.is_empty(), "still Synced: {requeue:?} {writes:?}");
}

/// TRK-91, INV-1: until the index looks for what an application was marked by before, nothing is said about what it has.
#[tokio::test(start_paused = true)]
async fn trk_91_a_comparison_waits_until_the_index_looks_for_the_marks_before() {
    let bench = Bench::start().await;
    bench.create(|_| {});
    bench.round().await;
    let profile = json!({"metadata": {"annotations":
        {"argocd.argoproj.io/tracking-profile": "{\"method\":\"label\"}", "argocd.argoproj.io/refresh": "normal"}}});
    ask(&bench.sim, Method::PATCH, &format!("{APPS}/shop"), &profile);
    let stored = ask(&bench.sim, Method::GET, &format!("{APPS}/shop"), &Value::Null);
    bench.context.store.upsert(Arc::new(Object::from_value(&stored).unwrap())).unwrap();
    let (requeue, writes) = bench.round().await;
    assert!(matches!(requeue, Requeue::After(_)) && writes.is_empty(), "{requeue:?} {writes:?}");
    bench.context.look_for_marks();
    let (_, writes) = bench.round_when_listed().await;
    assert_eq!(names(&writes), [("PATCH", "applications/shop")]);
}

/// TRK-91: a further way of marking that a round learns of by a conflict is looked for, although the watch tells nothing
/// new any more.
#[tokio::test(start_paused = true)]
async fn trk_91_a_method_that_a_conflict_shows_is_looked_for() {
    let bench = Bench::start().await;
    bench.create(|_| {});
    bench.round().await;
    let annotate = |name: &str, value: &str| {
        let patch = json!({"metadata": {"annotations": {format!("argocd.argoproj.io/{name}"): value}}});
        ask(&bench.sim, Method::PATCH, &format!("{APPS}/shop"), &patch);
    };
    annotate("refresh", "normal");
    bench.take();
    annotate("tracking-method", "hash");
    bench.round().await;
    bench.take();
    bench.round_when_listed().await;
    let (requeue, _) = bench.round_when_listed().await;
    assert!(matches!(requeue, Requeue::At(_)), "{requeue:?}");
}

/// TRK-102: also a sync to a revision that nobody compared with before marks everything.
#[tokio::test(start_paused = true)]
async fn trk_102_a_sync_to_a_newer_revision_stores_the_profile() {
    let bench = Bench::start().await;
    bench.create(|_| {});
    bench.round().await;
    commit(&bench.repositories, "2");
    tokio::time::sleep(Duration::from_mins(5)).await;
    let operation = json!({"operation": {"sync": {}}, "metadata": {"annotations":
        {"argocd.argoproj.io/tracking-profile": "{\"method\":\"label\"}"}}});
    ask(&bench.sim, Method::PATCH, &format!("{APPS}/shop"), &operation);
    bench.take();
    let before = bench.context.store.get(&AppKey::new("argocd", "shop")).unwrap().parse().unwrap();
    for _ in 0..5 {
        bench.round_when_listed().await;
    }
    let after = ask(&bench.sim, Method::GET, &format!("{APPS}/shop"), &Value::Null);
    assert_eq!(after["status"]["operationState"]["phase"], "Succeeded", "{after:#}");
    let synced = &after["status"]["operationState"]["syncResult"]["revision"];
    assert_ne!(synced, before.status.sync.revision.as_str(), "it was not compared before");
    let profile = &after["metadata"]["annotations"]["argocd.argoproj.io/tracking-profile"];
    assert_eq!(profile, r#"{"method":"annotation"}"#);
}

/// TRK-102: what a sync that the controller began itself has marked is known, although nothing can be compared after it.
#[tokio::test(start_paused = true)]
async fn trk_102_an_automated_sync_stores_the_profile_without_a_comparison_after_it() {
    let bench = Bench::start().await;
    bench.create(|app| app["spec"]["syncPolicy"] = json!({"automated": {}}));
    // The index looks for other marks as soon as there is something to mark.
    let change_settings = async {
        while !bench.writes.lock().iter().any(|write| write.1 == "default/configmaps") {
            tokio::task::yield_now().await;
        }
        let old = bench.context.world.load_full();
        bench.set_tracking(&[("application.resourceTrackingMethod", "label")]);
        bench.follow_settings(&old);
    };
    let (_, ()) = tokio::join!(bench.round(), change_settings);
    let stored = ask(&bench.sim, Method::GET, &format!("{APPS}/shop"), &Value::Null);
    assert_eq!(stored["status"]["operationState"]["phase"], "Succeeded", "{stored:#}");
    assert_eq!(stored["status"]["sync"]["status"], "OutOfSync", "nothing was compared since");
    let profile = &stored["metadata"]["annotations"]["argocd.argoproj.io/tracking-profile"];
    assert_eq!(profile, r#"{"method":"annotation"}"#);
}

/// CTL-141: where too many are busy already, the gate brings the application back, and no timer does.
#[tokio::test(start_paused = true)]
async fn ctl_141_a_full_gate_is_no_requeue() {
    use crate::gate::Shared;
    let bench = Bench::start().await;
    bench.create(|_| {});
    let key = AppKey::new("argocd", "other");
    let inside = bench.context.gates.enter(
        &key,
        Priority::Urgent,
        [Shared::Cluster(tiphys_api::cluster::ClusterKey::shared(HOME))],
    );
    assert!(inside.is_some());
    let (requeue, writes) = bench.round().await;
    assert_eq!((requeue, writes.len()), (Requeue::Done, 0));
    drop(inside);
    assert_eq!(bench.context.scheduler.depth(), 1);
}

/// Page, hole 2: forty slow repositories or clusters of one project took all workers.
#[tokio::test(start_paused = true)]
async fn inv_16_an_application_waits_for_a_place_of_its_project() {
    use crate::gate::Shared;
    let bench = Bench::start().await;
    bench.create(|_| {});
    let other = AppKey::new("argocd", "other");
    for shared in [Shared::Project("default".to_owned()), Shared::SourcesOf("default".to_owned())] {
        let fill = || bench.context.gates.enter(&other, Priority::Urgent, [shared.clone()]);
        let inside: Vec<_> = std::iter::from_fn(fill).collect();
        assert!(!inside.is_empty());
        let (_, writes) = bench.round().await;
        assert_eq!((writes.len(), bench.context.scheduler.depth()), (0, 0), "{shared:?}");
        drop(inside);
        // The last one that found no place stands before it.
        for wanted in [&other, &AppKey::new("argocd", "shop")] {
            assert_eq!(bench.context.scheduler.next().await.unwrap().key(), wanted, "{shared:?}");
        }
    }
    let (_, writes) = bench.round().await;
    assert!(!writes.is_empty());
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
