//! `exec` and `compare` with the real `helm` and `kustomize` (RND-87, RND-159, RND-243): those that `hack/oracles/build`
//! makes. Without them the tests say that they were skipped.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE};

/// Where the real programs are: `TIPHYS_TEST_ORACLES`, or `target/oracles`.
fn oracles() -> Option<PathBuf> {
    let given = std::env::var_os("TIPHYS_TEST_ORACLES").map(PathBuf::from);
    let found = given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/oracles"));
    let has_all = ["helm3", "helm4", "kustomize"].into_iter().all(|name| found.join(name).is_file());
    if !has_all {
        println!("skipped: no helm and kustomize in {} (hack/oracles/build makes them)", found.display());
    }
    has_all.then(|| found.canonicalize().unwrap())
}

/// An installation, a checkout with a chart and an overlay, and the programs under their usual names.
struct Bench {
    bed: Embedded,
    stands: String,
    path: String,
}

const URL: &str = "https://git.example/r.git";

impl Bench {
    fn new(oracles: &Path, helm: &str) -> Self {
        let bed = Embedded::start();
        bed.put(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"tiphys.renderer.projects": "default"},
            "metadata": {"name": "argocd-cm", "namespace": NAMESPACE,
                "labels": {"app.kubernetes.io/part-of": "argocd"}}}),
        );
        let programs = bed.directory.path().join("programs");
        std::fs::create_dir_all(&programs).unwrap();
        for (name, program) in [("helm", helm), ("kustomize", "kustomize")] {
            std::os::unix::fs::symlink(oracles.join(program), programs.join(name)).unwrap();
        }
        let here = bed.directory.path().join("here");
        for (path, text) in FILES {
            let path = here.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", programs.display());
        Self { stands: format!("{URL}={}", here.display()), bed, path }
    }

    fn put(&self, name: &str, source: &Value, renderer: &str) {
        let mut app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"tiphys.dev/renderer": renderer}},
            "spec": {"project": "default", "source": {"repoURL": URL},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"}}});
        let members = source.as_object().unwrap().clone();
        app["spec"]["source"].as_object_mut().unwrap().extend(members);
        self.bed.put(&app);
    }

    /// What is rendered, in the order of its text, and what is said.
    fn render(&self, name: &str) -> (Vec<Value>, String, u8) {
        let target = format!("app/{name}");
        let args = ["render", &target, "--repo", &self.stands, "--tracking", "none", "-o", "json"];
        let (out, said, code) = self.bed.run_with(&[("PATH", &self.path)], &args);
        let mut objects: Vec<Value> = serde_json::from_str(&out).unwrap_or_default();
        objects.sort_by_key(ToString::to_string);
        (objects, said, code)
    }
}

const FILES: [(&str, &str); 8] = [
    ("chart/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.2.3\n"),
    ("chart/values.yaml", "replicas: 1\ncolor: grey\nnested: {a: [1, 2]}\n"),
    ("chart/prod.yaml", "replicas: 3\n"),
    (
        "chart/templates/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}-web\n  labels: {chart: {{ printf \"%s-%s\" \
         .Chart.Name .Chart.Version | quote }}}\nspec:\n  replicas: {{ .Values.replicas }}\n  selector: {matchLabels: {a: b}}\n  \
         template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: c, image: \"i:{{ .Values.color }}\"}]}\n---\n\
         apiVersion: v1\nkind: ConfigMap\nmetadata: {name: facts, namespace: {{ .Release.Namespace }}}\ndata:\n  \
         nested: {{ .Values.nested | toJson | quote }}\n  pods: {{ .Capabilities.APIVersions.Has \"v1/Pod\" | quote }}\n",
    ),
    ("chance/Chart.yaml", "apiVersion: v2\nname: chance\nversion: 1.0.0\n"),
    (
        "chance/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chance}\ndata: {drawn: {{ randAlphaNum 20 | quote }}}\n",
    ),
    (
        "overlay/kustomization.yaml",
        "namePrefix: pre-\nresources: [map.yaml]\nlabels: [{pairs: {team: a}, includeSelectors: true}]\n\
         configMapGenerator: [{name: made, literals: [a=1]}]\n",
    ),
    ("overlay/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {made: made}\n"),
];

fn helm() -> Value {
    json!({"path": "chart", "helm": {"valueFiles": ["prod.yaml"], "parameters": [{"name": "color", "value": "blue,1"}]}})
}

/// `exec` and `compare` make of this source what is made without any program, and nothing is told.
fn is_equal_in_each_way(bench: &Bench, name: &str, tool: &str, source: &Value, count: usize) {
    let mut first = None;
    for way in ["native", "exec", "compare"] {
        let app = format!("{name}-{way}");
        // The name of a release is that of its application.
        let mut source = source.clone();
        if tool == "helm" {
            source["helm"]["releaseName"] = json!("shop");
        }
        bench.put(&app, &source, &format!("{tool}={way}"));
        let (objects, said, code) = bench.render(&app);
        assert_eq!((said.as_str(), code, objects.len()), ("", 0, count), "{app}");
        assert_eq!(first.get_or_insert_with(|| objects.clone()), &objects, "{app}");
    }
}

#[test]
fn rnd_159_real_helm_makes_what_the_built_in_renderer_makes_and_compare_tells_what_differs() {
    let Some(oracles) = oracles() else { return };
    for program in ["helm4", "helm3"] {
        let bench = Bench::new(&oracles, program);
        is_equal_in_each_way(&bench, "web", "helm", &helm(), 2);
        bench.put("chance", &json!({"path": "chance"}), "helm=compare");
        let (objects, said, code) = bench.render("chance");
        let drawn = objects[0]["data"]["drawn"].as_str().unwrap();
        assert!(code == 0 && said.contains("chance") && !said.contains(drawn), "{program}: {said}");
    }
}

#[test]
fn rnd_159_real_kustomize_makes_what_the_built_in_renderer_makes() {
    let Some(oracles) = oracles() else { return };
    let bench = Bench::new(&oracles, "helm4");
    is_equal_in_each_way(&bench, "over", "kustomize", &json!({"path": "overlay"}), 2);
    let fields =
        json!({"path": "overlay", "kustomize": {"nameSuffix": "-x", "commonAnnotations": {"by": "us"}}});
    is_equal_in_each_way(&bench, "fields", "kustomize", &fields, 2);
}

/// RND-160: no silent way from one renderer to the other.
#[test]
fn rnd_160_a_program_that_refuses_or_is_missing_is_an_error_of_the_application() {
    let Some(oracles) = oracles() else { return };
    let bench = Bench::new(&oracles, "helm4");
    let broken = json!({"path": "chart", "helm": {"valueFiles": ["none.yaml"], "ignoreMissingValueFiles": true,
        "parameters": [{"name": "nested", "value": "1"}, {"name": "nested.a", "value": "2"}]}});
    for way in ["native", "exec", "compare"] {
        let name = format!("odd-{way}");
        bench.put(&name, &broken, &format!("helm={way}"));
    }
    let native = bench.render("odd-native");
    let exec = bench.render("odd-exec");
    assert_eq!(native.2, exec.2, "{} {}", native.1, exec.1);
    bench.put("gone", &helm(), "helm=exec");
    std::fs::remove_file(bench.bed.directory.path().join("programs/helm")).unwrap();
    let (objects, said, code) = bench.render("gone");
    assert!(objects.is_empty() && code == 20 && said.contains("renderer exec: helm not found"), "{said}");
}
