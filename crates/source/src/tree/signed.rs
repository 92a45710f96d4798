//! What commits and tags say about who signed them, before anybody verifies it.

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::objs::Kind;
use tiphys_render::TreeError;

use super::{COMMIT_BYTES_MAX, Objects};

/// What a trailer is called that ends a search (REP-202).
const SEAL: &str = "argocd-gpg-seal";
/// How a signature of `OpenPGP` begins; git knows both.
const OPEN_PGP: [&str; 2] = ["-----BEGIN PGP SIGNATURE-----", "-----BEGIN PGP MESSAGE-----"];
/// How those of other kinds begin.
const OTHERS: [&str; 2] = ["-----BEGIN SSH SIGNATURE-----", "-----BEGIN SIGNED MESSAGE-----"];

/// Kind of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seal {
    /// There is none.
    None,
    OpenPgp,
    /// SSH, X.509, or what nobody knows.
    Other,
}

/// A commit or tag as far as signatures are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedData {
    /// `Name <email>` of who made it.
    pub(crate) author: String,
    pub(crate) seal: Seal,
    /// Whether it has the trailer that ends a search.
    pub(crate) has_seal: bool,
    /// The parents of a commit, or the commit that a tag means in the end.
    pub(crate) targets: Vec<ObjectId>,
}

impl Objects {
    /// A commit.
    pub(crate) fn signed_commit(&self, id: ObjectId) -> Result<SignedData, TreeError> {
        let too_large = || TreeError::Damaged { what: "a commit is too large".to_owned() };
        let data = self.object(id, Kind::Commit, COMMIT_BYTES_MAX)?.ok_or_else(too_large)?;
        let (head, message) = split(&data);
        let parent = |line: &str| ObjectId::from_hex(line.strip_prefix("parent ")?.as_bytes()).ok();
        let signature = head.lines().find_map(|line| line.strip_prefix("gpgsig "));
        Ok(SignedData {
            author: person(&head, "author "),
            seal: signature.map_or(Seal::None, seal_of),
            has_seal: has_seal(&message),
            targets: head.lines().filter_map(parent).collect(),
        })
    }

    /// An annotated tag.
    pub(crate) fn signed_tag(&self, id: ObjectId) -> Result<SignedData, TreeError> {
        let too_large = || TreeError::Damaged { what: "a tag is too large".to_owned() };
        let data = self.object(id, Kind::Tag, COMMIT_BYTES_MAX)?.ok_or_else(too_large)?;
        let (head, message) = split(&data);
        let begins = |line: &&str| OPEN_PGP.iter().chain(&OTHERS).any(|begin| line.starts_with(begin));
        Ok(SignedData {
            author: person(&head, "tagger "),
            // Git takes the last one.
            seal: message.lines().rev().find(begins).map_or(Seal::None, seal_of),
            has_seal: false,
            targets: self.find_commit(id)?.map(|commit| commit.id).into_iter().collect(),
        })
    }
}

/// Header and message.
fn split(data: &[u8]) -> (String, String) {
    let end = data.find(b"\n\n").unwrap_or(data.len());
    let (head, message) = data.split_at_checked(end).unwrap_or((data, &[]));
    (String::from_utf8_lossy(head).into_owned(), String::from_utf8_lossy(message).into_owned())
}

fn seal_of(line: &str) -> Seal {
    if OPEN_PGP.iter().any(|begin| line.starts_with(begin)) { Seal::OpenPgp } else { Seal::Other }
}

/// `Name <email>` of a line of a header.
fn person(head: &str, field: &str) -> String {
    let line = head.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.rsplit_once('>').map_or_else(|| line.to_owned(), |(person, _time)| format!("{person}>"))
}

/// Whether the last paragraph has the trailer. The first one is the subject.
fn has_seal(message: &str) -> bool {
    let Some((_, last)) = message.trim().rsplit_once("\n\n") else { return false };
    let key = |line: &str| line.split_once(':').map(|(key, _)| key.trim_end().to_ascii_lowercase());
    last.lines().any(|line| key(line).as_deref() == Some(SEAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rep_202_seals_are_trailers() {
        for message in [
            "\n\nSubject\n\nargocd-GPG-seal: because",
            "\n\nSubject\n\nBody\n\nSigned-off-by: a\nArgocd-gpg-seal: x\n",
        ] {
            assert!(has_seal(message), "{message:?}");
        }
        for message in [
            "\n\nArgocd-gpg-seal: the subject",
            "\n\nSubject\n\nArgocd-gpg-seal: x\n\nmore text",
            "\n\nSubject\n\nno Argocd-gpg-seal: x",
            "",
        ] {
            assert!(!has_seal(message), "{message:?}");
        }
    }

    #[test]
    fn rnd_50_people_are_shown_without_times() {
        let head = "tree x\nauthor Ada <ada@acme.test> 1767225600 +0000\ncommitter C <c> 1 +0000";
        assert_eq!(person(head, "author "), "Ada <ada@acme.test>");
        assert_eq!(person(head, "tagger "), "");
    }
}
