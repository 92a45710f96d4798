//! People who sign commits and tags with keys of their own, made by the `gpg` of this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tiphys_api::trust::{Keyring, PublicKey, public_keys};
use tiphys_source::exec::{self, Invocation, Output};

use crate::world::World;

pub(crate) struct Signer {
    home: TempDir,
    pub(crate) key: PublicKey,
}

impl Signer {
    /// A person with a new key; `None`, with a word about it, where there is no `gpg`.
    pub(crate) async fn new(name: &str) -> Option<Self> {
        Self::at(name, &[], "never").await
    }

    /// A person whose key was made in 2020, and has expired since.
    pub(crate) async fn of_2020(name: &str) -> Option<Self> {
        Self::at(name, &["--faked-system-time", "20200101T000000!"], "1y").await
    }

    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    async fn at(name: &str, time: &[&str], expires: &str) -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let user = format!("{name} <{}@acme.test>", name.to_lowercase());
        let make = ["--batch", "--passphrase", "", "--quick-generate-key", &user, "ed25519", "sign", expires];
        let Some(made) = gpg(home.path(), &[time, &make].concat()).await else {
            eprintln!("skipped: gpg is not installed");
            return None;
        };
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        let exported = gpg(home.path(), &["--armor", "--export"]).await.unwrap();
        let key = public_keys(&String::from_utf8(exported.stdout).unwrap()).unwrap().remove(0);
        // Git starts it by name, and gives it arguments of its own.
        let program = home.path().join("sign");
        fs::write(&program, format!("#!/bin/sh\nexec gpg {} \"$@\"\n", time.join(" "))).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        Some(Self { home, key })
    }

    /// Runs git in the origin; what it makes is signed where it is asked to be.
    pub(crate) async fn git(&self, world: &World, arguments: &[&str]) -> String {
        let program = format!("gpg.program={}", self.home.path().join("sign").display());
        let key = format!("user.signingkey={}", self.key.fingerprint);
        let all = [&["-c", &program, "-c", &key][..], arguments].concat();
        world.git_with(&all, &[("GNUPGHOME", self.home.path().to_str().unwrap())]).await
    }

    /// A signed commit.
    pub(crate) async fn commit(&self, world: &World, message: &str) -> String {
        self.git(world, &["commit", "-q", "--allow-empty", "-S", "-m", message]).await;
        world.git(&["rev-parse", "HEAD"]).await
    }

    /// A signed annotated tag of the newest commit.
    pub(crate) async fn tag(&self, world: &World, name: &str) {
        self.git(world, &["tag", "-s", "-m", "release", name]).await;
    }

    /// Ends the agent that `gpg` has started for this person.
    pub(crate) async fn leave(self) {
        let path = self.home.path().to_owned();
        drop(run("gpgconf", &path, &["--kill", "all"]).await);
    }
}

/// The keys of these people, as a `ConfigMap` holds them.
pub(crate) fn keyring(people: &[&Signer]) -> Keyring {
    let entry = |signer: &&Signer| (signer.key.key_id().to_owned(), signer.key.text());
    let keyring = Keyring::read(&people.iter().map(entry).collect());
    assert_eq!(keyring.problems(), []);
    keyring
}

async fn gpg(home: &Path, arguments: &[&str]) -> Option<Output> {
    run("gpg", home, arguments).await
}

async fn run(program: &str, home: &Path, arguments: &[&str]) -> Option<Output> {
    let environment =
        [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("GNUPGHOME", home.to_str()?), ("LC_ALL", "C")];
    exec::run(Invocation {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        directory: home.to_owned(),
        deadline: Duration::from_mins(1),
        grace: Duration::from_secs(1),
        stdout_bytes_max: 1 << 20,
        limits: exec::Limits::default(),
    })
    .await
    .ok()
}
