use super::*;
use serde_json::{Value, json};
use tiphys_api::cluster::ClusterKey;
use tiphys_lifecycle::hydration::ownership::BranchId;

fn object(version: u64, change: impl FnOnce(&mut Value)) -> Arc<Object> {
    let mut value = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "a", "namespace": "argocd", "uid": "u", "resourceVersion": version.to_string()},
        "spec": {"project": "p", "destination": {}, "source": {"repoURL": "r"}}});
    change(&mut value);
    Arc::new(Object::from_value(&value).unwrap())
}

fn tracking(pairs: &[(&str, &str)]) -> TrackingSettings {
    let map = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    TrackingSettings::from_settings(&map, "argocd")
}

fn upsert(store: &AppStore, object: Arc<Object>) -> Change {
    store.upsert(object).unwrap()
}

/// CTL-120: what metrics show is known without reading the object again.
#[test]
fn ctl_120_states_are_kept_beside_the_object() {
    let store = AppStore::new(&tracking(&[]));
    let status = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
    upsert(&store, object(5, |v| v["status"] = status));
    let entries = store.entries();
    let (key, entry) = entries.first().unwrap();
    assert_eq!(key.to_string(), "argocd/a");
    assert_eq!((entry.sync_status.as_str(), entry.health_status.as_str()), ("Synced", "Healthy"));
}

/// A3: whoever answers at a cluster of one project wakes nobody of another, whatever marks its objects carry.
#[test]
fn inv_16_a_projects_cluster_wakes_its_own_applications_alone() {
    let may_be_on = |destination: Value, cluster: ClusterKey| {
        let store = AppStore::new(&tracking(&[]));
        upsert(&store, object(5, |v| v["spec"]["destination"] = destination));
        store.entries().first().unwrap().1.declared.may_be_on(&cluster)
    };
    let of = |project: &str, server: &str| ClusterKey { server: server.into(), project: project.into() };
    for (destination, cluster, expected) in [
        (json!({"server": "https://c/"}), of("", "https://c"), true),
        (json!({"server": "https://c"}), of("p", "https://c"), true),
        (json!({"server": "https://c"}), of("other", "https://c"), false),
        (json!({"server": "https://c"}), of("p", "https://d"), false),
        (json!({"name": "c"}), of("p", "https://d"), true),
        (json!({"name": "c"}), of("other", "https://d"), false),
    ] {
        assert_eq!(may_be_on(destination.clone(), cluster.clone()), expected, "{destination} {cluster:?}");
    }
}

#[test]
fn eng_13_older_states_do_not_replace_newer_ones() {
    let store = AppStore::new(&tracking(&[]));
    assert_eq!(upsert(&store, object(5, |_| {})), Change::Declared);
    assert_eq!(upsert(&store, object(4, |v| v["spec"]["project"] = json!("x"))), Change::None);
    assert_eq!(
        upsert(&store, object(6, |v| v["status"] = json!({"sync": {"status": "Synced"}}))),
        Change::StatusOnly
    );
    assert_eq!(upsert(&store, object(7, |v| v["spec"]["project"] = json!("x"))), Change::Declared);
    assert!(store.by_project("p").is_empty());
    assert_eq!(store.by_project("x").len(), 1);
}

/// CTL-108: who is committed together is looked up, and who shares the branch whatever it comes from.
#[test]
fn ctl_108_members_of_a_group_are_found_until_they_hydrate_elsewhere() {
    let store = AppStore::new(&tracking(&[]));
    let hydrator = |branch: &str| {
        json!({"drySource": {"repoURL": "https://x/dry.git", "path": "p", "targetRevision": "main"},
            "syncSource": {"targetBranch": branch, "path": "q"}})
    };
    let group = |branch: &str, revision: &str| GroupKey {
        project: "p".to_owned(),
        dry_repository: tiphys_api::repo_url::normalize("https://x/dry.git"),
        dry_revision: revision.to_owned(),
        repository: tiphys_api::repo_url::normalize("https://x/dry.git"),
        branch: branch.to_owned(),
    };
    upsert(&store, object(5, |v| v["spec"]["sourceHydrator"] = hydrator("env/a")));
    let own = vec![AppKey::new("argocd", "a")];
    assert_eq!(store.hydrated_by(&group("env/a", "main")), own);
    assert_eq!(store.hydrated_by(&group("env/a", "other")), []);
    let other = GroupKey { project: "q".to_owned(), ..group("env/a", "main") };
    assert_eq!(store.hydrated_by(&other), [], "INV-16");
    let claimants = |branch: &str| -> Vec<AppKey> {
        let branch = BranchId::new("git@x:dry", branch).unwrap();
        store.stakes(&branch, None).into_iter().map(|(key, _, _)| key).collect()
    };
    assert_eq!(claimants("env/a"), own);
    upsert(&store, object(6, |v| v["spec"]["sourceHydrator"] = hydrator("env/b")));
    assert_eq!((claimants("env/a"), claimants("env/b")), (vec![], own.clone()));
    assert_eq!(store.hydrated_by(&group("env/b", "main")), own);
    store.remove(&AppKey::new("argocd", "a"));
    assert_eq!(store.hydrated_by(&group("env/b", "main")), []);
    assert_eq!(claimants("env/b"), []);
}

/// F7: settings are taken by the same rule, so that a late watch does not undo what an answer has shown.
#[test]
fn f7_another_object_of_the_same_name_is_news_whatever_its_version() {
    let known = object(5, |_| {});
    let is_news = |uid: &str, version: &str| is_news(Some(known.metadata()), uid, version);
    assert!(is_news("u", "6") && is_news("u", "10"));
    assert!(!is_news("u", "5") && !is_news("u", "4"));
    assert!(is_news("other", "4"));
    assert!(super::is_news(None, "u", "1"));
}

#[test]
fn inv_5_a_deleted_application_does_not_come_back_by_an_answer() {
    let store = AppStore::new(&tracking(&[]));
    upsert(&store, object(1, |_| {}));
    let update = |object: Arc<Object>| {
        let app = serde_json::from_slice(&object.raw()).unwrap();
        store.update(object, &app)
    };
    assert_eq!(update(object(2, |_| {})), Change::StatusOnly);
    store.remove(&AppKey::new("argocd", "a"));
    assert_eq!(update(object(3, |_| {})), Change::None);
    assert!(store.keys().is_empty());
}

#[test]
fn f3_an_application_that_is_gone_does_not_come_back_by_a_late_watch() {
    let store = AppStore::new(&tracking(&[]));
    upsert(&store, object(5, |_| {}));
    store.bury(&AppKey::new("argocd", "a"), "u");
    assert_eq!(upsert(&store, object(4, |_| {})), Change::None);
    assert!(store.keys().is_empty());
    assert_eq!(upsert(&store, object(7, |v| v["metadata"]["uid"] = json!("v"))), Change::Declared);
    store.bury(&AppKey::new("argocd", "a"), "u");
    assert_eq!(store.len(), 1, "it is another one");
}

/// INV-15, INV-16.
#[test]
fn ctl_37_an_application_that_cannot_be_read_is_held_until_it_can_be_read_or_is_gone() {
    let store = AppStore::new(&tracking(&[]));
    upsert(&store, object(5, |_| {}));
    let key = AppKey::new("argocd", "a");
    store.hold(key.clone(), "nested too deep".to_owned());
    assert!(store.get(&key).is_none() && store.by_project("p").is_empty());
    let held = store.held(&key).unwrap();
    store.hold(key.clone(), "nested too deep".to_owned());
    assert!(Arc::ptr_eq(&held, &store.held(&key).unwrap()), "the same news is no news");
    assert_eq!(upsert(&store, object(6, |_| {})), Change::Declared);
    assert!(store.held(&key).is_none() && store.get(&key).is_some());
    store.hold(key.clone(), "again".to_owned());
    store.remove(&key);
    assert!(store.held(&key).is_none());
}

#[test]
fn ctl_51_a_termination_request_is_a_change() {
    let store = AppStore::new(&tracking(&[]));
    upsert(&store, object(1, |_| {}));
    let ending = json!({"operationState": {"phase": "Terminating", "startedAt": "", "operation": {}}});
    assert_eq!(upsert(&store, object(2, |v| v["status"] = ending)), Change::Declared);
}

fn pushed(store: &AppStore, web_url: &str, files: &[&str]) -> (usize, Vec<String>) {
    let push = Push {
        web_urls: vec![web_url.to_owned()],
        revision: "main".to_owned(),
        touched_head: true,
        files: files.iter().map(|file| (*file).to_owned()).collect(),
        ..Push::default()
    };
    let found = store.pushed(&push, Timestamp::UNIX_EPOCH);
    (found.repositories.len(), found.applications.iter().map(ToString::to_string).collect())
}

/// API-209: a tag of a chart concerns whoever follows its versions, and nobody with another chart of the registry.
#[test]
fn api_209_a_tag_concerns_those_that_follow_it() {
    let store = AppStore::new(&tracking(&[]));
    let source = json!({"repoURL": "oci://ghcr.io/acme/charts", "chart": "web", "targetRevision": "1.x"});
    upsert(&store, object(1, |v| v["spec"]["source"] = source));
    let tagged = |artifact: &str, tag: &str| {
        let found = store.tagged(&TagPush { artifact: artifact.to_owned(), tag: tag.to_owned() });
        found.applications.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(tagged("ghcr.io/acme/charts/web", "1.4.0"), ["argocd/a"]);
    assert!(tagged("ghcr.io/acme/charts/web", "2.0.0").is_empty());
    assert!(tagged("ghcr.io/acme/charts/api", "1.4.0").is_empty());
}

#[test]
fn sty_102_look_ups_follow_renames_of_sources() {
    let store = AppStore::new(&tracking(&[]));
    let follow = |url: &'static str| move |v: &mut Value| v["spec"]["source"]["repoURL"] = json!(url);
    upsert(&store, object(1, follow("https://a.test/r")));
    upsert(&store, object(2, follow("https://a.test/r2")));
    assert_eq!(pushed(&store, "https://a.test/r", &[]), (0, vec![]));
    assert_eq!(pushed(&store, "https://a.test/r2", &[]), (1, vec!["argocd/a".to_owned()]));
    store.remove(&AppKey::new("argocd", "a"));
    assert!(store.keys().is_empty() && store.by_mark("@a").is_none());
    assert_eq!(pushed(&store, "https://a.test/r2", &[]), (0, vec![]));
}

#[test]
fn trk_54_digests_name_applications_while_they_are_written() {
    let hashed = tracking(&[("application.resourceTrackingMethod", "hash")]);
    let store = AppStore::new(&hashed);
    let other = tracking(&[
        ("application.resourceTrackingMethod", "hash"),
        ("application.trackingHashAlgorithm", "fnv1a"),
    ]);
    upsert(&store, object(1, |_| {}));
    let key = Some(AppKey::new("argocd", "a"));
    let written = hashed.own_marks("a");
    assert_eq!(written.len(), 2, "both forms of SHA-1 (TRK-53)");
    for mark in &written {
        assert_eq!((store.by_mark(mark), store.instance_of(mark).as_deref()), (key.clone(), Some("a")));
    }
    store.mark_anew(&other);
    assert_eq!((store.by_mark(&written[0]), store.by_mark(&other.own_marks("a")[0])), (None, key.clone()));
    store.mark_anew(&tracking(&[]));
    upsert(&store, object(2, |_| {}));
    assert_eq!((store.by_mark(&other.own_marks("a")[0]), store.by_mark("@a")), (None, key));
    store.mark_anew(&hashed);
    upsert(&store, object(3, |_| {}));
    store.remove(&AppKey::new("argocd", "a"));
    assert!(written.iter().all(|mark| store.by_mark(mark).is_none()) && store.by_mark("@a").is_none());
}

/// A name that looks like a digest is chosen by whoever may create an application.
#[test]
fn trk_54_an_application_called_like_a_digest_takes_nobodys_objects() {
    let hashed = tracking(&[("application.resourceTrackingMethod", "hash")]);
    let store = AppStore::new(&hashed);
    upsert(&store, object(1, |_| {}));
    let mark = hashed.own_marks("a").remove(0);
    let digest = TrackingSettings::bare_mark(&mark);
    let impostor = |v: &mut Value| {
        v["metadata"]["name"] = json!(digest);
        v["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-method": "label"});
        v["metadata"]["uid"] = json!("v");
    };
    upsert(&store, object(2, impostor));
    let key = Some(AppKey::new("argocd", "a"));
    assert_eq!((store.by_mark(&mark), store.instance_of(&mark).as_deref()), (key.clone(), Some("a")));
    store.remove(&AppKey::new("argocd", digest));
    assert_eq!(store.by_mark(&mark), key);
}

/// TRK-91, TRK-103: who was synced under other settings, or has a method of its own, is found by those marks too.
#[test]
fn trk_91_an_application_is_found_by_every_mark_it_may_have_made() {
    let system = tracking(&[]);
    let store = AppStore::new(&system);
    let alone = store.readings();
    let migrating = |v: &mut Value| {
        v["metadata"]["annotations"] =
            json!({"argocd.argoproj.io/tracking-profile": "{\"method\":\"hash\"}"});
    };
    upsert(&store, object(1, migrating));
    let key = Some(AppKey::new("argocd", "a"));
    let hashed = tracking(&[("application.resourceTrackingMethod", "hash")]);
    assert_eq!((store.by_mark("@a"), store.by_mark(&hashed.own_marks("a")[0])), (key.clone(), key.clone()));
    let both = store.readings();
    assert!(both != alone && both.has(Reading::of(&hashed).id()) && both.has(Reading::of(&system).id()));
    // Synced anew; clusters are not listed again because of that.
    upsert(&store, object(2, |_| {}));
    assert_eq!((store.by_mark("@a"), store.by_mark(&hashed.own_marks("a")[0])), (key, None));
    assert!(Arc::ptr_eq(&store.readings(), &both));
}

#[test]
fn trk_55_the_younger_of_two_with_one_digest_is_told() {
    let hashed = tracking(&[("application.resourceTrackingMethod", "hash")]);
    let store = AppStore::new(&hashed);
    let named = |name: &'static str, created: &'static str| {
        move |v: &mut Value| {
            v["metadata"]["name"] = json!(name);
            v["metadata"]["uid"] = json!(name);
            v["metadata"]["creationTimestamp"] = json!(created);
        }
    };
    upsert(&store, object(1, named("new", "2026-02-01T00:00:00Z")));
    upsert(&store, object(2, named("old", "2026-01-01T00:00:00Z")));
    let (new, old) = (AppKey::new("argocd", "new"), AppKey::new("argocd", "old"));
    assert_eq!((store.collision(&new), store.collision(&old)), (None, None));
    {
        // Nobody can make two names with one digest here, so that one is given both.
        let mut state = store.state.write();
        let mark = state.apps[&old].marks[0].clone();
        state.apps.get_mut(&new).unwrap().marks = [mark].into();
        state.mark(&new, "p", &Sides { current: hashed, previous: None });
    }
    let (digest, holder) = store.collision(&new).unwrap();
    assert_eq!((digest.len(), holder), (40, old.clone()));
    assert_eq!(store.collision(&old), None);
    store.remove(&old);
    assert_eq!(store.collision(&new), None, "the older one is gone");
}

fn owned(version: u64, change: impl FnOnce(&mut Value)) -> Arc<Object> {
    object(version, |v| {
        v["metadata"]["ownerReferences"] = json!([{"apiVersion": "argoproj.io/v1alpha1",
            "kind": "ApplicationSet", "name": "s", "uid": "1", "controller": true}]);
        change(v);
    })
}

/// What there is news of, by set.
fn news(store: &AppStore) -> Vec<(String, bool, bool)> {
    use futures::FutureExt as _;
    let news = store.sets.next().now_or_never().unwrap_or_default();
    news.into_iter().map(|(set, news)| (set.to_string(), news.declared, news.observed)).collect()
}

/// ASET-180: a set hears of changes of its applications, not of their creation.
#[test]
fn aset_180_sets_hear_of_changes_of_their_applications() {
    let store = AppStore::new(&tracking(&[]));
    let set = SetKey::new("argocd", "s");
    let of_set = |declared, observed| vec![("argocd/s".to_owned(), declared, observed)];
    upsert(&store, owned(1, |_| {}));
    assert_eq!((store.by_set(&set).len(), news(&store)), (1, vec![]));
    upsert(&store, owned(2, |v| v["status"] = json!({"reconciledAt": "2026-01-01T00:00:00Z"})));
    assert_eq!(news(&store), vec![], "nothing that a set looks at");
    upsert(&store, owned(3, |v| v["status"] = json!({"health": {"status": "Healthy"}})));
    assert_eq!(news(&store), of_set(false, true));
    upsert(&store, owned(4, |v| v["spec"]["project"] = json!("x")));
    assert_eq!(news(&store), of_set(true, true));
    // Somebody takes it away from the set, and gives it back.
    upsert(&store, object(5, |_| {}));
    assert_eq!((store.by_set(&set).len(), news(&store)), (0, of_set(true, false)));
    upsert(&store, owned(6, |_| {}));
    assert_eq!((store.by_set(&set).len(), news(&store)), (1, of_set(true, true)));
    store.remove(&AppKey::new("argocd", "a"));
    assert_eq!((store.by_set(&set).len(), news(&store)), (0, of_set(true, false)));
}
