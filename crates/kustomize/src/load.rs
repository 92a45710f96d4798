//! Files and directories as a kustomization names them (RND-209, RND-210).
//!
//! Every path is that of a [`Tree`]; a kustomization in another repository has a tree of its own. Links are followed
//! inside of it. Texts of errors show paths of the tree and never those of a host.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tiphys_tree::links::{self, Resolved};
use tiphys_tree::{Tree, TreeError, TreePath};

use crate::KustomizeError;
use crate::fault::{Class, Fault, Result, attempt};
use crate::remote::{Content, Fetched, RemoteSpec, Repository, is_remote_file};

/// A tree, and which repository it is of.
pub(crate) enum Checkout<'b> {
    /// The tree of the application.
    Own(&'b dyn Tree),
    /// Another repository.
    Remote { tree: Arc<dyn Tree>, repository: Repository },
}

impl Checkout<'_> {
    pub(crate) fn tree(&self) -> &dyn Tree {
        match self {
            Self::Own(tree) => *tree,
            Self::Remote { tree, .. } => tree.as_ref(),
        }
    }

    fn repository(&self) -> Option<&Repository> {
        match self {
            Self::Own(_) => None,
            Self::Remote { repository, .. } => Some(repository),
        }
    }
}

/// What may be read, and what has been.
pub(crate) struct Reading<'b> {
    pub(crate) fetched: &'b dyn Fetched,
    /// What was asked for and is not fetched yet.
    pub(crate) missing: Vec<RemoteSpec>,
    /// Bytes that may still be read.
    pub(crate) bytes_left: u64,
    pub(crate) bytes_limit: u64,
    /// Files that may still be looked for.
    pub(crate) files_left: usize,
}

impl Reading<'_> {
    /// Notes that a spec is missing; the build goes on as if its content were empty, to find others.
    pub(crate) fn note_missing(&mut self, spec: RemoteSpec) {
        if !self.missing.contains(&spec) {
            self.missing.push(spec);
        }
    }

    fn count(&mut self, bytes: &Bytes) -> Result<()> {
        let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        match self.bytes_left.checked_sub(read) {
            Some(left) => {
                self.bytes_left = left;
                Ok(())
            }
            None => Err(Fault::exhausted(format!("more than {} bytes of files", self.bytes_limit))),
        }
    }

    fn look(&mut self) -> Result<()> {
        match self.files_left.checked_sub(1) {
            Some(left) => {
                self.files_left = left;
                Ok(())
            }
            None => Err(Fault::exhausted("too many files".to_owned())),
        }
    }
}

/// What a look for a remote directory or file ends with.
pub(crate) enum Found<T> {
    /// It is there.
    Here(T),
    /// It is not fetched yet, and the spec is noted.
    NotYet,
}

/// Reads what one kustomization names.
pub(crate) struct Loader<'b> {
    checkout: Rc<Checkout<'b>>,
    /// The directory of the kustomization, without links.
    root: TreePath,
    is_restricted: bool,
    referrer: Option<Rc<Self>>,
}

impl<'b> Loader<'b> {
    /// For the kustomization that is built.
    pub(crate) fn root(tree: &'b dyn Tree, directory: &TreePath, is_restricted: bool) -> Result<Rc<Self>> {
        let checkout = Rc::new(Checkout::Own(tree));
        let root = confirm_directory(checkout.tree(), directory).map_err(not_a_directory)?;
        Ok(Rc::new(Self { checkout, root, is_restricted, referrer: None }))
    }

    /// The directory of the kustomization.
    pub(crate) fn directory(&self) -> &TreePath {
        &self.root
    }

    /// The tree it is in.
    pub(crate) fn checkout(&self) -> &Rc<Checkout<'b>> {
        &self.checkout
    }

    /// The text that names the directory in errors.
    pub(crate) fn shown(&self) -> String {
        self.root.to_string()
    }

    /// A loader for a base or component: a directory of the tree, or one of another repository.
    pub(crate) fn enter(self: &Rc<Self>, reading: &mut Reading<'_>, path: &str) -> Result<Found<Rc<Self>>> {
        if path.is_empty() {
            return Err(Fault::new("new root cannot be empty"));
        }
        reading.look()?;
        if let Some(repository) = Repository::parse(path)? {
            self.check_repository_cycle(&repository)?;
            return self.enter_repository(reading, repository);
        }
        if path.starts_with('/') {
            return Err(Fault::new(format!("new root '{path}' cannot be absolute")));
        }
        let joined = self.join(path).map_err(not_a_directory)?;
        let root = confirm_directory(self.checkout.tree(), &joined).map_err(not_a_directory)?;
        self.check_cycle(&self.checkout, &root)?;
        Ok(Found::Here(Rc::new(Self {
            checkout: Rc::clone(&self.checkout),
            root,
            is_restricted: self.is_restricted,
            referrer: Some(Rc::clone(self)),
        })))
    }

    fn enter_repository(
        self: &Rc<Self>,
        reading: &mut Reading<'_>,
        repository: Repository,
    ) -> Result<Found<Rc<Self>>> {
        let spec = repository.spec();
        let tree = match reading.fetched.look_up(&spec) {
            None => {
                reading.note_missing(spec);
                return Ok(Found::NotYet);
            }
            Some(Ok(Content::Tree(tree))) => tree,
            Some(Ok(Content::File(_))) => {
                return Err(Fault::new(format!("{spec} is a file; expecting directory")));
            }
            Some(Err(reason)) => return Err(Fault::new(reason)),
        };
        let directory = TreePath::parse(repository.path.trim_matches('/'))
            .map_err(|_outside| Fault::new(format!("{spec} refers to directory outside of repo")))?;
        let checkout = Rc::new(Checkout::Remote { tree, repository });
        let root = match resolve(checkout.tree(), &directory)? {
            Some((root, true)) => root,
            Some((file, false)) => {
                let name = file.name();
                return Err(Fault::new(format!(
                    "'{directory}' refers to file '{name}'; expecting directory"
                )));
            }
            None => return Err(no_such_file(checkout.tree(), &directory)?),
        };
        Ok(Found::Here(Rc::new(Self {
            checkout,
            root,
            is_restricted: true,
            referrer: Some(Rc::clone(self)),
        })))
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |loader| loader.referrer.as_deref())
    }

    fn check_cycle(&self, checkout: &Rc<Checkout<'b>>, candidate: &TreePath) -> Result<()> {
        let same_tree = |loader: &&Self| Rc::ptr_eq(&loader.checkout, checkout);
        match self.chain().filter(same_tree).find(|loader| loader.root.is_within(candidate)) {
            Some(loader) => Err(Fault::new(format!(
                "cycle detected: candidate root '{candidate}' contains visited root '{}'",
                loader.root
            ))),
            None => Ok(()),
        }
    }

    fn check_repository_cycle(&self, new: &Repository) -> Result<()> {
        let mut visited = self.chain().filter_map(|loader| loader.checkout.repository());
        match visited.find(|visited| visited.raw.starts_with(&new.raw)) {
            Some(visited) => Err(Fault::new(format!(
                "cycle detected: URI '{}' referenced by previous URI '{}'",
                new.raw, visited.raw
            ))),
            None => Ok(()),
        }
    }

    fn join(&self, path: &str) -> Result<TreePath> {
        let outside = || Fault::new(format!("'{path}' is outside of the repository"));
        if path.starts_with('/') {
            return Err(outside());
        }
        self.root.join(path).map_err(|_outside| outside())
    }

    /// The bytes of a file, or of what is behind a URL.
    ///
    /// # Errors
    /// When there is no such file, it may not be read, or it is not fetched yet.
    pub(crate) fn load(&self, reading: &mut Reading<'_>, path: &str) -> Result<Found<Bytes>> {
        reading.look()?;
        if is_remote_file(path) {
            return Self::load_remote(reading, path);
        }
        let joined = self.join(path)?;
        let resolved = resolve(self.checkout.tree(), &joined)?;
        let shown = joined.to_string();
        let file = match resolved {
            Some((_, true)) if self.is_restricted => {
                return Err(Fault::new(format!("'{shown}' must resolve to a file")));
            }
            Some((_, true)) => return Err(Fault::new(format!("read {shown}: is a directory"))),
            Some((file, false)) => file,
            None if self.is_restricted => return Err(no_such_file(self.checkout.tree(), &joined)?),
            None => return Err(Fault::new(format!("open {shown}: no such file or directory"))),
        };
        let directory = file.parent().unwrap_or_default();
        if self.is_restricted && !directory.is_within(&self.root) {
            return Err(Fault::new(format!("security; file '{shown}' is not in or below '{}'", self.root)));
        }
        let bytes = self.checkout.tree().read(&file, reading.bytes_left).map_err(tree_fault)?;
        reading.count(&bytes)?;
        Ok(Found::Here(bytes))
    }

    fn load_remote(reading: &mut Reading<'_>, url: &str) -> Result<Found<Bytes>> {
        let spec = RemoteSpec::File { url: url.to_owned() };
        match reading.fetched.look_up(&spec) {
            None => {
                reading.note_missing(spec);
                Ok(Found::NotYet)
            }
            Some(Ok(Content::File(bytes))) => {
                reading.count(&bytes)?;
                Ok(Found::Here(bytes))
            }
            Some(Ok(Content::Tree(_))) => Err(Fault::new("URL is a git repository")),
            Some(Err(reason)) => match attempt(Repository::parse(url))? {
                Ok(Some(_)) => Err(Fault::new("URL is a git repository")),
                _ => Err(Fault::of(Class::Http, format!("HTTP Error: {reason}"))),
            },
        }
    }

    /// Fails when a path is not below the directory of the kustomization, and has to be.
    pub(crate) fn check_below(&self, path: &str) -> Result<()> {
        let joined = self.join(path)?;
        if self.is_restricted && !joined.is_within(&self.root) {
            return Err(Fault::new(format!("security; file '{joined}' is not in or below '{}'", self.root)));
        }
        Ok(())
    }

    /// The bytes of a file of another tree.
    pub(crate) fn load_from(reading: &mut Reading<'_>, tree: &dyn Tree, path: &str) -> Result<Found<Bytes>> {
        reading.look()?;
        let joined =
            TreePath::root().join(path).map_err(|_outside| Fault::new(format!("no file '{path}'")))?;
        let Some((file, false)) = resolve(tree, &joined)? else { return Err(no_such_file(tree, &joined)?) };
        let bytes = tree.read(&file, reading.bytes_left).map_err(tree_fault)?;
        reading.count(&bytes)?;
        Ok(Found::Here(bytes))
    }

    /// Whether a directory is there, links followed; its path without them.
    pub(crate) fn directory_at(&self, path: &str) -> Result<Option<TreePath>> {
        let joined = self.join(path)?;
        Ok(resolve(self.checkout.tree(), &joined)?
            .filter(|(_, is_directory)| *is_directory)
            .map(|(path, _)| path))
    }

    /// Names of the files that a kustomization may have, as far as they are there.
    pub(crate) fn kustomization_files(
        &self,
        reading: &mut Reading<'_>,
    ) -> Result<Vec<(&'static str, Bytes)>> {
        let mut found = Vec::new();
        for name in crate::kustomization::FILE_NAMES {
            if self.checkout.tree().entry(&self.root.child(name)).map_err(tree_fault)?.is_none() {
                continue;
            }
            if let Ok(Found::Here(bytes)) = attempt(self.load(reading, name))? {
                found.push((name, bytes));
            }
        }
        Ok(found)
    }
}

fn not_a_directory(fault: Fault) -> Fault {
    fault.before("must build at directory")
}

/// What a failed look at a tree means: faults of the store are no faults of the input.
pub(crate) fn tree_fault(error: TreeError) -> Fault {
    match error {
        TreeError::NotFound { .. } | TreeError::NotAFile { .. } | TreeError::NotADirectory { .. } => {
            Fault::new(error.to_string())
        }
        TreeError::TooLarge { .. } | TreeError::Exceeded { .. } => Fault::exhausted(error.to_string()),
        TreeError::Cancelled => Fault::cancelled(),
        TreeError::Submodule { .. } | TreeError::Damaged { .. } => Fault::stop(KustomizeError::Tree(error)),
    }
}

/// The path behind all links, and whether a directory stands there.
fn resolve(tree: &dyn Tree, path: &TreePath) -> Result<Option<(TreePath, bool)>> {
    match links::resolve(tree, path).map_err(tree_fault)? {
        Resolved::Found(found, entry) => Ok(Some((found, entry.is_directory()))),
        Resolved::Missing => Ok(None),
        Resolved::Submodule(found) => Err(tree_fault(TreeError::submodule(tree, &found))),
        Resolved::Outside => Err(Fault::new(format!("'{path}' leads out of the repository"))),
        Resolved::Loop => Err(Fault::new(format!("evalsymlink failure on '{path}' : too many links"))),
    }
}

fn confirm_directory(tree: &dyn Tree, path: &TreePath) -> Result<TreePath> {
    match resolve(tree, path)? {
        Some((found, true)) => Ok(found),
        Some((_, false)) => Err(Fault::new(format!("'{path}': file is not directory"))),
        None => {
            let fault = no_such_file(tree, path)?;
            Err(fault.before("not a valid directory"))
        }
    }
}

/// The error about a path that leads nowhere, with the first part of it that is not there.
fn no_such_file(tree: &dyn Tree, path: &TreePath) -> Result<Fault> {
    let mut known = TreePath::root();
    let mut missing = path.clone();
    for part in path.components() {
        let next = known.child(part);
        if resolve(tree, &next)?.is_none() {
            missing = next;
            break;
        }
        known = next;
    }
    let text = format!("evalsymlink failure on '{path}' : lstat {missing}: no such file or directory");
    Ok(Fault::new(text))
}
