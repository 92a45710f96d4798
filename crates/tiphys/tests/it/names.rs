//! One program under several names (CLI-1).

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// REP-106: as `argocd-k8s-auth`, by file name or by variable, it prints the token of the built-in login.
#[test]
#[expect(clippy::disallowed_methods, reason = "the program itself is what is tested")]
fn rep_106_under_the_name_of_the_login_it_prints_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("argocd-k8s-auth");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tiphys"), &link).unwrap();
    let keys = [("AWS_ACCESS_KEY_ID", "i"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let mut by_variable = Command::new(env!("CARGO_BIN_EXE_tiphys"));
    by_variable.env_clear().env("ARGOCD_BINARY_NAME", "argocd-k8s-auth");
    for command in [Command::new(&link).env_clear(), &mut by_variable] {
        let output = command.envs(keys).args(["aws", "--cluster-name", "c"]).output().unwrap();
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(printed["kind"], "ExecCredential");
        assert!(printed["status"]["token"].as_str().unwrap().starts_with("k8s-aws-v1."));
        assert!(printed["status"]["expirationTimestamp"].as_str().unwrap().ends_with('Z'));
    }
    let output = Command::new(&link).env_clear().arg("oracle").output().unwrap();
    assert_eq!(output.status.code(), Some(20));
    assert!(
        String::from_utf8_lossy(&output.stderr).starts_with("error: usage: argocd-k8s-auth"),
        "{output:?}"
    );
}

/// CLI-1: what asks an Argo CD repo-server has nobody to ask here.
#[test]
#[expect(clippy::disallowed_methods, reason = "the program itself is what is tested")]
fn cli_1_the_helper_of_git_says_that_it_is_of_no_use() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiphys"));
    command.env_clear().env("ARGOCD_BINARY_NAME", "argocd-git-ask-pass").arg("Password for 'https://h': ");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{said}");
    assert!(said.contains("do not set GIT_ASKPASS"), "{said}");
}

/// CLI-1, CLI-3: under a name that nobody knows it is the user's command line, with its help.
#[test]
#[expect(clippy::disallowed_methods, reason = "the program itself is what is tested")]
fn cli_1_under_other_names_it_is_the_users_command_line() {
    for (name, begins) in [
        ("argocd", "argocd controls applications from a terminal"),
        ("argocd-linux-amd64", "argocd-linux-amd64 controls applications from a terminal"),
        ("tiphys", "Tiphys keeps Kubernetes clusters"),
    ] {
        for words in [&[][..], &["--help"]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tiphys"));
            let output = command.env_clear().env("ARGOCD_BINARY_NAME", name).args(words).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.status.success() && text.starts_with(begins), "{name} {words:?}: {text}");
        }
    }
}

/// Whoever names a kubeconfig that is not there reads once what is wrong.
#[test]
#[expect(clippy::disallowed_methods, reason = "the program itself is what is tested")]
fn cli_1010_what_is_wrong_with_a_kubeconfig_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let run = ["run", "--port", "0", "--kubeconfig", "/nonexistent/config"];
    for words in [&run[..], &["dex", "gendexcfg", "--kubeconfig", "/nonexistent/config"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiphys"));
        let output = command.env_clear().env("HOME", folder.path()).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(20), "{said}");
        for part in ["cannot use the kubeconfig", "No such file", "/nonexistent/config"] {
            assert_eq!(said.matches(part).count(), 1, "{part}: {said}");
        }
    }
}

/// SEC-10: a worker whose input stays open ends when the process that it was started for is not its parent.
#[test]
#[expect(clippy::disallowed_methods, reason = "the program itself is what is tested")]
fn sec_10_a_worker_ends_with_the_process_it_was_started_for() {
    let start = |parent: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiphys"));
        command.args(["worker", parent]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut orphan = start("1");
    let held = orphan.stdin.take();
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(orphan.wait().unwrap().code()));
    assert_eq!(end.recv_timeout(Duration::from_mins(1)), Ok(Some(0)));
    drop(held);
    // One whose parent lives waits for questions.
    let mut child = start(&std::process::id().to_string());
    assert!(child.try_wait().unwrap().is_none());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
