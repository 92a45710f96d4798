//! Files of a revision of a checkout on this machine, for somebody who names it by hand (CLI-1060).

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use gix::objs::tree::EntryKind;

use crate::SourceError;

/// Depth of folders that are followed.
const DEPTH_MAX: usize = 64;

/// How much of a checkout is read.
#[derive(Clone, Copy, Debug)]
pub struct CheckoutLimits {
    /// Files at most.
    pub files: usize,
    /// Bytes of all of them at most.
    pub bytes: u64,
}

/// The files that a revision of a checkout has, by path. Links and submodules are left out: what they lead to is not in
/// the revision.
///
/// # Errors
/// When the folder is no checkout, does not have the revision, or has more than the limits permit.
pub fn checkout_files(
    directory: &Path,
    revision: &str,
    limits: CheckoutLimits,
) -> Result<BTreeMap<String, Bytes>, SourceError> {
    let shown = directory.display();
    let options = gix::open::Options::isolated();
    let repository = gix::ThreadSafeRepository::open_opts(directory, options)
        .map_err(|error| wrong(format!("{shown} is no git checkout: {error}")))?
        .to_thread_local();
    let tree = repository
        .rev_parse_single(revision)
        .map_err(|error| wrong(format!("{shown} has no revision {revision:?}: {error}")))?
        .object()
        .map(gix::Object::peel_to_tree)
        .map_err(|error| wrong(format!("{revision:?} of {shown} cannot be read: {error}")))?
        .map_err(|error| wrong(format!("{revision:?} of {shown} is no commit: {error}")))?;
    let mut files = BTreeMap::new();
    let mut left = limits;
    gather(&tree, "", 0, &mut left, &mut files)
        .map_err(|text| wrong(format!("{revision:?} of {shown}: {text}")))?;
    Ok(files)
}

fn gather(
    tree: &gix::Tree<'_>,
    folder: &str,
    depth: usize,
    left: &mut CheckoutLimits,
    files: &mut BTreeMap<String, Bytes>,
) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Err(format!("folders are nested deeper than {DEPTH_MAX}"));
    }
    for entry in tree.iter() {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = std::str::from_utf8(entry.filename())
            .map_err(|_error| format!("a name in {folder:?} is no text"))?;
        let path = format!("{folder}{name}");
        match entry.mode().kind() {
            EntryKind::Tree => {
                let object = entry.object().map_err(|error| error.to_string())?;
                let below = object.try_into_tree().map_err(|error| error.to_string())?;
                gather(&below, &format!("{path}/"), depth + 1, left, files)?;
            }
            EntryKind::Blob | EntryKind::BlobExecutable => {
                let size = entry.id().header().map_err(|error| error.to_string())?.size();
                let fits = left.files.checked_sub(1).zip(left.bytes.checked_sub(size));
                let Some((count, bytes)) = fits else {
                    return Err("it has more files, or more bytes, than are read".to_owned());
                };
                *left = CheckoutLimits { files: count, bytes };
                let object = entry.object().map_err(|error| error.to_string())?;
                files.insert(path, Bytes::from(object.detach().data));
            }
            EntryKind::Link | EntryKind::Commit => {}
        }
    }
    Ok(())
}

fn wrong(text: String) -> SourceError {
    SourceError::InvalidRepository { text }
}
