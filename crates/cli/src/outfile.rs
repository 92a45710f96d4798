//! Files that commands write: as a whole or not at all.

use std::io::Write as _;
use std::path::Path;

/// Mode of files that hold secrets.
pub(crate) const PRIVATE: u32 = 0o600;
/// Mode of files that do not, where there was none before.
const PLAIN: u32 = 0o644;

/// Replaces a file at once, for its owner alone.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    replace(path, bytes, PRIVATE)
}

/// Replaces a file at once; whoever may read it now may read it then.
pub(crate) fn replace_keeping_mode(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A link stays one, and what it names is replaced.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_error| path.to_owned());
    let mode = mode_of(&real).unwrap_or(PLAIN);
    replace(&real, bytes, mode)
}

fn replace(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        // A device or a pipe, as /dev/stdout, is written to and stays what it is.
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    restrict(file.path(), mode)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

#[cfg(unix)]
pub(crate) fn restrict(path: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
pub(crate) fn restrict(_path: &Path, _mode: u32) -> std::io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn mode_of(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).ok().map(|metadata| metadata.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode_of(_path: &Path) -> Option<u32> {
    None
}
