//! How far links reach, remembered by the id of the directory they are below (RND-54).
//!
//! One directory can stand at many paths: twelve levels of ten equal ones are 10¹² paths in a few hundred bytes.
//! So nothing here walks paths: every directory is looked at once, and the one path that is shown is found by
//! going down where the answers already say that a link leads out.

use gix::ObjectId;
use gix::object::tree::EntryKind as GitKind;
use tiphys_render::links::link_climb;
use tiphys_render::{TreeError, TreePath, WalkLimit};

use super::{Member, Objects};

/// Directories whose links are remembered.
const CLIMBS_MAX: usize = 200_000;
/// Directories below each other.
const DEPTH_MAX: usize = 512;

impl Objects {
    /// The first link below a root that leaves it, in order of names.
    pub(crate) fn escaping_link(
        &self,
        root: ObjectId,
        limit: &mut WalkLimit<'_>,
    ) -> Result<Option<TreePath>, TreeError> {
        if self.climb(root, 0, limit)? == 0 {
            return Ok(None);
        }
        let (mut directory, mut path) = (root, TreePath::root());
        for depth in 0..=DEPTH_MAX {
            let Some(member) = self.first_out(directory, depth, limit)? else { break };
            path = path.child(&member.name);
            if member.kind != GitKind::Tree {
                break;
            }
            directory = member.id;
        }
        Ok(Some(path))
    }

    /// The first member of a directory, so many levels below the root, through which a link leaves the root.
    fn first_out(
        &self,
        directory: ObjectId,
        depth: usize,
        limit: &mut WalkLimit<'_>,
    ) -> Result<Option<Member>, TreeError> {
        for member in self.members(directory)?.iter() {
            limit.spend(1)?;
            if self.reach(member, depth, limit)? > depth {
                return Ok(Some(member.clone()));
            }
        }
        Ok(None)
    }

    /// How far links below a directory reach above it, if that was looked at before.
    pub(crate) fn known_climb(&self, id: ObjectId) -> Option<usize> {
        self.climbs.lock().get(&id).copied()
    }

    /// How far links below a directory reach above it; `usize::MAX` for absolute ones.
    fn climb(&self, id: ObjectId, depth: usize, limit: &mut WalkLimit<'_>) -> Result<usize, TreeError> {
        if let Some(known) = self.known_climb(id) {
            return Ok(known);
        }
        if depth > DEPTH_MAX {
            return Err(TreeError::Exceeded { what: "directories are nested too deeply".to_owned() });
        }
        let members = self.members(id)?;
        limit.spend(members.len())?;
        let (mut climb, mut unknown) = (0, Vec::new());
        {
            // Most of a directory of thousands is what it was in the commit before.
            let climbs = self.climbs.lock();
            for member in members.iter() {
                match (member.kind, climbs.get(&member.id)) {
                    (GitKind::Tree, Some(below)) => climb = climb.max(above(*below)),
                    (GitKind::Tree | GitKind::Link, _) => unknown.push(member),
                    (GitKind::Blob | GitKind::BlobExecutable | GitKind::Commit, _) => {}
                }
            }
        }
        for member in unknown {
            climb = climb.max(self.reach(member, depth, limit)?);
        }
        let mut climbs = self.climbs.lock();
        if climbs.len() >= CLIMBS_MAX {
            climbs.clear();
        }
        climbs.insert(id, climb);
        Ok(climb)
    }

    /// How far a member, or the links below it, reach above the directory that it stands in.
    fn reach(&self, member: &Member, depth: usize, limit: &mut WalkLimit<'_>) -> Result<usize, TreeError> {
        match member.kind {
            GitKind::Link => Ok(link_climb(&self.link(member.id)?, 0).unwrap_or(usize::MAX)),
            GitKind::Tree => Ok(above(self.climb(member.id, depth + 1, limit)?)),
            GitKind::Blob | GitKind::BlobExecutable | GitKind::Commit => Ok(0),
        }
    }
}

/// How far links that reach so many levels above a directory reach above the one that it stands in.
fn above(levels: usize) -> usize {
    if levels == usize::MAX { usize::MAX } else { levels.saturating_sub(1) }
}
