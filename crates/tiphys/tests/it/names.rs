//! One program under several names (CLI-1).

use std::process::Command;

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
