//! What a commit says about itself (RND-151).

use jiff::Timestamp;

use crate::SourceError;
use crate::tree::CommitData;

/// Trailers that name another commit begin like this.
const REFERENCE_PREFIX: &str = "argocd-reference-commit-";

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

/// A commit of another repository. Members that are absent or invalid are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitReference {
    /// URL of its repository.
    pub repo_url: String,
    /// `Name <email>`.
    pub author: String,
    /// RFC 3339.
    pub date: String,
    /// First line of the message.
    pub subject: String,
    /// Rest of the message.
    pub body: String,
    /// Its id.
    pub sha: String,
}

pub(super) fn read(commit: CommitData, tags: Vec<String>) -> Result<RevisionMetadata, SourceError> {
    let date = Timestamp::from_second(commit.seconds)
        .map_err(|_range| SourceError::Cache { text: "the date of the commit is out of range".to_owned() })?;
    let message = commit.message.trim().to_owned();
    let reference = reference(&message);
    Ok(RevisionMetadata { author: commit.author, date, message, tags, reference })
}

/// Reads the trailers of the last paragraph.
fn reference(message: &str) -> Option<CommitReference> {
    let (_, paragraph) = message.rsplit_once("\n\n")?;
    let mut reference = CommitReference::default();
    for line in paragraph.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let key = key.trim().to_ascii_lowercase();
        let Some(name) = key.strip_prefix(REFERENCE_PREFIX) else { continue };
        let value = value.trim();
        match name {
            "repourl" => value.clone_into(&mut reference.repo_url),
            "author" => value.clone_into(&mut reference.author),
            "date" if value.parse::<Timestamp>().is_ok() => value.clone_into(&mut reference.date),
            "subject" => value.clone_into(&mut reference.subject),
            "body" => reference.body = serde_json::from_str(value).unwrap_or_default(),
            "sha" if is_sha(value) => value.clone_into(&mut reference.sha),
            _ => {}
        }
    }
    (reference != CommitReference::default()).then_some(reference)
}

fn is_sha(text: &str) -> bool {
    (5..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_151_trailers_name_another_commit() {
        let message = "Bump\n\nArgocd-reference-commit-repourl: https://h/r\nArgocd-reference-commit-date: never\n\
                       Argocd-reference-commit-body: \"a\\nb\"\nargocd-reference-commit-sha: abcde";
        let reference = reference(message).unwrap();
        assert_eq!(reference.repo_url, "https://h/r");
        assert_eq!(reference.date, "");
        assert_eq!(reference.body, "a\nb");
        assert_eq!(reference.sha, "abcde");
        assert_eq!(super::reference("Bump\n\nSigned-off-by: x"), None);
    }
}
