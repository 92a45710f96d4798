//! Files that a client sends along instead of those of a repository (API-147).

use std::sync::Arc;

use bytes::Bytes;
use tiphys_render::Tree;

use super::Sources;
use crate::SourceError;

/// Bytes of the files of one archive together.
const CONTENT_BYTES_MAX: u64 = 256 << 20;

impl Sources {
    /// The files of a `tar.gz` that somebody sends: nothing of them stands on the disk under a name of theirs, links stay
    /// inside, and bytes, members and depth have bounds (SEC-09). Nothing stays when nobody reads them.
    ///
    /// # Errors
    /// When it is no such archive, exceeds a bound, or the disk fails.
    pub async fn uploaded(&self, packed: Bytes) -> Result<Arc<dyn Tree>, SourceError> {
        self.0.packed.uploaded(packed, CONTENT_BYTES_MAX).await
    }
}
