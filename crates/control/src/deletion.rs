//! Deleting an Application: hooks, cascade, finalizers (CTL-75..84).

use crate::context::Context;
use crate::pass::Work;

/// One pass of a deletion.
pub(crate) async fn run(_context: &Context, _work: &mut Work) {}
