//! Which paths of this machine are repositories (REP-60): only what the operator named, never our own folders.

use std::path::{Path, PathBuf};

use crate::SourceError;

/// Whether a path lies below one of the roots and not in a folder of ours, links resolved. A path that is not
/// there is answered like one that is forbidden: nobody learns what the machine has (SEC-25).
pub(crate) fn check(
    path: &Path,
    shown: &str,
    roots: &[PathBuf],
    own_dirs: &[PathBuf],
) -> Result<(), SourceError> {
    let is_permitted = |path: &Path| {
        let below = |dirs: &[PathBuf]| {
            dirs.iter().filter_map(|dir| dir.canonicalize().ok()).any(|dir| path.starts_with(dir))
        };
        below(roots) && !below(own_dirs)
    };
    // Git also finds `x.git` where `x` is asked for.
    let found = path.canonicalize().or_else(|_error| {
        let mut name = path.as_os_str().to_owned();
        name.push(".git");
        Path::new(&name).canonicalize()
    });
    if found.is_ok_and(|found| is_permitted(&found)) { Ok(()) } else { Err(refusal(shown)) }
}

/// The answer to everybody who names a path that is not permitted.
pub(crate) fn refusal(shown: &str) -> SourceError {
    SourceError::InvalidRepository {
        text: format!(
            "repository URL {shown:?} is no repository below a directory that the operator permits \
             (--local-repositories, or reposerver.local.repositories in argocd-cmd-params-cm)"
        ),
    }
}
