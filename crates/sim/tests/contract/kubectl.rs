//! The `kubectl` program: where it is, and what it answers.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::PATIENCE;
use crate::target::setting;

/// The oldest minor version of `kubectl` whose words are those of the recorded one.
const MINOR_MIN: u32 = 36;

/// What a command left behind.
pub(crate) struct Output {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// `None` when it was ended by us.
    pub(crate) code: Option<i32>,
}

/// The program of the test bed, of `KUBEBUILDER_ASSETS`, or on `PATH`.
pub(crate) fn find() -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    folders.extend(setting("TIPHYS_TEST_PROGRAMS").map(PathBuf::from));
    folders.extend(setting("KUBEBUILDER_ASSETS").map(PathBuf::from));
    let testbed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/testbed/testbed");
    #[expect(clippy::disallowed_methods, reason = "tests start programs")]
    let status = std::process::Command::new(testbed).arg("status").output().ok();
    if let Some(status) = status.filter(|status| status.status.success()) {
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        folders.extend(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from));
    }
    let path = setting("PATH").unwrap_or_default();
    folders.extend(path.split(':').map(PathBuf::from));
    folders.into_iter().map(|folder| folder.join("kubectl")).find(|program| is_usable(program))
}

/// Whether this is a `kubectl` that says what the recorded one says.
fn is_usable(program: &Path) -> bool {
    if !program.is_file() {
        return false;
    }
    #[expect(clippy::disallowed_methods, reason = "tests start programs")]
    let output = std::process::Command::new(program).args(["version", "--client", "--output=json"]).output();
    let Ok(output) = output else { return false };
    let version: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    minor.trim_end_matches('+').parse().is_ok_and(|minor: u32| minor >= MINOR_MIN)
}

/// Words of a command line: blanks part them, quotes hold them together.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match quote {
            Some(open) if open == character => quote = None,
            Some(_) => word.get_or_insert_default().push(character),
            None if character == '\'' || character == '"' => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            None if character.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// Starts a command in a folder that is also its home.
pub(crate) async fn start(program: &Path, arguments: &[String], folder: &Path, stdin: Option<&str>) -> Child {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .env("KUBECONFIG", folder.join("kubeconfig"))
        .env("KUBECACHEDIR", folder.join("cache"))
        .env("TZ", "UTC")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    if let Some(text) = stdin {
        let mut pipe = child.stdin.take().unwrap();
        drop(pipe.write_all(text.as_bytes()).await);
    }
    child
}

/// Waits for the end.
pub(crate) async fn finish(child: Child) -> Output {
    match tokio::time::timeout(PATIENCE, child.wait_with_output()).await {
        Ok(output) => {
            let output = output.unwrap();
            Output {
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
                code: output.status.code(),
            }
        }
        Err(_) => {
            Output { stdout: String::new(), stderr: format!("still running after {PATIENCE:?}"), code: None }
        }
    }
}

/// Reads lines as they come, to its end or to a number of lines.
pub(crate) struct Lines {
    child: Child,
    reader: tokio::io::Lines<BufReader<ChildStdout>>,
    text: String,
    count: usize,
}

impl Lines {
    pub(crate) fn new(mut child: Child) -> Self {
        let reader = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, reader, text: String::new(), count: 0 }
    }

    /// Reads until there are this many lines, or no more; `false` when they did not come in this time. What came stays.
    pub(crate) async fn read_to(&mut self, count: usize, time: Duration) -> bool {
        let reading = async {
            while self.count < count {
                let Ok(Some(line)) = self.reader.next_line().await else { break };
                self.text.push_str(&line);
                self.text.push('\n');
                self.count += 1;
            }
        };
        tokio::time::timeout(time, reading).await.is_ok()
    }

    /// Ends the program.
    pub(crate) async fn finish(mut self) -> Output {
        drop(self.child.kill().await);
        let mut stderr = String::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            drop(pipe.read_to_string(&mut stderr).await);
        }
        Output { stdout: self.text, stderr, code: None }
    }
}
