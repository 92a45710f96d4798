//! Changing how objects are marked, and several installations on one cluster.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS};
use crate::fixtures::{automated, config_map, file, manual};
use crate::git::Repo;
use crate::world::{Setup, World, conditions, is_synced, merge};

const METHOD: &str = "application.resourceTrackingMethod";
const LABEL: &str = "app.kubernetes.io/instance";
const ID: &str = "argocd.argoproj.io/tracking-id";
const PROFILE: &str = "argocd.argoproj.io/tracking-profile";

/// How many applications migrate; `TIPHYS_TEST_APPS` asks for more.
fn applications() -> usize {
    #[expect(clippy::disallowed_methods, reason = "tests have no settings")]
    let wanted = std::env::var("TIPHYS_TEST_APPS").ok();
    wanted.and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// Applications with two objects each, all in one namespace.
struct Fleet {
    names: Vec<String>,
    ns: String,
    repo: Repo,
}

impl Fleet {
    async fn create(world: &mut World) -> Self {
        let ns = world.namespace("ns").await;
        let mut files = Vec::new();
        for number in 0..applications() {
            files.push((format!("{number}/keep.yaml"), file(&[config_map(&format!("keep-{number}"), "1")])));
            files.push((format!("{number}/old.yaml"), file(&[config_map(&format!("old-{number}"), "1")])));
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let repo = world.repo("fleet", &files).await;
        let mut names = Vec::new();
        for number in 0..applications() {
            let name =
                world.create(&format!("a{number}"), &repo, &number.to_string(), &ns, &automated()).await;
            names.push(name);
        }
        for name in &names {
            world.until_synced(name).await;
        }
        Self { names, ns, repo }
    }

    /// Uids of all objects: nothing was deleted as long as they stay.
    async fn uids(&self, world: &World) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = world.api.list(CONFIG_MAPS, &self.ns).await;
        let all = all.iter().map(|one| (text(&one["metadata"]["name"]), text(&one["metadata"]["uid"])));
        all.filter(|(name, _)| name != "kube-root-ca.crt").collect()
    }

    /// Every application is looked at again, is still Synced, and was not synced meanwhile.
    async fn stays(&self, world: &World, history: &[usize], what: &str) {
        for (name, entries) in self.names.iter().zip(history) {
            let app = world.refresh(name, "normal").await;
            assert!(
                is_synced(&app),
                "{what}: {name}: {:#} {:#}",
                app["metadata"]["annotations"],
                app["status"]
            );
            assert_eq!(history_of(&app), *entries, "{what}: {name} was synced");
            assert_eq!(conditions(&app, "ComparisonError"), Vec::<String>::new(), "{what}: {name}");
        }
    }

    async fn history(&self, world: &World) -> Vec<usize> {
        let mut all = Vec::new();
        for name in &self.names {
            all.push(history_of(&world.app(name).await));
        }
        all
    }

    /// One object of each application leaves Git; waits until all are gone.
    async fn drop_objects(&self, world: &World, prefix: &str) {
        let files: Vec<String> =
            (0..self.names.len()).map(|number| format!("{number}/{prefix}.yaml")).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|path| (path.as_str(), "")).collect();
        world.push(&self.repo, &files).await;
        for number in 0..self.names.len() {
            world.until_gone(CONFIG_MAPS, &self.ns, &format!("{prefix}-{number}")).await;
        }
    }
}

fn history_of(app: &Value) -> usize {
    app["status"]["history"].as_array().map_or(0, Vec::len)
}

/// TRK-98, TRK-101..109: whatever the method was and becomes, a change deletes nothing, syncs nothing and makes nobody
/// `OutOfSync`; what leaves Git is pruned by its old mark; killing the controller in the middle and going back are no different.
#[tokio::test]
async fn trk_101_a_fleet_migrates_from_method_to_method_without_losing_anything() {
    let setup = Setup { settings: vec![(METHOD, "label")], ..Setup::default() };
    let Some(mut world) = World::start_with("migrate", setup).await else { return };
    let fleet = Fleet::create(&mut world).await;
    let uids = fleet.uids(&world).await;
    let history = fleet.history(&world).await;
    let first = world.app(&fleet.names[0]).await;
    assert_eq!(first["metadata"]["annotations"][PROFILE], r#"{"method":"label"}"#);

    // From label to annotation; the controller dies in the middle.
    world.settings(&json!({METHOD: "annotation"})).await;
    world.kill().await;
    world.restart().await;
    fleet.stays(&world, &history, "label to annotation").await;
    assert_eq!(fleet.uids(&world).await, uids);
    // Back, and to another one, before anything was marked anew.
    for method in ["label", "hash", "annotation"] {
        world.settings(&json!({METHOD: method})).await;
        fleet.stays(&world, &history, method).await;
    }
    assert_eq!(fleet.uids(&world).await, uids);

    // The objects bear labels and the method is `annotation`: what leaves Git goes by its old mark, and what stays
    // is marked anew in the same sync, the one sync there is.
    fleet.drop_objects(&world, "old").await;
    for (number, name) in fleet.names.iter().enumerate() {
        let is_marked = |app: &Value| app["metadata"]["annotations"][PROFILE] == r#"{"method":"annotation"}"#;
        let app = world.until_app(name, "has its new profile", is_marked).await;
        assert_eq!(history_of(&app), history[number] + 1, "{name}");
        let live = world.api.get(CONFIG_MAPS, &fleet.ns, &format!("keep-{number}")).await.unwrap();
        let id = live["metadata"]["annotations"][ID].as_str().unwrap_or_default();
        assert!(id.starts_with(&format!("{name}:")), "{live:#}");
        assert!(live["metadata"]["labels"][LABEL].is_null(), "{live:#}");
    }
    let kept: BTreeMap<String, String> =
        uids.into_iter().filter(|(name, _)| name.starts_with("keep")).collect();
    assert_eq!(fleet.uids(&world).await, kept);

    // From annotation to digests, half of them marked by hand, and back to labels.
    let history = fleet.history(&world).await;
    world.settings(&json!({METHOD: "hash"})).await;
    fleet.stays(&world, &history, "annotation to hash").await;
    let half = fleet.names.len() / 2;
    for name in fleet.names.iter().take(half) {
        let state = world.sync(name, &json!({"syncOptions": ["ApplyOutOfSyncOnly=true"]})).await;
        assert_eq!(state["phase"], "Succeeded", "{state:#}");
    }
    let marked = world.api.get(CONFIG_MAPS, &fleet.ns, "keep-0").await.unwrap();
    assert_eq!(marked["metadata"]["labels"][LABEL].as_str().map(str::len), Some(40), "{marked:#}");
    let history = fleet.history(&world).await;
    world.settings(&json!({METHOD: "label"})).await;
    world.kill().await;
    world.restart().await;
    fleet.stays(&world, &history, "hash and annotation to label").await;
    assert_eq!(fleet.uids(&world).await, kept);

    // An application that is deleted takes along what bears whichever mark.
    for (number, method) in [(0, "hash"), (half, "annotation")] {
        let finalizers = json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}});
        world.patch_app(&fleet.names[number], &finalizers).await;
        world.api.delete(APPS, &world.cp, &fleet.names[number]).await;
        world.until_gone(APPS, &world.cp, &fleet.names[number]).await;
        let object = format!("keep-{number}");
        assert!(!world.exists(CONFIG_MAPS, &fleet.ns, &object).await, "{object}, marked by {method}");
    }
    world.finish().await;
}

/// TRK-91, TRK-110..112: applications choose their method one by one; nobody loses or takes an object.
#[tokio::test]
async fn trk_112_applications_are_pinned_to_a_method_one_by_one() {
    let setup = Setup { settings: vec![(METHOD, "label")], ..Setup::default() };
    let Some(mut world) = World::start_with("pinned", setup).await else { return };
    let ns = world.namespace("ns").await;
    let repo =
        world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1"), config_map("old", "1")]))]).await;
    let other = world.repo("other", &[("cm.yaml", &file(&[config_map("other", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    let neighbour = world.create("other", &other, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    world.until_synced(&neighbour).await;
    let pin =
        |method: Value| json!({"metadata": {"annotations": {"argocd.argoproj.io/tracking-method": method}}});
    world.patch_app(&app, &pin(json!("annotation"))).await;
    let seen = world.refresh(&app, "normal").await;
    assert!(is_synced(&seen), "{:#}", seen["status"]);

    // A copy of the neighbour's label on an object that the pinned application annotates is no claim (TRK-91).
    world.sync(&app, &json!({})).await;
    let stolen = json!({"metadata": {"labels": {LABEL: neighbour}}});
    world.api.patch(CONFIG_MAPS, &ns, "cm", &stolen).await;
    let seen = world.refresh(&neighbour, "normal").await;
    assert!(is_synced(&seen), "{:#}", seen["status"]);
    assert!(world.exists(CONFIG_MAPS, &ns, "cm").await);

    // The system follows, the other one is pinned to what it has, and then nobody is.
    world.settings(&json!({METHOD: "annotation"})).await;
    world.patch_app(&neighbour, &pin(json!("label"))).await;
    world.patch_app(&app, &pin(Value::Null)).await;
    for name in [&app, &neighbour] {
        let seen = world.refresh(name, "normal").await;
        assert!(is_synced(&seen), "{:#}", seen["status"]);
    }
    world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    world.patch_app(&neighbour, &pin(Value::Null)).await;
    let seen = world.refresh(&neighbour, "normal").await;
    assert!(is_synced(&seen), "{:#}", seen["status"]);
    assert!(world.exists(CONFIG_MAPS, &ns, "other").await);
    world.finish().await;
}

/// TRK-104: of what was synced before anybody stored a profile, the objects that the status lists are recognised by their
/// labels, also after a restart; a label that somebody else wrote leads nowhere.
#[tokio::test]
async fn trk_104_objects_of_first_contact_are_recognised_and_pruned() {
    let setup = Setup { settings: vec![(METHOD, "label")], ..Setup::default() };
    let Some(mut world) = World::start_with("contact", setup).await else { return };
    let ns = world.namespace("ns").await;
    let both = file(&[config_map("keep", "1"), config_map("old", "1")]);
    let repo = world.repo("app", &[("cm.yaml", &both)]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    // As another product leaves it.
    world.kill().await;
    world.patch_app(&app, &json!({"metadata": {"annotations": {PROFILE: null}}})).await;
    world.settings(&json!({METHOD: "annotation"})).await;
    let mut stranger = config_map("stranger", "1");
    merge(&mut stranger, &json!({"metadata": {"namespace": ns, "labels": {LABEL: app}}}));
    world.api.apply(CONFIG_MAPS, &stranger).await;
    world.restart().await;
    for _ in 0..2 {
        let seen = world.refresh(&app, "normal").await;
        assert!(is_synced(&seen), "{:#}", seen["status"]);
        assert_eq!(listed(&seen), ["keep", "old"]);
    }
    world.push(&repo, &[("cm.yaml", &file(&[config_map("keep", "1")]))]).await;
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    let is_marked = |app: &Value| app["metadata"]["annotations"][PROFILE] == r#"{"method":"annotation"}"#;
    world.until_app(&app, "has its profile", is_marked).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "stranger").await);
    world.finish().await;
}

/// TRK-106: what was the application's under the former settings alone, and was not pruned by the sync under the new ones,
/// is no longer listed, stays, and is named.
#[tokio::test]
async fn trk_106_what_a_migrating_sync_does_not_prune_is_released_and_told() {
    let setup = Setup { settings: vec![(METHOD, "label")], ..Setup::default() };
    let Some(mut world) = World::start_with("release", setup).await else { return };
    let ns = world.namespace("ns").await;
    let both = file(&[config_map("keep", "1"), config_map("old", "1")]);
    let repo = world.repo("app", &[("cm.yaml", &both)]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    let state = world.sync(&app, &json!({})).await;
    assert_eq!(state["phase"], "Succeeded", "{state:#}");
    world.settings(&json!({METHOD: "annotation"})).await;
    world.push(&repo, &[("cm.yaml", &file(&[config_map("keep", "1")]))]).await;
    let has_extra = |app: &Value| {
        app["status"]["resources"].as_array().into_iter().flatten().any(|r| r["requiresPruning"] == true)
    };
    world.until_app(&app, "has something to prune", has_extra).await;
    let state = world.sync(&app, &json!({})).await;
    assert_eq!(state["phase"], "Succeeded", "{state:#}");
    let seen = world.until_app(&app, "has released it", |app| listed(app) == ["keep"]).await;
    assert!(is_synced(&seen), "{:#}", seen["status"]);
    assert!(world.exists(CONFIG_MAPS, &ns, "old").await);
    let told = || async {
        let events = world.api.list("v1/events", &world.cp).await;
        let is_told = |event: &&Value| {
            event["reason"] == "TrackingReleased" && event["involvedObject"]["name"] == app.as_str()
        };
        events.iter().find(is_told).cloned().unwrap_or_default()
    };
    let event = world.until("the event is there", told, Value::is_object).await;
    assert_eq!(event["type"], "Warning");
    assert!(event["message"].as_str().unwrap_or_default().contains("old"), "{event:#}");
    world.finish().await;
}

/// TRK-108: an application is marked anew by a command, which brings nothing back that somebody deleted.
#[tokio::test]
async fn trk_108_an_application_is_marked_anew_without_anything_else() {
    let setup = Setup { settings: vec![(METHOD, "label")], ..Setup::default() };
    let Some(mut world) = World::start_with("stamp", setup).await else { return };
    let ns = world.namespace("ns").await;
    let both = file(&[config_map("keep", "1"), config_map("deleted", "1")]);
    let repo = world.repo("app", &[("cm.yaml", &both)]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    world.sync(&app, &json!({})).await;
    world.api.delete(CONFIG_MAPS, &ns, "deleted").await;
    world.settings(&json!({METHOD: "annotation+hash"})).await;
    world.until_app(&app, "misses an object", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
    let (is_done, printed) = world.command(&["app", "migrate-tracking", &app]).await;
    assert!(is_done, "{printed}");
    let seen = world.app(&app).await;
    assert_eq!(seen["metadata"]["annotations"][PROFILE], r#"{"method":"annotation+hash"}"#, "{printed}");
    let live = world.api.get(CONFIG_MAPS, &ns, "keep").await.unwrap();
    let digest = live["metadata"]["labels"][LABEL].as_str().map(str::len);
    assert_eq!(digest, Some(40), "{live:#}");
    assert!(!world.exists(CONFIG_MAPS, &ns, "deleted").await);
    world.finish().await;
}

/// Names of the objects that a status lists.
fn listed(app: &Value) -> Vec<&str> {
    let all = app["status"]["resources"].as_array().into_iter().flatten();
    all.filter_map(|resource| resource["name"].as_str()).collect()
}

/// Methods with the carriers under which two installations can be told apart. Method `label` with an ID in an annotation
/// that only the annotation methods write, and digests of the bare name, are the documented gaps (TRK-61, TRK-66).
const APART: [(&str, &str); 7] = [
    ("annotation", "annotation"),
    ("annotation+label", "label"),
    ("label", "annotation-strict"),
    ("label", "label"),
    ("hash", "hash"),
    ("hash", "annotation-strict"),
    ("annotation+hash", "hash"),
];

/// TRK-60..66: two installations with an application of the same name in the same namespace leave each other's objects alone.
#[tokio::test]
async fn trk_62_two_installations_leave_each_other_alone() {
    let Some(mut one) = World::start("ida").await else { return };
    let Some(two) = World::start("idb").await else { return };
    for (number, (method, carrier)) in APART.into_iter().enumerate() {
        let settings =
            |id: &str| json!({METHOD: method, "installationID": id, "installationID.carrier": carrier});
        one.settings(&settings("eu-1")).await;
        two.settings(&settings("us-1")).await;
        let ns = one.namespace(&format!("ns{number}")).await;
        let name = one.name(&format!("app{number}"));
        let mut change = automated();
        merge(&mut change, &json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}));
        for (world, own) in [(&one, "of-one"), (&two, "of-two")] {
            let files = file(&[config_map(own, "1"), config_map(&format!("{own}-old"), "1")]);
            let repo = world.repo(&format!("r{number}"), &[("cm.yaml", &files)]).await;
            world.api.apply(APPS, &world.application(&name, &repo, ".", &ns, &change)).await;
            world.until_synced(&name).await;
            world.push(&repo, &[("cm.yaml", &file(&[config_map(own, "1")]))]).await;
            world.until_gone(CONFIG_MAPS, &ns, &format!("{own}-old")).await;
        }
        for world in [&one, &two] {
            let app = world.refresh(&name, "hard").await;
            assert!(is_synced(&app), "{method} {carrier}: {:#}", app["status"]);
            let listed = app["status"]["resources"].as_array().map_or(0, Vec::len);
            assert_eq!(listed, 1, "{method} {carrier}: {:#}", app["status"]["resources"]);
        }
        one.api.delete(APPS, &one.cp, &name).await;
        one.until_gone(APPS, &one.cp, &name).await;
        assert!(!one.exists(CONFIG_MAPS, &ns, "of-one").await, "{method} {carrier}");
        assert!(one.exists(CONFIG_MAPS, &ns, "of-two").await, "{method} {carrier}");
        let app = two.refresh(&name, "hard").await;
        assert!(is_synced(&app), "{method} {carrier}: {:#}", app["status"]);
    }
    two.finish().await;
    one.finish().await;
}

/// TRK-67..69: a new installation makes its ID before it writes anything, keeps it, and puts it back when it is lost.
#[tokio::test]
async fn trk_69_a_lost_installation_id_is_put_back() {
    let setup = Setup { settings: vec![("installationID.autoGenerate", "true")], ..Setup::default() };
    let Some(mut world) = World::start_with("genid", setup).await else { return };
    let ns = world.namespace("ns").await;
    let id_of = |cm: &Value| cm["data"]["installationID"].as_str().unwrap_or_default().to_owned();
    let id = id_of(&world.api.get(CONFIG_MAPS, &world.cp, "argocd-cm").await.unwrap());
    assert_eq!((id.len(), id.as_bytes().get(14)), (36, Some(&b'4')), "{id}");
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let live = world.api.get(CONFIG_MAPS, &ns, "cm").await.unwrap();
    assert_eq!(live["metadata"]["annotations"]["argocd.argoproj.io/installation-id"], id);

    let lose = json!({"data": {"installationID": null}});
    world.api.patch(CONFIG_MAPS, &world.cp, "argocd-cm", &lose).await;
    let has_it = |cm: &Value| id_of(cm) == id;
    world.until_object(CONFIG_MAPS, &world.cp.clone(), "argocd-cm", "has its ID again", has_it).await;
    let seen = world.refresh(&app, "normal").await;
    assert!(is_synced(&seen), "{:#}", seen["status"]);

    // The same while nobody looks.
    world.kill().await;
    world.api.patch(CONFIG_MAPS, &world.cp, "argocd-cm", &lose).await;
    world.restart().await;
    assert_eq!(id_of(&world.api.get(CONFIG_MAPS, &world.cp, "argocd-cm").await.unwrap()), id);
    world.finish().await;
}
