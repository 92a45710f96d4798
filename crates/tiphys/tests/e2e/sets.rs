//! `ApplicationSets`: what generators make, what a failing one leaves alone, and what a project confines.

use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS, SETS};
use crate::fixtures::{config_map, file};
use crate::git::Repo;
use crate::world::World;

/// A condition of a set: status, reason and message.
pub(crate) fn condition(set: &Value, kind: &str) -> (String, String, String) {
    let all = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = all.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"), text("message"))
}

fn is_up_to_date(set: &Value) -> bool {
    condition(set, "ResourcesUpToDate").0 == "True"
}

fn has_failed(set: &Value) -> bool {
    condition(set, "ErrorOccurred").0 == "True"
}

/// The template of most tests: a folder of the repository into a namespace.
fn template(name: &str, repo: &Repo, path: &str, ns: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"project": "default",
        "source": {"repoURL": repo.url, "targetRevision": "main", "path": path},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": ns},
        "syncPolicy": {"automated": {"prune": true}}}})
}

impl World {
    /// Creates or changes a set; returns its name.
    pub(crate) async fn create_set(&self, suffix: &str, spec: &Value) -> String {
        let name = self.name(suffix);
        let set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": name, "namespace": self.cp}, "spec": spec});
        self.api.apply(SETS, &set).await;
        name
    }

    pub(crate) async fn until_set(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.until_object(SETS, &self.cp, name, what, holds).await
    }

    /// Names of all applications, sorted.
    pub(crate) async fn app_names(&self) -> Vec<String> {
        let apps = self.api.list(APPS, &self.cp).await;
        let mut names: Vec<String> =
            apps.iter().map(|app| app["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

/// The folders `apps/NAME` with one object each, and `list.yaml` naming some of them.
async fn folders(world: &World, names: &[&str]) -> Repo {
    let mut files: Vec<(String, String)> =
        names.iter().map(|name| (format!("apps/{name}/cm.yaml"), file(&[config_map(name, "1")]))).collect();
    files.push(("list.yaml".to_owned(), "- name: three\n".to_owned()));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    world.repo("apps", &files).await
}

/// ASET-30, ASET-37, ASET-45..50, ASET-73, ASET-132: each generator makes its applications, and they are deployed.
#[tokio::test]
async fn aset_132_generators_make_applications() {
    let Some(mut world) = World::start("generators").await else { return };
    let repo = folders(&world, &["one", "two", "three"]).await;
    let git = json!({"git": {"repoURL": repo.url, "revision": "main", "directories": [
        {"path": "apps/*"}, {"path": "apps/three", "exclude": true}]}});
    let files = json!({"git": {"repoURL": repo.url, "revision": "main", "files": [{"path": "list.yaml"}]}});
    let list = json!({"list": {"elements": [{"name": "one"}]}});
    let matrix = json!({"matrix": {"generators": [{"clusters": {}}, git]}});
    let sets = [
        ("list", list, "l-{{ .name }}", "apps/{{ .name }}"),
        ("dirs", git.clone(), "d-{{ .path.basename }}", "{{ .path.path }}"),
        ("files", files, "f-{{ .name }}", "apps/{{ .name }}"),
        ("matrix", matrix, "m-{{ .name }}-{{ .path.basename }}", "{{ .path.path }}"),
    ];
    for (name, generator, app, path) in &sets {
        let ns = world.namespace(name).await;
        let spec = json!({"goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": [generator], "template": template(app, &repo, path, &ns)});
        let set = world.create_set(name, &spec).await;
        world.until_set(&set, "is up to date", is_up_to_date).await;
    }
    let expected = ["d-one", "d-two", "f-three", "l-one", "m-in-cluster-one", "m-in-cluster-two"];
    assert_eq!(world.app_names().await, expected);
    let deployed = [("list", "one"), ("dirs", "one"), ("dirs", "two"), ("files", "three"), ("matrix", "two")];
    for (set, name) in deployed {
        world.until_object(CONFIG_MAPS, &world.name(set), name, "is deployed", |_| true).await;
    }
    // A folder that comes brings its application, one that goes takes it along.
    let four = file(&[config_map("four", "1")]);
    world.push(&repo, &[("apps/four/cm.yaml", &four), ("apps/two/cm.yaml", "")]).await;
    let names = ["d-four", "d-one", "f-three", "l-one", "m-in-cluster-four", "m-in-cluster-one"];
    let look = || async { json!(world.app_names().await) };
    world.until("the sets follow", look, |seen| *seen == json!(names)).await;
    for set in ["dirs", "matrix"] {
        let ns = world.name(set);
        world.until_object(CONFIG_MAPS, &ns, "four", "is deployed", |_| true).await;
        world.until_gone(CONFIG_MAPS, &ns, "two").await;
    }
    world.finish().await;
}

/// INV-8, ASET-11: a generator that fails changes nothing, whatever the others say; when it is well again all goes on.
#[tokio::test]
async fn inv_8_a_failing_generator_changes_nothing() {
    let Some(mut world) = World::start("failing").await else { return };
    let ns = world.namespace("ns").await;
    let repo = folders(&world, &["one", "three"]).await;
    let spec = |elements: Value| {
        json!({"goTemplate": true, "generators": [
                {"list": {"elements": elements}},
                {"git": {"repoURL": repo.url, "revision": "main", "files": [{"path": "list.yaml"}]}}],
            "template": template("{{ .name }}", &repo, "apps/{{ .name }}", &ns)})
    };
    let set = world.create_set("set", &spec(json!([{"name": "one"}]))).await;
    world.until_set(&set, "is up to date", is_up_to_date).await;
    for name in ["one", "three"] {
        world.until_synced(name).await;
    }
    world.push(&repo, &[("list.yaml", "name: [three\n")]).await;
    let failed = world.until_set(&set, "has failed", has_failed).await;
    let (_, reason, message) = condition(&failed, "ErrorOccurred");
    assert_eq!(reason, "ApplicationGenerationFromParamsError");
    assert!(message.contains("unable to process file 'list.yaml'"), "{message}");
    // The list would take `one` away.
    world.create_set("set", &spec(json!([{"name": "other"}]))).await;
    world.kill().await;
    world.restart().await;
    let before = world.until_set(&set, "has failed", has_failed).await;
    world.push(&repo, &[("unrelated.txt", "1")]).await;
    let asked = |set: &Value| {
        set["metadata"]["annotations"]["argocd.argoproj.io/application-set-refresh"].is_string()
    };
    world.until_set(&set, "is asked to look", asked).await;
    assert_eq!(world.app_names().await, ["one", "three"]);
    assert_eq!(before["status"]["resourcesCount"], 2);
    world.push(&repo, &[("list.yaml", "- name: three\n")]).await;
    let look = || async { json!(world.app_names().await) };
    world.until("it goes on", look, |seen| *seen == json!(["other", "three"])).await;
    world.until_set(&set, "is up to date", is_up_to_date).await;
    world.finish().await;
}

/// ASET-272, ASET-274, ASET-277: a set of a project reaches nothing else; what is blocked is named with its reason, and
/// the others proceed.
#[tokio::test]
async fn aset_277_a_set_of_a_project_stays_in_it() {
    let Some(mut world) = World::start("scoped").await else { return };
    let (own, foreign) = (world.namespace("own").await, world.namespace("foreign").await);
    let repo = folders(&world, &["one", "two"]).await;
    let secret = world.repo("secret", &[("list.yaml", "- name: two\n")]).await;
    let server = "https://kubernetes.default.svc";
    let destinations = json!([{"server": server, "namespace": own}]);
    world.project("shop", &json!({"sourceRepos": [repo.url], "destinations": destinations})).await;
    let all = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
    world.project("other", &all).await;
    let mut template = template("{{ .name }}", &repo, "apps/{{ .path }}", "{{ .ns }}");
    template["spec"]["project"] = json!("{{ .project }}");
    let spec = |generator: &Value, project: &str| json!({"goTemplate": true, "project": project, "generators": [generator], "template": template});
    let element = |name: &str, project: &str, ns: &str| json!({"name": name, "path": "one", "project": project, "ns": ns});
    let list = |elements: &[Value]| json!({"list": {"elements": elements}});
    let good = element("good", "shop", &own);
    // An application without a project gets that of the set. It has a folder of its own: of two applications with the same
    // object, only the one that was synced last stays in sync.
    let mut plain = element("plain", "", &own);
    plain["path"] = json!("two");

    let elements = [good.clone(), plain, element("away", "shop", &foreign)];
    let set = world.create_set("set", &spec(&list(&elements), "shop")).await;
    let failed = world.until_set(&set, "tells what is blocked", has_failed).await;
    let (_, reason, message) = condition(&failed, "ErrorOccurred");
    assert_eq!(reason, "ApplicationValidationError");
    assert_eq!(
        message,
        format!(
            "application destination server '{server}' and namespace '{foreign}' do not match any of the allowed \
             destinations in project 'shop'"
        )
    );
    let look = || async { json!(world.app_names().await) };
    world.until("the others proceed", look, |seen| *seen == json!(["good", "plain"])).await;
    assert_eq!(world.app("plain").await["spec"]["project"], "shop");
    world.until_synced("good").await;

    // A template that names another project.
    let elements = [good.clone(), element("thief", "other", &foreign)];
    world.create_set("set", &spec(&list(&elements), "shop")).await;
    let told = |set: &Value| condition(set, "ErrorOccurred").2.contains("'other'");
    let failed = world.until_set(&set, "tells what is blocked", told).await;
    let message = condition(&failed, "ErrorOccurred").2;
    assert_eq!(message, "application project 'other' does not match ApplicationSet project 'shop'");
    world.until("one is no longer generated", look, |seen| *seen == json!(["good"])).await;

    // Another repository is not read, and nothing happens because of it.
    let git = json!({"git": {"repoURL": secret.url, "revision": "main", "files": [{"path": "list.yaml"}]}});
    world.create_set("set", &spec(&git, "shop")).await;
    let told = |set: &Value| condition(set, "ErrorOccurred").1 == "ApplicationGenerationFromParamsError";
    let failed = world.until_set(&set, "tells what is refused", told).await;
    let message = condition(&failed, "ErrorOccurred").2;
    assert!(
        message.contains(&format!("repository {} is not permitted in project 'shop'", secret.url)),
        "{message}"
    );
    assert_eq!(world.app_names().await, ["good"]);

    // A project that is not there.
    world.create_set("set", &spec(&list(&[good]), "gone")).await;
    let told = |set: &Value| condition(set, "ErrorOccurred").1 == "ApplicationSetProjectError";
    let failed = world.until_set(&set, "tells what is missing", told).await;
    assert_eq!(condition(&failed, "ErrorOccurred").2, "ApplicationSet project gone does not exist");
    assert_eq!(condition(&failed, "ParametersGenerated").0, "False");
    assert_eq!(world.app_names().await, ["good"]);
    world.finish().await;
}
