//! What a rendering lacks, and how it is brought: one conversation for controller, command line and eval.
//!
//! Renderers fetch nothing. One that lacks a packed chart, the files of another repository, a file by URL, or the
//! result of a program ends with a list of [`Need`]s; the shell brings each, or fails, and renders again with all that
//! was brought ([`Supplies`]). What it brought is a part of the identity of the result (RND-141). A need that cannot
//! be met is an error of the rendering, never nothing (INV-1).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::plugins::{PluginCall, PluginChoice};
use crate::tools::ToolCall;
use crate::{Reason, RenderError, Tree};

/// Something that a rendering lacks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// The files of another source of the application, by its `ref` (RND-124).
    Ref {
        /// The name.
        name: String,
    },
    /// A packed chart that another chart depends on (RND-104).
    Chart {
        /// Where it is: `https://…` or `oci://…`.
        repository: String,
        /// Its name.
        name: String,
        /// Its version, or a range of versions.
        version: String,
    },
    /// Files of a repository: the base of an overlay (RND-210).
    Repository {
        /// Its URL.
        url: String,
        /// A branch, a tag or a commit; empty means `HEAD`.
        revision: String,
    },
    /// The files of a chart (RND-236).
    ChartFiles {
        /// Where it is: `https://…` or `oci://…`.
        repository: String,
        /// Its name.
        name: String,
        /// Its version, or a range of versions; empty means the newest.
        version: String,
    },
    /// A file by URL (RND-99).
    File {
        /// The URL.
        url: String,
    },
    /// What a program prints (RND-159).
    Tool(Arc<ToolCall>),
    /// What a config management plugin answers; that there is none is an answer (RND-133).
    Plugin(Arc<PluginCall>),
    /// What a URL names, which need not be a file: that there is none is an answer (RND-210).
    Resource {
        /// The URL.
        url: String,
    },
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = tiphys_api::repo_url::redact;
        match self {
            Self::Ref { name } => write!(f, "source ${name}"),
            Self::Chart { repository, name, version } | Self::ChartFiles { repository, name, version } => {
                write!(f, "chart {name:?} {version:?} of {}", shown(repository))
            }
            Self::Repository { url, revision } => write!(f, "repository {} at {revision:?}", shown(url)),
            Self::Tool(call) => write!(f, "the result of {}", call.program),
            Self::Plugin(call) => match &call.choice {
                PluginChoice::Named(name) => write!(f, "the result of the plugin {name:?}"),
                PluginChoice::Any | PluginChoice::Perhaps { .. } => f.write_str("the result of a plugin"),
            },
            Self::File { url } | Self::Resource { url } => write!(f, "file {}", shown(url)),
        }
    }
}

/// What was brought.
#[derive(Clone)]
pub enum Content {
    /// Files.
    Tree(Arc<dyn Tree>),
    /// Bytes of one file.
    Bytes(Bytes),
    /// That there is nothing, and why: the answer of a server, never a guess.
    Absent(String),
}

/// What was brought for one need.
#[derive(Clone)]
pub struct Supply {
    /// Equal for equal content only.
    pub id: String,
    /// The content.
    pub content: Content,
}

impl Supply {
    /// Files, known by the id of their tree.
    pub fn tree(tree: Arc<dyn Tree>) -> Self {
        Self { id: tree.id().to_owned(), content: Content::Tree(tree) }
    }

    /// Bytes, known by their digest.
    pub fn bytes(bytes: Bytes) -> Self {
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        let id = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        Self { id, content: Content::Bytes(bytes) }
    }

    /// That a server has nothing there.
    pub fn absent(why: String) -> Self {
        Self { id: format!("absent: {why}"), content: Content::Absent(why) }
    }

    fn weight(&self) -> u64 {
        match &self.content {
            // Files are read when somebody wants them.
            Content::Tree(_) | Content::Absent(_) => 0,
            Content::Bytes(bytes) => bytes.len() as u64,
        }
    }
}

impl fmt::Debug for Supply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supply").field("id", &self.id).finish_non_exhaustive()
    }
}

/// All that was brought so far.
#[derive(Clone, Debug, Default)]
pub struct Supplies(BTreeMap<Need, Supply>);

impl Supplies {
    /// Nothing.
    pub const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// What was brought for a need.
    pub fn get(&self, need: &Need) -> Option<&Supply> {
        self.0.get(need)
    }

    /// The files that were brought for a need.
    pub fn tree(&self, need: &Need) -> Option<&Arc<dyn Tree>> {
        match &self.0.get(need)?.content {
            Content::Tree(tree) => Some(tree),
            Content::Bytes(_) | Content::Absent(_) => None,
        }
    }

    /// The bytes that were brought for a need.
    pub fn bytes(&self, need: &Need) -> Option<&Bytes> {
        match &self.0.get(need)?.content {
            Content::Bytes(bytes) => Some(bytes),
            Content::Tree(_) | Content::Absent(_) => None,
        }
    }

    /// Adds what was brought.
    pub fn add(&mut self, need: Need, supply: Supply) {
        self.0.insert(need, supply);
    }

    /// Whether nothing was brought.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Equal for equal needs that were met with equal content.
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(text);
        };
        for (need, supply) in &self.0 {
            match need {
                Need::Ref { name } => ["ref", name].into_iter().for_each(&mut add),
                Need::Chart { repository, name, version } => {
                    ["chart", repository, name, version].into_iter().for_each(&mut add);
                }
                Need::Repository { url, revision } => {
                    ["repository", url, revision].into_iter().for_each(&mut add);
                }
                Need::ChartFiles { repository, name, version } => {
                    ["chart files", repository, name, version].into_iter().for_each(&mut add);
                }
                Need::Tool(call) => {
                    let digest =
                        call.digest().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
                    ["tool", &digest].into_iter().for_each(&mut add);
                }
                // What it answered says everything: how it was asked differs with each commit, and a source that is no
                // plugin's depends on none of that.
                Need::Plugin(_) => add("plugin"),
                Need::File { url } => ["file", url].into_iter().for_each(&mut add),
                Need::Resource { url } => ["resource", url].into_iter().for_each(&mut add),
            }
            add(&supply.id);
        }
        hash.finalize().into()
    }
}

/// How one attempt to render ended.
#[derive(Debug)]
pub enum Outcome<T> {
    /// With a result.
    Done(T),
    /// It lacks these.
    Needs(Vec<Need>),
}

impl<T> Outcome<T> {
    /// The result, when nothing is lacking.
    ///
    /// # Errors
    /// When something is, and there is nobody who brings it.
    pub fn or_offline(self) -> Result<T, RenderError> {
        match self {
            Self::Done(result) => Ok(result),
            Self::Needs(needs) => {
                let first = needs.first().map(ToString::to_string).unwrap_or_default();
                let text = format!("{first} would have to come from the network");
                Err(RenderError::new(Reason::NetworkRequired, text))
            }
        }
    }
}

/// Bounds of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct NeedLimits {
    /// Attempts: a base of a base of a base takes one each.
    pub rounds: usize,
    /// Things that are brought.
    pub items: usize,
    /// Bytes of files that are brought, together.
    pub bytes: u64,
}

impl Default for NeedLimits {
    fn default() -> Self {
        Self { rounds: 20, items: 500, bytes: 128 << 20 }
    }
}

/// The conversation about one rendering: what was brought so far, and what may still be.
///
/// The shell attempts to render with [`Conversation::supplies`]; of what that lacks it brings what
/// [`Conversation::wanted`] names, hands it over, and attempts again.
#[derive(Clone, Debug)]
pub struct Conversation {
    limits: NeedLimits,
    supplies: Arc<Supplies>,
    rounds: usize,
    items: usize,
    bytes: u64,
}

impl Default for Conversation {
    fn default() -> Self {
        Self::new(NeedLimits::default())
    }
}

impl Conversation {
    /// Nothing was brought yet.
    pub fn new(limits: NeedLimits) -> Self {
        Self { limits, supplies: Arc::default(), rounds: 1, items: 0, bytes: 0 }
    }

    /// What was brought so far.
    pub fn supplies(&self) -> &Arc<Supplies> {
        &self.supplies
    }

    /// What has to be brought before the next attempt.
    ///
    /// # Errors
    /// When a bound is reached, or the renderer asks again for what it was given.
    pub fn wanted(&mut self, needs: Vec<Need>) -> Result<Vec<Need>, RenderError> {
        let exceeded = |what: String| Err(RenderError::new(Reason::BudgetExceeded, what));
        let NeedLimits { rounds, items, .. } = self.limits;
        let new: BTreeSet<Need> =
            needs.into_iter().filter(|need| self.supplies.get(need).is_none()).collect();
        self.rounds += 1;
        self.items += new.len();
        if new.is_empty() {
            return exceeded("the source needs again what it was given".to_owned());
        }
        if self.items > items {
            return exceeded(format!("the source needs more than {items} things from outside"));
        }
        if self.rounds > rounds {
            return exceeded(format!("the source needs things from outside more than {rounds} times"));
        }
        Ok(new.into_iter().collect())
    }

    /// Takes what was brought.
    ///
    /// # Errors
    /// When it is more than may be brought.
    pub fn add(&mut self, need: Need, supply: Supply) -> Result<(), RenderError> {
        self.bytes = self.bytes.saturating_add(supply.weight());
        let limit = self.limits.bytes;
        if self.bytes > limit {
            let text = format!("the source needs more than {limit} bytes from outside");
            return Err(RenderError::new(Reason::BudgetExceeded, text));
        }
        Arc::make_mut(&mut self.supplies).add(need, supply);
        Ok(())
    }
}

/// The whole conversation, where nothing has to be waited for.
///
/// # Errors
/// When an attempt fails, something cannot be brought, or a bound is reached.
pub fn supply_at_once<T, E: From<RenderError>>(
    limits: NeedLimits,
    mut attempt: impl FnMut(&Arc<Supplies>) -> Result<Outcome<T>, E>,
    mut bring: impl FnMut(&Need) -> Result<Supply, E>,
) -> Result<T, E> {
    let mut conversation = Conversation::new(limits);
    loop {
        match attempt(conversation.supplies())? {
            Outcome::Done(result) => return Ok(result),
            Outcome::Needs(needs) => {
                for need in conversation.wanted(needs)? {
                    let supply = bring(&need)?;
                    conversation.add(need, supply)?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(nth: usize) -> Need {
        Need::File { url: format!("https://h/{nth}") }
    }

    fn run(
        limits: NeedLimits,
        attempt: impl Fn(&Supplies) -> Outcome<usize>,
        bring: impl Fn(&Need) -> Result<Supply, RenderError>,
    ) -> Result<usize, String> {
        let result: Result<usize, RenderError> =
            supply_at_once(limits, |supplies| Ok(attempt(supplies)), |need| bring(need));
        result.map_err(|error| error.to_string())
    }

    #[test]
    fn rnd_141_what_is_needed_is_brought_until_there_is_a_result() {
        let bytes = |need: &Need| Ok(Supply::bytes(need.to_string().into()));
        let three = |supplies: &Supplies| match supplies.0.len() {
            3 => Outcome::Done(3),
            have => Outcome::Needs(vec![file(have), file(0)]),
        };
        assert_eq!(run(NeedLimits::default(), three, bytes), Ok(3));
        let endless = |supplies: &Supplies| Outcome::Needs(vec![file(supplies.0.len())]);
        assert!(run(NeedLimits::default(), endless, bytes).unwrap_err().contains("more than 20 times"));
        let few = NeedLimits { items: 2, ..NeedLimits::default() };
        assert!(run(few, three, bytes).unwrap_err().contains("more than 2 things"));
        let small = NeedLimits { bytes: 20, ..NeedLimits::default() };
        assert!(run(small, three, bytes).unwrap_err().contains("more than 20 bytes"));
        let same = |_: &Supplies| Outcome::Needs(vec![file(0)]);
        assert!(run(NeedLimits::default(), same, bytes).unwrap_err().contains("needs again"));
    }

    #[test]
    fn inv_1_what_cannot_be_brought_is_an_error() {
        let fails = |_: &Need| Err(RenderError::new(Reason::ContentUnavailable, "down"));
        let needy = |_: &Supplies| Outcome::Needs(vec![file(0)]);
        assert_eq!(run(NeedLimits::default(), needy, fails), Err("down".to_owned()));
    }

    #[test]
    fn rnd_141_what_was_brought_counts() {
        let with = |pairs: &[(Need, &str)]| {
            let mut supplies = Supplies::default();
            for (need, text) in pairs {
                supplies.add(need.clone(), Supply::bytes(Bytes::copy_from_slice(text.as_bytes())));
            }
            supplies.digest()
        };
        assert_eq!(with(&[(file(0), "a"), (file(1), "b")]), with(&[(file(1), "b"), (file(0), "a")]));
        assert_ne!(with(&[(file(0), "a")]), with(&[(file(0), "b")]));
        assert_ne!(with(&[(file(0), "a")]), with(&[(file(1), "a")]));
        assert_ne!(with(&[(file(0), "a")]), with(&[]));
    }
}
