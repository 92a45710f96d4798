//! Which objects of a revision are signed, and by whom (RND-48..50).

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use gix::ObjectId;
use tiphys_api::signature::{NextLook, Signature, SignatureMode, SignatureState, SignedKind, SignedObject};
use tiphys_api::trust::Keyring;

use super::{Backend, Freshness, Sources, damaged};
use crate::git::{Git, Verify};
use crate::refs::Wanted;
use crate::store::{Generation, parse_commit};
use crate::tree::{Seal, SignedData};
use crate::work::blocking;
use crate::{Repository, SourceError};

/// Commits that one look walks through.
const COMMITS_MAX: usize = 2000;

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// The commit, 40 hex digits.
    pub commit: &'a str,
    /// The revision by which somebody asked for it: where that is an annotated tag of the commit, the tag counts.
    pub named: &'a str,
    /// Prefix of tags that ranges look at (RND-41).
    pub tag_prefix: &'a str,
    /// How much is looked at.
    pub mode: SignatureMode,
    /// Whose signatures are good ones.
    pub keyring: &'a Keyring,
}

impl Sources {
    /// Shows the signed objects of a revision to `judge`, one after another, as far as it asks for more: the annotated
    /// tag if the revision is one, then the commit, then what came before it.
    ///
    /// # Errors
    /// When an object cannot be fetched or looked at, there are too many of them, or there is no `gpg`. Then nothing is
    /// known about the revision, whatever was shown before.
    pub async fn signatures(
        &self,
        repository: &Repository,
        signed: Signed<'_>,
        judge: &mut (dyn FnMut(&SignedObject) -> NextLook + Send),
    ) -> Result<(), SourceError> {
        let id = parse_commit(signed.commit)?;
        let repository = &*self.admit(repository).await?;
        let named = Wanted::Revision { revision: signed.named, tag_prefix: signed.tag_prefix };
        let list = self.refs(repository, named, Freshness::Cached).await?;
        let Backend::Git { git, stores } = &self.0.backend else {
            let text = "signatures of repositories in memory cannot be verified".to_owned();
            return Err(SourceError::Unverifiable { text });
        };
        let store = self.store(stores, repository);
        if let Some((name, tag)) = list.annotated(signed.named, signed.tag_prefix, signed.commit) {
            let generation = store.tag(git, repository, signed.commit, &tag).await?;
            let tag_id = parse_commit(&tag)?;
            let data = read(&generation, move |generation| generation.objects().signed_tag(tag_id)).await?;
            if data.targets != [id] {
                let text = format!("tag {name} does not mean commit {}", signed.commit);
                return Err(SourceError::Unverifiable { text });
            }
            let signature = look(git, &generation, Verify::Tag, &tag, &data, signed.keyring).await?;
            let object =
                SignedObject { kind: SignedKind::Tag, name, author: data.author, signature, has_seal: false };
            if judge(&object) != NextLook::Before {
                return Ok(());
            }
        }
        let generation = match signed.mode {
            SignatureMode::Head => store.commit(git, repository, signed.commit).await?,
            SignatureMode::Strict => store.history(git, repository, signed.commit, &list).await?,
        };
        walk(git, &generation, id, signed.keyring, judge).await
    }
}

/// Shows a commit and what came before it, each once, nearest first.
async fn walk(
    git: &Git,
    generation: &Arc<Generation>,
    head: ObjectId,
    keyring: &Keyring,
    judge: &mut (dyn FnMut(&SignedObject) -> NextLook + Send),
) -> Result<(), SourceError> {
    let (mut seen, mut pending) = (BTreeSet::from([head]), VecDeque::from([head]));
    let mut count = 0;
    while let Some(id) = pending.pop_front() {
        count += 1;
        if count > COMMITS_MAX {
            return Err(SourceError::Exhausted {
                text: format!(
                    "signatures of more than {COMMITS_MAX} commits would have to be verified; a signed commit with \
                     the trailer `Argocd-gpg-seal` ends the search"
                ),
            });
        }
        let data = read(generation, move |generation| generation.objects().signed_commit(id)).await?;
        let name = id.to_string();
        let signature = look(git, generation, Verify::Commit, &name, &data, keyring).await?;
        let object = SignedObject {
            kind: SignedKind::Commit,
            name,
            author: data.author,
            signature,
            has_seal: data.has_seal,
        };
        match judge(&object) {
            NextLook::Before => {
                pending.extend(data.targets.into_iter().filter(|parent| seen.insert(*parent)));
            }
            NextLook::Beside => {}
            NextLook::Nothing => return Ok(()),
        }
    }
    Ok(())
}

async fn read(
    generation: &Arc<Generation>,
    work: impl FnOnce(&Generation) -> Result<SignedData, tiphys_render::TreeError> + Send + 'static,
) -> Result<SignedData, SourceError> {
    let generation = Arc::clone(generation);
    blocking(move || work(&generation).map_err(|error| damaged(&error))).await
}

/// The signature of an object. Nobody is asked about one that has none, or one of another kind.
async fn look(
    git: &Git,
    generation: &Generation,
    kind: Verify,
    id: &str,
    data: &SignedData,
    keyring: &Keyring,
) -> Result<Signature, SourceError> {
    match data.seal {
        Seal::None => Ok(Signature::without_key(SignatureState::Unsigned)),
        Seal::Other => Ok(Signature::without_key(SignatureState::OtherKind)),
        Seal::OpenPgp => git.signature(generation.directory(), kind, id, keyring).await,
    }
}
