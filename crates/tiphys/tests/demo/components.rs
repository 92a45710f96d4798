//! This program in the place of components of Argo CD (CLI-1), beside a demo whose controller does the work.

use std::io::Read as _;
use std::process::Stdio;

use rustix::process::Signal;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::person::Person;
use crate::process::{Demo, PATIENCE, POLL, Place};

fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn start(name: &str, place: &Place, arguments: &[&str]) -> (Child, std::path::PathBuf) {
    let log = place.path().join(format!("{name}.log"));
    let child = Command::new(env!("CARGO_BIN_EXE_tiphys"))
        .args(arguments)
        .env("ARGOCD_BINARY_NAME", name)
        .env("HOME", place.path())
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    (child, log)
}

fn read(path: &std::path::Path) -> String {
    let mut text = String::new();
    std::fs::File::open(path).unwrap().read_to_string(&mut text).unwrap();
    text
}

async fn stop(mut child: Child) {
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child.id().unwrap().cast_signed()).unwrap(),
        Signal::TERM,
    )
    .unwrap();
    let ended = timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test]
async fn cli_1_under_the_name_of_the_api_server_it_is_one() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    demo.until_app("guestbook", "Synced", "Healthy").await;
    let kubeconfig = demo.directory().join("kubeconfig").to_str().unwrap().to_owned();
    let (port, metrics) = (free_port(), free_port());
    let place_flags = ["--kubeconfig", &kubeconfig, "--namespace", "argocd", "--address", "127.0.0.1"];
    let own = ["--port", &port, "--metrics-port", &metrics, "--insecure", "--redis", "argocd-redis:6379"];
    let (server, log) = start("argocd-server", &place, &[&place_flags[..], &own].concat());
    let person = Person::new(&place, "person");
    let address = format!("127.0.0.1:{port}");
    let password = demo.ready[4].rsplit(' ').next().unwrap();
    person.until(&["login", &address, "--plaintext", "--username", "admin", "--password", password]).await;
    assert!(person.does(&["app", "get", "guestbook", "-o", "tree"]).await.contains("─Pod/guestbook-"));
    assert_eq!(person.does(&["app", "diff", "guestbook"]).await, "");
    person.does(&["app", "sync", "guestbook"]).await;
    // What it would write to a cluster is refused in words.
    let restart = ["app", "actions", "run", "guestbook", "restart", "--kind", "Deployment"];
    let text = person.refused(20, &restart).await;
    assert!(text.contains("read"), "{text}");
    let said = read(&log);
    assert!(said.contains("\"flag\":\"--redis\"") && said.contains("there is no Redis"), "{said}");
    assert!(said.contains("writes nothing to clusters"), "{said}");
    stop(server).await;
    demo.stop(Signal::INT).await;
}

#[tokio::test]
async fn cli_1_a_component_without_work_says_so_and_waits() {
    let place = Place::new().await;
    for (name, why) in [
        ("argocd-repo-server", "sources are rendered in the process of argocd-application-controller"),
        ("argocd-commit-server", "manifests are committed in the process of argocd-application-controller"),
        ("argocd-applicationset-controller", "ApplicationSets are worked on in the process of"),
        ("argocd-notifications", "this version sends no notifications"),
    ] {
        let port = free_port();
        let (child, log) = start(name, &place, &["--metrics-port", &port, "--parallelismlimit", "3"]);
        let waiting = async {
            while !read(&log).contains(why) {
                tokio::time::sleep(POLL).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("it says so");
        assert!(read(&log).contains("\"flag\":\"--parallelismlimit\""), "{name}: {}", read(&log));
        let mut stream = tokio::net::TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"GET /healthz?full=true HTTP/1.0\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("ok\n"), "{name}: {answer}");
        stop(child).await;
    }
}
