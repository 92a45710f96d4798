//! Applications of each kind of source, from a push to the cluster: charts, overlays and programs in git, charts of a
//! repository and of a registry, artifacts, and several sources of one application.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::CONFIG_MAPS;
use crate::fixtures::{automated, config_map, file};
use crate::git::Repo;
use crate::shelves::{ChartRepository, Registry, packed};
use crate::world::{PATIENCE, World, conditions, merge, result_of};

/// An automated application whose source has these fields.
pub(crate) fn with_source(source: &Value) -> Value {
    let mut change = automated();
    merge(&mut change, &json!({"spec": {"source": source}}));
    change
}

/// Text of a `ConfigMap`'s `text`.
pub(crate) fn is(text: &str) -> impl Fn(&Value) -> bool {
    move |object| object["data"]["text"] == text
}

/// Announces what was pushed, and says how long it took until the cluster had it.
async fn until_live(
    world: &World,
    repo: &Repo,
    ns: &str,
    name: &str,
    holds: impl Fn(&Value) -> bool,
) -> Duration {
    let began = Instant::now();
    world.announce(repo).await;
    loop {
        if world.api.get(CONFIG_MAPS, ns, name).await.is_some_and(|seen| holds(&seen)) {
            return began.elapsed();
        }
        assert!(began.elapsed() < PATIENCE, "{name} never followed");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Says the median of five pushes; each writes a file whose text ends up in a `ConfigMap`.
pub(crate) async fn measure(
    world: &World,
    what: &str,
    repo: &Repo,
    ns: &str,
    name: &str,
    content: impl Fn(&str) -> (String, String),
) {
    let mut taken = Vec::new();
    for round in 0..5 {
        let text = format!("round {round}");
        let (path, content) = content(&text);
        repo.commit(&[(path.as_str(), content.as_str())]).await;
        taken.push(until_live(world, repo, ns, name, is(&text)).await);
    }
    taken.sort();
    println!("measured: {what}, announced push to live object: {} ms (median of 5)", taken[2].as_millis());
}

const CHART: [(&str, &str); 4] = [
    ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
    ("values.yaml", "text: default\ncolor: grey\n"),
    (
        "templates/_names.tpl",
        "{{- define \"web.name\" -}}{{ .Release.Name | trunc 20 | trimSuffix \"-\" }}-web{{- end }}\n",
    ),
    (
        "templates/config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  labels: {made-by: {{ .Release.Service | quote }}}\ndata:\n  \
         text: {{ .Values.text | quote }}\n  color: {{ .Values.color }}\n  name: {{ include \"web.name\" . }}\n  \
         major: {{ .Capabilities.KubeVersion.Major | quote }}\n",
    ),
];

/// The chart below a folder, with a text as its default.
fn chart(folder: &str, version: &str, text: &str) -> Vec<(String, String)> {
    let content = |path: &str, content: &str| match path {
        "Chart.yaml" => content.replace("1.0.0", version),
        "values.yaml" => content.replace("default", text),
        _ => content.to_owned(),
    };
    CHART.iter().map(|(path, text)| (format!("{folder}/{path}"), content(path, text))).collect()
}

fn borrowed(files: &[(String, String)]) -> Vec<(&str, &str)> {
    files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect()
}

#[tokio::test]
async fn rnd_91_a_chart_in_git_goes_live_with_its_hooks_and_a_broken_one_touches_nothing() {
    let Some(mut world) = World::start("chart").await else { return };
    let ns = world.namespace("ns").await;
    let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: before\n  annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}\n";
    let mut files = chart("deploy", "1.0.0", "default");
    files.push(("deploy/templates/hook.yaml".to_owned(), hook.to_owned()));
    files.push(("deploy/prod.yaml".to_owned(), "text: prod\n".to_owned()));
    let repo = world.repo("app", &borrowed(&files)).await;
    let helm = json!({"helm": {"releaseName": "shop", "valueFiles": ["prod.yaml"],
        "parameters": [{"name": "color", "value": "blue"}]}});
    let app = world.create("app", &repo, "deploy", &ns, &with_source(&helm)).await;
    let synced = world.until_synced(&app).await;
    assert_eq!(synced["status"]["sourceType"], "Helm");
    let hooked = result_of(&synced["status"]["operationState"], "ConfigMap", "before");
    assert_eq!(hooked["hookType"], "PreSync", "RND-107: {hooked}");
    let settings = world.api.get(CONFIG_MAPS, &ns, "settings").await.unwrap();
    assert_eq!(
        (
            &settings["data"]["text"],
            &settings["data"]["color"],
            &settings["data"]["name"],
            &settings["data"]["major"]
        ),
        (&json!("prod"), &json!("blue"), &json!("shop-web"), &json!("1"))
    );
    measure(&world, "chart in git", &repo, &ns, "settings", |text| {
        ("deploy/prod.yaml".to_owned(), format!("text: {text}\n"))
    })
    .await;

    // A template that cannot be rendered is told, and nothing goes.
    world.until_synced(&app).await;
    let broken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Values.none.name }}}\n";
    world.push(&repo, &[("deploy/templates/broken.yaml", broken)]).await;
    let failed = |app: &Value| !conditions(app, "ComparisonError").is_empty();
    let seen = world.until_app(&app, "says what is wrong", failed).await;
    let said = conditions(&seen, "ComparisonError").join(" ");
    assert!(said.contains("broken.yaml") && said.contains("nil pointer evaluating"), "{said}");
    assert_eq!(seen["status"]["sync"]["status"], "Unknown");
    assert!(world.exists(CONFIG_MAPS, &ns, "settings").await);
    world.push(&repo, &[("deploy/templates/broken.yaml", "")]).await;
    world.until_synced(&app).await;
    world.finish().await;
}

#[tokio::test]
async fn rnd_81_an_overlay_in_git_goes_live_and_its_generated_names_follow() {
    let Some(mut world) = World::start("overlay").await else { return };
    let ns = world.namespace("ns").await;
    let base = "resources: [config.yaml]\n";
    let overlay = "resources: [../base]\nnameSuffix: -x\npatches:\n- patch: |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: {name: settings}\n    \
                   data: {color: blue}\nconfigMapGenerator:\n- name: made\n  files: [text]\n";
    let files = [
        ("base/kustomization.yaml", base.to_owned()),
        ("base/config.yaml", file(&[config_map("settings", "1")])),
        ("prod/kustomization.yaml", overlay.to_owned()),
        ("prod/text", "one".to_owned()),
    ];
    let borrowed: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let repo = world.repo("app", &borrowed).await;
    let source = json!({"kustomize": {"commonAnnotations": {"team": "a"}}});
    let app = world.create("app", &repo, "prod", &ns, &with_source(&source)).await;
    let synced = world.until_synced(&app).await;
    assert_eq!(synced["status"]["sourceType"], "Kustomize");
    let settings = world.api.get(CONFIG_MAPS, &ns, "settings-x").await.unwrap();
    assert_eq!(settings["data"], json!({"key": "1", "color": "blue"}));
    assert_eq!(settings["metadata"]["annotations"]["team"], "a");
    let made = async || -> Vec<String> {
        let all = world.api.list(CONFIG_MAPS, &ns).await;
        let names = all.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("made-x-")).collect()
    };
    let before = made().await;
    assert_eq!(before.len(), 1);
    world.push(&repo, &[("prod/text", "two")]).await;
    world.until_gone(CONFIG_MAPS, &ns, &before[0]).await;
    // The old one goes first.
    let count = || async { json!(made().await.len()) };
    world.until("the new one took the place of the old one", count, |count| *count == 1).await;
    world.until_synced(&app).await;
    measure(&world, "overlay in git", &repo, &ns, "settings-x", |text| {
        let mut object = config_map("settings", "1");
        object["data"]["text"] = json!(text);
        ("base/config.yaml".to_owned(), file(&[object]))
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn rnd_78_a_program_in_git_goes_live_with_what_it_imports() {
    let Some(mut world) = World::start("jsonnet").await else { return };
    let ns = world.namespace("ns").await;
    let program = "local lib = import '../lib/config.libsonnet';\nfunction(color='grey') [lib.config('settings', {color: color})]\n";
    let library = |text: &str| {
        format!(
            "{{ config(name, data):: {{apiVersion: 'v1', kind: 'ConfigMap', metadata: {{name: name}}, data: data + {{text: '{text}'}}}} }}\n"
        )
    };
    let repo =
        world.repo("app", &[("app/main.jsonnet", program), ("lib/config.libsonnet", &library("one"))]).await;
    let source = json!({"directory": {"jsonnet": {"tlas": [{"name": "color", "value": "blue"}]}}});
    let app = world.create("app", &repo, "app", &ns, &with_source(&source)).await;
    world.until_synced(&app).await;
    let settings = world.api.get(CONFIG_MAPS, &ns, "settings").await.unwrap();
    assert_eq!(settings["data"], json!({"color": "blue", "text": "one"}));
    // What is imported is elsewhere in the repository.
    measure(&world, "Jsonnet in git, an import changes", &repo, &ns, "settings", |text| {
        ("lib/config.libsonnet".to_owned(), library(text))
    })
    .await;
    world.finish().await;
}

fn repository_secret(world: &World, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shelf", "namespace": world.cp,
        "labels": {"argocd.argoproj.io/secret-type": "repository"}}, "stringData": data})
}

#[tokio::test]
async fn rnd_109_a_chart_of_a_repository_goes_live_and_its_range_follows() {
    let Some(mut world) = World::start("shelf").await else { return };
    let ns = world.namespace("ns").await;
    let charts = ChartRepository::start().await;
    charts.publish("web", "1.0.0", packed(&borrowed(&chart("web", "1.0.0", "one"))));
    let change = json!({"spec": {"source": {"repoURL": charts.url, "chart": "web", "path": null,
        "targetRevision": "1.x", "helm": {"valuesObject": {"color": "blue"}}}}});
    let mut with = automated();
    merge(&mut with, &change);
    let nothing = world.repo("nothing", &[("README", "nothing")]).await;
    let app = world.create("app", &nothing, ".", &ns, &with).await;
    let synced = world.until_synced(&app).await;
    assert_eq!(synced["status"]["sync"]["revision"], "1.0.0");
    let settings = world.api.get(CONFIG_MAPS, &ns, "settings").await.unwrap();
    assert_eq!((&settings["data"]["text"], &settings["data"]["color"]), (&json!("one"), &json!("blue")));
    charts.publish("web", "1.1.0", packed(&borrowed(&chart("web", "1.1.0", "two"))));
    charts.publish("web", "2.0.0", packed(&borrowed(&chart("web", "2.0.0", "three"))));
    world.refresh(&app, "hard").await;
    world.until_object(CONFIG_MAPS, &ns, "settings", "follows the range", is("two")).await;
    let synced = world.until_synced(&app).await;
    assert_eq!(synced["status"]["sync"]["revision"], "1.1.0");
    world.finish().await;
}

#[tokio::test]
async fn rnd_113_charts_and_artifacts_of_a_registry_go_live() {
    let Some(mut world) = World::start("registry").await else { return };
    let ns = world.namespace("ns").await;
    let registry = match Registry::start(&world.api, world.directory()).await {
        Ok(registry) => registry,
        Err(why) => {
            println!("skipped: {why}");
            return world.finish().await;
        }
    };
    registry.push_chart("charts/web", "1.0.0", &packed(&borrowed(&chart("web", "1.0.0", "one")))).await;
    let manifest = file(&[config_map("artifact", "1")]);
    registry.push_artifact("manifests", "v1.0.0", &packed(&[("app/cm.yaml", &manifest)])).await;
    let host = &registry.host;
    let chart_url = format!("{host}/charts");
    let data = json!({"url": chart_url, "type": "helm", "enableOCI": "true", "insecureOCIForceHttp": "true"});
    world.api.apply("v1/secrets", &repository_secret(&world, &data)).await;
    let artifact_url = format!("oci://{host}/manifests");
    let mut secret = repository_secret(
        &world,
        &json!({"url": artifact_url, "type": "oci", "insecureOCIForceHttp": "true"}),
    );
    secret["metadata"]["name"] = json!("artifacts");
    world.api.apply("v1/secrets", &secret).await;
    let nothing = world.repo("nothing", &[("README", "nothing")]).await;

    let mut of_chart = automated();
    merge(
        &mut of_chart,
        &json!({"spec": {"source": {"repoURL": chart_url, "chart": "web", "path": null, "targetRevision": "~1.0"}}}),
    );
    let app = world.create("chart", &nothing, ".", &ns, &of_chart).await;
    let mut of_artifact = automated();
    let source =
        json!({"spec": {"source": {"repoURL": artifact_url, "targetRevision": "v1.x", "path": "app"}}});
    merge(&mut of_artifact, &source);
    let other = world.create("artifact", &nothing, "app", &ns, &of_artifact).await;
    let synced = world.until_synced(&app).await;
    assert_eq!(synced["status"]["sync"]["revision"], "1.0.0");
    world.until_object(CONFIG_MAPS, &ns, "settings", "is of the chart", is("one")).await;
    let synced = world.until_synced(&other).await;
    let revision = synced["status"]["sync"]["revision"].as_str().unwrap();
    assert!(revision.starts_with("sha256:"), "{revision}");
    assert!(world.exists(CONFIG_MAPS, &ns, "artifact").await);

    registry.push_chart("charts/web", "1.0.1", &packed(&borrowed(&chart("web", "1.0.1", "two")))).await;
    world.refresh(&app, "hard").await;
    world.until_object(CONFIG_MAPS, &ns, "settings", "follows the range", is("two")).await;
    world.finish().await;
}

#[tokio::test]
async fn rnd_121_values_of_another_source_count_and_their_push_goes_live() {
    let Some(mut world) = World::start("several").await else { return };
    let ns = world.namespace("ns").await;
    let charts = ChartRepository::start().await;
    charts.publish("web", "1.0.0", packed(&borrowed(&chart("web", "1.0.0", "default"))));
    let values = world.repo("values", &[("env/prod.yaml", "text: prod\n")]).await;
    let plain = world.repo("plain", &[("more/cm.yaml", &file(&[config_map("more", "1")]))]).await;
    let mut change = automated();
    let sources = json!([
        {"repoURL": charts.url, "chart": "web", "targetRevision": "1.0.0",
            "helm": {"valueFiles": ["$values/env/prod.yaml"]}},
        {"repoURL": values.url, "targetRevision": "main", "ref": "values"},
        {"repoURL": plain.url, "targetRevision": "main", "path": "more"},
    ]);
    merge(&mut change, &json!({"spec": {"source": null, "sources": sources}}));
    let app = world.create("app", &plain, "more", &ns, &change).await;
    let synced = world.until_synced(&app).await;
    let expected = json!(["1.0.0", values.head().await, plain.head().await]);
    assert_eq!(synced["status"]["sync"]["revisions"], expected);
    world.until_object(CONFIG_MAPS, &ns, "settings", "has the values of the other source", is("prod")).await;
    assert!(world.exists(CONFIG_MAPS, &ns, "more").await);
    measure(
        &world,
        "values of another source ($ref) of a chart in a repository",
        &values,
        &ns,
        "settings",
        |text| ("env/prod.yaml".to_owned(), format!("text: {text}\n")),
    )
    .await;
    // A value file that is gone is an error, and no chart with its defaults.
    world.until_synced(&app).await;
    world.push(&values, &[("env/prod.yaml", ""), ("env/other.yaml", "a: 1\n")]).await;
    let failed = |app: &Value| !conditions(app, "ComparisonError").is_empty();
    let seen = world.until_app(&app, "says what is missing", failed).await;
    assert_eq!(seen["status"]["sync"]["status"], "Unknown");
    world.until_object(CONFIG_MAPS, &ns, "settings", "is as it was", is("round 4")).await;
    world.finish().await;
}

/// RND-104: a chart in git whose dependency is in a chart repository.
#[tokio::test]
async fn rnd_104_what_a_chart_depends_on_is_brought() {
    let Some(mut world) = World::start("depends").await else { return };
    let ns = world.namespace("ns").await;
    let charts = ChartRepository::start().await;
    charts.publish("web", "1.2.0", packed(&borrowed(&chart("web", "1.2.0", "of the repository"))));
    let top = format!(
        "apiVersion: v2\nname: top\nversion: 0.1.0\ndependencies:\n- {{name: web, version: 1.x, repository: \"{}\"}}\n",
        charts.url
    );
    let repo = world.repo("app", &[("Chart.yaml", &top), ("values.yaml", "web: {color: blue}\n")]).await;
    let app = world.create("app", &repo, ".", &ns, &automated()).await;
    world.until_synced(&app).await;
    let settings = world.api.get(CONFIG_MAPS, &ns, "settings").await.unwrap();
    assert_eq!(
        (&settings["data"]["text"], &settings["data"]["color"]),
        (&json!("of the repository"), &json!("blue"))
    );
    world.finish().await;
}

/// RND-160: a source that names a version of kustomize is built by the program that is registered for it.
#[tokio::test]
async fn rnd_160_a_registered_program_builds_the_source_that_names_it() {
    use std::os::unix::fs::PermissionsExt as _;

    let Some(mut world) = World::start("program").await else { return };
    let ns = world.namespace("ns").await;
    let script = world.directory().join("kustomize4");
    let text = "#!/bin/sh\nif [ \"$1\" = edit ]; then shift; echo \"$@\" >> edits; exit 0; fi\n\
                said=$(cat edits text | tr '\\n' ' ')\n\
                printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: built}\\ndata: {text: \"%s\"}\\n' \"${said% }\"\n";
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.settings(&json!({"kustomize.path.v4": script.to_str().unwrap()})).await;
    let files = [("app/kustomization.yaml", "resources: []\n"), ("app/text", "one\n")];
    let repo = world.repo("app", &files).await;
    let source = |version: &str| with_source(&json!({"kustomize": {"version": version, "namePrefix": "p-"}}));
    let app = world.create("app", &repo, "app", &ns, &source("v4")).await;
    world.until_synced(&app).await;
    world.until_object(CONFIG_MAPS, &ns, "built", "is the program's", is("set nameprefix -- p- one")).await;
    let other = world.create("other", &repo, "app", &ns, &source("v5")).await;
    let failed = |app: &Value| !conditions(app, "ComparisonError").is_empty();
    let seen = world.until_app(&other, "has no program", failed).await;
    let said = conditions(&seen, "ComparisonError").join(" ");
    assert!(said.contains("kustomize version v5 is not registered"), "{said}");
    world.push(&repo, &[("app/text", "two\n")]).await;
    world.until_object(CONFIG_MAPS, &ns, "built", "follows", is("set nameprefix -- p- two")).await;
    world.finish().await;
}
