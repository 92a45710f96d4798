//! The built-in resources.

use super::Resource;

/// All built-in resources.
pub(super) fn resources() -> Vec<Resource> {
    Vec::new()
}
