//! The Git server as clients use and misuse it.

use std::fmt::Write as _;
use std::path::Path;

use http::Method;
use rustix::process::Signal;

use crate::api::CONFIG_MAPS;
use crate::process::{Clone, Demo, Place, git};

#[tokio::test]
async fn cli_1000_large_pushes_many_clones_and_other_branches_work() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let clone = Clone::of(&demo, &folder.path().join("clone")).await;

    // Larger than what git sends with a length: it comes in chunks.
    let mut large = String::new();
    let mut state = 1_u64;
    for _ in 0..200_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        write!(large, "{state:016x}").unwrap();
    }
    clone.push("docs/large.txt", Some(&large)).await;
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late}\n";
    clone.push("guestbook/late.yaml", Some(manifest)).await;
    demo.until(CONFIG_MAPS, "guestbook", "late", "came", |seen| !seen.is_null()).await;

    let clones = (0..24).map(|number| {
        let (url, path) = (demo.git(), folder.path().join(number.to_string()));
        async move {
            git(Path::new("/"), &["clone", "-q", &url, path.to_str().unwrap()]).await;
            assert_eq!(std::fs::metadata(path.join("docs/large.txt")).unwrap().len(), 3_200_000);
        }
    });
    futures::future::join_all(clones).await;

    // Another branch moves nothing; the branch that is followed cannot be deleted.
    let path = folder.path().join("clone");
    git(&path, &["push", "-q", "origin", "HEAD~1:refs/heads/other"]).await;
    let refused = tokio::process::Command::new("git")
        .current_dir(&path)
        .args(["push", "-q", "origin", ":main"])
        .output()
        .await
        .unwrap();
    assert!(!refused.status.success());
    assert!(demo.api.get(CONFIG_MAPS, "guestbook", "late").await.is_some());
    demo.stop(Signal::TERM).await;
}

#[tokio::test]
async fn cli_1000_what_is_no_request_of_git_is_refused() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    let url = demo.git();
    let push = format!("{url}/git-receive-pack");
    let kind = ("content-type", "application/x-git-receive-pack-request");
    for (method, target, headers, body, expected) in [
        (Method::GET, format!("{url}/info/refs?service=git-upload-pack"), vec![], "", 200),
        (Method::GET, format!("{url}/info/refs?service=git-nonsense"), vec![], "", 403),
        (Method::GET, format!("{url}/HEAD"), vec![], "", 404),
        (Method::GET, format!("{url}/../demo.json"), vec![], "", 404),
        (Method::GET, format!("{url}/%2e%2e/%2e%2e/kubeconfig"), vec![], "", 404),
        (Method::GET, push.clone(), vec![], "", 405),
        // What a page of another site could send without asking the browser.
        (Method::POST, push.clone(), vec![("content-type", "text/plain")], "0000", 415),
        (Method::POST, push.clone(), vec![kind, ("host", "evil.example")], "0000", 421),
        (Method::POST, push.clone(), vec![kind, ("content-encoding", "gzip")], "not gzip", 200),
    ] {
        let answer = demo.api.send(method.clone(), &target, &headers, body).await.unwrap();
        assert_eq!(answer.status(), expected, "{method} {target} {headers:?}");
    }
    for path in ["healthz", "healthz?full=true", "readyz", "metrics", ""] {
        let target = format!("http://127.0.0.1:{}/{path}", demo.port());
        assert_eq!(demo.api.send(Method::GET, &target, &[], "").await.unwrap().status(), 200, "{path}");
    }
    demo.stop(Signal::TERM).await;
}
