//! Which charts take part in a rendering, under which names and with which default values.
//!
//! - [`missing`] says what a chart lists and does not have, as data: fetching is for others (RND-103..106).
//! - `Part` is a chart as one rendering sees it: aliases given, disabled ones left out (RND-170, RND-171), values of
//!   children imported (RND-172).

mod enable;
mod import;
mod missing;
mod part;

pub use missing::{MissingCharts, NeededChart, missing};
pub(crate) use part::Part;
pub use part::PartsError;
