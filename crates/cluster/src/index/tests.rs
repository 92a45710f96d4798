use std::fmt::Write as _;

use super::*;
use crate::fake::{Fake, Reply};

const VERSION: &str = r#"{"gitVersion":"v1.36.1"}"#;
const GROUPS: &str = r#"{"kind":"APIGroupDiscoveryList","items":[]}"#;

fn core(kinds: &[(&str, &str)]) -> String {
    let resource = |(plural, kind): &(&str, &str)| {
        format!(
            r#"{{"resource":"{plural}","responseKind":{{"kind":"{kind}"}},"scope":"Namespaced","verbs":["list","watch"]}}"#
        )
    };
    let resources: Vec<String> = kinds.iter().map(resource).collect();
    format!(
        r#"{{"kind":"APIGroupDiscoveryList","items":[{{"metadata":{{}},"versions":[{{"version":"v1","resources":[{}],"freshness":"Current"}}]}}]}}"#,
        resources.join(",")
    )
}

fn item(name: &str, version: u32) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"uid-{name}","resourceVersion":"{version}","annotations":{{"track":"app"}}}}}}"#
    )
}

fn added(count: u32) -> String {
    let mut lines = String::new();
    for number in 0..count {
        writeln!(lines, r#"{{"type":"ADDED","object":{}}}"#, item(&format!("o{number}"), 1)).unwrap();
    }
    lines
}

fn bookmark(version: u32) -> String {
    format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\",\"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
    )
}

fn gone() -> String {
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too old\"}}\n".to_owned()
}

struct Started {
    index: ClusterIndex,
    events: mpsc::Receiver<IndexEvent>,
    _stop: tokio_util::sync::DropGuard,
}

fn start(fake: &Fake) -> Started {
    let claim = |metadata: &Metadata| metadata.annotations.get("track").cloned().into_iter().collect();
    let claims = Claims { keys: vec!["track".into()], claim: Arc::new(claim), ways: vec![1] };
    let options =
        IndexOptions::new("https://c", claims, Arc::new(|_: &Value| Derived::default()), Arc::new(|| 0.0));
    let (sender, events) = mpsc::channel(256);
    let cancel = CancellationToken::new();
    let discovery = Discovery::new(fake.connection.clone());
    let tracker = TaskTracker::new();
    let index =
        ClusterIndex::start(fake.connection.clone(), discovery, options, sender, &tracker, cancel.clone());
    Started { index, events, _stop: cancel.drop_guard() }
}

fn discovery(request: &str, kinds: &[(&str, &str)]) -> Option<Reply> {
    match request {
        "GET /version" => Some(Reply::json(VERSION)),
        "GET /api" => Some(Reply::json(core(kinds))),
        "GET /apis" => Some(Reply::json(GROUPS)),
        _ => None,
    }
}

/// Waits until the fake has seen a request that satisfies the test.
async fn requested(fake: &Fake, is_it: impl Fn(&[String]) -> bool) {
    let wait = async {
        while !is_it(&fake.requests()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(10), wait).await;
    assert!(seen.is_ok(), "{:#?}", fake.requests());
}

#[tokio::test]
async fn f6_a_refused_kind_is_unknown_and_the_others_work() {
    let fake = Fake::start(|request, _| {
        discovery(request, &[("configmaps", "ConfigMap"), ("secrets", "Secret")]).unwrap_or_else(|| {
            if request.contains("/secrets") {
                Reply::refused(403, "Forbidden")
            } else {
                Reply::stream(added(1) + &bookmark(7))
            }
        })
    })
    .await;
    let started = start(&fake);
    started.index.ready().await.unwrap();
    let managed = started.index.managed(&["app"], &[]);
    assert_eq!(managed.objects.len(), 1);
    assert_eq!(managed.incomplete, [(GroupKind::new("", "Secret"), "the test says Forbidden".to_owned())]);
    let is_looked_for = |ways: &[u64]| started.index.managed(&["app"], ways).is_looked_for;
    assert!(is_looked_for(&[1]) && !is_looked_for(&[1, 2]), "nobody reads in the second way (TRK-91)");
    let state = started.index.kind_state(&GroupKind::new("", "ConfigMap"));
    assert_eq!(state, Some(KindState::Complete { resource_version: "7".into() }));
    assert!(matches!(started.index.get(&ResourceKey::new("", "ConfigMap", "n", "x")), Seen::Absent));
    assert!(matches!(started.index.get(&ResourceKey::new("", "Secret", "n", "x")), Seen::Unknown(_)));
}

/// An object of ours that is nested deeper than anything we read.
fn deep_item(name: &str, version: u32) -> String {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    item(name, version).replacen('{', &format!(r#"{{"extra":{deep},"#), 1)
}

/// INV-15, F6: the kind goes on, listed or watched; the object is known to exist, and why nothing can be said of it.
#[tokio::test]
async fn inv_15_an_object_that_cannot_be_read_is_one_object_and_not_the_end_of_its_kind() {
    for is_listed in [true, false] {
        let fake = Fake::start(move |request, _| {
            discovery(request, &[("configmaps", "ConfigMap")]).unwrap_or_else(|| {
                let bad = format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", deep_item("bad", 3));
                let lines =
                    if is_listed { added(1) + &bad + &bookmark(7) } else { added(1) + &bookmark(7) + &bad };
                Reply::stream(lines)
            })
        })
        .await;
        let started = start(&fake);
        started.index.ready().await.unwrap();
        let key = ResourceKey::new("", "ConfigMap", "n", "bad");
        let wait = async {
            while started.index.counts().values().sum::<usize>() < 2 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(10), wait).await.is_ok(), "{is_listed}");
        assert!(matches!(
            started.index.kind_state(&GroupKind::new("", "ConfigMap")),
            Some(KindState::Complete { .. })
        ));
        let found = started.index.managed(&["app"], &[]);
        assert_eq!(found.objects.len(), 1);
        let seen = started.index.get(&key);
        assert!(matches!(&seen, Seen::Unknown(why) if why.contains("extra")), "{seen:?}");
        let absent = started.index.get(&ResourceKey::new("", "ConfigMap", "n", "none"));
        assert!(matches!(absent, Seen::Absent), "{absent:?}");
    }
}

#[tokio::test]
async fn f7_an_object_that_its_list_lacked_makes_the_kind_be_listed_again() {
    let fake = Fake::start(|request, count| {
        discovery(request, &[("configmaps", "ConfigMap")])
            .unwrap_or_else(|| Reply::stream(if count == 0 { bookmark(7) } else { added(1) + &bookmark(8) }))
    })
    .await;
    let started = start(&fake);
    started.index.ready().await.unwrap();
    let key = ResourceKey::new("", "ConfigMap", "n", "o0");
    assert!(matches!(started.index.get(&key), Seen::Absent));
    let object = |version: u32| {
        let mut value: Value = serde_json::from_str(&item("o0", version)).unwrap();
        value["apiVersion"] = "v1".into();
        value["kind"] = "ConfigMap".into();
        Object::from_value(&value).unwrap()
    };
    let lists = |requests: &[String]| requests.iter().filter(|one| one.contains("/configmaps")).count();
    // What is newer than the list may be on its way.
    started.index.contradict(&object(9));
    started.index.contradict(&object(1));
    requested(&fake, |requests| lists(requests) == 2).await;
    let wait = async {
        while !matches!(started.index.get(&key), Seen::Present(_)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.unwrap();
}

#[tokio::test]
async fn f8_a_group_that_cannot_be_discovered_is_unwatched_and_not_empty() {
    let deployment = Gvk::new("apps", "v1", "Deployment");
    for (is_refused, reason) in
        [(true, Some("the API group \"apps\" does not answer".to_owned())), (false, None)]
    {
        let fake = Fake::start(move |request, _| {
            if request == "GET /apis" && is_refused {
                return Reply::refused(500, "InternalError");
            }
            discovery(request, &[("configmaps", "ConfigMap")])
                .unwrap_or_else(|| Reply::stream(added(1) + &bookmark(7)))
        })
        .await;
        let started = start(&fake);
        started.index.ready().await.unwrap();
        assert_eq!(started.index.unwatched(&deployment), reason);
        assert_eq!(started.index.unwatched(&Gvk::new("", "v1", "ConfigMap")), None);
    }
}

#[tokio::test]
async fn f7_an_empty_list_is_read_again_before_it_is_believed() {
    let fake = Fake::start(|request, before| {
        discovery(request, &[("configmaps", "ConfigMap")]).unwrap_or_else(|| {
            let is_list = request.contains("sendInitialEvents");
            match (is_list, before) {
                (true, 0) => Reply::stream(added(20) + &bookmark(7) + &gone()),
                (true, _) => Reply::stream(bookmark(8)),
                (false, _) if request.contains("watch=true") => Reply::stream(""),
                (false, _) => {
                    let items: Vec<String> = (0..20).map(|number| item(&format!("o{number}"), 1)).collect();
                    Reply::json(format!(
                        r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#,
                        items.join(",")
                    ))
                }
            }
        })
    })
    .await;
    let mut started = start(&fake);
    started.index.ready().await.unwrap();
    requested(&fake, |requests| requests.iter().any(|request| request.contains("resourceVersion=9"))).await;
    assert_eq!(started.index.managed(&["app"], &[]).objects.len(), 20);
    while let Ok(event) = started.events.try_recv() {
        assert!(!matches!(event, IndexEvent::Changed { .. }), "{event:?}");
    }
}

#[tokio::test]
async fn f5_a_watch_that_ends_is_resumed_where_it_stopped() {
    let fake = Fake::start(|request, _| {
        discovery(request, &[("configmaps", "ConfigMap")]).unwrap_or_else(|| {
            if request.contains("sendInitialEvents") {
                Reply::json(added(1) + &bookmark(7))
            } else {
                Reply::stream(format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", item("o0", 12)))
            }
        })
    })
    .await;
    let mut started = start(&fake);
    started.index.ready().await.unwrap();
    requested(&fake, |requests| requests.iter().any(|request| request.contains("resourceVersion=7"))).await;
    loop {
        let event = started.events.recv().await.unwrap();
        if let IndexEvent::Changed { key, .. } = event {
            assert_eq!(key.name, "o0");
            break;
        }
    }
    let lists = fake.requests().iter().filter(|request| request.contains("sendInitialEvents")).count();
    assert_eq!(lists, 1);
}

#[tokio::test]
async fn dep_35_servers_without_streaming_lists_are_read_in_pages() {
    let fake = Fake::start(|request, _| {
        discovery(request, &[("configmaps", "ConfigMap")]).unwrap_or_else(|| {
            if request.contains("sendInitialEvents") {
                Reply::refused(422, "Invalid")
            } else if request.contains("watch=true") {
                Reply::stream("")
            } else if request.contains("continue=more") {
                Reply::json(format!(r#"{{"metadata":{{"resourceVersion":"5"}},"items":[{}]}}"#, item("b", 1)))
            } else {
                Reply::json(format!(
                    r#"{{"metadata":{{"resourceVersion":"5","continue":"more"}},"items":[{}]}}"#,
                    item("a", 1)
                ))
            }
        })
    })
    .await;
    let started = start(&fake);
    started.index.ready().await.unwrap();
    assert_eq!(started.index.managed(&["app"], &[]).objects.len(), 2);
    let requests = fake.requests();
    assert!(requests.iter().any(|request| request.contains("limit=2000&continue=more")), "{requests:#?}");
}

#[tokio::test]
async fn f4_a_half_list_ends_nothing() {
    let fake = Fake::start(|request, before| {
        discovery(request, &[("configmaps", "ConfigMap")]).unwrap_or_else(|| match before {
            0 if request.contains("sendInitialEvents") => Reply::stream(added(3) + &bookmark(7) + &gone()),
            // The connection breaks in the middle of the second list.
            1 if request.contains("sendInitialEvents") => Reply::json(added(1)),
            _ if request.contains("sendInitialEvents") => Reply::stream(""),
            _ => Reply::refused(500, "InternalError"),
        })
    })
    .await;
    let mut started = start(&fake);
    started.index.ready().await.unwrap();
    loop {
        let event = started.events.recv().await.unwrap();
        if let IndexEvent::KindChanged { state: Some(KindState::Failed { .. }), .. } = event {
            break;
        }
    }
    let managed = started.index.managed(&["app"], &[]);
    assert_eq!((managed.objects.len(), managed.incomplete.len()), (3, 1));
}

#[tokio::test]
async fn f13_an_unreachable_cluster_is_an_error_and_not_an_empty_one() {
    let fake = Fake::start(|_, _| Reply::refused(500, "InternalError")).await;
    let started = start(&fake);
    assert_eq!(started.index.ready().await, Err("the test says InternalError".to_owned()));
    assert!(started.index.managed(&["app"], &[]).cluster_error.is_some());
}

#[tokio::test]
async fn f10_a_request_is_repeated_when_the_server_asks_for_it() {
    let fake = Fake::start(|request, before| match before {
        0 if request == "GET /version" => {
            Reply { headers: "Retry-After: 0\r\n", ..Reply::refused(429, "TooManyRequests") }
        }
        _ => discovery(request, &[("configmaps", "ConfigMap")]).unwrap_or_else(|| Reply::stream(bookmark(1))),
    })
    .await;
    let started = start(&fake);
    started.index.ready().await.unwrap();
    let asked = fake.requests().iter().filter(|request| *request == "GET /version").count();
    assert_eq!(asked, 2);
}

/// B1: the objects of a definition that was made a moment ago are being loaded; a start waits for that and not for a second
/// for every kind.
#[tokio::test]
async fn f10_a_kind_that_is_being_loaded_is_looked_at_again_at_once() {
    let loading =
        || Reply { headers: "Retry-After: 30\r\n", ..Reply::refused(429, "storage is (re)initializing") };
    let fake = Fake::start(move |request, before| match before {
        0 if request == "GET /version" || request.contains("watch=true") => loading(),
        _ => discovery(request, &[("configmaps", "ConfigMap")]).unwrap_or_else(|| Reply::stream(bookmark(1))),
    })
    .await;
    let started = start(&fake);
    let ready = tokio::time::timeout(Duration::from_secs(20), started.index.ready()).await;
    assert_eq!(ready, Ok(Ok(())), "the answer to wait for half a minute was obeyed");
}
