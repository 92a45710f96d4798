//! Which application an object belongs to: writing the mark, reading it, and telling copies from originals.
//!
//! Every prune and cascade delete rests on these answers (TRK). [`TrackingSettings`] is one consistent snapshot
//! of the settings (TRK-140); [`TrackingSettings::with_method`] gives it the effective method of one
//! application. [`TrackingSettings::stamp`] marks desired objects, [`TrackingSettings::mark`] reads the mark
//! of live ones, [`Readings`] reads all that may be in use at once, and [`Ownership`] decides: which live objects are an
//! application's, which carry a mark that somebody copied, and which differences only come from a change of settings.
//!
//! Absent on purpose: whether an object has owners (a mark of an object with owner references counts for
//! nothing, TRK-86; the caller knows the owners).

mod claim;
mod hash;
mod id;
mod installation_id;
mod method;
mod name;
mod normalize;
mod ownership;
mod profile;
mod readings;
mod selector;
mod settings;
mod stamp;

pub use hash::HashAlgorithm;
pub use id::{TrackingFormat, TrackingId, TrackingIdError};
pub use installation_id::{IdAction, installation_id_at_start};
pub use method::TrackingMethod;
pub use name::{app_key, instance_name, qualified_name, split_instance_name, split_qualified_name};
pub use ownership::{Marked, Neighbours, Owned, Ownership, Previous, applied};
pub use readings::{FORMER_READINGS_MAX, FORMER_READINGS_PER_PROJECT_MAX, Reading, Readings};
pub use selector::Unselectable;
pub use settings::{Carrier, NameAnnotation, TrackingSettings, key as setting};
pub use stamp::{StampError, expand_lists, truncated_label};
