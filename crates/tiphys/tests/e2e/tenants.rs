//! Projects with credentials of their own for one repository.

use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS};
use crate::fixtures::{automated, config_map, file};
use crate::world::{World, conditions, merge};

/// Passwords that nothing but a Secret and the Git server may ever show.
const CANARIES: [&str; 2] = ["canary-of-one", "canary-of-two"];

fn secret(world: &World, name: &str, url: &str, project: &str, login: (&str, &str)) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {
            "name": name, "namespace": world.cp, "labels": {"argocd.argoproj.io/secret-type": "repository"}},
        "stringData": {"url": url, "project": project, "username": login.0, "password": login.1}})
}

/// REP-20, REP-21, REP-60..64, SEC-37: two projects have different credentials for one private URL; each application uses its
/// own, the one without a credential is refused, and nobody sees the credentials of another.
#[tokio::test]
async fn rep_20_projects_use_their_own_credentials_for_one_url() {
    let Some(mut world) = World::start("tenants").await else { return };
    let repo = world.repo("private", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    world.git.require("private", &[("one", CANARIES[0]), ("two", CANARIES[1])]);
    let project = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
    for name in ["one", "two", "three"] {
        world.project(name, &project).await;
    }
    for (number, name) in ["one", "two"].into_iter().enumerate() {
        let secret = secret(&world, &format!("repo-{name}"), &repo.url, name, (name, CANARIES[number]));
        world.api.apply("v1/secrets", &secret).await;
    }
    let mut names = Vec::new();
    for name in ["one", "two", "three"] {
        let ns = world.namespace(&format!("ns-{name}")).await;
        let mut change = automated();
        merge(&mut change, &json!({"spec": {"project": name}}));
        names.push((world.create(name, &repo, ".", &ns, &change).await, ns));
    }
    for (app, ns) in &names[..2] {
        world.until_synced(app).await;
        assert!(world.exists(CONFIG_MAPS, ns, "cm").await);
    }
    let (refused, refused_ns) = &names[2];
    let failed = |app: &Value| !conditions(app, "ComparisonError").is_empty();
    let app = world.until_app(refused, "is refused", failed).await;
    assert_eq!(app["status"]["sync"]["status"], "Unknown", "{:#}", app["status"]);
    assert!(!world.exists(CONFIG_MAPS, refused_ns, "cm").await);
    let mut seen = world.git.logins("private");
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["one", "two"], "who has logged in");

    // A credential that becomes wrong is one project's matter.
    let wrong = secret(&world, "repo-one", &repo.url, "one", ("one", "wrong"));
    world.api.apply("v1/secrets", &wrong).await;
    world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", "2")]))]).await;
    let (other, other_ns) = &names[1];
    let is_new = |cm: &Value| cm["data"]["key"] == "2";
    world.until_object(CONFIG_MAPS, other_ns, "cm", "follows", is_new).await;
    world.refresh(&names[0].0, "hard").await;
    world.until_app(&names[0].0, "is refused", failed).await;
    let kept = world.api.get(CONFIG_MAPS, &names[0].1, "cm").await.unwrap();
    assert_eq!(kept["data"]["key"], "1", "what is not rendered is not touched");
    world.until_synced(other).await;

    let mut shown = world.program.log();
    shown.push_str(&world.metrics().await);
    for kind in [APPS, "v1/events"] {
        shown.push_str(&json!(world.api.list(kind, &world.cp).await).to_string());
    }
    for canary in CANARIES {
        assert!(!shown.contains(canary), "{canary} is shown");
    }
    world.finish().await;
}
