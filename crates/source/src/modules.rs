//! Trees whose submodules have their content (RND-45).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tiphys_api::repo_url::Scheme;
use tiphys_render::{Entry, EntryKind, KnownDirectory, Tree, TreeError, TreePath, WalkLimit};

use crate::git::HttpCredentials;
use crate::repository::{Transport, hex};
use crate::{Repository, SourceError};

/// The repository of a submodule, as one of a repository sees it.
///
/// # Errors
/// When the URL is none that may be asked.
pub(crate) fn repository(parent: &Repository, url: &str) -> Result<Repository, SourceError> {
    related(parent, url, |url| url)
}

/// The server of Git LFS that `.lfsconfig` of a repository names.
///
/// # Errors
/// When the URL is none that may be asked.
pub(crate) fn server_of_files(parent: &Repository, url: &str) -> Result<Repository, SourceError> {
    related(parent, url, |url| {
        let url = url.trim_end_matches('/');
        url.strip_suffix("/info/lfs").unwrap_or(url)
    })
}

/// What a repository refers to. Whoever may commit writes these URLs, so they take credentials and exemptions only to
/// the server that these are for, never to the disk of the machine, and shared ones only to repositories that the
/// project permits (A3).
fn related(
    parent: &Repository,
    url: &str,
    repository_of: impl Fn(&str) -> &str,
) -> Result<Repository, SourceError> {
    let from = parent.location()?;
    let is_relative = url.starts_with("./") || url.starts_with("../");
    let url = if is_relative { relative(parent.url.expose(), url)? } else { url.to_owned() };
    let anonymous = Repository {
        proxy: parent.proxy.clone(),
        no_proxy: parent.no_proxy.clone(),
        project: parent.project.clone(),
        ..Repository::anonymous(&url)
    };
    let to = anonymous.location()?;
    if to.scheme() == Scheme::File && from.scheme() != Scheme::File {
        let text = "the URL of a submodule names a path of the machine".to_owned();
        return Err(SourceError::InvalidRepository { text });
    }
    let port = |location: &tiphys_api::repo_url::Location| {
        location.port().or_else(|| location.scheme().default_port())
    };
    let is_same_server = (from.scheme(), from.host(), port(&from)) == (to.scheme(), to.host(), port(&to));
    if !is_same_server || !parent.reaches(repository_of(anonymous.url.expose())) {
        return Ok(Repository { is_foreign: !is_same_server, ..anonymous });
    }
    let mut known = Repository { url: anonymous.url, depth: 0, ..parent.clone() };
    if parent.transport()? == Transport::Http && parent.password.is_empty() {
        // A password inside of the URL is for the server as well.
        let credentials = HttpCredentials::of(parent)?;
        (known.username, known.password) = (credentials.user, credentials.password);
    }
    Ok(known)
}

/// Why a submodule cannot be had; whoever reads it learns that the rules of the project kept credentials back.
pub(crate) fn explained(parent: &Repository, url: &str, error: &SourceError) -> String {
    let is_kept_back = !parent.is_anonymous()
        && repository(parent, url).is_ok_and(|found| {
            found.is_anonymous() && found.host() == parent.host() && !parent.reaches(found.url.expose())
        });
    let hint = "; sourceRepos of the project does not permit it, so it is read without credentials";
    format!("{error}{}", if is_kept_back { hint } else { "" })
}

/// A URL relative to that of a repository, as git resolves it: each `../` takes one part of the path.
fn relative(parent: &str, url: &str) -> Result<String, SourceError> {
    let outside = || SourceError::InvalidRepository {
        text: "the URL of a submodule leads out of the server of its repository".to_owned(),
    };
    let mut base = parent.trim().trim_end_matches('/').to_owned();
    // What names the server stays.
    let server = match base.split_once("://") {
        Some((scheme, rest)) => scheme.len() + 3 + rest.find('/').unwrap_or(rest.len()),
        None if base.starts_with('/') => 0,
        None => base.find(':').map_or(base.len(), |colon| colon + 1),
    };
    let mut rest = url;
    loop {
        if let Some(more) = rest.strip_prefix("../") {
            let path = base.get(server..).unwrap_or_default();
            if path.trim_matches('/').is_empty() {
                return Err(outside());
            }
            base.truncate(server + path.rfind('/').unwrap_or(0));
            rest = more;
        } else if let Some(more) = rest.strip_prefix("./") {
            rest = more;
        } else {
            break;
        }
    }
    let separator = if base.len() == server && base.ends_with(':') { "" } else { "/" };
    Ok(format!("{base}{separator}{rest}"))
}

/// The content of a submodule, or why there is none.
pub(crate) type Content = Result<Arc<dyn Tree>, String>;

/// A tree with the trees of its submodules. Its id names the content of all of them, and which have none.
pub(crate) struct ModuleTree {
    root: Arc<dyn Tree>,
    modules: BTreeMap<TreePath, Content>,
    id: String,
}

impl ModuleTree {
    /// Puts trees into a tree.
    pub(crate) fn new(root: Arc<dyn Tree>, modules: BTreeMap<TreePath, Content>) -> Self {
        let mut tree = Self { id: String::new(), root, modules };
        tree.id = tree.with_modules(tree.root.id().to_owned(), &TreePath::root());
        tree
    }

    /// The id of a directory together with the submodules below it.
    fn with_modules(&self, id: String, directory: &TreePath) -> String {
        let mut below = self.modules.iter().filter(|(path, _)| path.is_within(directory)).peekable();
        if below.peek().is_none() {
            return id;
        }
        let mut hash = Sha256::new();
        for (path, content) in below {
            let (state, text) = match content {
                Ok(tree) => ("tree", tree.id()),
                Err(why) => ("none", why.as_str()),
            };
            for part in [path.as_str(), state, text] {
                hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
                hash.update(part);
            }
        }
        format!("{id}+{}", hex(&hash.finalize()))
    }

    /// The submodule that a path is, or lies in, and the path inside of it.
    fn inside(&self, path: &TreePath) -> Option<(&TreePath, &Content, TreePath)> {
        let (module, content) = self.modules.iter().find(|(module, _)| path.is_within(module))?;
        let rest = TreePath::parse(path.relative_to(module).unwrap_or_default()).ok()?;
        Some((module, content, rest))
    }

    /// The tree that a path is in, and the path inside of it.
    fn place(&self, path: &TreePath) -> Result<(&dyn Tree, TreePath), TreeError> {
        match self.inside(path) {
            None => Ok((self.root.as_ref(), path.clone())),
            Some((_, Ok(tree), rest)) => Ok((tree.as_ref(), rest)),
            Some((module, Err(why), _)) => {
                Err(TreeError::Submodule { path: module.clone(), why: format!(": {why}") })
            }
        }
    }

    /// An error about a path of a submodule, about the whole path.
    fn outer<T>(path: &TreePath, result: Result<T, TreeError>) -> Result<T, TreeError> {
        let path = path.clone();
        result.map_err(|error| match error {
            TreeError::NotFound { .. } => TreeError::NotFound { path },
            TreeError::NotAFile { .. } => TreeError::NotAFile { path },
            TreeError::NotADirectory { .. } => TreeError::NotADirectory { path },
            TreeError::TooLarge { limit, .. } => TreeError::TooLarge { path, limit },
            TreeError::Submodule { why, .. } => TreeError::Submodule { path, why },
            other => other,
        })
    }
}

impl Tree for ModuleTree {
    fn id(&self) -> &str {
        &self.id
    }

    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError> {
        let (tree, rest) = self.place(path)?;
        let id = Self::outer(path, tree.subtree_id(&rest))?;
        Ok(id.map(|id| self.with_modules(id, path)))
    }

    fn known(&self, path: &TreePath) -> Option<KnownDirectory> {
        let (tree, rest) = self.place(path).ok()?;
        let id = tree.known(&rest)?.id.map(|id| self.with_modules(id, path));
        let mut is_clean = self.root.known(&TreePath::root())?.is_clean;
        for tree in self.modules.values().flatten() {
            is_clean &= tree.known(&TreePath::root())?.is_clean;
        }
        Some(KnownDirectory { id, is_clean })
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        match self.inside(path) {
            Some((module, content, _)) if module == path => {
                let kind = if content.is_ok() { EntryKind::Directory } else { EntryKind::Submodule };
                Ok(Some(Entry { kind }))
            }
            _ => {
                let (tree, rest) = self.place(path)?;
                Self::outer(path, tree.entry(&rest))
            }
        }
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        let (tree, rest) = self.place(path)?;
        let mut members = Self::outer(path, tree.list(&rest))?;
        for (name, entry) in &mut members {
            let is_there = |content: &Content| content.is_ok();
            if entry.kind == EntryKind::Submodule && self.modules.get(&path.child(name)).is_some_and(is_there)
            {
                entry.kind = EntryKind::Directory;
            }
        }
        Ok(members)
    }

    fn read(&self, path: &TreePath, max_bytes: u64) -> Result<Bytes, TreeError> {
        let (tree, rest) = self.place(path)?;
        Self::outer(path, tree.read(&rest, max_bytes))
    }

    /// A link of a submodule may not leave it: what it is checked out into is not its own.
    fn escaping_link(&self, limit: &mut WalkLimit<'_>) -> Result<Option<TreePath>, TreeError> {
        if let Some(link) = self.root.escaping_link(limit)? {
            return Ok(Some(link));
        }
        for (module, tree) in &self.modules {
            let Ok(tree) = tree else { continue };
            if let Some(link) = tree.escaping_link(limit)? {
                return Ok(Some(module.join(link.as_str()).unwrap_or(link)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use tiphys_api::repository::Reach;
    use tiphys_api::settings::ProjectMatching;
    use tiphys_render::MemoryEntry;

    use super::*;
    use crate::Secret;

    fn tree(files: &[(&str, &str)]) -> Arc<dyn Tree> {
        let mut entries = vec![("app/lib", MemoryEntry::Submodule), ("other", MemoryEntry::Submodule)];
        for (path, text) in files {
            entries.push((path, MemoryEntry::File(Bytes::copy_from_slice(text.as_bytes()), false)));
        }
        Arc::new(tiphys_render::MemoryTree::from_entries(entries).unwrap())
    }

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    fn with(lib: Content) -> ModuleTree {
        let modules = [("app/lib", lib), ("other", Err("denied".to_owned()))];
        let modules = modules.into_iter().map(|(at, content)| (path(at), content));
        ModuleTree::new(tree(&[("app/a", "1"), ("b/c", "2")]), modules.collect())
    }

    #[test]
    fn rnd_45_submodules_are_directories() {
        let lib = tree(&[("x/y", "3")]);
        let found = with(Ok(Arc::clone(&lib)));
        assert_eq!(found.read(&path("app/lib/x/y"), 9).unwrap(), "3");
        assert_eq!(found.read(&path("app/a"), 9).unwrap(), "1");
        assert!(found.entry(&path("app/lib")).unwrap().unwrap().is_directory());
        let kinds: Vec<_> =
            found.list(&path("app")).unwrap().into_iter().map(|(name, e)| (name, e.kind)).collect();
        assert_eq!(kinds[1], ("lib".to_owned(), EntryKind::Directory));
        let missing = found.read(&path("app/lib/none"), 9).unwrap_err();
        assert_eq!(missing, TreeError::NotFound { path: path("app/lib/none") });
        let text = found.list(&path("other/x")).unwrap_err().to_string();
        assert_eq!(text, "other is a git submodule, and its content is not known: denied");
        assert_eq!(found.entry(&path("other")).unwrap().unwrap().kind, EntryKind::Submodule);
    }

    #[test]
    fn rnd_141_ids_name_the_content_of_submodules() {
        let one = with(Ok(tree(&[("x", "1")])));
        let two = with(Ok(tree(&[("x", "2")])));
        let none = with(Err("no".to_owned()));
        let id = |found: &ModuleTree, at: &str| found.subtree_id(&path(at)).ok().flatten();
        for at in ["app", "app/lib"] {
            assert_ne!(id(&one, at), id(&two, at), "{at}");
            assert_ne!(id(&one, at), id(&none, at), "{at}");
        }
        assert_ne!(one.id(), two.id());
        assert_ne!(one.id(), none.id());
        assert_eq!(one.id(), with(Ok(tree(&[("x", "1")]))).id());
        assert_eq!(id(&one, "b"), id(&two, "b"), "what is elsewhere does not count");
    }

    #[test]
    fn rep_76_credentials_go_to_their_own_server_alone() {
        let parent = Repository {
            username: "ci".to_owned(),
            password: Secret::from("s3cret"),
            insecure: true,
            project: "shop".to_owned(),
            ..Repository::anonymous("https://git.acme.test/shop/ui.git")
        };
        let of = |url: &str| repository(&parent, url).unwrap();
        for (url, expected) in [
            ("../lib.git", "https://git.acme.test/shop/lib.git"),
            ("../../lib", "https://git.acme.test/lib"),
            ("./lib", "https://git.acme.test/shop/ui.git/lib"),
            ("https://git.acme.test:443/x", "https://git.acme.test:443/x"),
        ] {
            let found = of(url);
            assert_eq!(found.url.expose(), expected);
            assert!(found.password == parent.password && found.insecure, "{url}");
        }
        for url in [
            "https://evil.test/x",
            "https://git.acme.test.evil.test/x",
            "http://git.acme.test/x",
            "https://git.acme.test:8443/x",
            "git@git.acme.test:x",
            "git://git.acme.test/x",
        ] {
            let found = of(url);
            assert!(found.is_anonymous() && !found.insecure, "{url}");
            assert_eq!(found.project, "shop", "what is fetched is seen by the same project");
        }
        for url in [
            "file:///etc",
            "/etc",
            "ext::sh -c x",
            "-u",
            "../../../x",
            "../../../../x",
            "../a/../../b",
            "",
            "x",
        ] {
            assert!(repository(&parent, url).is_err(), "{url}");
        }
        let inside = Repository::anonymous("https://ci:s3cret@git.acme.test/ui");
        let found = repository(&inside, "https://git.acme.test/lib").unwrap();
        assert_eq!((found.username.as_str(), found.password.expose().as_str()), ("ci", "s3cret"));
        assert!(repository(&inside, "https://evil.test/lib").unwrap().is_anonymous());
    }

    #[test]
    fn rep_76_shared_credentials_go_to_what_the_project_may_read() {
        let rules = ["https://git.acme.test/shop/*".to_owned(), "!https://git.acme.test/shop/pay".to_owned()];
        let parent = Repository {
            password: Secret::from("s3cret"),
            insecure: true,
            reach: Some(Reach { source_repos: Arc::from(rules), matching: ProjectMatching::Strict }),
            ..Repository::anonymous("https://git.acme.test/shop/ui.git")
        };
        for (url, is_shown) in [
            ("../lib.git", true),
            ("../../bank/keys", false),
            ("https://git.acme.test/bank/keys", false),
            ("../pay.git", false),
            ("https://git.acme.test/shop/%70ay/", false),
            ("https://git.acme.test/shop/x/info/lfs", false),
        ] {
            let found = repository(&parent, url).unwrap();
            assert_eq!(!found.is_anonymous(), is_shown, "{url}");
            assert_eq!((found.insecure, found.reach.is_some()), (is_shown, is_shown), "{url}");
        }
        for (url, is_shown) in [
            ("https://git.acme.test/shop/x.git/info/lfs", true),
            ("https://git.acme.test/shop/lfs/", true),
            ("https://git.acme.test/bank/keys/info/lfs", false),
            ("https://git.acme.test/shop/pay.git/info/lfs", false),
        ] {
            let found = server_of_files(&parent, url).unwrap();
            assert_eq!(!found.is_anonymous(), is_shown, "{url}");
        }
    }

    #[test]
    fn rnd_45_relative_urls_of_ssh_and_of_paths() {
        let of = |parent: &str, url: &str| {
            repository(&Repository::anonymous(parent), url).map(|found| found.url.expose().to_owned())
        };
        assert_eq!(of("git@h.test:org/ui", "../lib").as_deref(), Ok("git@h.test:org/lib"));
        assert_eq!(of("git@h.test:ui", "../lib").as_deref(), Ok("git@h.test:lib"));
        assert_eq!(of("ssh://git@h.test:22/org/ui/", "../lib").as_deref(), Ok("ssh://git@h.test:22/org/lib"));
        assert_eq!(of("/srv/git/ui", "../lib").as_deref(), Ok("/srv/git/lib"));
        assert!(of("git@h.test:ui", "../../lib").is_err());
    }
}
