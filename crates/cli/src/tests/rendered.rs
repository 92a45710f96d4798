//! `render app/NAME` against an API server (CLI-1030, CLI-1031).

use serde_json::json;

use super::embedded::{Embedded, NAMESPACE, git};

fn put(bed: &Embedded, name: &str, source: &serde_json::Value) {
    bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"project": "default", "source": source,
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"}}}));
}

#[test]
fn cli_1031_a_live_application_is_rendered_as_its_manifests_are_shown() {
    let bed = Embedded::start();
    let url = bed.repository("app");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: hidden}\n";
    std::fs::write(format!("{url}/secret.yaml"), secret).unwrap();
    git(url.as_ref(), &["add", "."]);
    git(url.as_ref(), &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "y"]);
    put(&bed, "web", &json!({"repoURL": url, "path": ".", "targetRevision": "main"}));
    let (shown, message, code) = bed.run(&["app", "manifests", "web", "--source", "git"]);
    assert_eq!(code, 0, "{message}");
    assert!(shown.contains("tracking-id") && !shown.contains("hidden"), "{shown}");
    let (rendered, message, code) = bed.run(&["render", "app/web"]);
    assert_eq!((rendered.as_str(), code), (shown.as_str(), 0), "{message}");
    let (bare, message, code) = bed.run(&["render", "app/web", "--tracking", "none"]);
    assert!(code == 0 && !bare.contains("tracking-id"), "{bare}{message}");
    let (_, message, code) = bed.run(&["render", "app/none"]);
    assert!(code == 20 && message.contains("\"none\" not found"), "{message}");
    let (_, message, code) = bed.run(&["render", "app/web", "--name", "x"]);
    assert!(code == 20 && message.contains("--name is not for a live Application"), "{message}");
}

#[test]
fn cli_1030_a_directory_stands_for_the_repository_of_a_live_application() {
    let bed = Embedded::start();
    let folder = bed.directory.path().join("here");
    std::fs::create_dir_all(folder.join("chart/templates")).unwrap();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: here}\ndata: {v: {{ .Capabilities.KubeVersion.Version | quote }}}\n";
    std::fs::write(folder.join("chart/Chart.yaml"), "apiVersion: v2\nname: c\nversion: 1.0.0\n").unwrap();
    std::fs::write(folder.join("chart/templates/a.yaml"), map).unwrap();
    let url = "https://git.example/r.git";
    put(&bed, "web", &json!({"repoURL": url, "path": "chart"}));
    let stands = format!("{url}={}", folder.display());
    let args = ["render", "app/web", "--repo", &stands, "--kube-version", "1.30.2"];
    let (out, message, code) = bed.run(&args);
    assert_eq!(code, 0, "{message}");
    assert!(
        out.contains("name: here") && out.contains("v1.30.2") && out.contains("web:/ConfigMap:"),
        "{out}"
    );
}
