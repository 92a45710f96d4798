//! `tiphys render` with sets, projects, schemas and revisions, as a process (CLI-1030).

#![expect(clippy::unwrap_used, reason = "helpers of tests count as no tests")]

use std::path::Path;
use std::process::{Command, Stdio};

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        for name in ["a", "b"] {
            let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
            bench.put(&format!("repo/apps/{name}/map.yaml"), &text);
        }
        bench
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[expect(clippy::disallowed_methods, reason = "the programs themselves are what is tested")]
    fn start(&self, program: &str, args: &[&str]) -> (i32, String, String) {
        let output = Command::new(program)
            .args(args)
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    fn render(&self, args: &[&str]) -> (i32, String, String) {
        self.start(env!("CARGO_BIN_EXE_tiphys"), &[&["render"], args].concat())
    }

    fn git(&self, args: &[&str]) {
        let own = ["-C", "repo", "-c", "user.name=t", "-c", "user.email=t@t"];
        let (code, _, err) = self.start("git", &[&own, args].concat());
        assert_eq!(code, 0, "{err}");
    }
}

/// A set whose applications have this project.
fn set(generators: &str, project: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {{name: s}}\nspec:\n  goTemplate: true\n  \
         generators: {generators}\n  template:\n    metadata: {{name: 'web-{{{{ .path.basename }}}}'}}\n    spec:\n      \
         project: {project}\n      source: {{repoURL: https://h/r, path: '{{{{ .path.path }}}}'}}\n      \
         destination: {{server: https://k, namespace: web}}\n"
    )
}

const DIRECTORIES: &str = "[{git: {repoURL: https://h/r, revision: main, directories: [{path: apps/*}]}}]";

#[test]
fn cli_1030_a_set_is_rendered_by_its_applications() {
    let bench = Bench::new();
    bench.put("set.yaml", &set(DIRECTORIES, "default"));
    let (code, out, err) = bench.render(&["set.yaml", "--repo-root", "repo", "--tracking", "annotation"]);
    assert_eq!((code, err.as_str()), (0, ""));
    for mark in ["web-a:/ConfigMap:web/a", "web-b:/ConfigMap:web/b"] {
        assert!(out.contains(mark), "{out}");
    }
    bench.put("inputs.yaml", "repos: [{url: 'https://h/r', path: repo}]\n");
    let (code, same, err) =
        bench.render(&["set.yaml", "--inputs", "inputs.yaml", "--tracking", "annotation"]);
    assert_eq!((code, same), (0, out), "{err}");
}

#[test]
fn cli_1030_a_set_that_asks_the_network_is_told_as_not_evaluated_and_the_rest_is_printed() {
    let bench = Bench::new();
    let (code, out, err) = {
        let pulls = "[{pullRequest: {github: {owner: o, repo: r}}}]";
        bench.put("sets.yaml", &format!("{}---\n{}", set(pulls, "default"), set(DIRECTORIES, "default")));
        bench.render(&["sets.yaml", "--repo-root", "repo"])
    };
    assert!(out.contains("name: a") && out.contains("name: b"), "{out}");
    let told = "sets.yaml: s: not evaluated: generatorData has no pullRequest";
    assert!(code == 20 && err.contains(told), "{code} {err}");
    bench.put("set.yaml", &set(DIRECTORIES, "default"));
    let (code, out, err) = bench.render(&["set.yaml", "--repo", "https://h/other=repo"]);
    let told = "set.yaml: s: not evaluated: no directory stands for \"https://h/r\"";
    assert!(code == 20 && out.is_empty() && err.contains(told), "{code} {err}");
}

#[test]
fn cli_1030_projects_of_the_files_are_those_of_the_applications() {
    let bench = Bench::new();
    let project = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: shop}\nspec:\n  \
                   sourceRepos: ['*']\n  destinations: [{server: https://k, namespace: other}]\n";
    bench.put("all.yaml", &format!("{project}---\n{}", set(DIRECTORIES, "shop")));
    let (code, out, err) = bench.render(&["all.yaml", "--repo-root", "repo"]);
    let told = "all.yaml: s: web-a: application destination server 'https://k' and namespace 'web' do not match any of \
                the allowed destinations in project 'shop'";
    assert!(code == 1 && out.contains("name: a") && err.contains(told), "{code} {err}");
    bench.put("project.yaml", project);
    let (code, _, err) = bench.render(&["repo/apps/a", "--policy", "project.yaml", "--check"]);
    assert_eq!((code, err.as_str()), (0, ""), "a directory is in no repository and goes nowhere");
}

#[test]
fn cli_1030_schemas_tell_what_an_api_server_would_refuse() {
    let bench = Bench::new();
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: cats.zoo.test}\nspec:\n  \
               group: zoo.test\n  scope: Namespaced\n  names: {plural: cats, singular: cat, kind: Cat, listKind: CatList}\n  \
               versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: \
               {spec: {type: object, properties: {lives: {type: integer, maximum: 9}}}}}}}\n";
    let cat = |spec: &str| {
        format!("---\napiVersion: zoo.test/v1\nkind: Cat\nmetadata: {{name: tom}}\nspec: {spec}\n")
    };
    bench.put("x/cat.yaml", &format!("{}{crd}", cat("{lives: 9}").replacen("---\n", "", 1) + "---\n"));
    let dog = "---\napiVersion: zoo.test/v2\nkind: Dog\nmetadata: {name: rex}\n";
    bench.put("x/dog.yaml", dog);
    let (code, _, err) = bench.render(&["x", "--schemas", "--check"]);
    let told = "Warning: zoo.test/v2/Dog was not checked: there is no schema of it here\n";
    assert_eq!((code, err.as_str()), (0, told));
    bench.put("x/cat.yaml", &format!("{crd}{}", cat("{lives: 10, name: x}")));
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replica: 2\n  \
                      selector: {matchLabels: {a: b}}\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n";
    bench.put("x/web.yaml", deployment);
    let (code, out, err) = bench.render(&["x", "--schemas"]);
    assert!(code == 1 && out.contains("kind: Dog"), "{code} {out}");
    for told in
        ["Cat/tom: ", "unknown field \"spec.name\"", "Deployment/web: ", "unknown field \"spec.replica\""]
    {
        assert!(err.contains(told), "{told}: {err}");
    }
}

#[test]
fn cli_1030_a_revision_is_that_of_the_checkout() {
    let bench = Bench::new();
    bench.git(&["init", "-q", "-b", "main"]);
    bench.git(&["add", "."]);
    bench.git(&["commit", "-q", "-m", "one"]);
    bench.git(&["tag", "one"]);
    bench.put("repo/apps/a/map.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: changed}\n");
    let (_, out, _) = bench.render(&["repo/apps/a"]);
    assert!(out.contains("name: changed"), "{out}");
    let (code, out, err) = bench.render(&["repo/apps/a", "--revision", "one"]);
    assert!(code == 0 && out.contains("name: a"), "{out}{err}");
    let (code, out, err) = bench.render(&["repo/apps/a", "--revision", "none"]);
    assert!(code == 20 && out.is_empty() && err.contains("--revision none of "), "{out}{err}");
}
