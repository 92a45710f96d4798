//! The Dex beside an installation: its configuration, and that it is started again when that changes (API-74, API-78).

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use crate::process::{Demo, PATIENCE, Place};

/// A `dex` that writes down whom it serves.
const FAKE: &str = "#!/bin/sh\ngrep '^issuer' \"$2\" >>\"$SERVED\"\nexec sleep 600\n";

#[tokio::test]
async fn api_78_dex_runs_with_what_is_made_of_the_settings_and_again_when_they_change() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    let kubeconfig = demo.directory().join("kubeconfig");
    let dex = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiphys"));
        command.args(arguments).args(["-n", "argocd", "--kubeconfig"]).arg(&kubeconfig);
        command.env("ARGOCD_BINARY_NAME", "argocd-dex").env("TMPDIR", place.path()).stdin(Stdio::null());
        command.kill_on_drop(true);
        command
    };
    let output = dex(&["gendexcfg"]).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("dex.config of argocd-cm is empty, so there is no Dex"), "{said}");
    let configure = async |url: &str| {
        let data = json!({"url": url, "dex.config": "connectors: [{type: github, id: gh}]"});
        demo.api.patch("v1/configmaps", "argocd", "argocd-cm", &json!({"data": data})).await;
    };
    configure("https://one.test").await;
    let file = place.path().join("made.yaml");
    let status = dex(&["gendexcfg", "--out", file.to_str().unwrap()]).status().await.unwrap();
    assert!(status.success());
    let made = std::fs::read_to_string(&file).unwrap();
    assert!(made.contains("redirectURI: https://one.test/api/dex/callback"), "{made}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "it has secrets");

    let (program, served) = (place.path().join("dex"), place.path().join("served"));
    std::fs::write(&program, FAKE).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut running = dex(&["rundex", "--program", program.to_str().unwrap()])
        .env("SERVED", &served)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = async |text: &str| {
        let waiting = async {
            while std::fs::read_to_string(&served).unwrap_or_default() != text {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("dex is started");
    };
    until("issuer: https://one.test/api/dex\n").await;
    configure("https://two.test").await;
    until("issuer: https://one.test/api/dex\nissuer: https://two.test/api/dex\n").await;
    let id = i32::try_from(running.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    assert!(timeout(PATIENCE, running.wait()).await.expect("it ends").unwrap().success());
    demo.stop(Signal::INT).await;
}
