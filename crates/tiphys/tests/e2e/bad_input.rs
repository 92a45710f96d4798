//! Input that is bad in every way: each harms its own application only.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::api::{CONFIG_MAPS, NAMESPACES};
use crate::fixtures::{automated, automated_with, config_map, file, manual};
use crate::git::Repo;
use crate::world::{Setup, World, conditions, is_over, result_of};

/// An application that must keep syncing.
struct Bystander {
    repo: Repo,
    app: String,
    ns: String,
}

impl Bystander {
    async fn create(world: &mut World) -> Self {
        let ns = world.namespace("bystander").await;
        let repo = world.repo("bystander", &[("cm.yaml", &file(&[config_map("cm", "0")]))]).await;
        let app = world.create("bystander", &repo, ".", &ns, &automated()).await;
        world.until_synced(&app).await;
        Self { repo, app, ns }
    }

    /// A push is live soon.
    async fn syncs(&self, world: &World, value: &str) {
        world.push(&self.repo, &[("cm.yaml", &file(&[config_map("cm", value)]))]).await;
        world.until_object(CONFIG_MAPS, &self.ns, "cm", "is synced", |cm| cm["data"]["key"] == value).await;
        world.until_synced(&self.app).await;
    }
}

async fn comparison_error(world: &World, app: &str) -> String {
    let seen = world.until_app(app, "fails", |app| !conditions(app, "ComparisonError").is_empty()).await;
    assert_eq!(seen["status"]["sync"]["status"], "Unknown");
    assert!(seen["operation"].is_null());
    conditions(&seen, "ComparisonError").remove(0)
}

#[tokio::test]
async fn bad_input_repositories() {
    let setup = Setup {
        env: vec![("ARGOCD_GIT_REQUEST_TIMEOUT", "5s"), ("ARGOCD_EXEC_TIMEOUT", "10s")],
        ..Setup::default()
    };
    let Some(mut world) = World::start_with("badrepo", setup).await else { return };
    let ns = world.namespace("ns").await;
    let bystander = Bystander::create(&mut world).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("http://{}/repo.git", silent.local_addr().unwrap());
    let accepting = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = silent.accept().await {
            open.push(stream);
        }
    });
    let repo = world.repo("app", &[("app/cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let with = |source: Value| {
        let mut change = automated();
        change["spec"]["source"] = source;
        change
    };
    // More hanging ones than there are workers for repositories.
    let mut hanging = Vec::new();
    for number in 0..12 {
        let change = with(json!({"repoURL": format!("{silent_url}/{number}")}));
        hanging.push(world.create(&format!("hangs{number}"), &repo, "app", &ns, &change).await);
    }
    let refused = world
        .create("refused", &repo, "app", &ns, &with(json!({"repoURL": "http://127.0.0.1:1/repo.git"})))
        .await;
    let revision =
        world.create("revision", &repo, "app", &ns, &with(json!({"targetRevision": "absent"}))).await;
    let outside = world.create("outside", &repo, "../app", &ns, &automated()).await;
    let absolute = world.create("absolute", &repo, "/etc", &ns, &automated()).await;
    let missing = world.create("missing", &repo, "nowhere", &ns, &automated()).await;
    let option = world
        .create("option", &repo, "app", &ns, &with(json!({"targetRevision": "--upload-pack=true"})))
        .await;
    let transport =
        world.create("transport", &repo, "app", &ns, &with(json!({"repoURL": "ext::sh -c true"}))).await;
    bystander.syncs(&world, "1").await;
    for (app, texts) in [
        (&refused, ["Failed to load target state: ", ""]),
        (&revision, ["Failed to load target state: ", "unable to resolve 'absent' to a commit SHA"]),
        (&outside, ["Failed to load target state: ", "app path"]),
        (&absolute, ["Failed to load target state: ", "app path"]),
        (&missing, ["Failed to load target state: ", "nowhere: app path does not exist"]),
        (&option, ["Failed to load target state: ", ""]),
        (&transport, ["Failed to load target state: ", ""]),
    ] {
        let error = comparison_error(&world, app).await;
        assert!(error.starts_with(texts[0]) && error.contains(texts[1]), "{app}: {error}");
        println!("{app}: {error}");
    }
    bystander.syncs(&world, "2").await;
    for app in &hanging {
        let error = comparison_error(&world, app).await;
        assert!(error.starts_with("Failed to load target state: "), "{error}");
    }
    bystander.syncs(&world, "3").await;
    assert!(!world.exists(CONFIG_MAPS, &ns, "cm").await);
    accepting.abort();
    world.finish().await;
}

#[tokio::test]
async fn bad_input_manifests() {
    let Some(mut world) = World::start("badfile").await else { return };
    let ns = world.namespace("ns").await;
    let bystander = Bystander::create(&mut world).await;
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        writeln!(bomb, "a{level}: &a{level} [{}]", vec![before; 9].join(", ")).unwrap();
    }
    let huge = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: huge}}\ndata:\n  key: \"{}\"\n",
        "x".repeat(100 << 20)
    );
    let deep =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: deep}}\ndata: {}", "[".repeat(1_000_000));
    let good = file(&[config_map("good", "1")]);
    let twice = file(&[config_map("twice", "1"), config_map("twice", "2")]);
    let repo = world
        .repo(
            "app",
            &[
                ("bomb/a.yaml", &bomb),
                ("bomb/good.yaml", &good),
                ("huge/a.yaml", &huge),
                ("deep/a.yaml", &deep),
                ("deep/good.yaml", &good),
                ("text/a.yaml", "apiVersion: v1\nkind: ConfigMap\n\tmetadata: {}\n"),
                ("nameless/a.yaml", "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n"),
                ("scalar/a.yaml", "just text\n"),
                ("kind/good.yaml", &good),
                ("twice/a.yaml", &twice),
            ],
        )
        .await;
    let before = world.program.memory();
    for path in ["bomb", "huge", "deep", "text"] {
        let app = world.create(path, &repo, path, &ns, &automated()).await;
        let error = comparison_error(&world, &app).await;
        assert!(error.starts_with("Failed to load target state: "), "{path}: {error}");
        assert!(error.len() < 4096, "{path}: a text of {} bytes", error.len());
        println!("{path}: {error}");
        bystander.syncs(&world, path).await;
    }
    assert!(!world.exists(CONFIG_MAPS, &ns, "good").await);
    // No claim about what these come to, but that they come to an end and harm nobody.
    for path in ["nameless", "scalar"] {
        let app = world.create(path, &repo, path, &ns, &manual()).await;
        let over = |app: &Value| !app["status"]["reconciledAt"].is_null() && app["operation"].is_null();
        let seen = world.until_app(&app, "compared", over).await;
        println!("{path}: {:#}", seen["status"]["conditions"]);
    }
    let grown = world.program.memory().saturating_sub(before) >> 20;
    println!("memory grew by {grown} MiB");
    assert!(grown < 400, "memory grew by {grown} MiB");

    let twice = world.create("twice", &repo, "twice", &ns, &automated()).await;
    let synced = world.until_synced(&twice).await;
    let found = conditions(&synced, "RepeatedResourceWarning");
    assert!(
        found.len() == 1 && found[0].contains("appeared 2 times among application resources"),
        "{found:?}"
    );
    assert_eq!(world.api.get(CONFIG_MAPS, &ns, "twice").await.unwrap()["data"]["key"], "2");
    bystander.syncs(&world, "end").await;
    world.finish().await;
}

#[tokio::test]
async fn bad_input_terminating_namespace() {
    let Some(mut world) = World::start("terminating").await else { return };
    let ns = world.namespace("ns").await;
    let bystander = Bystander::create(&mut world).await;
    let mut held = config_map("held", "1");
    held["metadata"]["namespace"] = json!(ns);
    held["metadata"]["finalizers"] = json!(["e2e.tiphys.dev/hold"]);
    world.api.apply(CONFIG_MAPS, &held).await;
    world.api.delete(NAMESPACES, "", &ns).await;
    let terminating = |space: &Value| space["status"]["phase"] == "Terminating";
    world.until_object(NAMESPACES, "", &ns, "is terminating", terminating).await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let mut change = automated();
    change["spec"]["syncPolicy"]["retry"] = json!({"limit": 1, "backoff": {"duration": "1s"}});
    change["spec"]["syncPolicy"]["syncOptions"] = json!(["CreateNamespace=true"]);
    let app = world.create("app", &repo, ".", &ns, &change).await;
    let failed = |app: &Value| is_over(&app["status"]["operationState"]) && app["operation"].is_null();
    let seen = world.until_app(&app, "failed", failed).await;
    let state = &seen["status"]["operationState"];
    assert_eq!(state["phase"], "Failed", "{state:#}");
    assert!(
        result_of(state, "ConfigMap", "cm")["message"].as_str().unwrap().contains("being terminated"),
        "{state:#}"
    );
    bystander.syncs(&world, "1").await;
    // No hot loop: a failed attempt is not repeated by itself.
    let version = |app: Value| app["metadata"]["resourceVersion"].clone();
    let before = version(world.app(&app).await);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(version(world.app(&app).await), before);
    // The namespace comes back, and a refresh of a new commit syncs.
    world.api.patch(CONFIG_MAPS, &ns, "held", &json!({"metadata": {"finalizers": null}})).await;
    world.until_gone(NAMESPACES, "", &ns).await;
    world.push(&repo, &[("cm.yaml", &file(&[config_map("cm", "2")]))]).await;
    world.until_synced(&app).await;
    world.finish().await;
}

#[tokio::test]
async fn bad_input_specs() {
    let Some(mut world) = World::start("badspec").await else { return };
    let ns = world.namespace("ns").await;
    let bystander = Bystander::create(&mut world).await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let destination = |value: Value| {
        let mut change = automated();
        change["spec"]["destination"] = value;
        change
    };
    for (suffix, change, text) in [
        (
            "both",
            destination(json!({"name": "in-cluster"})),
            "application destination can't have both name and server defined: in-cluster https://kubernetes.default.svc",
        ),
        (
            "server",
            destination(json!({"server": "https://absent.test"})),
            "error getting cluster by server \"https://absent.test\"",
        ),
        (
            "name",
            destination(json!({"server": null, "name": "absent"})),
            "there are no clusters with this name: absent",
        ),
        ("neither", destination(json!({"server": null})), "Destination server missing from app spec"),
        (
            "repo",
            json!({"spec": {"source": {"repoURL": ""}}}),
            "spec.source.repoURL and either spec.source.path or spec.source.chart are required",
        ),
    ] {
        let app = world.create(suffix, &repo, ".", &ns, &change).await;
        let seen =
            world.until_app(&app, "invalid", |app| !conditions(app, "InvalidSpecError").is_empty()).await;
        assert!(
            conditions(&seen, "InvalidSpecError")[0].contains(text),
            "{suffix}: {:?}",
            conditions(&seen, "InvalidSpecError")
        );
        assert_eq!(seen["status"]["sync"]["status"], "Unknown");
        assert_eq!(seen["status"]["health"]["status"], "Unknown");
    }
    bystander.syncs(&world, "1").await;
    world.assert_quiet(Duration::from_secs(20)).await;
    world.finish().await;
}

/// SEC-10: jq expressions that never end, or eat memory, harm their own application only, which says which (ENG-69).
#[tokio::test]
async fn sec_10_endless_programs() {
    let Some(mut world) = World::start("programs").await else { return };
    let ns = world.namespace("ns").await;
    let bystander = Bystander::create(&mut world).await;
    let repo = world.repo("app", &[("cm.yaml", &file(&[config_map("cm", "1")]))]).await;
    let ignoring = |expression: &str| {
        let mut change = automated();
        change["spec"]["ignoreDifferences"] =
            json!([{"group": "", "kind": "ConfigMap", "jqPathExpressions": [expression]}]);
        change
    };
    let pairs = "[range(49000)] as $a | $a[] as $x | $a[] as $y | select($x + $y < 0)";
    let hostile = [
        pairs,
        "select(([range(30) | [0, 1]] | [combinations] | length) == 0)",
        "select((\"a\" * 10000000000 | length) == 0)",
        "select((reduce range(40) as $i (\"aaaaaaaa\"; . + .) | length) == 0)",
    ];
    let mut apps = Vec::new();
    for (number, expression) in hostile.iter().enumerate() {
        let other = world.namespace(&format!("hostile{number}")).await;
        apps.push(world.create(&format!("hostile{number}"), &repo, ".", &other, &ignoring(expression)).await);
    }
    bystander.syncs(&world, "1").await;
    for (app, expression) in apps.iter().zip(hostile) {
        // Whatever the first comparisons came to, one of them is made while nobody else waits for the interpreters.
        world.refresh(app, "normal").await;
        let stopped = |app: &Value| {
            conditions(app, "ComparisonError").iter().any(|text| text.contains("was not applied"))
        };
        let seen = world.until_app(app, "says which rule was stopped", stopped).await;
        let text = conditions(&seen, "ComparisonError").remove(0);
        assert!(text.contains(&format!("{expression:?}")), "{text}");
        println!("{text}");
    }
    bystander.syncs(&world, "2").await;
    // The programs of others run on.
    let fine = world.create("fine", &repo, ".", &ns, &ignoring(".data.key")).await;
    world.until_synced(&fine).await;
    world.api.patch(CONFIG_MAPS, &ns, "cm", &json!({"data": {"key": "live"}})).await;
    world.refresh(&fine, "normal").await;
    world.until_synced(&fine).await;
    world.finish().await;
}

#[tokio::test]
async fn eng_180_an_unknown_kind() {
    let Some(mut world) = World::start("unknownkind").await else { return };
    let ns = world.namespace("ns").await;
    let bystander = Bystander::create(&mut world).await;
    let sail = json!({"apiVersion": "absent.test/v1", "kind": "Sail", "metadata": {"name": "main"}});
    let repo = world.repo("app", &[("all.yaml", &file(&[sail, config_map("good", "1")]))]).await;
    let app = world.create("app", &repo, ".", &ns, &manual()).await;
    let state = world.sync(&app, &json!({})).await;
    assert_eq!(state["phase"], "Failed", "{state:#}");
    assert!(
        state["message"].as_str().unwrap().starts_with("one or more synchronization tasks are not valid")
    );
    let message = result_of(&state, "Sail", "main")["message"].as_str().unwrap().to_owned();
    assert!(
        message.ends_with("Make sure the \"Sail\" CRD is installed on the destination cluster."),
        "{message}"
    );
    assert!(!world.exists(CONFIG_MAPS, &ns, "good").await);
    bystander.syncs(&world, "1").await;
    world.finish().await;
}

/// SEC-36, SEC-37: what cannot be a Secret is refused without showing its values anywhere.
#[tokio::test]
async fn sec_37_invalid_secrets_do_not_show_their_values() {
    let Some(mut world) = World::start("badsecret").await else { return };
    let ns = world.namespace("ns").await;
    let secret = |name: &str, key: &str, value: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, key: {"password": value}});
    let bad = [
        secret("base64", "data", json!("!canary-hunter2")),
        secret("number", "stringData", json!({"canary-hunter2": "canary-hunter2"})),
        secret("list", "data", json!(["canary-hunter2"])),
    ];
    for (way, options) in
        [("client", &[][..]), ("server", &["ServerSideApply=true"]), ("replace", &["Replace=true"])]
    {
        for object in &bad {
            let name = format!("{}-{way}", object["metadata"]["name"].as_str().unwrap());
            let repo = world.repo(&name, &[("secret.yaml", &file(std::slice::from_ref(object)))]).await;
            let mut change = automated_with(options);
            change["spec"]["syncPolicy"]["retry"] = json!({"limit": 0});
            let app = world.create(&name, &repo, ".", &ns, &change).await;
            let seen = world
                .until_app(&app, "fails", |app| {
                    !conditions(app, "ComparisonError").is_empty()
                        || !conditions(app, "SyncError").is_empty()
                        || app["status"]["operationState"]["phase"] == "Failed"
                })
                .await;
            let text = seen["status"].to_string();
            assert!(!text.contains("hunter2"), "{text}");
            println!(
                "{name}: {} {}",
                seen["status"]["conditions"], seen["status"]["operationState"]["syncResult"]
            );
        }
    }
    for event in world.api.list("v1/events", &world.cp).await {
        assert!(!event.to_string().contains("hunter2"), "{event}");
    }
    assert!(!world.program.log().contains("hunter2"));
    world.finish().await;
}
