//! Which repositories, branches and pull requests are wanted (ASET-57, ASET-62).

use serde_json::{Map, Value};
use tiphys_go::regexp::Regexp;

use crate::ScmError;
use crate::fields::Fields;

/// How several filters are combined (`applicationsetcontroller.scm.filters.mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterMode {
    /// As in Argo CD: a repository needs one of the filters for repositories, and then a branch one of those for
    /// branches.
    #[default]
    Separate,
    /// As it is documented: repository and branch together need one of all filters.
    Documented,
}

/// A filter of repositories and their branches. What it says holds all together.
#[derive(Clone, Debug)]
pub(crate) struct RepositoryFilter {
    repository: Option<Regexp>,
    branch: Option<Regexp>,
    label: Option<Regexp>,
    pub(crate) paths_exist: Vec<String>,
    pub(crate) paths_do_not_exist: Vec<String>,
}

/// A filter of pull requests.
#[derive(Clone, Debug)]
pub(crate) struct PullRequestFilter {
    branch: Option<Regexp>,
    target_branch: Option<Regexp>,
    title: Option<Regexp>,
}

fn pattern(fields: &mut Fields<'_>, field: &'static str) -> Result<Option<Regexp>, ScmError> {
    let pattern = fields.text(field)?;
    if pattern.is_empty() {
        return Ok(None);
    }
    let compiled = Regexp::new(&pattern);
    compiled.map(Some).map_err(|error| ScmError::Filter { field, pattern, problem: error.to_string() })
}

fn accepts(pattern: Option<&Regexp>, text: &str) -> bool {
    pattern.is_none_or(|pattern| pattern.is_match(text))
}

impl RepositoryFilter {
    pub(crate) fn read(block: &Map<String, Value>) -> Result<Self, ScmError> {
        let mut fields = Fields::of("filters", block);
        let paths = |paths: Vec<String>| {
            paths.into_iter().map(|path| path.trim_end_matches('/').to_owned()).collect()
        };
        let filter = Self {
            repository: pattern(&mut fields, "repositoryMatch")?,
            branch: pattern(&mut fields, "branchMatch")?,
            label: pattern(&mut fields, "labelMatch")?,
            paths_exist: paths(fields.texts("pathsExist")?),
            paths_do_not_exist: paths(fields.texts("pathsDoNotExist")?),
        };
        fields.end()?;
        Ok(filter)
    }

    /// Whether it is about branches.
    pub(crate) fn is_of_branches(&self) -> bool {
        self.branch.is_some() || !self.paths_exist.is_empty() || !self.paths_do_not_exist.is_empty()
    }

    /// Whether it says anything.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_of_branches() && self.repository.is_none() && self.label.is_none()
    }

    pub(crate) fn accepts_repository(&self, name: &str, labels: &[String]) -> bool {
        accepts(self.repository.as_ref(), name)
            && self.label.as_ref().is_none_or(|label| labels.iter().any(|one| label.is_match(one)))
    }

    pub(crate) fn accepts_branch(&self, branch: &str) -> bool {
        accepts(self.branch.as_ref(), branch)
    }
}

impl PullRequestFilter {
    pub(crate) fn read(block: &Map<String, Value>) -> Result<Self, ScmError> {
        let mut fields = Fields::of("filters", block);
        let filter = Self {
            branch: pattern(&mut fields, "branchMatch")?,
            target_branch: pattern(&mut fields, "targetBranchMatch")?,
            title: pattern(&mut fields, "titleMatch")?,
        };
        fields.end()?;
        Ok(filter)
    }

    fn is_empty(&self) -> bool {
        self.branch.is_none() && self.target_branch.is_none() && self.title.is_none()
    }

    fn accepts(&self, branch: &str, target_branch: &str, title: &str) -> bool {
        accepts(self.branch.as_ref(), branch)
            && accepts(self.target_branch.as_ref(), target_branch)
            && accepts(self.title.as_ref(), title)
    }
}

/// Whether one of some filters accepts a pull request; filters that say nothing are none.
pub(crate) fn accepts_pull_request(
    filters: &[PullRequestFilter],
    branch: &str,
    target_branch: &str,
    title: &str,
) -> bool {
    let mut filters = filters.iter().filter(|filter| !filter.is_empty()).peekable();
    filters.peek().is_none() || filters.any(|filter| filter.accepts(branch, target_branch, title))
}
