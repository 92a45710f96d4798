//! `tiphys render` from the outside: arguments in; stdout, stderr and exit code out.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::run;
use crate::terminal::Terminal;

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n";
const ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: r\n";

fn checkout() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(".git/HEAD", "");
    write("plain/a.yaml", MAP);
    write("plain/b.yaml", ROLE);
    write("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n");
    write("chart/values.yaml", "a: 1\n");
    write(
        "chart/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {a: {{ .Values.a | quote }}}\n",
    );
    write("values/prod.yaml", "a: 2\n");
    write(
        "apps.yaml",
        "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: one, namespace: argocd}\nspec:\n  project: shop\n  source: {repoURL: https://git.example/r, path: plain}\n  destination: {server: https://k, namespace: web}\n---\napiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: shop}\nspec:\n  sourceRepos: ['*']\n  destinations: [{server: '*', namespace: '*'}]\n  clusterResourceWhitelist: [{group: '*', kind: '*'}]\n---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: two, namespace: argocd}\nspec:\n  source: {repoURL: https://git.example/r, path: chart}\n  destination: {server: https://k, namespace: web}\n",
    );
    write(
        "project.yaml",
        "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: shop}\nspec:\n  sourceRepos: [https://git.example/r]\n  destinations: [{server: https://k, namespace: web}]\n",
    );
    folder
}

fn called(folder: &Path, args: &[&str]) -> (u8, String, String) {
    let terminal = Terminal::memory("tiphys", &[]);
    let place = |arg: &&str| match arg.strip_prefix('@') {
        Some(below) => folder.join(below).to_string_lossy().into_owned(),
        None => (*arg).to_owned(),
    };
    let code = run(&terminal, &args.iter().map(place).collect::<Vec<_>>());
    let written = terminal.written();
    (code, written.stdout, written.stderr)
}

#[test]
fn cli_1030_a_directory_is_rendered_as_what_it_is() {
    let folder = checkout();
    let (code, out, _) = called(folder.path(), &["@plain"]);
    assert_eq!((code, out), (0, format!("---\n{MAP}---\n{ROLE}")));
    let flags = ["@chart", "--values", "../values/prod.yaml", "--release-name", "r"];
    let (code, out, err) = called(folder.path(), &flags);
    assert!(code == 0 && out.contains("a: \"2\"") && out.contains("name: r"), "{out}{err}");
    let (code, out, _) =
        called(folder.path(), &["@chart", "--name", "shop", "-p", "a=3", "--tracking", "annotation"]);
    assert!(code == 0 && out.contains("name: shop") && out.contains("a: \"3\""), "{out}");
    assert!(out.contains("argocd.argoproj.io/tracking-id: shop:/ConfigMap:"), "{out}");
    let (code, _, err) = called(folder.path(), &["@none"]);
    assert!(code == 20 && err.contains("no such file or directory"), "{err}");
}

#[test]
fn cli_1030_applications_of_a_file_are_rendered_from_a_checkout() {
    let folder = checkout();
    let (code, out, err) = called(folder.path(), &["@apps.yaml", "--repo-root", "@"]);
    assert!(code == 0 && out.contains("name: x") && out.contains("name: two"), "{out}{err}");
    let (code, _, err) = called(folder.path(), &["@apps.yaml"]);
    assert!(code == 20 && err.contains("give one with --repo URL=DIR or --repo-root DIR"), "{err}");
    let (code, out, _) = called(folder.path(), &["@apps.yaml", "--repo-root", "@", "--check"]);
    assert_eq!((code, out.as_str()), (0, ""));
    let (code, _, err) = called(folder.path(), &["app/web"]);
    assert!(code == 20 && err.contains("Argo CD server address unspecified"), "{err}");
    let (code, _, err) = called(folder.path(), &["@apps.yaml", "--repo-root", "@", "--values", "none.yaml"]);
    assert!(code == 20 && err.contains("two: ") && err.contains("none.yaml"), "{err}");
    for flag in ["--sync-policy=auto", "--env=x", "--dest-server=x"] {
        let (code, _, err) = called(folder.path(), &["@plain", flag]);
        assert!(code == 2 && err.contains("unknown flag"), "{err}");
    }
}

#[test]
fn cli_1030_what_was_read_and_what_a_project_forbids_are_told() {
    let folder = checkout();
    let (code, _, err) =
        called(folder.path(), &["@chart", "--values", "../values/prod.yaml", "--explain", "--check"]);
    assert_eq!(code, 0);
    for line in [": Helm", "  value file: ../values/prod.yaml", "  read: values/prod.yaml", "  objects: 1"] {
        assert!(err.contains(line), "{line}: {err}");
    }
    let (code, _, err) =
        called(folder.path(), &["@apps.yaml", "--repo-root", "@", "--check", "--policy", "@project.yaml"]);
    let refused = "r: resource rbac.authorization.k8s.io:ClusterRole is not permitted in project shop";
    assert_eq!(
        (code, err.trim()),
        (1, format!("{}/apps.yaml: one: {refused}", folder.path().display()).as_str())
    );
}

#[test]
fn cli_1030_objects_are_written_one_by_one() {
    let folder = checkout();
    let (code, out, err) = called(folder.path(), &["@plain", "--split", "@out"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    let mut names: Vec<String> = fs::read_dir(folder.path().join("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["1-configmap-x.yaml", "2-clusterrole-r.yaml"]);
    assert_eq!(fs::read_to_string(folder.path().join("out/1-configmap-x.yaml")).unwrap(), MAP);
}
