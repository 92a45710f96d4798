//! The process under test.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

/// How a process is started.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) kubeconfig: PathBuf,
    pub(crate) namespace: String,
    pub(crate) directory: PathBuf,
    pub(crate) env: Vec<(&'static str, &'static str)>,
}

/// A running `tiphys run`; killed when dropped.
pub(crate) struct Program {
    child: Child,
    pub(crate) port: u16,
    log: PathBuf,
}

impl Program {
    pub(crate) fn start(launch: &Launch) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = launch.directory.join(format!("tiphys-{port}.log"));
        let file = std::fs::File::create(&log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tiphys"))
            // One that was killed holds its lease for a while; each test has its installation for itself.
            .args(["run", "--install-crds=yes", "--no-lease", "--loglevel", "debug"])
            .arg("--kubeconfig")
            .arg(&launch.kubeconfig)
            .args(["-n", &launch.namespace, "--port", &port.to_string()])
            .arg("--cache-dir")
            .arg(launch.directory.join("cache"))
            // Waves follow each other at once; what waits must wait for another reason.
            .env("ARGOCD_SYNC_WAVE_DELAY", "0")
            .envs(launch.env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self { child, port, log }
    }

    /// Ends it without any warning, as `kill -9` does.
    pub(crate) async fn kill(&mut self) {
        self.child.kill().await.unwrap();
    }

    /// The exit status of a process that has ended.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.child.try_wait().unwrap().map(|status| status.to_string())
    }

    pub(crate) fn log(&self) -> String {
        read(&self.log)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.id().is_some()
    }

    /// The versions of its settings that have been in force.
    pub(crate) fn settings_in_force(&self) -> Vec<u64> {
        let log = self.log();
        let told = log.lines().filter(|line| line.contains("argocd-cm is in force"));
        let versions = told.filter_map(|line| line.split("version=").nth(1)?.split_whitespace().next());
        versions.filter_map(|version| version.parse().ok()).collect()
    }

    /// Memory in use, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let status = read(Path::new(&format!("/proc/{}/status", self.child.id().unwrap())));
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}
