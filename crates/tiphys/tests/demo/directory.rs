//! Ports and directories: what a demo takes, what it leaves, and what it refuses.

use rustix::process::Signal;

use crate::api::DEPLOYMENTS;
use crate::process::{Clone, Demo, Place};

#[tokio::test]
async fn cli_1004_a_busy_port_is_refused_when_it_was_asked_for() {
    let place = Place::new().await;
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port();
    let text = place.refused(20, &["--port", &port.to_string()]).await;
    let owner = format!("(process {})", std::process::id());
    assert!(
        text.starts_with(&format!("error: port {port} is in use by ")) && text.contains(&owner),
        "{text}"
    );
    assert_eq!(place.left(), Vec::<String>::new());
    drop(busy);
    let demo = Demo::start(&place, &["--port", &port.to_string()]).await;
    assert_eq!(demo.port(), port);
    demo.stop(Signal::TERM).await;
}

#[tokio::test]
async fn cli_1004_what_a_killed_demo_left_is_removed_by_the_next() {
    let place = Place::new().await;
    let killed = Demo::start(&place, &[]).await;
    let left = killed.directory();
    killed.kill().await;
    assert!(left.join("git").exists());
    let text = place.refused(20, &["fix", "guestbook"]).await;
    assert!(text.contains("no demo is running"), "{text}");
    let output = place.run(&["--exit-after", "ready"]).await;
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("Tiphys demo is ready ("));
    assert_eq!(place.left(), Vec::<String>::new());
}

#[tokio::test]
async fn cli_1004_a_data_directory_goes_on_where_it_was_also_at_another_port() {
    let place = Place::new().await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("d");
    let data = data.to_str().unwrap();
    let demo = Demo::start(&place, &["--data", data]).await;
    assert_eq!(place.left(), Vec::<String>::new());
    demo.until_app("guestbook", "Synced", "Healthy").await;
    let text = place.refused(20, &["--data", data]).await;
    assert!(text.contains("a demo runs in "), "{text}");
    place.verb(&["scale", "guestbook", "7", "--data", data]).await;
    let seven = |seen: &serde_json::Value| seen["spec"]["replicas"] == 7;
    demo.until(DEPLOYMENTS, "guestbook", "guestbook", "scaled", seven).await;
    let port = demo.port();
    demo.stop(Signal::TERM).await;

    // The old port is busy now: everything follows to the new one.
    let _busy = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    let text = place.refused(20, &["--data", data, "--scenario", "waves"]).await;
    assert!(text.contains("holds the scenario guestbook"), "{text}");
    let demo = Demo::start(&place, &["--data", data]).await;
    assert_ne!(demo.port(), port);
    assert!(seven(&demo.api.get(DEPLOYMENTS, "guestbook", "guestbook").await.unwrap()));
    let clone = Clone::of(&demo, &folder.path().join("clone")).await;
    let text = clone.read("guestbook/deployment.yaml").replace("replicas: 7", "replicas: 1");
    clone.push("guestbook/deployment.yaml", Some(&text)).await;
    let one = |seen: &serde_json::Value| seen["spec"]["replicas"] == 1;
    demo.until(DEPLOYMENTS, "guestbook", "guestbook", "scaled", one).await;
    demo.until_app("apps", "Synced", "Healthy").await;
    demo.stop(Signal::TERM).await;

    let demo = Demo::start(&place, &["--data", data, "--reset", "--scenario", "drift"]).await;
    assert!(demo.app("guestbook").await.is_null());
    demo.stop(Signal::TERM).await;
}

#[tokio::test]
async fn cli_1004_foreign_and_damaged_directories_are_refused_untouched() {
    let place = Place::new().await;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    std::fs::write(folder.path().join("thesis.tex"), "mine").unwrap();
    for arguments in [&["--data", data][..], &["--data", data, "--reset"]] {
        let text = place.refused(20, arguments).await;
        assert!(text.contains("was not made by `tiphys demo`"), "{text}");
    }
    std::fs::write(folder.path().join("demo.json"), "{\"format\":").unwrap();
    let text = place.refused(20, &["--data", data]).await;
    assert!(text.contains("--reset"), "{text}");
    let mut names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["demo.json", "thesis.tex"]);
}

#[tokio::test]
async fn cli_1000_options_of_later_versions_are_refused_with_what_there_is() {
    let place = Place::new().await;
    for arguments in [["--scenario", "multi-tenant"], ["--apps", "100"]] {
        let text = place.refused(2, &arguments).await;
        assert!(text.contains("guestbook, waves, drift, failures"), "{text}");
    }
    let text = place.refused(2, &["--exit-after", "soon"]).await;
    assert!(text.contains("30s"), "{text}");
}
