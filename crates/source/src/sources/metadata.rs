//! What a commit says about itself (RND-151).

use jiff::Timestamp;
use tiphys_api::commit::{CommitReference, reference};

use crate::SourceError;
use crate::tree::CommitData;

/// A commit, for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionMetadata {
    /// `Name <email>`.
    pub author: String,
    /// When the author wrote it.
    pub date: Timestamp,
    /// The message, trimmed.
    pub message: String,
    /// Short names of tags that mean the commit.
    pub tags: Vec<String>,
    /// The commit this one was made from, when its trailers name one.
    pub reference: Option<CommitReference>,
}

pub(super) fn read(commit: CommitData, tags: Vec<String>) -> Result<RevisionMetadata, SourceError> {
    let date = Timestamp::from_second(commit.seconds)
        .map_err(|_range| SourceError::Cache { text: "the date of the commit is out of range".to_owned() })?;
    let message = commit.message.trim().to_owned();
    let reference = reference(&message);
    Ok(RevisionMetadata { author: commit.author, date, message, tags, reference })
}
