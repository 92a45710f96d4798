//! Which files differ between two trees.

use std::sync::Arc;

use gix::ObjectId;
use gix::object::tree::EntryKind as GitKind;
use tiphys_render::TreeError;

use super::{Member, Objects};

/// Directories below each other.
const DEPTH_MAX: usize = 512;
/// Members of directories that one comparison looks at. Files alone do not bound it: a directory without files
/// can stand at any number of paths.
const MEMBERS_MAX: usize = 2_000_000;

/// Paths of files that differ between two trees, sorted; a moved file appears under both names (RND-47).
pub(crate) fn changed_files(
    objects: &Objects,
    before: ObjectId,
    after: ObjectId,
    files_max: usize,
) -> Result<Vec<String>, ChangesError> {
    let mut changes = Changes { objects, files: Vec::new(), files_max, members_left: MEMBERS_MAX };
    changes.compare(Some(before), Some(after), "", 0)?;
    Ok(changes.files)
}

/// Why changes are not known.
pub(crate) enum ChangesError {
    Tree(TreeError),
    TooMany,
    /// A submodule is another commit.
    Submodule,
}

impl From<TreeError> for ChangesError {
    fn from(error: TreeError) -> Self {
        Self::Tree(error)
    }
}

struct Changes<'a> {
    objects: &'a Objects,
    files: Vec<String>,
    files_max: usize,
    members_left: usize,
}

impl Changes<'_> {
    fn compare(
        &mut self,
        before: Option<ObjectId>,
        after: Option<ObjectId>,
        prefix: &str,
        depth: usize,
    ) -> Result<(), ChangesError> {
        if before == after {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            return Err(ChangesError::TooMany);
        }
        let members = |id: Option<ObjectId>| match id {
            Some(id) => self.objects.members(id),
            None => Ok(Arc::from(Vec::new())),
        };
        let (before, after) = (members(before)?, members(after)?);
        let (mut left, mut right) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let (old, new) = match (left.peek(), right.peek()) {
                (None, None) => return Ok(()),
                (Some(a), Some(b)) if a.name == b.name => (left.next(), right.next()),
                (Some(a), Some(b)) if a.name < b.name => (left.next(), None),
                (Some(_), None) => (left.next(), None),
                (_, Some(_)) => (None, right.next()),
            };
            let Some(name) = old.or(new).map(|member| &member.name) else { return Ok(()) };
            self.members_left = self.members_left.checked_sub(1).ok_or(ChangesError::TooMany)?;
            if old.is_some_and(|old| new.is_some_and(|new| old.id == new.id && old.kind == new.kind)) {
                continue;
            }
            let path = if prefix.is_empty() { name.to_string() } else { format!("{prefix}/{name}") };
            let directory = |member: Option<&Member>| {
                member.filter(|member| member.kind == GitKind::Tree).map(|member| member.id)
            };
            if [old, new].iter().flatten().any(|member| member.kind == GitKind::Commit) {
                return Err(ChangesError::Submodule);
            }
            let file = |member: Option<&Member>| member.is_some_and(|member| member.kind != GitKind::Tree);
            if file(old) || file(new) {
                if self.files.len() >= self.files_max {
                    return Err(ChangesError::TooMany);
                }
                self.files.push(path.clone());
            }
            self.compare(directory(old), directory(new), &path, depth + 1)?;
        }
    }
}
