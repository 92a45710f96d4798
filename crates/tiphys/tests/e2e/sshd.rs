//! The `sshd` of the machine as a Git server whose keys lead to repositories.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::world::PATIENCE;

const SSHD: &str = "/usr/sbin/sshd";
/// What a server that runs as root wants to exist; its package makes it when the service starts.
const EMPTY_DIRECTORY: &str = "/run/sshd";

/// A server on loopback that knows some keys; ended when dropped.
pub(crate) struct Sshd {
    directory: PathBuf,
    port: u16,
    user: String,
    child: Child,
}

impl Sshd {
    /// Starts one that nobody may enter.
    ///
    /// # Errors
    /// What this machine lacks.
    pub(crate) async fn start(directory: &Path) -> Result<Self, String> {
        for program in [SSHD, "/usr/bin/ssh-keygen", "/usr/bin/ssh"] {
            if !Path::new(program).exists() {
                return Err(format!("{program} is not installed (openssh-server, openssh-client)"));
            }
        }
        let user = output("id", &["-un"]).await?;
        if user == "root" && std::fs::create_dir_all(EMPTY_DIRECTORY).is_err() {
            return Err(format!("{EMPTY_DIRECTORY} cannot be made"));
        }
        std::fs::create_dir_all(directory).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let configuration = directory.join("sshd_config");
        output("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &text(&directory.join("host"))])
            .await?;
        std::fs::write(directory.join("authorized_keys"), "").unwrap();
        // Newer servers lock out whoever fails often; older ones do not know the word.
        for more in ["PerSourcePenalties no\n", ""] {
            std::fs::write(&configuration, settings(directory, port, &user) + more).unwrap();
            let problem = output(SSHD, &["-t", "-f", &text(&configuration)]).await;
            match problem {
                Ok(_) => break,
                Err(error) if more.is_empty() => return Err(error),
                Err(_) => {}
            }
        }
        let log = std::fs::File::create(directory.join("sshd.log")).unwrap();
        let child = Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(&configuration)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("{SSHD}: {error}"))?;
        let server = Self { directory: directory.to_owned(), port, user, child };
        server.listens().await?;
        Ok(server)
    }

    async fn listens(&self) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            if Instant::now() > deadline || self.child.id().is_none() {
                return Err(format!("{SSHD} does not listen: {}", self.log()));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// The URL of a repository; what is seen there depends on the key.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("ssh://{}@127.0.0.1:{}/{name}.git", self.user, self.port)
    }

    /// The line of `ssh_known_hosts` for this server.
    pub(crate) fn known_host(&self) -> String {
        let key = std::fs::read_to_string(self.directory.join("host.pub")).unwrap();
        format!("[127.0.0.1]:{} {key}", self.port)
    }

    /// A new private key, which nothing accepts.
    pub(crate) async fn key(&self, name: &str) -> String {
        let file = text(&self.directory.join(name));
        output("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", &file]).await.unwrap();
        std::fs::read_to_string(file).unwrap()
    }

    /// From now on this key reads that repository, and nothing else.
    pub(crate) fn allow(&self, key: &str, repository: &Path) {
        let path = self.directory.join("authorized_keys");
        let public = std::fs::read_to_string(self.directory.join(format!("{key}.pub"))).unwrap();
        let line = format!("restrict,command=\"git-upload-pack '{}'\" {public}", text(repository));
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + &line).unwrap();
    }

    /// Whether a key gets in with nothing but `ssh` and `git`; an account of this machine may be closed to all keys.
    ///
    /// # Errors
    /// What they say.
    pub(crate) async fn admits(&self, key: &str) -> Result<String, String> {
        let known = self.directory.join("known_hosts");
        std::fs::write(&known, self.known_host()).unwrap();
        let command = format!(
            "ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o UserKnownHostsFile={} -i {}",
            text(&known),
            text(&self.directory.join(key)),
        );
        output("git", &["-c", &format!("core.sshCommand={command}"), "ls-remote", &self.url("private")])
            .await
            .map_err(|error| format!("{error}; {}", self.log()))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("sshd.log")).unwrap_or_default()
    }
}

fn settings(directory: &Path, port: u16, user: &str) -> String {
    let in_directory = |name: &str| text(&directory.join(name));
    format!(
        "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\n\
         UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n\
         AllowUsers {user}\nAcceptEnv GIT_PROTOCOL\nMaxStartups 100\nLogLevel VERBOSE\n",
        in_directory("host"),
        in_directory("authorized_keys"),
    )
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

async fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let started = Command::new(program).args(arguments).stdin(Stdio::null()).output().await;
    let output = started.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
