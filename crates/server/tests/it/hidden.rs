//! Errors for hidden objects are those for missing ones, and name nothing of other projects (SEC-25).

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use crate::applications::{self, APPS, Known, STORED};
use crate::home::{ask, until};
use crate::services::{SETS, set, setup};

/// Every method gives the same error for a hidden and for a missing set, and no error names the other project (API-154).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_25_a_hidden_set_looks_like_a_missing_one() {
    let home = setup().live(Arc::<Known>::default()).start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    admin.ok("POST", SETS, &set("hidden", "default")).await;
    for (verb, rest) in [("GET", ""), ("GET", "/resource-tree"), ("GET", "/events"), ("DELETE", "")] {
        let answer = async |name: &str| {
            let (status, text) = kim.refused(verb, &format!("{SETS}/{name}{rest}"), &Value::Null).await;
            (status, text.replace(name, "NAME"))
        };
        let missing = answer("missing").await;
        assert_eq!(
            missing,
            (404, "applicationsets.argoproj.io \"NAME\" not found".to_owned()),
            "{verb} {rest}"
        );
        assert_eq!(answer("hidden").await, missing, "{verb} {rest}");
    }
    // The error for a taken name does not name the owner.
    let (status, text) = kim.refused("POST", SETS, &set("hidden", "shop")).await;
    let taken = "existing ApplicationSet spec is different, use upsert flag to force update";
    assert_eq!((status, text.as_str()), (400, taken));
    let (status, text) = kim.refused("POST", &format!("{SETS}?upsert=true"), &set("hidden", "shop")).await;
    assert_eq!((status, text.as_str()), (403, "permission denied"));
    // The preview treats the set as new.
    let generate = json!({"applicationSet": set("hidden", "shop"), "preview": "stored"});
    let fresh = json!({"applicationSet": set("missing", "shop"), "preview": "stored"});
    let shown = kim.ok("POST", &format!("{SETS}/generate"), &generate).await;
    assert_eq!(shown, kim.ok("POST", &format!("{SETS}/generate"), &fresh).await);
    assert!(!shown.to_string().contains("default"), "{shown}");
    assert_eq!(kim.ok("GET", SETS, &Value::Null).await["items"], json!([]));
}

/// The full error is returned to callers who may see the set.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_158_deleting_a_visible_set_without_the_right_is_denied() {
    let policy = "p, kim, applicationsets, get, shop/*, allow\n";
    let home = setup().start().await;
    home.account("admin").ok("POST", SETS, &set("seen", "shop")).await;
    ask(
        &home.sim,
        Method::PATCH,
        "/api/v1/namespaces/argocd/configmaps/argocd-rbac-cm",
        &json!({"data": {"policy.csv": policy}}),
    );
    let kim = home.account("kim");
    let asks = json!({});
    let refused = async || kim.refused("DELETE", &format!("{SETS}/seen"), &asks).await;
    while kim.send("POST", SETS, &set("other", "shop")).await.0 != 403 {}
    let (status, text) = refused().await;
    assert!(
        status == 403 && text.starts_with("permission denied: applicationsets, delete, shop/seen"),
        "{text}"
    );
}

/// An unreadable application is visible only to callers of its project.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_25_a_hidden_unreadable_application_is_missing() {
    let setup = applications::setup();
    // A CRD of an older version admits more.
    let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/applications.argoproj.io";
    let mut loose = setup.ask(Method::GET, definition, &Value::Null);
    loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    setup.ask(Method::PUT, definition, &loose);
    let home = setup.start().await;
    let broken = |name: &str, project: &str| {
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name, "namespace": "argocd"},
            "spec": {"project": project, "destination": {"server": 5}, "source": {"repoURL": "https://git/r"}}})
    };
    for (name, project) in [("theirs", "default"), ("own", "shop")] {
        ask(&home.sim, Method::POST, STORED, &broken(name, project));
    }
    until(|| home.catalog.len().1 == 2).await;
    let kim = home.account("kim");
    let answer = async |name: &str, rest: &str| {
        let (status, text) = kim.refused("GET", &format!("{APPS}/{name}{rest}"), &Value::Null).await;
        (status, text.replace(name, "NAME"))
    };
    for rest in ["?project=shop", "", "/resource-tree?project=shop", "/logs?project=shop"] {
        assert_eq!(answer("theirs", rest).await, answer("missing", rest).await, "{rest}");
    }
    assert_eq!(answer("own", "?project=shop").await.0, 503);
    let admin = home.account("admin");
    // The details of a source: as for a readable application of another project, with none of its text.
    let details = async |name: &str| {
        let asked = json!({"source": {"repoURL": "https://git/r", "path": "a"}, "appName": name, "appProject": "shop"});
        let target = "/api/v1/repositories/https%3A%2F%2Fgit%2Fr/appdetails";
        admin.refused("POST", target, &asked).await
    };
    let (status, text) = details("theirs").await;
    assert!(status == 403 && !text.contains("theirs") && !text.contains("server"), "{status} {text}");
    let (_, text) = details("own").await;
    assert!(text.contains("own"), "{text}");
}
