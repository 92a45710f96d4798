//! Charts in a directory of a tree.

use tiphys_go::steps::Steps;
use tiphys_tree::links::{Resolved, resolve};
use tiphys_tree::{Entry, EntryKind, Tree, TreeError, TreePath};

use super::archive::without_mark;
use super::load::{Budget, load_files};
use super::{Chart, ChartError, File, IgnoreRules, LoadLimits};
use crate::HelmVersion;

/// Directories below each other that are entered; links can make more of them than there are.
const DEPTH_MAX: usize = 200;
/// Steps that `.helmignore` may take for all files of a chart.
const IGNORE_STEPS_MAX: u64 = 200_000_000;
/// Longest `.helmignore`.
const IGNORE_BYTES_MAX: u64 = 1 << 20;

/// Reads the chart in a directory; links are followed inside the tree.
pub fn load_directory(
    tree: &dyn Tree,
    path: &TreePath,
    version: HelmVersion,
    limits: &LoadLimits,
) -> Result<Chart, ChartError> {
    let mut budget = Budget::new(version, *limits);
    let rules = IgnoreRules::parse(read_rules(tree, path)?.as_deref())?;
    let steps = Steps::new(IGNORE_STEPS_MAX);
    let mut walk = Walk { tree, rules, steps, budget: &mut budget, files: Vec::new() };
    let Resolved::Found(directory, _) = resolve(tree, path)? else {
        return Err(ChartError::Missing);
    };
    walk.members("", &directory, 0)?;
    let files = walk.files;
    load_files(files, &mut budget, 0)
}

fn read_rules(tree: &dyn Tree, directory: &TreePath) -> Result<Option<String>, ChartError> {
    match resolve(tree, &directory.child(".helmignore"))? {
        Resolved::Found(path, entry) if entry.is_file() => {
            let bytes = tree.read(&path, IGNORE_BYTES_MAX)?;
            Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
        }
        _ => Ok(None),
    }
}

struct Walk<'w> {
    tree: &'w dyn Tree,
    rules: IgnoreRules,
    steps: Steps,
    budget: &'w mut Budget,
    files: Vec<File>,
}

impl Walk<'_> {
    /// Looks at the members of a directory, which stands at `name` in the chart and at `path` in the tree.
    fn members(&mut self, name: &str, path: &TreePath, depth: usize) -> Result<(), ChartError> {
        if depth > DEPTH_MAX {
            return Err(ChartError::TooDeep);
        }
        for (member, entry) in self.tree.list(path)? {
            let name = if name.is_empty() { member.clone() } else { format!("{name}/{member}") };
            self.member(&name, path.child(&member), entry, depth)?;
        }
        Ok(())
    }

    fn member(&mut self, name: &str, path: TreePath, entry: Entry, depth: usize) -> Result<(), ChartError> {
        self.budget.file()?;
        let (path, entry) = if entry.is_file() || entry.is_directory() {
            (path, entry)
        } else if entry.kind == EntryKind::Submodule && self.rules.ignores(name, true, &mut self.steps)? {
            return Ok(());
        } else {
            // Helm evaluates links before it asks whether they are ignored.
            match resolve(self.tree, &path)? {
                Resolved::Found(path, entry) => (path, entry),
                Resolved::Submodule(path) => return Err(TreeError::submodule(self.tree, &path).into()),
                Resolved::Missing => return Err(ChartError::DanglingLink { name: name.to_owned() }),
                Resolved::Outside => return Err(ChartError::Link { name: name.to_owned() }),
                Resolved::Loop => return Err(ChartError::LinkLoop { name: name.to_owned() }),
            }
        };
        if self.rules.ignores(name, entry.is_directory(), &mut self.steps)? {
            return Ok(());
        }
        if entry.is_directory() {
            return self.members(name, &path, depth + 1);
        }
        let data = self.budget.read(self.tree, &path, name)?;
        self.files.push(File { name: name.to_owned(), data: without_mark(data) });
        Ok(())
    }
}
