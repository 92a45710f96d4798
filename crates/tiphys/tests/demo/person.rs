//! Somebody at a terminal.

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

use crate::process::{Demo, PATIENCE, POLL, Place};

/// A person with a configuration file of their own.
pub(crate) struct Person<'a> {
    place: &'a Place,
    name: &'static str,
    /// Their editor.
    editor: Option<String>,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl<'a> Person<'a> {
    /// Nobody is logged in yet.
    pub(crate) fn new(place: &'a Place, name: &'static str) -> Self {
        Self { place, name, editor: None }
    }

    /// The same with an editor.
    pub(crate) fn with_editor(place: &'a Place, name: &'static str, editor: String) -> Self {
        Self { editor: Some(editor), ..Self::new(place, name) }
    }

    /// Logs in as the administrator of a demo.
    pub(crate) async fn log_in(&self, demo: &Demo) {
        let server = format!("127.0.0.1:{}", demo.port());
        let password = demo.ready[4].rsplit(' ').next().unwrap().to_owned();
        let login = ["login", &server, "--plaintext", "--username", "admin", "--password", &password];
        self.does(&login).await;
    }

    /// Runs a command.
    pub(crate) async fn says(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiphys"));
        command.args(arguments).env("ARGOCD_BINARY_NAME", "argocd").env("HOME", "/nonexistent");
        command.env("ARGOCD_CONFIG_DIR", self.place.path().join(self.name)).env_remove("KUBECONFIG");
        if let Some(editor) = &self.editor {
            command.env("EDITOR", editor);
        }
        let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
        let output = timeout(PATIENCE, output).await.expect("it ends").unwrap();
        Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Does something that succeeds; what it printed.
    pub(crate) async fn does(&self, arguments: &[&str]) -> String {
        let said = self.says(arguments).await;
        assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
        said.stdout
    }

    /// Does something that is refused; the text of the record.
    pub(crate) async fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let said = self.says(arguments).await;
        assert_eq!(said.code, Some(code), "{arguments:?}: {said:?}");
        let record: Value = serde_json::from_str(&said.stderr).unwrap();
        record["msg"].as_str().unwrap().to_owned()
    }

    /// Does something that succeeds once the server has heard of what it needs.
    pub(crate) async fn until(&self, arguments: &[&str]) {
        let trying = async {
            while self.says(arguments).await.code != Some(0) {
                tokio::time::sleep(POLL).await;
            }
        };
        timeout(PATIENCE, trying).await.expect("it succeeds in time");
    }
}
