//! One run: an installation, its users and its troubles, in one thread and from one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_control::services::Services;
use tiphys_control::{Compute, Controller, ControllerOptions, Interpreters, Random, Surroundings};
use tiphys_engine::tracking::HashAlgorithm;
use tiphys_object::access;
use tiphys_source::{Clock, MemoryRepositories};

use super::Extras;
use super::api::ApiServer;
use super::chance::Chance;
use super::faults::{Faults, Troubles};
use super::hostile::{self, Hostile};
use super::log;
use super::manifests;
use super::model::{ANOTHER, App, Automated, CONTROL_PLANE, METHODS, Model, Rules};
use super::neighbour::Neighbour;
use super::observer::{FOREIGN, Observer, Violation};
use super::sets;
use super::settled;
use super::truth;
use super::users::{self, Users};
use super::wire::{Wire, Wires};

/// Makes another seed out of a seed.
const APART: u64 = 0x5eed_b11d_0000_0000;
/// The same, for what was added after that.
const LATER: u64 = 0x5eed_1a7e_0000_0000;
/// Makes the choices about marks independent of all others.
const MARKS: u64 = 0x5eed_3a12_0000_0000;
/// The time of day at which every run begins.
const BEGIN: &str = "2026-01-01T00:00:00Z";
/// Where the cluster is, as settings name it.
pub(super) const SERVER: &str = "https://kubernetes.default.svc";
/// Time in which what others commit arrives, whatever the tenant does against it.
const INTRUSION: Duration = Duration::from_mins(20);
/// Calls of the tenant between two acts of the users.
const CALLS: u64 = 3;
/// Syncs of a pipeline, one a minute: for longer than nobody may look.
const SYNCS: usize = 10;
/// Longest time between two looks at an application: the interval of two minutes with its jitter, a pass, and the
/// retries of a server that refuses some calls.
const LOOK_BOUND: Duration = Duration::from_mins(6);
/// Kinds that are watched; a world without all others starts and idles cheaply.
const INCLUSIONS: &str = "- apiGroups: ['']\n  kinds: [ConfigMap, Secret, Namespace]\n\
                          - apiGroups: [apps]\n  kinds: [Deployment]\n- apiGroups: [batch]\n  kinds: [Job]\n";

/// Makes the choices about another installation independent of all others.
const NEIGHBOUR: u64 = 0x5eed_2222_0000_0000;
/// Makes the choices of the tenant's account independent of all others.
const CALLER: u64 = 0x5eed_ca11_0000_0000;
/// Makes the choices about sets independent of all others.
const SETS: u64 = 0x5eed_5e75_0000_0000;

/// The definitions of Applications, sets and projects. Their schemas take milliseconds to read and say nothing about
/// the controller, so every object is let through.
static DEFINITIONS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let mut definitions = tiphys_api::crd::manifests();
    for definition in &mut definitions {
        for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
            version["schema"] = json!({"openAPIV3Schema": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
            }});
        }
    }
    definitions
});

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) violations: Vec<Violation>,
    /// Equal for equal histories.
    pub(super) trace: u64,
    pub(super) requests: u64,
    /// The numbers of the requests that write.
    pub(super) writing: Vec<u64>,
    pub(super) writes: u64,
    pub(super) deletions: u64,
    pub(super) applies: u64,
    pub(super) crashes: u64,
    /// Virtual time.
    pub(super) took: Duration,
}

/// Runs a seed to its end.
pub(super) fn run(seed: u64, troubles: Troubles, extras: Extras, prints: bool) -> std::io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(async {
        let canary = format!("canary-{:08x}", seed & 0xffff_ffff);
        let seen = Arc::new(log::Seen::default());
        let origin = tokio::time::Instant::now();
        let reader =
            log::Reader { canaries: log::writings(&canary), seen: Arc::clone(&seen), origin, prints };
        let _guard = tracing::subscriber::set_default(reader);
        let mut world = World::begin(seed, troubles, extras, canary, prints);
        world.live().await;
        Ok(world.end(&seen))
    })
}

/// An installation under test.
pub(super) struct World {
    pub(super) wires: Arc<Wires>,
    pub(super) users: Users,
    chance: Chance,
    clock: Clock,
    running: Option<Running>,
    crashes: u64,
    prints: bool,
    /// Workers of every controller of this run: few, so that one that is held is missed.
    workers: usize,
    /// What cannot be listed in the blind part of the run.
    blindness: Option<(String, u16)>,
    /// Somebody who does what it can to the others, in every second run.
    hostile: Option<Hostile>,
    /// Who has an `ApplicationSet`, in some of the runs.
    set: Option<sets::Tenant>,
    /// Another installation on the same cluster, in a tenth of the runs.
    neighbour: Option<Neighbour>,
    /// Whether something is not noticed before everything is listed again.
    pub(super) needs_resync: bool,
    /// Chance of what was added later, so that what else a seed does stays as it is.
    apart: Chance,
    tracking: Tracking,
}

struct Running {
    controller: Controller,
    /// The API server beside it, in runs with a caller.
    api: Option<ApiServer>,
    is_cut: Arc<AtomicBool>,
    since: Duration,
}

/// How objects are marked in a run.
struct Tracking {
    chance: Chance,
    /// Whether that changes.
    is_changed: bool,
    /// Whether the installation has an ID, which every method checks.
    has_id: bool,
}

impl Tracking {
    fn choose(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ MARKS);
        let is_changed = chance.permille(500);
        Self { is_changed, has_id: is_changed && chance.permille(500), chance }
    }

    /// Data of `argocd-cm`.
    fn settings(&mut self) -> Value {
        let mut data = json!({"resource.inclusions": INCLUSIONS});
        if self.is_changed
            && let Some(method) = self.chance.pick(&METHODS)
        {
            data["application.resourceTrackingMethod"] = (*method).into();
        }
        if self.has_id {
            data["installationID.autoGenerate"] = "true".into();
            data["installationID.carrier"] = "annotation-strict".into();
        }
        data
    }
}

impl World {
    fn begin(seed: u64, troubles: Troubles, extras: Extras, canary: String, prints: bool) -> Self {
        let mut chance = Chance::new(seed);
        let began: Timestamp = BEGIN.parse().unwrap_or_default();
        let options = tiphys_sim::Options {
            seed,
            clock: tiphys_sim::Clock::virtual_from(began),
            ..tiphys_sim::Options::default()
        };
        #[expect(clippy::expect_used, reason = "a simulation without its server is nothing")]
        let sim = tiphys_sim::Sim::new(options).expect("a server in memory has nothing to fail at");
        let servers = MemoryRepositories::default();
        let model = Model::new(servers.clone(), canary);
        let observer = Arc::new(Mutex::new(Observer::new(model)));
        let mut faults = Faults::choose(&mut chance.fork());
        // Chosen apart, so that what else a seed does stays as it is.
        let mut apart = Chance::new(seed ^ APART);
        let workers = usize::try_from(apart.within(4, 8)).unwrap_or(4);
        let mut blindness = faults.choose_blind(&mut apart);
        let mut is_attacked = apart.permille(500);
        let mut callers = Chance::new(seed ^ CALLER);
        let has_account = extras.api && callers.permille(800);
        is_attacked |= has_account;
        if let Troubles::Only(death) = troubles {
            faults = faults.only(death);
            (blindness, is_attacked) = (None, false);
        }
        if prints {
            say(Duration::ZERO, &format!("{faults:?}"));
        }
        let needs_resync = faults.needs_resync();
        let wires = Arc::new(Wires::new(sim, observer, faults, chance.fork(), prints));
        let users = Users { wires: Arc::clone(&wires), servers, chance: chance.fork(), history: Vec::new() };
        let clock = Clock::of_timers(began);
        let mut world = Self {
            wires,
            users,
            chance,
            clock,
            running: None,
            crashes: 0,
            prints,
            workers,
            blindness,
            hostile: None,
            set: None,
            neighbour: None,
            needs_resync,
            apart: Chance::new(seed ^ LATER),
            tracking: Tracking::choose(seed),
        };
        let mut choice = Chance::new(seed ^ SETS);
        let has_set = extras.sets && choice.permille(400);
        world.install(has_set);
        if has_set {
            world.set = Some(sets::Tenant::install(&world.wires, &world.users.servers, choice));
        }
        let mut choice = Chance::new(seed ^ NEIGHBOUR);
        // Without an ID of their own nothing tells the objects of two installations apart.
        if world.tracking.has_id && matches!(troubles, Troubles::OfSeed) && choice.permille(400) {
            let (wires, servers) = (&world.wires, &world.users.servers);
            world.neighbour = Some(Neighbour::install(wires, servers, &world.clock, choice, INCLUSIONS));
        }
        if is_attacked {
            let of_account = has_account.then_some(callers);
            world.hostile = Some(Hostile::install(&world.wires, &world.users.servers, apart, of_account));
        }
        world
    }

    /// Definitions, settings, projects, repositories and applications.
    fn install(&mut self, has_set: bool) {
        for definition in DEFINITIONS.iter() {
            // Without the definition nobody follows sets, and runs are as they were before there were any.
            if !has_set && definition["spec"]["names"]["kind"] == "ApplicationSet" {
                continue;
            }
            self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
        }
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CONTROL_PLANE}});
        self.post("/api/v1/namespaces", &namespace);
        let data = self.tracking.settings();
        let method = data.get("application.resourceTrackingMethod").and_then(Value::as_str);
        self.wires.observer.lock().first_method = method.map(str::to_owned);
        let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "argocd-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}},
            "data": data});
        self.post(&format!("/api/v1/namespaces/{CONTROL_PLANE}/configmaps"), &settings);
        let apps = self.chance.within(1, 4);
        let namespaces: BTreeSet<String> = (0..apps).map(|number| format!("team-{number}")).collect();
        let rules = Rules {
            namespaces,
            cluster_kinds: BTreeSet::from(["Namespace".to_owned()]),
            denied_kinds: BTreeSet::new(),
        };
        let projects = format!("/apis/argoproj.io/v1alpha1/namespaces/{CONTROL_PLANE}/appprojects");
        self.post(&projects, &rules.manifest("team"));
        let versions = BTreeMap::from([("team".to_owned(), vec![(Duration::ZERO, rules)])]);
        self.wires.observer.lock().model.projects = versions;
        for number in 0..apps {
            self.add_app(number);
        }
    }

    fn post(&self, target: &str, body: &Value) {
        let (status, answer) = self.wires.direct(Method::POST, target, "application/json", body);
        if status != 201 {
            self.tell(&format!("{target}: {status} {answer}"));
        }
    }

    fn add_app(&mut self, number: u64) {
        let chance = &mut self.chance;
        // Two repositories at most, so that applications share one.
        let url = format!("https://git.example/{}.git", chance.below(2));
        let automated = chance
            .permille(800)
            .then(|| Automated { prune: chance.permille(800), self_heal: chance.permille(700) });
        let app = App {
            name: format!("app-{number}"),
            path: format!("apps/{number}"),
            namespace: format!("team-{number}"),
            project: if chance.permille(700) { "team" } else { "default" }.to_owned(),
            cascades: chance.permille(700),
            automated,
            deleted: false,
            url: url.clone(),
        };
        let canary = self.wires.observer.lock().model.canary.clone();
        let head = self.users.servers.get_ref(&url, super::model::MAIN);
        let mut files = head
            .and_then(|head| self.users.servers.files(&url, &head))
            .map(|files| (*files).clone())
            .unwrap_or_default();
        files.extend(manifests::first(chance, &app.path, &app.namespace, &canary));
        self.users.push(&url, files);
        self.users.create(&app);
        self.wires.observer.lock().model.apps.insert(app.name.clone(), app);
    }

    /// Users act while things go wrong; then nobody acts, and everything works.
    async fn live(&mut self) {
        let loses_events = self.wires.state.lock().faults.loses_events();
        if loses_events {
            // What was lost is found when everything is listed again.
            self.wires.observer.lock().lag = Duration::from_mins(75);
        }
        self.start().await;
        if let Some(neighbour) = &mut self.neighbour {
            neighbour.start().await;
        }
        for _ in 0..self.chance.within(4, 24) {
            let wait = match self.chance.below(10) {
                0..=4 => self.chance.within(0, 5_000),
                5..=8 => self.chance.within(5_000, 90_000),
                _ => self.chance.within(90_000, 600_000),
            };
            self.pass(Duration::from_millis(wait)).await;
            let done = self.users.act();
            self.tell(&done);
            self.attack().await;
            self.change_set();
            self.change_tracking();
            if let Some(neighbour) = &mut self.neighbour
                && let Some(done) = neighbour.act().await
            {
                self.tell(&done);
            }
            if self.chance.permille(300) {
                self.push_webhook();
            }
            // Between two requests, too.
            let crash = self.wires.state.lock().faults.crash;
            if self.chance.permille(crash * 10) {
                self.crash();
                self.start().await;
            }
        }
        self.users.calm();
        if let Some(tenant) = &mut self.set {
            tenant.calm();
        }
        if let Some(neighbour) = &mut self.neighbour {
            neighbour.calm().await;
        }
        self.pipeline().await;
        self.blind(loses_events).await;
        self.wires.calm();
        self.tell("calm");
        if self.hostile.as_ref().is_some_and(Hostile::intrudes) {
            self.pass(INTRUSION).await;
            self.hostile.iter_mut().for_each(|tenant| tenant.calm(loses_events));
        }
        settled::wait(self, loses_events).await;
    }

    /// In some runs a pipeline goes on syncing one application: that is no look at what its branch means now, and
    /// must not put such a look off (INV-13).
    async fn pipeline(&mut self) {
        if !self.apart.permille(100) {
            return;
        }
        let apps: Vec<App> = self.wires.observer.lock().model.apps.values().cloned().collect();
        let Some(app) = self.apart.pick(&apps).cloned() else { return };
        for _ in 0..SYNCS {
            if !self.users.is_busy(&app) {
                let done = self.users.sync_to(&app, "", true);
                self.tell(&done);
            }
            self.pass(Duration::from_mins(1)).await;
        }
    }

    /// In half of the runs the operator changes how objects are marked, for all or for one application, and another
    /// installation has objects of applications with the same names (TRK section 12).
    fn change_tracking(&mut self) {
        if !self.tracking.is_changed || !self.tracking.chance.permille(250) {
            return;
        }
        let settings = format!("/api/v1/namespaces/{CONTROL_PLANE}/configmaps/argocd-cm");
        if self.tracking.has_id && self.tracking.chance.permille(200) {
            let patch = json!({"data": {"installationID": null}});
            let (status, _) =
                self.wires.direct(Method::PATCH, &settings, "application/merge-patch+json", &patch);
            self.tell(&format!("loses the installation ID: {status}"));
            return;
        }
        let chance = &mut self.tracking.chance;
        let Some(method) = chance.pick(&METHODS).copied() else { return };
        let apps: Vec<App> = self.wires.observer.lock().model.apps.values().cloned().collect();
        let Some(app) = chance.pick(&apps).cloned() else { return };
        let (path, patch) = if chance.permille(300) {
            let method = chance.permille(700).then_some(method);
            let annotations = json!({"argocd.argoproj.io/tracking-method": method});
            (users::path_of(&app.name), json!({"metadata": {"annotations": annotations}}))
        } else {
            let data = json!({"application.resourceTrackingMethod": method});
            (settings.clone(), json!({"data": data}))
        };
        let (status, _) = self.wires.direct(Method::PATCH, &path, "application/merge-patch+json", &patch);
        let now = self.wires.now();
        let of_system = (path == settings).then(|| method.to_owned());
        self.wires.observer.lock().tracking_changes.push((now, of_system));
        self.tell(&format!("marks by {method}: {path}: {status}"));
        self.plant_foreign(&app, method);
    }

    /// An object of another installation's application of the same name, marked by some method.
    fn plant_foreign(&mut self, app: &App, method: &str) {
        if !self.tracking.has_id {
            return;
        }
        let name = format!("{FOREIGN}{}", method.replace('+', "-"));
        let about = format!("{}:/ConfigMap:{}/{name}", app.name, app.namespace);
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name,
            "annotations": {"argocd.argoproj.io/installation-id": ANOTHER}}});
        if method.starts_with("annotation") {
            access::set_annotation(&mut object, "argocd.argoproj.io/tracking-id", &about);
        } else {
            let label =
                if method == "label" { app.name.clone() } else { HashAlgorithm::Sha1.digest(&app.name) };
            access::set_label(&mut object, "app.kubernetes.io/instance", &label);
        }
        let path = format!("/api/v1/namespaces/{}/configmaps", app.namespace);
        // The namespace may not be there yet, and the object may be there already.
        let (status, _) = self.wires.direct(Method::POST, &path, "application/json", &object);
        self.tell(&format!("another installation makes {path}/{name}: {status}"));
    }

    async fn attack(&mut self) {
        let Some(tenant) = &mut self.hostile else { return };
        let mut done = vec![tenant.act()];
        done.extend(tenant.act_apart());
        for done in done {
            self.tell(&done);
        }
        for _ in 0..CALLS {
            self.call().await;
        }
    }

    /// The tenant calls the API server, where there is one; the controller may die meanwhile.
    async fn call(&mut self) {
        let Some(api) = self.running.as_ref().and_then(|running| running.api.as_ref()) else { return };
        let Some(tenant) = &mut self.hostile else { return };
        // A call that is cut off is answered to no one.
        let done = tokio::select! {
            biased;
            () = self.wires.crash.notified() => None,
            done = tenant.call(api) => Some(done),
        };
        if let Some(done) = done {
            self.tell(&done);
        } else {
            self.crash();
            self.start().await;
        }
    }

    fn change_set(&mut self) {
        let Some(tenant) = &mut self.set else { return };
        let done = tenant.act();
        self.tell(&done);
    }

    /// Nothing goes wrong any more, but that one kind cannot be listed (F6), for as long as it takes until everything
    /// rests: what is said then must be true (INV-15), and what is deleted then must leave nothing behind (INV-17).
    async fn blind(&mut self, loses_events: bool) {
        let Some(refused) = self.blindness.take() else { return };
        self.tell(&format!("lists are refused: {refused:?}"));
        self.wires.blind(refused);
        if self.chance.permille(500) {
            self.crash();
            self.start().await;
        }
        for _ in 0..self.chance.below(4) {
            let done = self.users.act();
            self.tell(&done);
            let wait = self.chance.within(0, 60_000);
            self.pass(Duration::from_millis(wait)).await;
        }
        self.users.calm();
        // An intruder whose directory does not exist is tried again for ever, which is no rest.
        let is_paused = self.hostile.as_ref().is_some_and(Hostile::pause);
        if settled::rest(self).await {
            truth::check(&self.wires, loses_events);
        }
        if is_paused && let Some(tenant) = &mut self.hostile {
            let done = tenant.intrude();
            self.tell(&done);
        }
        if self.chance.permille(500) {
            let done = self.users.delete_some();
            self.tell(&done);
            let wait = self.chance.within(60_000, 900_000);
            self.pass(Duration::from_millis(wait)).await;
        }
    }

    /// Lets time pass, and starts a controller anew when it dies meanwhile.
    pub(super) async fn pass(&mut self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        loop {
            // Both branches are cancel-safe.
            tokio::select! {
                biased;
                () = self.wires.crash.notified() => {
                    self.crash();
                    self.start().await;
                }
                () = tokio::time::sleep_until(end) => break,
            }
        }
        self.bounded();
        self.looked();
    }

    fn crash(&mut self) {
        self.crashes += 1;
        let now = self.wires.now();
        self.wires.observer.lock().crashes.push(now);
        self.tell("crash");
        if let Some(running) = self.running.take() {
            running.is_cut.store(true, Ordering::Relaxed);
            if let Some(api) = running.api {
                api.abandon();
            }
            running.controller.abandon();
        }
    }

    /// Starts controllers until one runs, as a kubelet would.
    async fn start(&mut self) {
        loop {
            let is_cut = Arc::new(AtomicBool::new(false));
            let wire = Wire { wires: Arc::clone(&self.wires), is_cut: Arc::clone(&is_cut) };
            let connection = Connection::over(SERVER, move |request| wire.clone().handle(request));
            let options = ControllerOptions {
                namespace: CONTROL_PLANE.to_owned(),
                connection,
                cache_dir: "/nowhere".into(),
                own_dirs: Vec::new(),
                env: BTreeMap::new(),
                read_only: false,
                lease: None,
                application_sets: true,
                workers: self.workers,
                surroundings: Surroundings {
                    clock: self.clock.clone(),
                    random: Random::seeded(self.chance.below(u64::MAX)),
                    compute: Compute::inline(),
                    interpreters: Interpreters::in_process(),
                    repositories: Some(self.users.servers.clone()),
                    services: self.services(),
                    clusters: Hostile::clusters(),
                },
            };
            let started = tokio::select! {
                biased;
                () = self.wires.crash.notified() => {
                    self.crashes += 1;
                    None
                }
                started = Controller::start(options) => Some(started),
            };
            match started {
                Some(Ok(controller)) => {
                    self.tell("start");
                    let api = self.start_api(&controller).await;
                    self.running = Some(Running { controller, api, is_cut, since: self.wires.now() });
                    return;
                }
                Some(Err(error)) => self.tell(&format!("no start: {error}")),
                None => self.tell("crash at the start"),
            }
            is_cut.store(true, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn services(&self) -> Services {
        let of_set = self.set.as_ref().map(sets::Tenant::services);
        if self.hostile.as_ref().and_then(Hostile::token).is_some() {
            return hostile::services::watched(&self.wires, of_set.as_ref());
        }
        of_set.unwrap_or_else(Services::of_network)
    }

    /// Starts the API server of runs in which it is called.
    async fn start_api(&self, controller: &Controller) -> Option<ApiServer> {
        let token = self.hostile.as_ref().and_then(Hostile::token)?;
        match ApiServer::start(&self.wires, controller, &self.clock, token).await {
            Ok(api) => Some(api),
            Err(why) => {
                let text = format!("the API server does not start: {why}");
                self.wires.observer.lock().broken(self.wires.now(), "simulation", text);
                None
            }
        }
    }

    fn push_webhook(&mut self) {
        let Some((url, _)) = self.users.chance.pick(&self.users.history).cloned() else { return };
        let Some(running) = &self.running else { return };
        let push = tiphys_lifecycle::webhook::Push {
            web_urls: vec![url.trim_end_matches(".git").to_owned()],
            revision: "main".to_owned(),
            touched_head: true,
            ..tiphys_lifecycle::webhook::Push::default()
        };
        let concerned = running.controller.pushed(&push);
        self.tell(&format!("a push to {url} concerns {concerned}"));
    }

    /// INV-10: nothing grows beyond its bound.
    fn bounded(&mut self) {
        let Some(running) = &self.running else { return };
        let sizes = running.controller.sizes();
        let hostile = self.hostile.as_ref().map_or(0, Hostile::count);
        let of_set = self.set.as_ref().map_or(0, |_| sets::APPS_MAX);
        let apps = self.wires.observer.lock().model.apps.len() + hostile + of_set;
        let fits = sizes.applications <= apps
            && sizes.waiting <= apps
            && sizes.timers <= 16 * (apps + 1)
            && sizes.events <= 1000
            // That of the run, and one of the hostile tenant's.
            && sizes.sets <= 2
            && sizes.set_timers <= 32
            // The targets of each, and what is being looked at.
            && sizes.renderings <= 4 * (apps + 1)
            && sizes.released_bytes <= 4 << 20;
        if !fits {
            self.wires.observer.lock().broken(self.wires.now(), "INV-10", format!("{sizes:?}"));
        }
    }

    /// INV-13: whatever others do, each application whose repository answers is looked at.
    fn looked(&self) {
        let Some(running) = &self.running else { return };
        let now = self.wires.now();
        let looks: BTreeMap<_, _> = running.controller.looks().into_iter().collect();
        let mut observer = self.wires.observer.lock();
        let apps: Vec<App> = observer.model.apps.values().filter(|app| !app.deleted).cloned().collect();
        for app in apps {
            let Some(look) = looks.get(&app.name) else { continue };
            let look = look.map_or(Duration::ZERO, |look| since_begin(&look));
            let answers = observer.model.answers_since(&app.url, now);
            let last = [look, running.since, observer.born_at(&app.name), answers].into_iter().max();
            let late = now.saturating_sub(last.unwrap_or(now));
            if late > LOOK_BOUND {
                observer.broken(now, "INV-13", format!("{} was not looked at for {late:?}", app.name));
            }
        }
    }

    pub(super) fn tell(&self, text: &str) {
        if self.prints {
            say(self.wires.now(), text);
        }
    }

    fn end(self, seen: &log::Seen) -> Outcome {
        let at = self.wires.now();
        if let Some(tenant) = &self.hostile {
            tenant.check();
        }
        if let Some(neighbour) = self.neighbour {
            neighbour.check();
            neighbour.end();
        }
        if let Some(running) = self.running {
            if let Some(api) = running.api {
                api.abandon();
            }
            running.controller.abandon();
        }
        let mut observer = self.wires.observer.lock();
        if seen.canary.load(Ordering::Relaxed) {
            observer.broken(at, "INV-7", "a secret is in the log".to_owned());
        }
        if seen.bug.load(Ordering::Relaxed) {
            observer.broken(at, "bug", "the log says that a pass ended unexpectedly".to_owned());
        }
        let trace = self.wires.trace();
        let mut state = self.wires.state.lock();
        Outcome {
            violations: std::mem::take(&mut observer.violations),
            trace,
            requests: state.requests,
            writing: std::mem::take(&mut state.writing),
            writes: observer.writes,
            deletions: observer.deletions,
            applies: observer.applies,
            crashes: self.crashes,
            took: at,
        }
    }
}

/// The second at which every run begins.
pub(super) fn seconds_of_begin() -> i64 {
    BEGIN.parse::<Timestamp>().unwrap_or_default().as_second()
}

/// A time as the run counts it.
pub(super) fn since_begin(time: &Timestamp) -> Duration {
    let began: Timestamp = BEGIN.parse().unwrap_or_default();
    time.duration_since(began).unsigned_abs()
}

#[expect(clippy::print_stderr, reason = "--verbose shows what happens")]
fn say(now: Duration, text: &str) {
    eprintln!("{:10.3} world  {text}", now.as_secs_f64());
}
