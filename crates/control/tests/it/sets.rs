//! `ApplicationSets` from outside: a whole installation that makes, rolls out and deletes Applications.

mod installation;
mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{Method, Request};
use serde_json::{Value, json};
use tiphys_control::services::{Plugins, Services};
use tiphys_sim::Sim;

use crate::support::ask;
use installation::{
    APPLICATIONS, Installation, LOOK, MOMENT, SETS, Said, TIERS, URL, elements, push, rolling, spec, steps,
    value,
};

/// ASET-132, ASET-133, ASET-142, ASET-240: a set makes, changes and deletes its Applications, and takes them along.
#[tokio::test(start_paused = true)]
async fn aset_132_a_set_makes_changes_and_deletes_its_applications() {
    let mut world = Installation::start(&[]).await;
    world.commit(&["db", "config", "frontend"], "one");
    world.create(&spec(&elements(&TIERS)));
    world
        .until("everything is synced", |world| world.value("db") == "one" && world.value("config") == "one")
        .await;
    world.until("the status is there", |world| world.condition("ResourcesUpToDate").0 == "True").await;
    let set = world.set();
    assert_eq!(set["status"]["resourcesCount"], 3);
    assert_eq!(set["status"]["health"]["status"], "Healthy");
    let app = world.apps().remove("db").unwrap();
    assert_eq!(app["metadata"]["ownerReferences"][0]["uid"], set["metadata"]["uid"]);
    let created: Vec<String> =
        ["config", "db", "frontend"].map(|name| format!("created Application {name:?}")).into();
    let mut told: Vec<String> = world.events().into_iter().map(|(_, message)| message).collect();
    told.sort();
    assert_eq!(told, created);

    // ASET-133: a change of the template reaches all of them; what others wrote stays.
    world.change(&json!({"spec": {"template": {"spec": {"revisionHistoryLimit": 3}}}}));
    world
        .until("all are changed", |world| {
            world.apps().values().all(|app| app["spec"]["revisionHistoryLimit"] == 3)
        })
        .await;
    assert!(world.events().iter().any(|(reason, _)| reason == "updated"));

    // ASET-133: what somebody changes by hand is put back.
    ask(
        &world.sim,
        Method::PATCH,
        &format!("{APPLICATIONS}/db"),
        &json!({"spec": {"source": {"path": "apps/x"}}}),
    );
    world.until("it is put back", |world| world.apps()["db"]["spec"]["source"]["path"] == "apps/db").await;

    // ASET-142: what is not generated any more goes, with its resources.
    world.change(&json!({"spec": {"generators": elements(&TIERS[..2])}}));
    world
        .until("one goes", |world| world.names() == ["config", "db"] && world.value("frontend").is_empty())
        .await;
    world.until("the status follows", |world| world.set()["status"]["resourcesCount"] == 2).await;

    world.delete();
    world.until("all go", |world| world.names().is_empty() && !world.has_set()).await;
    assert_eq!(world.value("db"), "");
}

/// ASET-152, ASET-313: where nothing differs nothing is written, however often one looks.
#[tokio::test(start_paused = true)]
async fn aset_152_a_look_that_finds_nothing_new_writes_nothing() {
    let mut world = Installation::start(&[]).await;
    world.commit(&["db", "config", "frontend"], "one");
    // Git is looked at every three minutes.
    let git = json!([{"git": {"repoURL": URL, "revision": "main", "directories": [{"path": "apps/*"}]}}]);
    let mut spec = spec(&git);
    spec["template"]["metadata"] =
        json!({"name": "{{ .path.basename }}", "labels": {"tier": "{{ .path.basename }}"}});
    spec["template"]["spec"]["source"]["path"] = json!("{{ .path.path }}");
    world.create(&spec);
    world.until("everything is synced", |world| world.value("frontend") == "one").await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let before = world.writes();
    world.wire.writes.lock().clear();
    assert!(before > 0);
    let looks = |world: &Installation| {
        let metrics = world.controller.as_ref().unwrap().metrics();
        let line = metrics
            .lines()
            .find(|line| line.starts_with("argocd_appset_reconcile_count"))
            .unwrap()
            .to_owned();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let begun = looks(&world);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(looks(&world) >= begun + 3);
    let written = world.wire.writes.lock().clone();
    assert!(written.iter().all(|(_, target, _)| target.starts_with(APPLICATIONS)), "{written:?}");
    assert!(!written.iter().any(|(_, _, body)| body.get("spec").is_some()), "{written:?}");
}

/// A repository of directories, whose set follows it.
async fn following() -> Installation {
    let mut world = Installation::start(&[]).await;
    world.commit(&["db", "config"], "one");
    let git = json!([{"git": {"repoURL": URL, "revision": "main", "directories": [{"path": "apps/*"}]}}]);
    let mut spec = spec(&git);
    spec["template"]["metadata"] = json!({"name": "{{ .path.basename }}"});
    spec["template"]["spec"]["source"]["path"] = json!("{{ .path.path }}");
    world.create(&spec);
    world.until("both are there", |world| world.names() == ["config", "db"]).await;
    world
}

/// ASET-186, ASET-182: a push is acted on at once, and what it asked for is answered.
#[tokio::test(start_paused = true)]
async fn aset_186_a_push_brings_a_new_directory() {
    let mut world = following().await;
    world.commit(&["frontend"], "one");
    tokio::time::sleep(MOMENT).await;
    assert_eq!(world.names().len(), 2, "nobody looks yet");
    push(&world, "https://git.example/tiers");
    world.until("it is there", |world| world.names().len() == 3).await;
    world
        .until("the request is answered", |world| {
            world.set()["metadata"]["annotations"].get("argocd.argoproj.io/application-set-refresh").is_none()
        })
        .await;
    // Another repository's push is none of its business.
    let before = world.writes();
    push(&world, "https://git.example/other");
    tokio::time::sleep(MOMENT).await;
    let later = world.wire.writes.lock()[before..].to_vec();
    assert!(!later.iter().any(|(_, target, _)| target.starts_with(SETS)), "{later:?}");
}

/// INV-8, F24, ASET-11: what cannot be found out deletes nothing, and is told.
#[tokio::test(start_paused = true)]
async fn inv_8_a_generator_that_fails_deletes_nothing() {
    let mut world = following().await;
    let main = world.servers.get_ref(URL, "refs/heads/main").unwrap();
    world.servers.delete_ref(URL, "refs/heads/main");
    push(&world, "https://git.example/tiers");
    world.until("it is told", |world| world.condition("ErrorOccurred").0 == "True").await;
    let (_, reason, message) = world.condition("ErrorOccurred");
    assert_eq!(reason, "ApplicationGenerationFromParamsError", "{message}");
    assert_eq!(world.condition("ParametersGenerated").0, "False");
    assert_eq!(world.set()["status"]["resourcesCount"], 2, "ASET-154");
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(world.names(), ["config", "db"]);
    world.servers.set_ref(URL, "refs/heads/main", &main);
    world.commit(&["frontend"], "one");
    world.until("it goes on by itself", |world| world.names().len() == 3).await;
    world.until("and says so", |world| world.condition("ErrorOccurred").0 == "False").await;
}

/// ASET-180, ASET-39: clusters that come and go bring and take their Applications.
#[tokio::test(start_paused = true)]
async fn aset_180_a_cluster_brings_its_applications() {
    let world = Installation::start(&[]).await;
    let mut spec = spec(&json!([{"clusters": {"selector": {"matchLabels": {"env": "prod"}}}}]));
    spec["template"]["metadata"] = json!({"name": "on-{{ .name }}"});
    spec["template"]["spec"]["source"]["path"] = json!("apps/x");
    spec["template"]["spec"]["destination"] = json!({"name": "{{ .name }}", "namespace": "default"});
    world.create(&spec);
    world.until("there is none", |world| world.condition("ResourcesUpToDate").0 == "True").await;
    assert_eq!(world.names().len(), 0);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "eu",
            "labels": {"argocd.argoproj.io/secret-type": "cluster", "env": "prod"}},
        "stringData": {"name": "eu", "server": "https://eu.example", "config": "{}"}});
    ask(&world.sim, Method::POST, "/api/v1/namespaces/argocd/secrets", &secret);
    world.until("it comes", |world| world.names() == ["on-eu"]).await;
    ask(&world.sim, Method::DELETE, "/api/v1/namespaces/argocd/secrets/eu", &Value::Null);
    world.until("it goes", |world| world.names().is_empty()).await;
}

/// ASET-69, INV-8, F24: a plugin that fails deletes nothing, and one that says nothing is asked twice.
#[tokio::test(start_paused = true)]
async fn inv_8_a_plugin_that_says_nothing_is_asked_twice() {
    let said = Arc::new(Said::default());
    let say = |status: u16, names: &[&str]| {
        let sets: Vec<Value> = names.iter().map(|name| json!({"name": name, "tier": "x"})).collect();
        *said.answer.lock() = Some((status, json!({"output": {"parameters": sets}}).to_string()));
    };
    let plugins: Arc<dyn Plugins> = Arc::<Said>::clone(&said);
    let services = Services { plugins, ..Services::of_network() };
    let world = Installation::start_with(&[], services, |_| {}).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plugin"},
        "data": {"baseUrl": "http://plugin.example/", "token": "$plugin-token:token"}});
    ask(&world.sim, Method::POST, "/api/v1/namespaces/argocd/configmaps", &map);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "plugin-token",
            "labels": {"app.kubernetes.io/part-of": "argocd"}},
        "stringData": {"token": "strong"}});
    ask(&world.sim, Method::POST, "/api/v1/namespaces/argocd/secrets", &secret);
    say(200, &["a", "b"]);
    let generator = json!([{"plugin": {"configMapRef": {"name": "plugin"}, "requeueAfterSeconds": 30,
        "input": {"parameters": {"x": 1}}}}]);
    world.create(&spec(&generator));
    world.until("both are there", |world| world.names() == ["a", "b"]).await;
    let first = said.calls.lock().first().cloned().unwrap();
    assert_eq!(first.url, "http://plugin.example/api/v1/getparams.execute");
    assert_eq!(first.token.expose(), "strong");
    assert_eq!(first.body, r#"{"applicationSetName":"all","input":{"parameters":{"x":1}}}"#);

    for answer in [None, Some((500, String::new())), Some((200, "<html>".to_owned()))] {
        *said.answer.lock() = answer;
        world.until("it is told", |world| world.condition("ErrorOccurred").0 == "True").await;
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!(world.names(), ["a", "b"]);
        say(200, &["a", "b"]);
        world.until("it is over", |world| world.condition("ErrorOccurred").0 == "False").await;
    }

    // One answer without anything is not believed.
    say(200, &[]);
    world.until("it is told", |world| world.condition("ErrorOccurred").0 == "True").await;
    assert!(world.condition("ErrorOccurred").2.contains("2 Applications exist"));
    say(200, &["a", "b"]);
    world.until("it is over", |world| world.condition("ErrorOccurred").0 == "False").await;
    say(200, &[]);
    world.until("they go at the second one", |world| world.names().is_empty()).await;
    world.until("all is well", |world| world.condition("ResourcesUpToDate").0 == "True").await;
}

/// ASET-241: a policy without deletions sets the Applications free.
#[tokio::test(start_paused = true)]
async fn aset_241_a_policy_without_deletions_keeps_the_applications() {
    let world = Installation::start(&[]).await;
    let mut spec = spec(&elements(&TIERS));
    spec["syncPolicy"] = json!({"applicationsSync": "create-update"});
    world.create(&spec);
    world.until("all are there", |world| world.names().len() == 3).await;
    world.change(&json!({"spec": {"generators": elements(&TIERS[..1])}}));
    tokio::time::sleep(MOMENT).await;
    assert_eq!(world.names().len(), 3, "ASET-130");
    world.change(&json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}));
    world.delete();
    world.until("the set goes", |world| !world.has_set()).await;
    tokio::time::sleep(MOMENT).await;
    let apps = world.apps();
    assert_eq!(apps.len(), 3);
    assert!(apps.values().all(|app| app["metadata"].get("ownerReferences").is_none()), "{apps:?}");
}

/// ASET-310: a dry run and a process that only reads write nothing at all.
#[tokio::test(start_paused = true)]
async fn aset_310_a_dry_run_writes_nothing() {
    let dry = Installation::start(&[("dryrun", "true")]).await;
    let reading =
        Installation::start_with(&[], Services::of_network(), |options| options.read_only = true).await;
    for world in [dry, reading] {
        world.create(&spec(&elements(&TIERS)));
        tokio::time::sleep(MOMENT).await;
        world.delete();
        tokio::time::sleep(MOMENT).await;
        let written = world.wire.writes.lock().clone();
        assert!(!written.iter().any(|(_, target, _)| !target.contains("appprojects")), "{written:?}");
    }
}

/// ASET-310, INV-6: settings take effect without a restart, and sets of other namespaces are nobody's.
#[tokio::test(start_paused = true)]
async fn aset_290_sets_of_other_namespaces_are_left_alone() {
    let world = Installation::start(&[("namespaces", "team-*"), ("enable.scm.providers", "false")]).await;
    for namespace in ["team-a", "other"] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        ask(&world.sim, Method::POST, "/api/v1/namespaces", &object);
        let set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": "all"}, "spec": spec(&elements(&TIERS[..1]))});
        let target = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applicationsets");
        ask(&world.sim, Method::POST, &target, &set);
    }
    tokio::time::sleep(MOMENT).await;
    let count = |namespace: &str| {
        let target = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applications");
        ask(&world.sim, Method::GET, &target, &Value::Null)["items"].as_array().map_or(0, Vec::len)
    };
    assert_eq!((count("team-a"), count("other")), (1, 0));
}

/// What of an application can be seen: whether it is on its way out, and its value in the cluster.
type Picture = BTreeMap<String, (bool, String)>;

fn picture(sim: &Sim) -> Picture {
    let list = ask(sim, Method::GET, APPLICATIONS, &Value::Null);
    let seen = |app: &Value| {
        let name = app["metadata"]["name"].as_str().unwrap().to_owned();
        let is_going = app["metadata"]["deletionTimestamp"].is_string();
        let value = value(sim, &name);
        (name, (is_going, value))
    };
    list["items"].as_array().map(|items| items.iter().map(seen).collect()).unwrap_or_default()
}

/// In this order; an application of a later step changes only when all of the earlier ones have.
fn in_order(picture: &Picture, order: &[&str], value: &str) -> Result<(), String> {
    let has = |name: &&str| picture.get(*name).is_some_and(|(_, found)| found == value);
    for (at, name) in order.iter().enumerate() {
        if has(name) && !order[..at].iter().all(has) {
            return Err(format!("{name} is before its turn: {picture:?}"));
        }
    }
    Ok(())
}

/// In this order: one after the other, and the next only when the one before is gone.
fn going_in_order(picture: &Picture, order: &[&str]) -> Result<(), String> {
    let is_touched = |name: &&str| picture.get(*name).is_none_or(|(is_going, _)| *is_going);
    let is_gone = |name: &&str| !picture.contains_key(*name);
    for (at, name) in order.iter().enumerate() {
        if is_touched(name) && !order[..at].iter().all(is_gone) {
            return Err(format!("{name} goes before its turn: {picture:?}"));
        }
    }
    Ok(())
}

/// Lets an installation run until something is so. Its controller dies with one of its writes, whose answer it never gets,
/// and another one goes on; says whether it did.
async fn dying(world: &mut Installation, dies_at: usize, is_over: impl Fn(&Installation) -> bool) -> bool {
    world.wire.writes.lock().clear();
    world.wire.dies_at.store(dies_at, Ordering::Relaxed);
    let mut died = false;
    for _ in 0..20_000 {
        if is_over(world) {
            break;
        }
        tokio::time::sleep(LOOK).await;
        if world.wire.is_dead.load(Ordering::Relaxed) {
            died = true;
            world.restart().await;
        }
    }
    // What comes after that is nobody's death any more: nobody would go on.
    world.wire.dies_at.store(usize::MAX, Ordering::Relaxed);
    if world.wire.is_dead.load(Ordering::Relaxed) {
        died = true;
        world.restart().await;
    }
    assert!(is_over(world), "{dies_at}: {:?}; {}", picture(&world.sim), world.set()["status"]);
    let broken = world.wire.broken.lock();
    assert!(broken.is_empty(), "{dies_at}: {broken:?}");
    died
}

/// ASET-204..231, F26: a roll-out over three tiers goes step by step, at whichever write the controller dies.
#[tokio::test(start_paused = true)]
async fn aset_210_a_roll_out_survives_a_death_at_every_write() {
    const ORDER: [&str; 3] = ["config", "db", "frontend"];
    for dies_at in 1.. {
        let mut world = Installation::start(&[("enable.progressive.syncs", "true")]).await;
        world.commit(&ORDER, "one");
        let mut spec = spec(&elements(&TIERS));
        spec["strategy"] = rolling(&ORDER);
        *world.wire.check.lock() = Some(Arc::new(|sim| {
            let picture = picture(sim);
            in_order(&picture, &ORDER, "one").or_else(|_| in_order(&picture, &ORDER, "two"))
        }));
        world.create(&spec);
        let first =
            dying(&mut world, dies_at, |world| ORDER.iter().all(|name| world.value(name) == "one")).await;
        // ASET-230: nothing syncs by itself.
        let enabled = |app: &Value| app["spec"]["syncPolicy"]["automated"]["enabled"].clone();
        assert!(world.apps().values().all(|app| enabled(app) == json!(false)));
        world.until("it is complete", |world| world.condition("RolloutProgressing").0 == "False").await;
        assert_eq!(world.condition("RolloutProgressing").1, "ApplicationSetRolloutComplete");

        world.commit(&ORDER, "two");
        *world.wire.check.lock() = Some(Arc::new(|sim| in_order(&picture(sim), &ORDER, "two")));
        for name in ORDER {
            let refresh = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
            ask(&world.sim, Method::PATCH, &format!("{APPLICATIONS}/{name}"), &refresh);
        }
        let second =
            dying(&mut world, dies_at, |world| ORDER.iter().all(|name| world.value(name) == "two")).await;
        world.until("it is complete", |world| world.condition("RolloutProgressing").0 == "False").await;
        if !first && !second {
            assert!(dies_at > 12, "{dies_at}");
            break;
        }
    }
}

/// The strategies of deletions, with the order in which the tiers go.
fn deletions() -> [(Value, [&'static str; 3]); 2] {
    let mut reverse = rolling(&["db", "config", "frontend"]);
    reverse["deletionOrder"] = json!("Reverse");
    let custom = json!({"type": "AllAtOnce", "deletionOrder": "Custom",
        "deletionSync": {"steps": steps(&["config", "frontend", "db"])}});
    [(reverse, ["frontend", "config", "db"]), (custom, ["config", "frontend", "db"])]
}

async fn with_order(strategy: &Value) -> Installation {
    let mut world = Installation::start(&[("enable.progressive.syncs", "true")]).await;
    world.commit(&["db", "config", "frontend"], "one");
    let mut spec = spec(&elements(&TIERS));
    spec["strategy"] = strategy.clone();
    world.create(&spec);
    world.until("all are synced", |world| TIERS.iter().all(|(name, _)| world.value(name) == "one")).await;
    let finalizers = |world: &Installation| world.set()["metadata"]["finalizers"].clone();
    world.until("the finalizer is there", |world| finalizers(world).is_array()).await;
    tokio::time::sleep(MOMENT).await;
    world
}

/// ASET-244, ASET-245, ASET-247, INV-12, F26: an ordered deletion keeps its order and ends, at whichever write the
/// controller dies.
#[tokio::test(start_paused = true)]
async fn aset_247_an_ordered_deletion_survives_a_death_at_every_write() {
    for (strategy, order) in deletions() {
        for dies_at in 1.. {
            let mut world = with_order(&strategy).await;
            *world.wire.check.lock() = Some(Arc::new(move |sim| going_in_order(&picture(sim), &order)));
            world.delete();
            let died = dying(&mut world, dies_at, |world| !world.has_set()).await;
            assert!(world.names().is_empty(), "{dies_at}: {:?}", world.names());
            for name in order {
                assert_eq!(world.value(name), "", "{dies_at}: {name} is left");
            }
            if !died {
                assert!(dies_at > 6, "{dies_at}");
                break;
            }
        }
    }
}

/// ASET-247: an ordered deletion goes on where another controller stopped, between any two of its transitions.
#[tokio::test(start_paused = true)]
async fn aset_247_an_ordered_deletion_survives_restarts_between_its_transitions() {
    for (strategy, order) in deletions() {
        let mut world = with_order(&strategy).await;
        world.delete();
        let (mut before, mut seen) = (picture(&world.sim), Vec::new());
        while world.has_set() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let now = picture(&world.sim);
            going_in_order(&now, &order).unwrap();
            if now != before {
                before = now;
                seen.push(before.len());
                world.restart().await;
            }
        }
        assert!(seen.len() >= 3 && seen.last() == Some(&0), "{seen:?}");
    }
}

/// ASET-249, ASET-250, ASET-251: an application that does not go holds up the later ones, and says so; an annotation
/// goes on without it.
#[tokio::test(start_paused = true)]
async fn aset_249_a_stuck_application_holds_up_the_later_ones() {
    let (strategy, _) = deletions()[1].clone();
    let world = with_order(&strategy).await;
    world.delete();
    let config = format!("{APPLICATIONS}/config");
    let held =
        json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io", "example.test/hold"]}});
    ask(&world.sim, Method::PATCH, &config, &held);
    world.until("it is under way", |world| world.condition("DeletionProgressing").0 == "True").await;
    assert_eq!(world.condition("DeletionProgressing").1, "ApplicationSetDeletionInProgress");
    world
        .until("it is stuck", |world| world.condition("DeletionProgressing").1 == "ApplicationDeletionStuck")
        .await;
    let message = world.condition("DeletionProgressing").2;
    assert!(message.contains("config") && message.contains("example.test/hold"), "{message}");
    assert!(world.events().iter().any(|(reason, _)| reason == "ApplicationDeletionStuck"));
    tokio::time::sleep(Duration::from_mins(30)).await;
    let picture = picture(&world.sim);
    assert_eq!(picture.values().filter(|(is_going, _)| *is_going).count(), 1, "{picture:?}");
    let stuck = world.events().into_iter().filter(|(reason, _)| reason == "ApplicationDeletionStuck").count();
    assert_eq!(stuck, 1, "told once");
    let skip =
        json!({"metadata": {"annotations": {"argocd.argoproj.io/application-set-deletion-skip": "config"}}});
    world.change(&skip);
    world.until("the set goes", |world| !world.has_set()).await;
}

/// ASET-185: deliveries of webhooks come in over HTTP; what nobody understands is refused.
#[tokio::test(start_paused = true)]
async fn aset_185_deliveries_come_in_over_http() {
    use tower::ServiceExt as _;
    let mut world = following().await;
    let endpoints = tiphys_control::http::Endpoints::new();
    let deliver = |event: &'static str, body: Value| {
        let router = tiphys_control::http::set_router(endpoints.clone());
        let both = tiphys_control::http::router(endpoints.clone());
        async move {
            let request = || {
                Request::post("/api/webhook")
                    .header("x-github-event", event)
                    .body(axum::body::Body::from(body.to_string()))
                    .unwrap()
            };
            let own = router.oneshot(request()).await.unwrap().status().as_u16();
            (own, both.oneshot(request()).await.unwrap().status().as_u16())
        }
    };
    assert_eq!(deliver("ping", json!({})).await, (503, 503), "it starts");
    endpoints.ready(world.controller.clone().unwrap());
    assert_eq!(deliver("star", json!({"a": 1})).await, (400, 400));
    let pull = json!({"action": "opened", "repository": {"name": "r", "owner": {"login": "o"},
        "url": "https://api.github.com/repos/o/r"}});
    assert_eq!(deliver("pull_request", pull).await, (200, 200));
    world.commit(&["frontend"], "one");
    let push = json!({"ref": "refs/heads/main", "repository": {"html_url": "https://git.example/tiers",
        "default_branch": "main"}});
    assert_eq!(deliver("push", push).await, (200, 200));
    world.until("it is there", |world| world.names().len() == 3).await;
}

/// ASET-311, ASET-312: what metrics say of a set, until it is gone.
#[tokio::test(start_paused = true)]
async fn aset_311_metrics_show_a_set_until_it_is_gone() {
    let world = Installation::start(&[("metrics.applicationset.labels", "team")]).await;
    world.create(&spec(&elements(&TIERS)));
    world.change(&json!({"metadata": {"labels": {"team": "a"}}}));
    world.until("all are there", |world| world.set()["status"]["resourcesCount"] == 3).await;
    tokio::time::sleep(MOMENT).await;
    let metrics = || world.controller.as_ref().unwrap().metrics();
    for line in [
        "argocd_appset_info{name=\"all\",namespace=\"argocd\",resource_update_status=\"ApplicationSetUpToDate\"} 1",
        "argocd_appset_owned_applications{name=\"all\",namespace=\"argocd\"} 3",
        "argocd_appset_rollout_step{name=\"all\",namespace=\"argocd\"} 0",
        "argocd_appset_labels{label_team=\"a\",name=\"all\",namespace=\"argocd\"} 1",
        "argocd_appset_reconcile_count{namespace=\"argocd\",name=\"all\"}",
    ] {
        assert!(metrics().contains(line), "{line}: {}", metrics());
    }
    world.delete();
    world.until("it is gone", |world| !world.has_set()).await;
    tokio::time::sleep(MOMENT).await;
    assert!(!metrics().contains("name=\"all\""), "{}", metrics());
}
