use serde_json::json;
use tiphys_object::ResourceKey;

use super::*;
use crate::fake::{Fake, Reply};
use crate::kinds::Discovery;
use crate::write::{ApplyMethod, Known};

const CORE: &str = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{},"versions":[{"version":"v1",
    "resources":[{"resource":"configmaps","responseKind":{"kind":"ConfigMap"},"scope":"Namespaced","verbs":["get"]},
        {"resource":"namespaces","responseKind":{"kind":"Namespace"},"scope":"Cluster","verbs":["get"]}],
    "freshness":"Current"}]}]}"#;
const MAPS: &str = "/api/v1/namespaces/n/configmaps";

fn live(kind: &str) -> String {
    json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "n", "uid": "u",
        "resourceVersion": "5", "managedFields": [{"manager": "m"}]}, "data": {"k": "old"}})
    .to_string()
}

fn desired() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": {"k": "new"}})
}

/// What a server answers to dry and real creations; it refuses every patch and replacement as invalid.
struct Server {
    dry: fn() -> Reply,
    create: fn(&str) -> Reply,
}

async fn start(server: Server) -> (Fake, Writer) {
    let fake = Fake::start(move |request, before| {
        let is = |method: &str, path: &str| request.starts_with(&format!("{method} {path}"));
        match request {
            "GET /version" => Reply::json(r#"{"gitVersion":"v1.36.1"}"#),
            "GET /api" => Reply::json(CORE),
            "GET /apis" => Reply::json(r#"{"kind":"APIGroupDiscoveryList","items":[]}"#),
            _ if is("POST", MAPS) && request.contains("dryRun=All") => (server.dry)(),
            _ if is("POST", MAPS) => (server.create)(request),
            _ if is("PATCH", MAPS) || is("PUT", MAPS) => Reply::refused(422, "Invalid"),
            _ if is("DELETE", MAPS) => Reply::json(r#"{"kind":"Status","status":"Success"}"#),
            _ if is("PUT", "/api/v1/namespaces/") => Reply::refused(422, "Invalid"),
            _ if is("GET", "/api/v1/namespaces/a") => Reply::json(live("Namespace")),
            // It is there until the first look after the deletion.
            _ if before < 2 => Reply::json(live("ConfigMap")),
            _ => Reply::refused(404, "NotFound"),
        }
    })
    .await;
    let writer = Writer::new(fake.connection.clone(), Discovery::new(fake.connection.clone()));
    (fake, writer)
}

fn forced(method: ApplyMethod) -> ApplyOptions {
    ApplyOptions { method, is_forced: true, known: Known::Nothing, ..ApplyOptions::default() }
}

fn changes(fake: &Fake) -> Vec<String> {
    let all = fake.requests();
    let changes = all.iter().filter(|one| !one.starts_with("GET") && !one.contains("dryRun"));
    changes.map(|one| one.split([' ', '?']).take(2).collect::<Vec<_>>().join(" ")).collect()
}

/// INV-6: a permit for another object, or for another scope of its kind, changes nothing at all.
#[tokio::test]
async fn inv_6_nothing_is_changed_with_the_permit_of_another_object() {
    let (fake, writer) =
        start(Server { dry: || Reply::json("{}"), create: |_| Reply::json(live("ConfigMap")) }).await;
    let desired = desired();
    let target = Target::of(&desired);
    let mut other = ResourceKey::of(&desired);
    other.name = "b".into();
    let permit = Permit::operator(other);
    for method in [ApplyMethod::ClientSide, ApplyMethod::ServerSide, ApplyMethod::Replace] {
        let refused = writer.apply(&permit, &desired, &forced(method)).await;
        assert!(matches!(refused, Err(ApiError::NotPermitted(_))), "{refused:?}");
    }
    let seen = Object::from_value(&desired).unwrap();
    let refused = [
        writer.create(&permit, &desired).await.err(),
        writer.update(&permit, &desired).await.err(),
        writer.merge_patch(&permit, &target, None, &desired).await.err(),
        writer.json_patch(&permit, &target, None, &json!([])).await.err(),
        writer.delete(&permit, &target, &DeleteOptions::default()).await.err(),
        writer.delete_seen(&permit, &target, &seen, Propagation::Foreground, |_| true).await.err(),
        writer.migrate_client_side_apply(&permit, &target, "").await.err(),
    ];
    assert!(refused.iter().all(|error| matches!(error, Some(ApiError::NotPermitted(_)))), "{refused:?}");
    assert!(changes(&fake).is_empty(), "{:#?}", fake.requests());
    // The project said yes to a namespace of this name, and this is not one.
    let project: tiphys_api::AppProject = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}]}}))
    .unwrap();
    let governed = tiphys_policy::permit::Governed {
        project: &project,
        cluster: tiphys_policy::project::Target::default(),
        clusters: Ok(&[]),
        matching: tiphys_api::settings::ProjectMatching::default(),
        account: None,
    };
    let permit = governed.permit(&target.key(), false).unwrap();
    let refused = writer.create(&permit, &desired).await;
    assert!(matches!(refused, Err(ApiError::NotPermitted(_))), "{refused:?}");
}

/// ENG-175, INV-1: the live object was deleted for a manifest that nobody takes, and nothing was left.
#[tokio::test]
async fn eng_175_nothing_is_deleted_for_a_manifest_that_is_refused() {
    let refused = || Reply::refused(422, "Invalid");
    let (fake, writer) = start(Server { dry: refused, create: |_| Reply::refused(422, "Invalid") }).await;
    for method in [ApplyMethod::ClientSide, ApplyMethod::Replace] {
        let error = writer
            .apply(&Permit::operator(ResourceKey::of(&desired())), &desired(), &forced(method))
            .await
            .unwrap_err();
        assert_eq!(error.code(), 422, "{error}");
    }
    assert!(!changes(&fake).iter().any(|one| one.starts_with("DELETE")), "{:#?}", fake.requests());
}

/// ENG-175, INV-1: what the server refuses only after the deletion.
#[tokio::test]
async fn eng_175_what_was_deleted_comes_back_when_its_successor_is_refused() {
    let taken = || Reply::refused(409, "AlreadyExists");
    // What comes back is not validated strictly: the server had it.
    let create = |request: &str| {
        if request.contains("Strict") {
            Reply::refused(403, "Forbidden")
        } else {
            Reply::json(live("ConfigMap"))
        }
    };
    let (fake, writer) = start(Server { dry: taken, create }).await;
    let options = forced(ApplyMethod::ClientSide);
    let error =
        writer.apply(&Permit::operator(ResourceKey::of(&desired())), &desired(), &options).await.unwrap_err();
    assert_eq!(error.code(), 403);
    let text = error.to_string();
    assert!(
        text.starts_with("the test says Forbidden") && text.contains("created again as it was"),
        "{text}"
    );
    let ends: Vec<String> = changes(&fake).into_iter().skip_while(|one| !one.starts_with("DELETE")).collect();
    assert_eq!(ends, [format!("DELETE {MAPS}/a"), format!("POST {MAPS}"), format!("POST {MAPS}")]);
}

/// ENG-175: a failure that a new object would meet as well deletes nothing.
#[tokio::test]
async fn eng_175_only_conflicts_and_invalid_changes_are_forced() {
    for (code, reason) in [(400, "BadRequest"), (403, "Forbidden"), (500, "InternalError")] {
        let refusal = crate::error::Refusal {
            code,
            reason: reason.to_owned(),
            message: String::new(),
            retry_after: None,
        };
        assert!(!super::super::apply::is_worth_forcing(&ApiError::Refused(Box::new(refusal))), "{reason}");
    }
}

/// ENG-175: `Force=true,Replace=true` makes anew without trying to replace, except what contains other objects.
#[tokio::test]
async fn eng_175_forced_replacement_always_makes_anew() {
    let taken = || Reply::refused(409, "AlreadyExists");
    let (fake, writer) = start(Server { dry: taken, create: |_| Reply::json(live("ConfigMap")) }).await;
    let options = forced(ApplyMethod::Replace);
    let applied =
        writer.apply(&Permit::operator(ResourceKey::of(&desired())), &desired(), &options).await.unwrap();
    assert_eq!(applied.outcome, Outcome::Replaced);
    assert_eq!(changes(&fake), [format!("DELETE {MAPS}/a"), format!("POST {MAPS}")]);
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    assert!(
        writer.apply(&Permit::operator(ResourceKey::of(&namespace)), &namespace, &options).await.is_err()
    );
    assert!(!changes(&fake).iter().any(|one| one == "DELETE /api/v1/namespaces/a"), "{:#?}", fake.requests());
}

#[test]
fn eng_175_what_comes_back_is_without_what_the_server_wrote() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "creationTimestamp": "t", "generation": 1,
            "labels": {"batch.kubernetes.io/controller-uid": "u", "own": "x"}, "finalizers": ["f"]},
        "spec": {"selector": {"matchLabels": {"controller-uid": "u"}},
            "template": {"metadata": {"labels": {"controller-uid": "u", "app": "a"}}}},
        "status": {"active": 1}});
    assert_eq!(
        as_created(job),
        json!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "a", "labels": {"own": "x"}, "finalizers": ["f"]},
            "spec": {"template": {"metadata": {"labels": {"app": "a"}}}}})
    );
}
