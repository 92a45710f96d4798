//! Symbolic links of a tree: which ones leave the root, and where a path leads when they are followed.
//!
//! A tree is refused as a whole when any link leaves the root, even one that nothing uses (RND-54). Following
//! links happens here and nowhere else; every step is checked, so a path that leaves the root and comes back
//! is refused too (RND-55).

use crate::{Entry, EntryKind, Tree, TreeError, TreePath, WalkLimit};

/// Links followed for one path before it counts as a loop.
const LINKS_MAX: usize = 40;

/// Directories below each other that a walk enters.
pub const WALK_DEPTH_MAX: usize = 512;

/// How far a link reaches above a directory: 0 when it stays inside, `None` for an absolute target.
///
/// `depth` is the number of directories between that directory and the link.
pub fn link_climb(target: &str, depth: usize) -> Option<usize> {
    if target.starts_with('/') {
        return None;
    }
    let (mut level, mut lowest) = (0_i64, 0_i64);
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => level -= 1,
            _ => level += 1,
        }
        lowest = lowest.min(level);
    }
    let depth = i64::try_from(depth).unwrap_or(i64::MAX);
    Some(usize::try_from((-lowest).saturating_sub(depth)).unwrap_or(0))
}

/// The first link below `directory` that leaves the root, in order of names (RND-54).
///
/// Every path is walked, so this is for trees in which a directory stands at one path only.
pub fn find_escaping_link<T: Tree + ?Sized>(
    tree: &T,
    directory: &TreePath,
    depth: usize,
    limit: &mut WalkLimit<'_>,
) -> Result<Option<TreePath>, TreeError> {
    if depth > WALK_DEPTH_MAX {
        return Err(TreeError::Exceeded { what: "directories are nested too deeply".to_owned() });
    }
    let members = tree.list(directory)?;
    limit.spend(members.len())?;
    for (name, entry) in members {
        let path = directory.child(&name);
        match entry.kind {
            EntryKind::Symlink { target } if link_climb(&target, depth) != Some(0) => return Ok(Some(path)),
            EntryKind::Directory => {
                if let Some(found) = find_escaping_link(tree, &path, depth + 1, limit)? {
                    return Ok(Some(found));
                }
            }
            EntryKind::Symlink { .. } | EntryKind::File { .. } | EntryKind::Submodule => {}
        }
    }
    Ok(None)
}

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Something that is no link.
    Found(TreePath, Entry),
    /// Nothing stands there, or a link points to nothing.
    Missing,
    /// The path is, or leads through, this submodule, whose content is not here.
    Submodule(TreePath),
    /// A step leaves the root.
    Outside,
    /// Too many links.
    Loop,
}

/// Follows all links on the way to a path (RND-55).
pub fn resolve(tree: &dyn Tree, path: &TreePath) -> Result<Resolved, TreeError> {
    let mut current = TreePath::root();
    let mut pending: Vec<String> = path.components().map(str::to_owned).collect();
    pending.reverse();
    let mut entry = Entry { kind: EntryKind::Directory };
    let mut links = 0_usize;
    while let Some(name) = pending.pop() {
        if name == ".." {
            let Some(parent) = current.parent() else { return Ok(Resolved::Outside) };
            current = parent;
            entry = Entry { kind: EntryKind::Directory };
            continue;
        }
        if !entry.is_directory() {
            return Ok(Resolved::Missing);
        }
        let next = current.child(&name);
        match tree.entry(&next)? {
            None => return Ok(Resolved::Missing),
            Some(Entry { kind: EntryKind::Submodule }) => return Ok(Resolved::Submodule(next)),
            Some(Entry { kind: EntryKind::Symlink { target } }) => {
                links += 1;
                if links > LINKS_MAX {
                    return Ok(Resolved::Loop);
                }
                if target.starts_with('/') {
                    return Ok(Resolved::Outside);
                }
                let parts = target.split('/').filter(|part| !part.is_empty() && *part != ".");
                pending.extend(parts.rev().map(str::to_owned));
                entry = Entry { kind: EntryKind::Directory };
            }
            Some(found) => {
                current = next;
                entry = found;
            }
        }
    }
    Ok(Resolved::Found(current, entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryEntry, MemoryTree};

    fn tree(links: &[(&str, &str)]) -> MemoryTree {
        let file = ("repo/file".to_owned(), MemoryEntry::File("x".into(), false));
        let links =
            links.iter().map(|(path, to)| ((*path).to_owned(), MemoryEntry::Symlink((*to).to_owned())));
        MemoryTree::from_entries(links.chain([file])).unwrap()
    }

    fn path(text: &str) -> TreePath {
        TreePath::parse(text).unwrap()
    }

    #[test]
    fn rnd_54_every_step_of_a_link_stays_inside() {
        for (link, target, escapes) in [
            ("a", "repo/file", false),
            ("a", "missing", false),
            ("a", "/etc/passwd", true),
            ("a", "..", true),
            ("d/a", "..", false),
            ("d/a", "../../repo/x", true),
            ("d/a", "x/../../repo", false),
            ("d/e/a", "../../../x", true),
        ] {
            let found = tree(&[(link, target)]).escaping_link(&mut WalkLimit::new(1000, None)).unwrap();
            assert_eq!(found, escapes.then(|| path(link)), "{link} -> {target}");
        }
    }

    /// SEC-07: the walk over links looks at so many entries, and stops when it is told to.
    #[test]
    fn sec_07_the_walk_over_links_is_bounded() {
        let tree = tree(&[("a/b/c", "x"), ("a/b/d", "../../../x")]);
        // Two below the root, one, and two.
        assert!(tree.escaping_link(&mut WalkLimit::new(5, None)).unwrap().is_some());
        let error = tree.escaping_link(&mut WalkLimit::new(4, None)).unwrap_err();
        assert!(matches!(error, TreeError::Exceeded { .. }), "{error}");
        let flag = std::sync::atomic::AtomicBool::new(true);
        let stopped = tree.escaping_link(&mut WalkLimit::new(1000, Some(&flag)));
        assert_eq!(stopped, Err(TreeError::Cancelled));
    }

    #[test]
    fn rnd_55_paths_are_resolved_inside_the_root() {
        let tree = tree(&[
            ("a", "b"),
            ("b", "a"),
            ("dir", "repo"),
            ("up", "../x"),
            ("repo/back", "../dir/file"),
            ("gone", "nowhere"),
        ]);
        let file = Entry { kind: EntryKind::File { executable: false } };
        assert_eq!(resolve(&tree, &path("repo/back")), Ok(Resolved::Found(path("repo/file"), file.clone())));
        assert_eq!(resolve(&tree, &path("dir/file")), Ok(Resolved::Found(path("repo/file"), file)));
        assert_eq!(resolve(&tree, &path("a")), Ok(Resolved::Loop));
        assert_eq!(resolve(&tree, &path("up")), Ok(Resolved::Outside));
        assert_eq!(resolve(&tree, &path("gone")), Ok(Resolved::Missing));
        assert_eq!(resolve(&tree, &path("repo/file/x")), Ok(Resolved::Missing));
    }
}
