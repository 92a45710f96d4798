use base64::Engine as _;
use serde_json::{Value, json};
use tiphys_installation::InstallationData;
use tiphys_object::Object;

use super::*;

const SERVER: &str = "https://127.0.0.1:9";

/// Something else in the Secret of a cluster.
type Change = Box<dyn FnOnce(&mut Value)>;
/// Whether it shows.
type Holds = fn(&Cluster) -> bool;

fn reconfigure(pool: &Pool, world: &World, old: &World) {
    pool.reconfigure(world, old, &AppStore::new(&world.tracking));
}

/// A world with one cluster Secret, changed somehow, and a key of `argocd-cm`.
fn world(change: impl FnOnce(&mut Value), setting: Option<(&str, &str)>) -> World {
    world_with(&[cluster_secret(change)], setting)
}

/// The Secret of a cluster, changed somehow.
fn cluster_secret(change: impl FnOnce(&mut Value)) -> Value {
    let mut secret = json!({
        "metadata": {"name": "c", "namespace": "argocd", "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "data": {"name": "old", "server": SERVER, "config": "{\"bearerToken\": \"one\"}", "namespaces": "a,b"}});
    change(&mut secret);
    for value in secret["data"].as_object_mut().unwrap().values_mut() {
        *value = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap()).into();
    }
    secret
}

fn world_with(secrets: &[Value], setting: Option<(&str, &str)>) -> World {
    let cm =
        json!({"metadata": {"name": "argocd-cm"}, "data": setting.map(|(key, value)| json!({key: value}))});
    let map = |values: &[Value]| -> BTreeMap<String, Arc<Object>> {
        let objects = values.iter().map(|value| Arc::new(Object::from_value(value).unwrap()));
        objects.map(|object| (object.name().to_owned(), object)).collect()
    };
    let data = InstallationData {
        secrets: map(secrets),
        config_maps: map(&[cm]),
        namespace: "argocd".to_owned(),
        ..InstallationData::default()
    };
    World::build(&data, None)
}

async fn pool(world: &World) -> Pool {
    let (sender, _receiver) = mpsc::channel(1);
    let home =
        Connection::from_cluster_secret("https://127.0.0.1:9", "", &PluginPolicy::default()).await.unwrap();
    let (tracker, cancel) = (TaskTracker::new(), CancellationToken::new());
    let ways = Ways {
        home,
        given: BTreeMap::new(),
        fence: None,
        observer: Arc::new(crate::metrics::KubernetesMetrics::default()),
    };
    let pool = Pool::new(ways, sender, tracker, cancel, world, Arc::new(|| 0.5));
    start(&pool, &shared()).await;
    pool
}

/// Starts a destination; that nobody answers there does not matter.
async fn start(pool: &Pool, key: &ClusterKey) {
    let slot = pool.slot(key).unwrap();
    slot.cell.get_or_try_init(|| pool.start(key, &slot.cancel)).await.unwrap();
}

/// The cluster of the Secret, as long as it is the shared one.
fn shared() -> ClusterKey {
    ClusterKey::shared(SERVER)
}

fn put(member: &'static str, value: &'static str) -> impl FnOnce(&mut Value) {
    move |secret| secret["data"][member] = value.into()
}

/// ENG-18, REP-103: what only describes a cluster takes effect at once, and its index stays. It kept its old name.
#[tokio::test]
async fn eng_18_a_new_description_of_a_cluster_takes_effect_without_a_restart() {
    let changes: [(&str, Change, Holds); 4] = [
        ("name", Box::new(put("name", "new")), |c| c.name == "new"),
        ("shard", Box::new(put("shard", "3")), |c| c.shard == Some(3)),
        ("labels", Box::new(|s: &mut Value| s["metadata"]["labels"]["x"] = "y".into()), |c| {
            c.labels.get("x").is_some_and(|value| value == "y")
        }),
        ("annotations", Box::new(|s: &mut Value| s["metadata"]["annotations"] = json!({"x": "y"})), |c| {
            c.annotations.contains_key("x")
        }),
    ];
    for (what, change, holds) in changes {
        let old = world(|_| {}, None);
        let pool = pool(&old).await;
        let before = pool.in_use().remove(0);
        assert!(!holds(&before.cluster), "{what}");
        reconfigure(&pool, &world(change, None), &old);
        let after = pool.in_use().remove(0);
        assert!(holds(&after.cluster), "{what}: {:?}", after.cluster);
        assert!(!before.is_stopped() && !after.is_stopped(), "{what}");
    }
}

/// ENG-18, F14: what decides about the connection or the index starts them anew.
#[tokio::test]
async fn eng_18_a_new_way_to_a_cluster_or_another_scope_starts_its_index_anew() {
    let changes: [(&str, Change); 7] = [
        ("project", Box::new(put("project", "p"))),
        ("token", Box::new(put("config", "{\"bearerToken\": \"two\"}"))),
        (
            "TLS",
            Box::new(put("config", "{\"bearerToken\": \"one\", \"tlsClientConfig\": {\"insecure\": true}}")),
        ),
        ("server", Box::new(put("server", "https://127.0.0.1:10"))),
        ("namespaces", Box::new(put("namespaces", "a"))),
        ("clusterResources", Box::new(put("clusterResources", "true"))),
        (
            "refresh",
            Box::new(|s: &mut Value| {
                s["metadata"]["annotations"] = json!({"argocd.argoproj.io/refresh": "2026-01-01T00:00:00Z"});
            }),
        ),
    ];
    for (what, change) in changes {
        let old = world(|_| {}, None);
        let pool = pool(&old).await;
        let before = pool.in_use().remove(0);
        let new = world(change, None);
        reconfigure(&pool, &new, &old);
        assert!(before.is_stopped() && pool.in_use().is_empty(), "{what}");
        let key = new.clusters.all().iter().find(|c| c.secret_name == "c").unwrap().key();
        start(&pool, &key).await;
        assert!(!pool.in_use().remove(0).is_stopped(), "{what}");
    }
}

/// TRK-91: an application that is taken in while its cluster is being started may bring a way of marking; a start with
/// what was known before would never look for it.
#[tokio::test]
async fn trk_91_a_way_of_marking_that_comes_during_a_start_is_looked_for() {
    let world = world(|_| {}, None);
    let pool = pool(&world).await;
    pool.slots.lock().used.clear();
    let slot = pool.slot(&shared()).unwrap();
    let started = pool.start(&shared(), &slot.cancel).await.unwrap();
    let mut tracking = world.tracking.clone();
    tracking.annotation_key = "example.com/id".into();
    let store = AppStore::new(&tracking);
    pool.read_by(&store);
    assert!(slot.cell.set(started).is_ok());
    // Nobody answers there.
    drop(pool.get(&shared()).await);
    assert_eq!(*pool.in_use().remove(0).readings.lock(), store.readings());
}

/// ENG-18: a cluster that is being started while the settings change is started again with the new ones.
#[tokio::test]
async fn eng_18_what_is_being_started_with_old_settings_does_not_stay() {
    let old = world(|_| {}, None);
    for (what, new) in [
        ("name", world(put("name", "new"), None)),
        ("tracking", world(|_| {}, Some(("application.trackingAnnotationKey", "example.com/id")))),
        ("health", world(|_| {}, Some(("resource.customizations.health.x_Y", "return {}")))),
        ("exclusions", world(|_| {}, Some(("resource.exclusions", "- kinds: [Secret]")))),
    ] {
        let pool = pool(&old).await;
        pool.slots.lock().used.clear();
        let slot = pool.slot(&shared()).unwrap();
        reconfigure(&pool, &new, &old);
        assert!(slot.cancel.is_cancelled(), "{what}");
        start(&pool, &shared()).await;
        let again = pool.in_use().remove(0);
        assert!(!again.is_stopped() && again.cluster.name == new.clusters.entry(&shared()).unwrap().name);
    }
    // Settings that concern no index leave it alone, and so does a label key that nothing is read from.
    for (key, value) in [("url", "https://x"), ("application.instanceLabelKey", "example.com/instance")] {
        let pool = pool(&old).await;
        let before = pool.in_use().remove(0);
        reconfigure(&pool, &world(|_| {}, Some((key, value))), &old);
        assert!(!before.is_stopped());
    }
}

/// A3: another project's entry of the same server has a connection and an index of its own, and neither its coming nor its
/// going touches those of the shared one.
#[tokio::test]
async fn inv_16_entries_of_one_server_share_no_index() {
    let own = |config: &'static str| {
        cluster_secret(move |secret| {
            secret["metadata"]["name"] = "own".into();
            secret["data"]["project"] = "red".into();
            secret["data"]["config"] = config.into();
        })
    };
    let alone = world(|_| {}, None);
    let both = world_with(&[cluster_secret(|_| {}), own("{\"bearerToken\": \"red\"}")], None);
    let pool = pool(&alone).await;
    let first = pool.used(&shared()).unwrap();
    reconfigure(&pool, &both, &alone);
    let red = ClusterKey { project: "red".into(), ..shared() };
    start(&pool, &red).await;
    let (kept, own_entry) = (pool.used(&shared()).unwrap(), pool.used(&red).unwrap());
    assert!(Arc::ptr_eq(&first, &kept) && !first.is_stopped(), "the shared one does not notice");
    assert_eq!(kept.cluster.config.expose(), "{\"bearerToken\": \"one\"}");
    assert_eq!(own_entry.cluster.config.expose(), "{\"bearerToken\": \"red\"}");
    let changed = world_with(&[cluster_secret(|_| {}), own("{\"bearerToken\": \"other\"}")], None);
    reconfigure(&pool, &changed, &both);
    assert!(own_entry.is_stopped() && !first.is_stopped());
    reconfigure(&pool, &alone, &changed);
    assert!(!first.is_stopped() && pool.in_use().len() == 1);
}
