//! SSH, against a real server where one is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tiphys_source::exec::{self, Invocation};
use tiphys_source::{Freshness, Repository, Secret, SourceError};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};

use crate::world::World;

const SSHD: &str = "/usr/sbin/sshd";

async fn run(directory: &Path, program: &str, arguments: &[&str]) -> String {
    let output = exec::run(Invocation {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        directory: directory.to_owned(),
        deadline: Duration::from_secs(20),
        grace: Duration::from_secs(1),
        stdout_bytes_max: 10_000,
        limits: exec::Limits::default(),
    })
    .await
    .unwrap();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

async fn keygen(directory: &Path, name: &str) {
    run(directory, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", name]).await;
}

/// Starts a server on a free port; the child ends with the value.
async fn start(directory: &Path) -> (Child, u16) {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let path = |name: &str| directory.join(name).display().to_string();
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
         UsePAM no\nPasswordAuthentication no\n",
        path("host"),
        path("client.pub"),
    );
    fs::write(directory.join("sshd_config"), config).unwrap();
    // The server insists on this directory when it runs as root.
    drop(fs::create_dir_all("/run/sshd"));
    let child = Command::new(SSHD)
        .args(["-D", "-e", "-f", &path("sshd_config")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::task::yield_now().await;
    }
    (child, port)
}

#[tokio::test]
async fn rnd_26_keys_and_known_hosts() {
    if !Path::new(SSHD).exists() {
        println!("skipped: {SSHD} is not installed");
        return;
    }
    let world = World::with(&[("a", "1")]).await;
    keygen(world.path(), "host").await;
    keygen(world.path(), "client").await;
    fs::set_permissions(world.path().join("host"), fs::Permissions::from_mode(0o600)).unwrap();
    let (_server, port) = start(world.path()).await;
    let user = run(world.path(), "id", &["-un"]).await;
    let url = format!("ssh://{user}@127.0.0.1:{port}{}", world.origin().display());
    let key = Secret::from(fs::read_to_string(world.path().join("client")).unwrap());
    let repository = Repository { ssh_private_key: key, ..Repository::anonymous(&url) };

    let error = world.sources.resolve(&repository, "main", Freshness::Cached).await.unwrap_err();
    assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("Host key verification failed"), "{error}");

    let host_key = fs::read_to_string(world.path().join("host.pub")).unwrap();
    fs::write(world.path().join("known_hosts"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
    let commit = world.sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
    world.sources.tree(&repository, &commit).await.unwrap();

    let stranger = Repository::anonymous(&url);
    let error = world.sources.resolve(&stranger, "main", Freshness::Cached).await.unwrap_err();
    assert!(error.to_string().contains("Permission denied"), "{error}");

    fs::remove_file(world.path().join("known_hosts")).unwrap();
    let insecure = Repository { insecure: true, ..repository };
    world.sources.resolve(&insecure, "main", Freshness::Cached).await.unwrap();
    assert_eq!(fs::read_dir(world.path().join("cache/secrets")).unwrap().count(), 1);
}
