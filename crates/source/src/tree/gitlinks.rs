//! Submodules: commits of other repositories that stand in a tree, and where `.gitmodules` says they come from (RND-45).

use std::collections::BTreeMap;
use std::sync::Arc;

use gix::ObjectId;
use gix::config::file::Metadata;
use gix::config::file::init::Options;
use gix::objs::Kind;
use tiphys_render::{TreeError, TreePath};

use super::{GitKind, Objects};

/// Bytes of `.gitmodules`.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Submodules of one tree, and of that tree and its submodules together.
pub(crate) const GITLINKS_MAX: usize = 256;

/// A submodule of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gitlink {
    /// Where it stands.
    pub(crate) path: TreePath,
    /// Its repository, as written.
    pub(crate) url: String,
    /// Its commit.
    pub(crate) commit: ObjectId,
}

impl Objects {
    /// The submodules that a root directory names and holds. What `.gitmodules` does not name has no content.
    pub(super) fn gitlinks(&self, root: ObjectId) -> Result<Arc<[Gitlink]>, TreeError> {
        let none = || Ok(Arc::from([]));
        let members = self.members(root)?;
        let is_file = |kind| matches!(kind, GitKind::Blob | GitKind::BlobExecutable);
        let file = members.iter().find(|member| member.name == ".gitmodules" && is_file(member.kind));
        let Some(file) = file else { return none() };
        let too_large = || TreeError::Exceeded { what: ".gitmodules is too large".to_owned() };
        let text = self.object(file.id, Kind::Blob, FILE_BYTES_MAX)?.ok_or_else(too_large)?;
        let mut found = Vec::new();
        for (path, url) in urls(&text) {
            let Some((GitKind::Commit, commit)) = self.member_at(root, &path)? else { continue };
            if found.len() >= GITLINKS_MAX {
                let what = format!("the tree has more than {GITLINKS_MAX} submodules");
                return Err(TreeError::Exceeded { what });
            }
            found.push(Gitlink { path, url, commit });
        }
        Ok(found.into())
    }

    /// What stands at a path below a directory.
    fn member_at(&self, root: ObjectId, path: &TreePath) -> Result<Option<(GitKind, ObjectId)>, TreeError> {
        let mut found = (GitKind::Tree, root);
        for name in path.components() {
            if found.0 != GitKind::Tree {
                return Ok(None);
            }
            let members = self.members(found.1)?;
            let member = members.iter().find(|member| member.name == name);
            let Some(member) = member else { return Ok(None) };
            found = (member.kind, member.id);
        }
        Ok(Some(found))
    }
}

/// Repositories by path. Of a text that cannot be read nothing is known.
fn urls(text: &[u8]) -> BTreeMap<TreePath, String> {
    let read = gix::config::File::from_bytes_no_includes(text, Metadata::api(), Options::default());
    let Ok(file) = read else { return BTreeMap::new() };
    let sections = file.sections_by_name("submodule").into_iter().flatten();
    let entry = |section: gix::config::file::SectionRef<'_>| {
        let path = TreePath::parse(&section.value("path")?.to_string()).ok()?;
        (!path.is_root()).then_some((path, section.value("url")?.to_string()))
    };
    sections.filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_45_what_gitmodules_names() {
        let text = b"[submodule \"a\"]\n\tpath = vendor/a\n\turl = ../a.git\n[submodule \"b\"]\n\tpath = b\n\
            [submodule \"c\"]\n\tpath = ../c\n\turl = x\n[include]\n\tpath = /etc/passwd\n\
            [submodule \"d\"]\n\tpath = \"d d\"\n\turl = https://h/d\n";
        let found: Vec<_> =
            urls(text).into_iter().map(|(path, url)| (path.as_str().to_owned(), url)).collect();
        let expected = [("d d", "https://h/d"), ("vendor/a", "../a.git")];
        assert_eq!(found, expected.map(|(path, url)| (path.to_owned(), url.to_owned())));
        assert!(urls(b"[submodule").is_empty());
    }
}
