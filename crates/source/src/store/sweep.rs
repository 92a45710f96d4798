//! Removes what fetches that did not succeed leave in a repository (RND-46).

use std::path::{Path, PathBuf};

use crate::work::long;

/// Files of interrupted fetches.
const LEFTOVERS: [&str; 5] = ["tmp_pack_", "tmp_idx_", "tmp_rev_", "tmp_mtimes_", ".tmp"];

/// Removes what interrupted fetches left: at the start of a process, and after every fetch that failed (RND-46).
pub(super) fn remove_leftovers(directory: &Path) {
    for place in ["objects/pack", "objects", "."] {
        let Ok(members) = std::fs::read_dir(directory.join(place)) else { continue };
        for member in members.flatten() {
            let name = member.file_name().to_string_lossy().into_owned();
            let is_lock = Path::new(&name).extension().is_some_and(|extension| extension == "lock");
            // Names a pack that git was about to use, together with its own process.
            let is_keep = Path::new(&name).extension().is_some_and(|extension| extension == "keep");
            if is_lock || is_keep || LEFTOVERS.iter().any(|prefix| name.starts_with(prefix)) {
                // A file that cannot be removed makes the next fetch fail, which starts a new generation.
                drop(std::fs::remove_file(member.path()));
            }
        }
    }
}

/// Removes leftovers when a fetch ends without having been disarmed: it failed, or nobody waits for it any more.
/// An endless pack must not fill the disk until the next start.
pub(super) struct Sweep(Option<PathBuf>);

impl Sweep {
    pub(super) fn of(directory: &Path) -> Self {
        Self(Some(directory.to_owned()))
    }

    pub(super) fn disarm(mut self) {
        self.0 = None;
    }

    /// Removes them now.
    pub(super) async fn now(mut self) {
        if let Some(directory) = self.0.take() {
            drop(
                long(move || {
                    remove_leftovers(&directory);
                    Ok(())
                })
                .await,
            );
        }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        if let Some(directory) = self.0.take() {
            // Whoever was dropped last in this place has killed its child by now.
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(move || remove_leftovers(&directory))),
                // The runtime has ended; the next start sweeps.
                Err(_ended) => {}
            }
        }
    }
}
