//! Signatures of commits and tags: git takes the object apart, `gpg` verifies it with the keys of the installation and
//! no others (REP-86, REP-202).
//!
//! The keys stand in a home directory of `gpg` that is made for exactly these keys; other keys make another one. What
//! `gpg` says for programs is read; what cannot be understood is no good signature.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use tempfile::TempDir;
use tiphys_api::signature::{Signature, SignatureState};
use tiphys_api::trust::Keyring;
use tiphys_exec::{ExecError, Invocation, Output};

use super::{Command, Git};
use crate::SourceError;

/// Bytes of what `gpg` says about keys.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Signatures that are remembered; about 300 bytes each.
const KNOWN_MAX: u64 = 50_000;
/// How long: a key may expire meanwhile.
const KNOWN_FOR: Duration = Duration::from_mins(10);

/// Nothing is asked of anybody else, and whom to trust is not for `gpg` to say.
const CONFIGURATION: &str = "batch\nno-tty\nno-greeting\nno-autostart\ndisable-dirmngr\nno-auto-key-retrieve\n\
                             no-auto-key-locate\ntrust-model always\nno-permission-warning\n";

/// What is known of signatures.
pub(super) struct Gpg {
    /// The home that is in use, with the digest of its keys.
    home: tokio::sync::Mutex<Option<Arc<Home>>>,
    /// By id of the object and digest of the keys.
    known: Cache<(String, [u8; 32]), Signature>,
}

impl std::fmt::Debug for Gpg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpg").finish_non_exhaustive()
    }
}

impl Default for Gpg {
    fn default() -> Self {
        let known = Cache::builder().max_capacity(KNOWN_MAX).time_to_live(KNOWN_FOR).build();
        Self { home: tokio::sync::Mutex::default(), known }
    }
}

/// A home directory of `gpg`; it goes with its last user.
struct Home {
    digest: [u8; 32],
    directory: TempDir,
}

/// Which command of git looks at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    Commit,
    Tag,
}

impl Git {
    /// The signature of an object that carries one of `OpenPGP`, and is in a repository.
    pub(crate) async fn signature(
        &self,
        directory: &Path,
        kind: Verify,
        id: &str,
        keyring: &Keyring,
    ) -> Result<Signature, SourceError> {
        let key = (id.to_owned(), *keyring.digest());
        if let Some(known) = self.gpg.known.get(&key) {
            return Ok(known);
        }
        let home = self.home(keyring).await?;
        let verb = match kind {
            Verify::Commit => "verify-commit",
            Verify::Tag => "verify-tag",
        };
        let arguments = [verb, "--raw", id];
        let access = [
            ("GNUPGHOME".into(), home.directory.path().as_os_str().to_owned()),
            // The object itself, not one that stands in for it.
            ("GIT_NO_REPLACE_OBJECTS".into(), "1".into()),
        ];
        let config = [
            ("gpg.program", self.options.gpg_program.to_string_lossy().into_owned()),
            // A signature of another kind says which program is started for it.
            ("gpg.ssh.program", "/bin/false".to_owned()),
            ("gpg.x509.program", "/bin/false".to_owned()),
        ];
        let deadline = self.options.exec_timeout;
        let command = Command { arguments: &arguments, directory, deadline, attempt: 1, allowance: None };
        let output = self.output(&command, self.environment(&access, &config)).await?;
        let found = read(&output.stderr).ok_or_else(|| SourceError::Unverifiable {
            text: format!("the signature of {id} cannot be verified: gpg does not say whether it is good"),
        })?;
        self.gpg.known.insert(key, found.clone());
        Ok(found)
    }

    /// A home with exactly these keys.
    async fn home(&self, keyring: &Keyring) -> Result<Arc<Home>, SourceError> {
        let mut home = self.gpg.home.lock().await;
        if let Some(home) = home.as_ref().filter(|home| home.digest == *keyring.digest()) {
            return Ok(Arc::clone(home));
        }
        let made = Arc::new(self.make_home(keyring).await?);
        *home = Some(Arc::clone(&made));
        Ok(made)
    }

    async fn make_home(&self, keyring: &Keyring) -> Result<Home, SourceError> {
        let failed = |error: std::io::Error| SourceError::Cache {
            text: format!("the keys for signatures cannot be written: {}", error.kind()),
        };
        let keys: String = keyring.keys().map(tiphys_api::trust::PublicKey::text).collect();
        let write = || -> std::io::Result<TempDir> {
            let directory = TempDir::new_in(&self.secrets)?;
            std::fs::File::create_new(directory.path().join("gpg.conf"))?
                .write_all(CONFIGURATION.as_bytes())?;
            std::fs::File::create_new(directory.path().join("keys.asc"))?.write_all(keys.as_bytes())?;
            Ok(directory)
        };
        let directory = write().map_err(failed)?;
        // Also without keys: whether there is a `gpg` at all is found out before anything is verified.
        let arguments: &[&str] = if keys.is_empty() { &["--version"] } else { &["--import", "keys.asc"] };
        let invocation = Invocation {
            program: self.options.gpg_program.clone(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: vec![
                ("PATH".into(), self.options.path.clone().into()),
                ("HOME".into(), "/dev/null".into()),
                ("LC_ALL".into(), "C".into()),
                ("GNUPGHOME".into(), directory.path().into()),
            ],
            directory: directory.path().to_owned(),
            deadline: self.options.exec_timeout,
            grace: self.options.exec_fatal_timeout,
            stdout_bytes_max: OUTPUT_BYTES_MAX,
            limits: tiphys_exec::Limits::default(),
        };
        let _slot = self.slots.take_own().await;
        match tiphys_exec::run(invocation).await {
            Ok(output) if output.code == Some(0) => {
                Ok(Home { digest: *keyring.digest(), directory })
            }
            Ok(_refused) => Err(SourceError::Unverifiable {
                text: "signatures cannot be verified: gpg does not take the keys of ConfigMap argocd-gpg-keys-cm; \
                       see which with `gpg --show-keys`"
                    .to_owned(),
            }),
            Err(ExecError::Start(error)) => Err(SourceError::Unverifiable {
                text: format!(
                    "signatures cannot be verified: the program {} cannot be started ({}); install GnuPG beside the \
                     program, or take the rule about signatures out of the project",
                    self.options.gpg_program.to_string_lossy(),
                    error.kind()
                ),
            }),
            Err(error) => Err(SourceError::Unverifiable {
                text: format!("signatures cannot be verified: gpg failed: {error}"),
            }),
        }
    }

    /// Runs a command whose exit code says no more than its words.
    async fn output(
        &self,
        command: &Command<'_>,
        environment: Vec<(OsString, OsString)>,
    ) -> Result<Output, SourceError> {
        let _slot = self.slots.take_own().await;
        let context = super::failure::Context {
            arguments: command.arguments,
            repository: None,
            cache_dir: &self.options.cache_dir,
        };
        let invocation = self.invocation(command, environment, OUTPUT_BYTES_MAX);
        tiphys_exec::run(invocation).await.map_err(|error| context.not_finished(&error))
    }
}

/// What `gpg` said for programs; `None` when it said nothing about a signature.
///
/// One object has one signature. Of several none counts: whoever can add one could hide another.
fn read(status: &str) -> Option<Signature> {
    let mut found: Option<(SignatureState, String)> = None;
    let mut valid: Option<[String; 2]> = None;
    let mut is_untrusted = false;
    for line in status.lines() {
        let Some(rest) = line.strip_prefix("[GNUPG:] ") else { continue };
        let mut words = rest.split(' ');
        let state = match words.next() {
            Some("GOODSIG") => SignatureState::Good,
            Some("BADSIG") => SignatureState::Bad,
            Some("EXPSIG") => SignatureState::Expired,
            Some("EXPKEYSIG") => SignatureState::ExpiredKey,
            Some("REVKEYSIG") => SignatureState::RevokedKey,
            // The sixth word says why: 9 means that the key is not here.
            Some("ERRSIG") if rest.split(' ').nth(6) == Some("9") => SignatureState::UnknownKey,
            Some("ERRSIG") => SignatureState::Bad,
            Some("VALIDSIG") => {
                let own = words.next().unwrap_or_default().to_ascii_uppercase();
                let primary = words.next_back().unwrap_or_default().to_ascii_uppercase();
                valid = Some([own, primary]);
                continue;
            }
            Some("TRUST_UNDEFINED" | "TRUST_NEVER") => {
                is_untrusted = true;
                continue;
            }
            _ => continue,
        };
        let key_id = words.next().unwrap_or_default().to_ascii_uppercase();
        if found.is_some() {
            return Some(Signature::without_key(SignatureState::Bad));
        }
        found = Some((state, key_id));
    }
    let (state, key_id) = found?;
    let is_fingerprint =
        |text: &String| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (state, fingerprints) = match (state, valid) {
        (SignatureState::Good, _) if is_untrusted => (SignatureState::Untrusted, <[String; 2]>::default()),
        (SignatureState::Good, Some(prints)) if prints.iter().all(is_fingerprint) => (state, prints),
        // Good for whom?
        (SignatureState::Good, _) => (SignatureState::Bad, <[String; 2]>::default()),
        (other, _) => (other, <[String; 2]>::default()),
    };
    Some(Signature { state, key_id, fingerprints })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINT: &str = "945F70B41226DEABEBF8B68919371A3962FEBC75";

    fn good() -> String {
        format!(
            "[GNUPG:] NEWSIG\n[GNUPG:] KEY_CONSIDERED {PRINT} 0\n[GNUPG:] GOODSIG 19371A3962FEBC75 Rita\n\
             [GNUPG:] VALIDSIG {PRINT} 2026-01-01 1767225600 0 4 0 1 10 00 {PRINT}\n[GNUPG:] TRUST_FULLY 0 always\n"
        )
    }

    #[test]
    fn rnd_50_what_gpg_says() {
        let found = read(&good()).unwrap();
        assert_eq!((found.state, found.key_id.as_str()), (SignatureState::Good, "19371A3962FEBC75"));
        assert_eq!(found.fingerprints, [PRINT, PRINT]);
        let state = |text: &str| read(text).map(|found| found.state);
        for (word, expected) in [
            ("BADSIG", SignatureState::Bad),
            ("EXPSIG", SignatureState::Expired),
            ("EXPKEYSIG", SignatureState::ExpiredKey),
            ("REVKEYSIG", SignatureState::RevokedKey),
        ] {
            let found = read(&good().replace("GOODSIG", word)).unwrap();
            assert_eq!((found.state, found.key_id.as_str()), (expected, "19371A3962FEBC75"));
            assert_eq!(found.fingerprints, [String::new(), String::new()]);
        }
        let unknown =
            "[GNUPG:] ERRSIG 19371A3962FEBC75 1 10 00 1767225600 9 x\n[GNUPG:] NO_PUBKEY 19371A3962FEBC75";
        assert_eq!(state(unknown), Some(SignatureState::UnknownKey));
        assert_eq!(state(&unknown.replace(" 9 ", " 4 ")), Some(SignatureState::Bad));
        assert_eq!(state(&good().replace("TRUST_FULLY", "TRUST_NEVER")), Some(SignatureState::Untrusted));
    }

    #[test]
    fn rnd_50_what_is_not_understood_is_no_good_signature() {
        let state = |text: &str| read(text).map(|found| found.state);
        assert_eq!(state(""), None);
        assert_eq!(state("error: cannot run gpg"), None);
        assert_eq!(state("GOODSIG 19371A3962FEBC75 Rita\ngpg: GOODSIG x"), None);
        assert_eq!(state(&format!("{}{}", good(), good())), Some(SignatureState::Bad), "two signatures");
        assert_eq!(
            state(&format!("{}[GNUPG:] ERRSIG 1 1 10 00 1 9", good())),
            Some(SignatureState::Bad),
            "a second one that nobody knows"
        );
        let without = good().lines().filter(|line| !line.contains("VALIDSIG")).collect::<Vec<_>>().join("\n");
        assert_eq!(state(&without), Some(SignatureState::Bad));
        assert_eq!(state(&good().replace(PRINT, "12")), Some(SignatureState::Bad));
    }
}
