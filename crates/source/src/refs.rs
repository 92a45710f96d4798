//! The refs of a repository, and what a revision means among them (RND-30..41).
//!
//! A listing is kept as one sorted table: looking a name up costs a few comparisons however many refs there
//! are. Which name wins is decided here, without any I/O.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use tiphys_render::version::{self, VersionError};

use crate::SourceError;
use crate::repository::hex;

/// Longest name of a revision in bytes.
const REVISION_BYTES_MAX: usize = 1024;
/// Refs kept of one listing.
const REFS_MAX: usize = 1_000_000;
/// Answers about ranges that a listing remembers.
const RANGES_MAX: usize = 1000;

/// What a listing is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted<'a> {
    /// Proof that the credentials still list the repository.
    Access,
    /// What one revision means.
    Revision {
        /// As somebody wrote it.
        revision: &'a str,
        /// Prefix of tags that ranges look at (RND-41).
        tag_prefix: &'a str,
    },
    /// Every ref.
    All,
}

impl<'a> Wanted<'a> {
    /// The name to ask for, when no other refs can decide; `HEAD` for access.
    pub(crate) fn name(self) -> Option<&'a str> {
        match self {
            Self::Access => Some(HEAD),
            // The id of a commit is no name, and means itself.
            Self::Revision { revision, .. } if is_commit_sha(revision) => Some(HEAD),
            Self::Revision { revision, tag_prefix } if !version::needs_tags(revision, tag_prefix) => {
                Some(named(revision))
            }
            Self::Revision { .. } | Self::All => None,
        }
    }
}

pub(crate) const HEAD: &str = "HEAD";

/// The name that a revision is looked up by; empty means `HEAD` (RND-30).
fn named(revision: &str) -> &str {
    if revision.is_empty() { HEAD } else { revision }
}

/// The refs of a repository at one moment: all of them, or those that some revisions can mean.
#[derive(Debug, Default)]
pub struct RefList {
    /// Full names with the commits they mean, sorted by name. Annotated tags mean the commit they point at.
    refs: Vec<(Box<str>, [u8; 20])>,
    /// The revisions it was asked for; `None` when it holds all refs.
    scope: Option<BTreeSet<String>>,
    /// Ids of annotated tags by full name.
    annotated: BTreeMap<Box<str>, [u8; 20]>,
    /// The branch that `HEAD` points at, where the server says so.
    default_branch: Option<Box<str>>,
    /// Answers about ranges: the same range is asked by every application that uses it.
    ranges: Mutex<BTreeMap<(String, String), Result<String, VersionError>>>,
}

/// What a revision means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// A commit.
    Commit {
        /// 40 hex digits.
        commit: String,
        /// Something the user should know: two refs with one short name, or a prefix without a range.
        warning: Option<String>,
    },
    /// Hex digits that are no ref; they may begin the name of a commit.
    Abbreviated,
    /// Nothing.
    NotFound,
}

/// Whether a text is the full name of a commit.
pub(crate) fn is_commit_sha(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Refuses what can be no revision, before any command runs (RND-34).
pub(crate) fn check_revision(revision: &str) -> Result<(), SourceError> {
    let refused = revision.starts_with('-')
        || revision.len() > REVISION_BYTES_MAX
        || revision.chars().any(char::is_control);
    if refused { Err(SourceError::InvalidRevision { revision: revision.to_owned() }) } else { Ok(()) }
}

impl RefList {
    /// Reads the output of `git ls-remote --symref`. Lines that are no refs are skipped.
    pub(crate) fn parse(listing: &[u8]) -> Result<Self, SourceError> {
        let mut refs: Vec<(Box<str>, [u8; 20])> = Vec::new();
        let mut peeled: BTreeMap<String, [u8; 20]> = BTreeMap::new();
        let mut default_branch = None;
        for line in listing.split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let Some((id, name)) = line.split_once('\t') else { continue };
            if let Some(target) = id.strip_prefix("ref: refs/heads/").filter(|_| name == HEAD) {
                default_branch = Some(target.into());
            }
            let Some(id) = parse_id(id) else { continue };
            match name.strip_suffix("^{}") {
                Some(tag) => {
                    peeled.insert(tag.to_owned(), id);
                }
                None => refs.push((name.into(), id)),
            }
            if refs.len() > REFS_MAX {
                let text = format!("the repository has more than {REFS_MAX} refs");
                return Err(SourceError::Exhausted { text });
            }
        }
        let mut annotated = BTreeMap::new();
        for (name, id) in &mut refs {
            if let Some(commit) = peeled.get(&**name) {
                annotated.insert(name.clone(), *id);
                *id = *commit;
            }
        }
        refs.sort_unstable();
        refs.dedup_by(|later, earlier| later.0 == earlier.0);
        Ok(Self { refs, scope: None, annotated, default_branch, ranges: Mutex::default() })
    }

    /// The same list, of which only what these revisions can mean is known to be complete.
    pub(crate) fn within(self, scope: Option<BTreeSet<String>>) -> Self {
        Self { scope, ..self }
    }

    /// Whether it answers the question.
    pub(crate) fn covers(&self, wanted: Wanted<'_>) -> bool {
        let Some(scope) = &self.scope else { return true };
        wanted == Wanted::Access || wanted.name().is_some_and(|name| scope.contains(name))
    }

    /// Whether it holds all refs.
    pub(crate) fn is_whole(&self) -> bool {
        self.scope.is_none()
    }

    /// Whether `HEAD` means a branch. Where the server does not say which one it means, that may be any branch that is at
    /// the same commit.
    pub(crate) fn is_default(&self, branch: &str) -> bool {
        if let Some(default) = &self.default_branch {
            return **default == *branch;
        }
        let head = self.commit(HEAD);
        head.is_some() && head == self.commit(&format!("refs/heads/{branch}"))
    }

    /// The commit a full name means.
    pub fn commit(&self, full_name: &str) -> Option<String> {
        let index = self.refs.binary_search_by(|(name, _)| (**name).cmp(full_name)).ok()?;
        self.refs.get(index).map(|(_, id)| hex(id))
    }

    /// Short name and id of the annotated tag that a revision means, if it means this commit by it.
    pub fn annotated(&self, revision: &str, tag_prefix: &str, commit: &str) -> Option<(String, String)> {
        if is_commit_sha(revision) || self.annotated.is_empty() {
            return None;
        }
        let revision = named(revision);
        let chosen = self.select_tag(revision, tag_prefix).ok().map(|tag| format!("refs/tags/{tag}"));
        let is_there = |name: &String| self.commit(name).is_some();
        let name = chosen.filter(is_there).or_else(|| Some(self.candidates(revision).first()?.0.clone()))?;
        let id = self.annotated.get(name.as_str())?;
        let is_meant = self.commit(&name).is_some_and(|found| found.eq_ignore_ascii_case(commit));
        let short = name.strip_prefix("refs/tags/").unwrap_or(&name).to_owned();
        is_meant.then(|| (short, hex(id)))
    }

    /// Short names of all tags, sorted.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.below("refs/tags/")
    }

    /// Short names of all branches, sorted.
    pub fn branches(&self) -> impl Iterator<Item = &str> {
        self.below("refs/heads/")
    }

    /// Short names of the tags that mean a commit.
    pub fn tags_of(&self, commit: &str) -> Vec<String> {
        self.range("refs/tags/")
            .filter(|(_, id)| hex(id) == commit)
            .filter_map(|(name, _)| name.strip_prefix("refs/tags/").map(str::to_owned))
            .collect()
    }

    /// Number of refs.
    pub fn len(&self) -> usize {
        self.refs.len()
    }

    /// Whether the repository has no refs at all.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }

    fn range<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a (Box<str>, [u8; 20])> {
        let start = self.refs.partition_point(|(name, _)| &**name < prefix);
        self.refs.iter().skip(start).take_while(move |(name, _)| name.starts_with(prefix))
    }

    fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        self.range(prefix).filter_map(move |(name, _)| name.strip_prefix(prefix))
    }

    /// What a revision means; empty means `HEAD` (RND-30).
    ///
    /// Order: full commit id, tag chosen by a range, ref by full or short name, digits of an id. Of a tag and a
    /// branch with one short name the tag wins, with a warning (RND-32).
    pub fn resolve(&self, revision: &str, tag_prefix: &str) -> Resolution {
        if is_commit_sha(revision) {
            return Resolution::Commit { commit: revision.to_owned(), warning: None };
        }
        let revision = named(revision);
        let (tag, range_warning) = match self.select_tag(revision, tag_prefix) {
            Ok(tag) => (Some(tag), None),
            Err(error @ VersionError::PrefixNeedsConstraint { .. }) => (None, Some(error.to_string())),
            Err(_) => (None, None),
        };
        // A pin is looked up as any other name, which tells of a branch with the same one.
        let chosen = tag.filter(|tag| tag != revision);
        if let Some(commit) = chosen.and_then(|tag| self.commit(&format!("refs/tags/{tag}"))) {
            return Resolution::Commit { commit, warning: None };
        }
        let found = self.candidates(revision);
        if let Some((name, commit)) = found.first() {
            let warning = match found.get(1) {
                Some((other, _)) => Some(format!(
                    "revision {revision:?} is the short name of {name} and {other}; {name} is used"
                )),
                None => range_warning,
            };
            return Resolution::Commit { commit: commit.clone(), warning };
        }
        let digits =
            (7..40).contains(&revision.len()) && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        if digits { Resolution::Abbreviated } else { Resolution::NotFound }
    }

    /// Refs that a name means, best first (RND-31, RND-32).
    fn candidates(&self, revision: &str) -> Vec<(String, String)> {
        let names = full_names(revision);
        names.into_iter().filter_map(|name| self.commit(&name).map(|commit| (name, commit))).collect()
    }

    fn select_tag(&self, revision: &str, tag_prefix: &str) -> Result<String, VersionError> {
        let key = (revision.to_owned(), tag_prefix.to_owned());
        if let Some(known) = self.ranges.lock().get(&key) {
            return known.clone();
        }
        let selected = version::resolve_version(revision, self.tags(), tag_prefix);
        let mut ranges = self.ranges.lock();
        if ranges.len() < RANGES_MAX {
            ranges.insert(key, selected.clone());
        }
        selected
    }
}

/// Full names of refs that a revision can mean, best first.
pub(crate) fn full_names(revision: &str) -> Vec<String> {
    let mut names = vec![
        revision.to_owned(),
        format!("refs/tags/{revision}"),
        format!("refs/heads/{revision}"),
        format!("refs/remotes/{revision}"),
    ];
    // The short name of `refs/heads/main` is `main`, never `heads/main`.
    if !["heads/", "tags/", "remotes/"].iter().any(|prefix| revision.starts_with(prefix)) {
        names.push(format!("refs/{revision}"));
    }
    names
}

fn parse_id(text: &str) -> Option<[u8; 20]> {
    if !is_commit_sha(text) {
        return None;
    }
    let mut id = [0; 20];
    let mut digits = text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()));
    for byte in &mut id {
        *byte = digits.next()?? * 16 + digits.next()??;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> String {
        hex(&[n; 20])
    }

    fn list(refs: &[(&str, u8)]) -> RefList {
        let lines: Vec<String> = refs.iter().map(|(name, n)| format!("{}\t{name}", id(*n))).collect();
        RefList::parse(format!("ref: refs/heads/main\tHEAD\n{}\n", lines.join("\n")).as_bytes()).unwrap()
    }

    fn commit(list: &RefList, revision: &str) -> Option<String> {
        match list.resolve(revision, "") {
            Resolution::Commit { commit, .. } => Some(commit),
            Resolution::Abbreviated | Resolution::NotFound => None,
        }
    }

    #[test]
    fn inv_16_head_names_the_default_branch() {
        let told = list(&[("HEAD", 1), ("refs/heads/main", 1), ("refs/heads/other", 1)]);
        assert!(told.is_default("main") && !told.is_default("other"));
        let lines =
            format!("{0}\tHEAD\n{0}\trefs/heads/a\n{0}\trefs/heads/b\n{1}\trefs/heads/c\n", id(1), id(2));
        let silent = RefList::parse(lines.as_bytes()).unwrap();
        assert!(silent.is_default("a") && silent.is_default("b") && !silent.is_default("c"));
        assert!(!RefList::parse(b"").unwrap().is_default("main"));
    }

    #[test]
    fn rnd_30_names_resolve_in_order() {
        let list = list(&[
            ("HEAD", 1),
            ("refs/heads/main", 1),
            ("refs/heads/1234567", 2),
            ("refs/heads/feature/x", 3),
            ("refs/pull/7/head", 4),
            ("refs/tags/signed", 5),
            ("refs/tags/signed^{}", 6),
        ]);
        assert_eq!(commit(&list, &"A".repeat(40)), Some("A".repeat(40)));
        assert_eq!(commit(&list, ""), Some(id(1)));
        assert_eq!(commit(&list, "HEAD"), Some(id(1)));
        assert_eq!(commit(&list, "signed"), Some(id(6)));
        assert_eq!(commit(&list, "feature/x"), Some(id(3)));
        assert_eq!(commit(&list, "1234567"), Some(id(2)));
        assert_eq!(list.resolve("abcdef0", ""), Resolution::Abbreviated);
        assert_eq!(list.resolve("abcdef", ""), Resolution::NotFound);
        assert_eq!(list.resolve("nope", ""), Resolution::NotFound);
    }

    #[test]
    fn rep_202_the_annotated_tag_of_a_revision() {
        let list = list(&[
            ("HEAD", 6),
            ("refs/heads/main", 6),
            ("refs/tags/plain", 6),
            ("refs/tags/v1.2.0", 5),
            ("refs/tags/v1.2.0^{}", 6),
        ]);
        let tag = Some(("v1.2.0".to_owned(), id(5)));
        for revision in ["v1.2.0", "refs/tags/v1.2.0", "v1.x"] {
            assert_eq!(list.annotated(revision, "", &id(6)), tag, "{revision}");
            assert_eq!(list.annotated(revision, "", &id(7)), None, "it means another commit");
        }
        for revision in ["", "main", "plain", "nope", &id(6)] {
            assert_eq!(list.annotated(revision, "", &id(6)), None, "{revision}");
        }
    }

    #[test]
    fn rnd_31_short_names() {
        let list = list(&[("refs/heads/main", 1), ("refs/pull/7/head", 4)]);
        for (revision, expected) in [
            ("pull/7/head", Some(4)),
            ("refs/pull/7/head", Some(4)),
            ("refs/heads/main", Some(1)),
            ("main", Some(1)),
            ("heads/main", None),
        ] {
            assert_eq!(commit(&list, revision), expected.map(id), "{revision}");
        }
    }

    #[test]
    fn rnd_32_a_tag_wins_over_a_branch_and_warns() {
        let list = list(&[("refs/heads/v", 1), ("refs/tags/v", 2)]);
        let Resolution::Commit { commit, warning } = list.resolve("v", "") else { panic!("not found") };
        assert_eq!(commit, id(2));
        assert_eq!(
            warning.unwrap(),
            "revision \"v\" is the short name of refs/tags/v and refs/heads/v; refs/tags/v is used"
        );
    }

    #[test]
    fn rnd_34_options_are_refused() {
        for revision in ["-x", "--upload-pack=x", "a\nb", "a\0"] {
            assert!(check_revision(revision).is_err(), "{revision:?}");
        }
        assert!(check_revision("@{-1}").is_ok());
        assert_eq!(list(&[("refs/heads/main", 1)]).resolve("@{-1}", ""), Resolution::NotFound);
    }

    #[test]
    fn rnd_38_ranges_look_at_tags_only() {
        let list = list(&[("refs/heads/v9.0.0", 1), ("refs/tags/v1.0.0", 2), ("refs/tags/v1.1.0", 3)]);
        assert_eq!(commit(&list, "1.x"), Some(id(3)));
        assert_eq!(commit(&list, "9.x"), None);
        assert_eq!(list.tags_of(&id(3)), ["v1.1.0"]);
        assert_eq!(list.branches().collect::<Vec<_>>(), ["v9.0.0"]);
    }
}
