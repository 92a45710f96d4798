//! What the message of a commit says about the commit it was made from (RND-151, CTL-118).

use jiff::Timestamp;

/// Trailers that name another commit begin like this.
const REFERENCE_PREFIX: &str = "argocd-reference-commit-";

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

/// The commit that the trailers of the last paragraph name.
pub fn reference(message: &str) -> Option<CommitReference> {
    split_reference(message).0
}

/// The commit that the trailers of the last paragraph name, and the message without those that are valid (CTL-118).
pub fn split_reference(message: &str) -> (Option<CommitReference>, String) {
    let (head, paragraph) = message.rsplit_once("\n\n").map_or(("", message), |(head, rest)| (head, rest));
    let mut reference = CommitReference::default();
    let other = |line: &&str| !take(&mut reference, line);
    let rest: Vec<&str> = paragraph.lines().filter(other).collect();
    let rest = rest.join("\n");
    let parts = [head, rest.as_str()].into_iter().filter(|part| !part.trim().is_empty());
    let text = parts.collect::<Vec<_>>().join("\n\n");
    ((reference != CommitReference::default()).then_some(reference), text.trim_end().to_owned())
}

/// Takes one line; `false` when it says nothing about another commit, or nothing valid.
fn take(reference: &mut CommitReference, line: &str) -> bool {
    let Some((key, value)) = line.split_once(':') else { return false };
    let key = key.trim().to_ascii_lowercase();
    let Some(name) = key.strip_prefix(REFERENCE_PREFIX) else { return false };
    let value = value.trim();
    match name {
        "repourl" => value.clone_into(&mut reference.repo_url),
        "author" => value.clone_into(&mut reference.author),
        "date" if value.parse::<Timestamp>().is_ok() => value.clone_into(&mut reference.date),
        "subject" => value.clone_into(&mut reference.subject),
        "body" => match serde_json::from_str(value) {
            Ok(body) => reference.body = body,
            Err(_) => return false,
        },
        "sha" if is_sha(value) => value.clone_into(&mut reference.sha),
        _ => return false,
    }
    true
}

fn is_sha(text: &str) -> bool {
    (5..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = "Bump\n\nWhy.\n\nArgocd-reference-commit-repourl: https://h/r\n\
        Argocd-reference-commit-date: never\nArgocd-reference-commit-body: \"a\\nb\"\n\
        argocd-reference-commit-sha: abcde\nSigned-off-by: x";

    #[test]
    fn rnd_151_trailers_name_another_commit() {
        let reference = reference(MESSAGE).unwrap();
        assert_eq!(reference.repo_url, "https://h/r");
        assert_eq!(reference.date, "");
        assert_eq!(reference.body, "a\nb");
        assert_eq!(reference.sha, "abcde");
        assert_eq!(super::reference("Bump\n\nSigned-off-by: x"), None);
    }

    #[test]
    fn ctl_118_valid_trailers_leave_the_message() {
        let (_, rest) = split_reference(MESSAGE);
        assert_eq!(rest, "Bump\n\nWhy.\n\nArgocd-reference-commit-date: never\nSigned-off-by: x");
        let (found, rest) = split_reference("Bump\n\nArgocd-reference-commit-author: Ann <a@x>");
        assert_eq!((found.unwrap().author.as_str(), rest.as_str()), ("Ann <a@x>", "Bump"));
        assert_eq!(split_reference("").1, "");
    }
}
