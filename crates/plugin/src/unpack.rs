//! Unpacks the files that a plugin was sent, inside of one directory (RND-130).

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

/// Bytes of files, unpacked.
const BYTES_MAX: u64 = 2 << 30;
/// Files, directories and links.
const ENTRIES_MAX: usize = 1_000_000;

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// It is damaged.
    #[error("the archive cannot be read: {0}")]
    Damaged(io::Error),
    /// An entry would stand outside.
    #[error("illegal filepath in archive: {0}")]
    Outside(String),
    /// A link leads outside.
    #[error("illegal filepath in symlink: {0}")]
    Link(String),
    /// It is neither file nor directory nor link.
    #[error("{0} is neither a file nor a directory nor a link")]
    Kind(String),
    /// It is too large.
    #[error("the archive has more than {0}")]
    TooLarge(String),
    /// A file cannot be written.
    #[error("cannot write {0}: {1}")]
    Disk(String, io::ErrorKind),
}

/// Unpacks into an empty directory. Links are made last, when nothing is written through them any more.
///
/// # Errors
/// When an entry would leave the directory, or there is too much.
pub fn unpack(packed: impl Read, directory: &Path, preserve_mode: bool) -> Result<(), UnpackError> {
    let mut archive = Archive::new(GzDecoder::new(packed));
    let mut links = Vec::new();
    let (mut bytes, mut entries) = (0_u64, 0_usize);
    for entry in archive.entries().map_err(UnpackError::Damaged)? {
        let mut entry = entry.map_err(UnpackError::Damaged)?;
        entries += 1;
        if entries > ENTRIES_MAX {
            return Err(UnpackError::TooLarge(format!("{ENTRIES_MAX} entries")));
        }
        let name = entry.path().map_err(UnpackError::Damaged)?.into_owned();
        let shown = name.display().to_string();
        let relative = inside(&name).ok_or_else(|| UnpackError::Outside(shown.clone()))?;
        let broken = |error: io::Error| UnpackError::Disk(shown.clone(), error.kind());
        if relative.as_os_str().is_empty() {
            continue;
        }
        let place = directory.join(&relative);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).map_err(broken)?;
        }
        match entry.header().entry_type() {
            EntryType::Directory => fs::create_dir_all(&place).map_err(broken)?,
            EntryType::Regular => {
                bytes = bytes.saturating_add(entry.size());
                if bytes > BYTES_MAX {
                    return Err(UnpackError::TooLarge(format!("{BYTES_MAX} bytes")));
                }
                let mut file =
                    fs::OpenOptions::new().write(true).create_new(true).open(&place).map_err(broken)?;
                io::copy(&mut entry, &mut file).map_err(broken)?;
                let mode = entry.header().mode().map_err(UnpackError::Damaged)?;
                let mode = if preserve_mode { mode & 0o777 } else { 0o644 };
                file.set_permissions(fs::Permissions::from_mode(mode)).map_err(broken)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name().map_err(UnpackError::Damaged)?;
                let target = target.ok_or_else(|| UnpackError::Link(shown.clone()))?.into_owned();
                if !stays_inside(&relative, &target) {
                    return Err(UnpackError::Link(shown));
                }
                links.push((place, target, shown));
            }
            _ => return Err(UnpackError::Kind(shown)),
        }
    }
    for (place, target, shown) in &links {
        symlink(target, place).map_err(|error| UnpackError::Disk(shown.clone(), error.kind()))?;
    }
    // A link may lead through another one, so where it leads is known at the end only. One that leads nowhere is no harm.
    let root =
        fs::canonicalize(directory).map_err(|error| UnpackError::Disk(".".to_owned(), error.kind()))?;
    let escapes = |place: &Path| fs::canonicalize(place).is_ok_and(|real| !real.starts_with(&root));
    match links.into_iter().find(|(place, ..)| escapes(place)) {
        Some((_, _, shown)) => Err(UnpackError::Link(shown)),
        None => Ok(()),
    }
}

/// A path without detours, if it is inside.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => found.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(found)
}

/// Whether no step of a link leaves the directory (RND-54).
fn stays_inside(link: &Path, target: &Path) -> bool {
    let mut depth = link.components().count().saturating_sub(1);
    for component in target.components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return false,
            },
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tar::{Builder, Header};

    use super::*;

    fn archive(entries: &[(&str, EntryType, &str, u32)]) -> Vec<u8> {
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (name, kind, content, mode) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(*mode);
            // As it is, whatever a well-meaning library makes of names.
            let field = &mut header.as_old_mut().name;
            field[..name.len()].copy_from_slice(name.as_bytes());
            let data = if *kind == EntryType::Symlink {
                header.set_link_name_literal(content).unwrap();
                ""
            } else {
                *content
            };
            header.set_size(data.len() as u64);
            header.set_cksum();
            builder.append(&header, data.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn run(
        entries: &[(&str, EntryType, &str, u32)],
        preserve: bool,
    ) -> (tempfile::TempDir, Result<(), String>) {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("in");
        fs::create_dir(&place).unwrap();
        let result = unpack(archive(entries).as_slice(), &place, preserve).map_err(|error| error.to_string());
        (folder, result)
    }

    #[test]
    fn rnd_130_files_get_plain_modes_unless_theirs_are_wanted() {
        let entries = [
            ("d/", EntryType::Directory, "", 0o755),
            ("d/run", EntryType::Regular, "x", 0o755),
            ("./link", EntryType::Symlink, "d/run", 0o777),
        ];
        for (preserve, expected) in [(false, 0o644), (true, 0o755)] {
            let (folder, result) = run(&entries, preserve);
            assert_eq!(result, Ok(()));
            let file = folder.path().join("in/link");
            assert_eq!(fs::read_to_string(&file).unwrap(), "x");
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, expected);
        }
    }

    /// SEC-50..54: nothing is written outside of the directory, and no link leads there.
    #[test]
    fn sec_05_nothing_leaves_the_directory() {
        let file = |name| [(name, EntryType::Regular, "x", 0o644)];
        for name in ["../x", "/x", "a/../../x"] {
            let (folder, result) = run(&file(name), false);
            assert!(result.unwrap_err().starts_with("illegal filepath in archive"), "{name}");
            assert!(!folder.path().join("x").exists());
        }
        for target in ["/etc/passwd", "../x", "a/../../x"] {
            let (_folder, result) = run(&[("link", EntryType::Symlink, target, 0o777)], false);
            assert!(result.unwrap_err().starts_with("illegal filepath in symlink"), "{target}");
        }
        let chain = [
            ("a/b/", EntryType::Directory, "", 0o755),
            ("a/b/up", EntryType::Symlink, "../..", 0o777),
            ("out", EntryType::Symlink, "a/b/up/..", 0o777),
        ];
        assert_eq!(run(&chain, false).1.unwrap_err(), "illegal filepath in symlink: out");
        // A file through a link that came before it is a file in a directory of that name.
        let through = [("l", EntryType::Symlink, ".", 0o777), ("l/x", EntryType::Regular, "x", 0o644)];
        assert!(run(&through, false).1.is_err());
        let (_folder, result) = run(&[("pipe", EntryType::Fifo, "", 0o644)], false);
        assert_eq!(result.unwrap_err(), "pipe is neither a file nor a directory nor a link");
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(unpack(&b"no gzip"[..], folder.path(), false), Err(UnpackError::Damaged(_))));
    }
}
