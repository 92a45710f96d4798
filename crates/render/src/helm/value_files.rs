//! Where value files are: in the chart's repository, in that of another source, or behind a URL (RND-99..102, RND-121).

use std::collections::BTreeSet;

use bytes::Bytes;
use tiphys_go::doublestar;
use tiphys_tree::WalkLimit;

use crate::environment::{Environment, substitute};
use crate::links::{self, Resolved, WALK_DEPTH_MAX};
use crate::needs::{Need, Supplies};
use crate::plan::RefSource;
use crate::request::Budget;
use crate::{EntryKind, Reason, RenderError, Tree, TreeError, TreePath};

/// A file that values come from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// In the tree of the source itself.
    Own(TreePath),
    /// In that of another source.
    Ref(String, TreePath),
    /// Behind a URL.
    Url(String),
}

impl Place {
    /// What messages call it.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Own(path) => path.to_string(),
            Self::Ref(name, path) => format!("${name}/{path}"),
            Self::Url(url) => tiphys_api::repo_url::redact(url),
        }
    }
}

/// Looks value files up.
pub(super) struct ValueFiles<'a> {
    pub(super) tree: &'a dyn Tree,
    pub(super) directory: &'a TreePath,
    /// Sources that may be named; `None` for an application of a single source.
    pub(super) refs: Option<&'a [RefSource]>,
    pub(super) supplies: &'a Supplies,
    pub(super) environment: &'a Environment,
    pub(super) schemes: &'a [String],
    pub(super) budget: &'a Budget,
}

/// A name before globs are expanded.
enum Named<'a> {
    Url(String),
    /// A path, and the tree that it is in.
    Path {
        tree: &'a dyn Tree,
        name: Option<String>,
        path: TreePath,
        written: String,
    },
}

impl<'a> ValueFiles<'a> {
    /// The files of a list, each once: one that is named keeps its place and is left out of globs, the others stand
    /// where they come up first (RND-101).
    pub(super) fn resolve(
        &self,
        names: &[String],
        ignore_missing: bool,
        needs: &mut Vec<Need>,
    ) -> Result<Vec<Place>, RenderError> {
        let mut named = Vec::with_capacity(names.len());
        for name in names {
            named.extend(self.named(name, needs)?.map(|one| (one, name)));
        }
        let explicit: BTreeSet<Place> = named
            .iter()
            .filter_map(|(one, _)| match one {
                Named::Path { name, path, written, .. } if !is_glob(written) => {
                    Some(place(name.as_deref(), path.clone()))
                }
                _ => None,
            })
            .collect();
        let mut places: Vec<Place> = Vec::new();
        let mut seen = BTreeSet::new();
        for (one, as_written) in named {
            let found: Vec<Place> = match &one {
                Named::Url(url) => vec![Place::Url(url.clone())],
                Named::Path { tree, name, path, written } if is_glob(written) => {
                    let matches = self.expand(*tree, path, written)?;
                    if matches.is_empty() && !ignore_missing {
                        let text = format!("values file glob \"{as_written}\" matched no files");
                        return Err(RenderError::new(Reason::ValuesGlobNoMatch, text));
                    }
                    let places = matches.into_iter().map(|path| place(name.as_deref(), path));
                    places.filter(|place| !explicit.contains(place)).collect()
                }
                Named::Path { tree, name, path, written } => match Self::follow(*tree, path, written)? {
                    Some(_) => vec![place(name.as_deref(), path.clone())],
                    None if ignore_missing => Vec::new(),
                    None => return Err(missing(written)),
                },
            };
            places.extend(found.into_iter().filter(|place| seen.insert(place.clone())));
        }
        Ok(places)
    }

    /// The file of a file parameter: no globs, and it must be there (RND-102).
    pub(super) fn single(&self, name: &str, needs: &mut Vec<Need>) -> Result<Option<Place>, RenderError> {
        match self.named(name, needs)? {
            None => Ok(None),
            Some(Named::Url(url)) => Ok(Some(Place::Url(url))),
            Some(Named::Path { tree, name, path, written }) => match Self::follow(tree, &path, &written)? {
                Some(_) => Ok(Some(place(name.as_deref(), path))),
                None => Err(missing(&written)),
            },
        }
    }

    /// The bytes of a file; `None` when they have to be brought first.
    pub(super) fn read(
        &self,
        place: &Place,
        bytes_max: u64,
        needs: &mut Vec<Need>,
    ) -> Result<Option<Bytes>, RenderError> {
        let (tree, path): (&dyn Tree, &TreePath) = match place {
            Place::Own(path) => (self.tree, path),
            Place::Ref(name, path) => {
                let need = Need::Ref { name: name.clone() };
                if let Some(tree) = self.supplies.tree(&need) {
                    (tree.as_ref(), path)
                } else {
                    needs.push(need);
                    return Ok(None);
                }
            }
            Place::Url(url) => {
                let need = Need::File { url: url.clone() };
                return if let Some(bytes) = self.supplies.bytes(&need) {
                    Ok(Some(bytes.clone()))
                } else {
                    needs.push(need);
                    Ok(None)
                };
            }
        };
        let shown = place.shown();
        let real = Self::follow(tree, path, &shown)?.ok_or_else(|| missing(&shown))?;
        match tree.read(&real, bytes_max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error @ TreeError::TooLarge { .. }) => {
                Err(RenderError::new(Reason::BudgetExceeded, error.to_string()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What a name means; `None` when the source that it names has to be brought first.
    fn named(&self, written: &str, needs: &mut Vec<Need>) -> Result<Option<Named<'a>>, RenderError> {
        if let (Some(refs), Some(rest)) = (self.refs, written.strip_prefix('$')) {
            let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
            let source = refs.iter().find(|one| one.name == name);
            let Some(source) = source else { return Err(unknown_ref(name, refs)) };
            if source.is_chart {
                // The words of the reference.
                let text = "source has a 'chart' field defined, but Helm charts are not yet not supported for 'ref' sources";
                return Err(RenderError::new(Reason::RefChart, text));
            }
            let need = Need::Ref { name: name.to_owned() };
            let Some(tree) = self.supplies.tree(&need) else {
                needs.push(need);
                return Ok(None);
            };
            let rest = substitute(rest, self.environment);
            let path = TreePath::parse(rest.trim_start_matches('/')).map_err(|_error| outside(written))?;
            return Ok(Some(Named::Path {
                tree: tree.as_ref(),
                name: Some(name.to_owned()),
                path,
                written: rest,
            }));
        }
        let name = substitute(written, self.environment);
        if let Some(scheme) = scheme(&name) {
            if self.schemes.iter().any(|one| one.eq_ignore_ascii_case(scheme)) {
                return Ok(Some(Named::Url(name)));
            }
            let text = format!("the URL scheme '{scheme}' is not allowed");
            return Err(RenderError::new(Reason::UrlSchemeNotAllowed, text));
        }
        let path = match name.strip_prefix('/') {
            // An absolute path begins at the root of the repository.
            Some(rest) => TreePath::parse(rest.trim_start_matches('/')),
            None => self.directory.join(&name),
        };
        let path = path.map_err(|_error| outside(written))?;
        Ok(Some(Named::Path { tree: self.tree, name: None, path, written: name }))
    }

    /// Where a file really is; `None` when there is none.
    fn follow(tree: &dyn Tree, path: &TreePath, written: &str) -> Result<Option<TreePath>, RenderError> {
        match links::resolve(tree, path)? {
            Resolved::Found(real, entry) if entry.is_file() => Ok(Some(real)),
            Resolved::Found(..) | Resolved::Missing => Ok(None),
            Resolved::Outside => Err(outside(written)),
            Resolved::Loop => Err(RenderError::new(Reason::SymlinkLoop, "too many links")),
            Resolved::Submodule(path) => Err(TreeError::submodule(tree, &path).into()),
        }
    }

    /// Files that match a pattern, those of a directory before those below it (RND-101).
    fn expand(
        &self,
        tree: &dyn Tree,
        pattern: &TreePath,
        written: &str,
    ) -> Result<Vec<TreePath>, RenderError> {
        let mut top = TreePath::root();
        for part in pattern.components().take_while(|part| !is_glob(part)) {
            top = top.child(part);
        }
        let mut found = Vec::new();
        let mut limit = WalkLimit::new(self.budget.files, self.budget.cancelled.as_deref());
        let mut walk = Walk { tree, pattern: pattern.as_str(), written, found: &mut found };
        match links::resolve(tree, &top)? {
            Resolved::Found(_, entry) if entry.is_directory() => walk.enter(&top, 0, &mut limit)?,
            Resolved::Outside => return Err(outside(written)),
            Resolved::Submodule(path) => return Err(TreeError::submodule(tree, &path).into()),
            Resolved::Found(..) | Resolved::Missing | Resolved::Loop => {}
        }
        Ok(found)
    }
}

struct Walk<'w> {
    tree: &'w dyn Tree,
    pattern: &'w str,
    written: &'w str,
    found: &'w mut Vec<TreePath>,
}

impl Walk<'_> {
    fn enter(
        &mut self,
        directory: &TreePath,
        depth: usize,
        limit: &mut WalkLimit<'_>,
    ) -> Result<(), RenderError> {
        if depth > WALK_DEPTH_MAX {
            return Err(RenderError::new(Reason::BudgetExceeded, "directories are nested too deeply"));
        }
        let Resolved::Found(real, _) = links::resolve(self.tree, directory)? else { return Ok(()) };
        let members = self.tree.list(&real)?;
        limit.spend(members.len())?;
        let mut below = Vec::new();
        for (name, entry) in members {
            let path = directory.child(&name);
            match entry.kind {
                EntryKind::Directory => below.push(path),
                EntryKind::File { .. } | EntryKind::Symlink { .. } => {
                    let matches = doublestar::is_match(self.pattern, path.as_str()).map_err(|error| {
                        RenderError::new(Reason::ValuesGlobNoMatch, format!("{:?}: {error}", self.written))
                    })?;
                    if matches && ValueFiles::follow(self.tree, &path, self.written)?.is_some() {
                        self.found.push(path);
                    }
                }
                EntryKind::Submodule => {}
            }
        }
        below.iter().try_for_each(|path| self.enter(path, depth + 1, limit))
    }
}

fn place(name: Option<&str>, path: TreePath) -> Place {
    match name {
        Some(name) => Place::Ref(name.to_owned(), path),
        None => Place::Own(path),
    }
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The scheme of a URL, as Go's parser finds one.
fn scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(':')?;
    let mut characters = scheme.chars();
    let is_scheme = characters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && characters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    (is_scheme && rest.starts_with("//")).then_some(scheme)
}

fn outside(written: &str) -> RenderError {
    RenderError::new(
        Reason::ResolvedOutsideRepo,
        format!("file '{written}' resolved to outside repository root"),
    )
}

fn missing(written: &str) -> RenderError {
    RenderError::new(Reason::ValuesFileMissing, format!("open {written}: no such file or directory"))
}

fn unknown_ref(name: &str, refs: &[RefSource]) -> RenderError {
    let text = if refs.is_empty() {
        format!("source referenced \"${name}\", but no source has a 'ref' field defined")
    } else {
        let mut known: Vec<String> = refs.iter().map(|one| format!("${}", one.name)).collect();
        known.sort();
        format!(
            "source referenced \"${name}\", which is not one of the available sources ({})",
            known.join(", ")
        )
    };
    RenderError::new(Reason::RefUnknown, text)
}
