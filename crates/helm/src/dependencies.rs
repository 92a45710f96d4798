//! Which charts take part in a rendering.
//!
//! - [`missing`] says what a chart lists and does not have, as data: fetching is for others (RND-103..106).

mod missing;

pub use missing::{MissingCharts, NeededChart, missing};
