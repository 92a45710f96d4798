//! What a push costs those whom it does not concern: nothing now, and one write by and by (B2, B3).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tiphys_source::Trouble;

use crate::fleet::{Fleet, names, value};
use crate::world::{URL, World};

const MOMENT: Duration = Duration::from_secs(10);
/// Longer than the refresh interval with its jitter.
const POLL: Duration = Duration::from_mins(5);
const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/shop";

/// An application whose annotation says what concerns it, synced.
async fn synced() -> World {
    let world = World::start().await;
    world.commit("one");
    world.create_with(
        &json!({"metadata": {"annotations": {"argocd.argoproj.io/manifest-generate-paths": "."}}}),
    );
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "one");
    world
}

/// A commit that touches nothing of the application.
fn commit_beside(world: &World) -> String {
    let head = world.servers.get_ref(URL, "refs/heads/main").unwrap();
    let mut files: BTreeMap<String, Bytes> = (*world.servers.files(URL, &head).unwrap()).clone();
    files.insert(format!("docs/{head}.md"), Bytes::from_static(b"text"));
    world.servers.commit(URL, "main", files, 0).unwrap()
}

fn shown(world: &World) -> String {
    let app = world.app();
    app.pointer("/status/sync/revision").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn version(world: &World) -> String {
    world.app().pointer("/metadata/resourceVersion").map(Value::to_string).unwrap_or_default()
}

/// API-207, INV-13: nothing is compared and nothing is written at once; the revision is shown within a refresh
/// interval.
#[tokio::test(start_paused = true)]
async fn api_207_a_push_beside_an_application_costs_it_nothing_at_once() {
    let world = synced().await;
    let (comparisons, before) = (world.comparisons(), version(&world));
    let head = commit_beside(&world);
    assert_eq!(world.push(&["docs/a.md"]), 0);
    world.pass(MOMENT).await;
    assert_eq!((world.comparisons(), version(&world)), (comparisons, before));
    world.pass(POLL).await;
    assert_eq!(shown(&world), head);
}

/// What is compared for another reason is compared at the new revision, and its next write shows it.
#[tokio::test(start_paused = true)]
async fn api_207_the_next_write_shows_the_revision_that_was_pushed() {
    let world = synced().await;
    let head = commit_beside(&world);
    world.push(&["docs/a.md"]);
    world.ask(Method::DELETE, CONFIG_MAP, &Value::Null);
    world.pass(MOMENT).await;
    assert_eq!((world.value(), shown(&world)), ("one".to_owned(), head));
}

/// Somebody who asks for a refresh does not wait for a turn.
#[tokio::test(start_paused = true)]
async fn ctl_30_a_refresh_that_was_asked_for_shows_the_revision() {
    let world = synced().await;
    let head = commit_beside(&world);
    world.push(&["docs/a.md"]);
    world.change(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(shown(&world), head);
}

/// A push that touches the application is acted on now.
#[tokio::test(start_paused = true)]
async fn api_207_a_push_to_an_application_is_acted_on_at_once() {
    let world = synced().await;
    world.commit("two");
    assert_eq!(world.push(&["shop/shop.yaml"]), 1);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.value(), "two");
}

/// A revision that is all there is to show is shown by one application after another, and by all of them soon; what a
/// commit changes waits for none of that.
#[tokio::test(start_paused = true)]
async fn inv_13_new_revisions_are_shown_at_a_bounded_rate_and_none_is_forgotten() {
    const APPS: usize = 100;
    let mut fleet = Fleet::start(APPS).await;
    let head = fleet.commit(&["near".to_owned()], "two");
    fleet.push();
    let changed = fleet.until("near changes", |fleet| value(&fleet.home, "near") == "two").await;
    assert!(changed <= Duration::from_secs(1), "{changed:?}");
    let shows = |fleet: &Fleet| names(APPS).iter().all(|name| fleet.revision(name) == head);
    let took = changed + fleet.until("all show it", shows).await;
    // Five seconds for whatever else is to be written, and then forty a second.
    assert!((Duration::from_secs(6)..=Duration::from_secs(9)).contains(&took), "{took:?}");
}

/// An application that names no paths and renders one directory, synced; a first push has been looked at.
async fn plain() -> World {
    let world = World::settled().await;
    commit_beside(&world);
    world.push(&[]);
    world.pass(MOMENT).await;
    world
}

/// API-207: whoever names no paths is asked when its directory changed, whatever the delivery says of files.
#[tokio::test(start_paused = true)]
async fn api_207_what_a_push_changed_is_read_from_the_trees() {
    let world = plain().await;
    let (comparisons, before) = (world.comparisons(), version(&world));
    let head = commit_beside(&world);
    assert_eq!(world.push(&["shop/object.yaml"]), 0, "the trees decide, not the delivery");
    world.pass(MOMENT).await;
    assert_eq!((world.comparisons(), version(&world)), (comparisons, before), "nothing of its own changed");
    world.pass(POLL).await;
    assert_eq!(shown(&world), head);
    world.commit("two");
    world.push(&["docs/a.md"]);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.value(), "two");
}

/// Several pushes before anybody looked: each of their changes counts.
#[tokio::test(start_paused = true)]
async fn api_207_a_change_between_two_looks_is_not_lost() {
    let world = plain().await;
    world.commit("two");
    world.push(&[]);
    commit_beside(&world);
    world.push(&[]);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.value(), "two");
    // A delivery got lost; the next one brings its change along.
    world.commit("three");
    commit_beside(&world);
    world.push(&[]);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.value(), "three");
}

/// Error is not empty: when the commits cannot be compared, everybody is asked.
#[tokio::test(start_paused = true)]
async fn api_207_what_cannot_be_found_out_concerns_everybody() {
    let world = plain().await;
    world.commit("two");
    let trouble = Trouble { failure: Some("503".to_owned()), ..Trouble::default() };
    world.servers.set_trouble(URL, trouble);
    world.push(&[]);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.value(), "one");
    // It was asked, and asks again by itself, long before its next periodic refresh.
    world.servers.set_trouble(URL, Trouble::default());
    world.pass(Duration::from_secs(45)).await;
    assert_eq!(world.value(), "two");
}

/// API-211: whatever the commit, what an application renders is found again by its content, so that nothing has to be
/// moved from one commit to the next, and no setting has anything to switch off.
#[tokio::test(start_paused = true)]
async fn api_211_a_push_beside_an_application_leaves_nothing_to_render() {
    let world = synced().await;
    let renderings = world.renderings();
    for _ in 0..3 {
        let head = commit_beside(&world);
        world.push(&["docs/a.md"]);
        world.change(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
        world.pass(Duration::from_secs(1)).await;
        assert_eq!((shown(&world), world.renderings()), (head, renderings));
    }
    world.commit("two");
    world.push(&["shop/shop.yaml"]);
    world.pass(MOMENT).await;
    assert_eq!((world.value().as_str(), world.renderings()), ("two", renderings + 1));
}

/// API-210: those beyond the threshold wait, each for a time of its own, and none longer than the jitter.
#[tokio::test(start_paused = true)]
async fn api_210_many_applications_of_one_push_are_not_asked_at_once() {
    const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
    const APPS: usize = 20;
    let world = World::start().await;
    world.settings(&json!({"webhook.refresh.jitter": "1m", "webhook.refresh.jitter.threshold": "5"}));
    world.commit("one");
    for nth in 0..APPS {
        let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": format!("a{nth}"), "namespace": "argocd",
                "annotations": {"argocd.argoproj.io/manifest-generate-paths": "."}},
            "spec": {"project": "default", "source": {"repoURL": URL, "path": "shop", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"}}});
        world.ask(Method::POST, APPLICATIONS, &app);
    }
    world.pass(MOMENT).await;
    let head = world.commit("two");
    let showing = || {
        let shows =
            |nth: &usize| world.get(&format!("{APPLICATIONS}/a{nth}"))["status"]["sync"]["revision"] == *head;
        (0..APPS).filter(shows).count()
    };
    assert_eq!((world.push(&["shop/shop.yaml"]), showing()), (APPS, 0));
    world.pass(Duration::from_secs(1)).await;
    let at_once = showing();
    assert!((5..APPS - 5).contains(&at_once), "{at_once}");
    world.pass(Duration::from_mins(1)).await;
    assert_eq!(showing(), APPS);
}
