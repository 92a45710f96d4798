//! Which application an object belongs to: writing the mark, reading it, and telling copies from originals.
//!
//! Every prune and cascade delete rests on these answers (TRK). [`TrackingSettings`] is one consistent snapshot
//! of the settings (TRK-140); [`TrackingSettings::with_method`] gives it the effective method of one
//! application. [`TrackingSettings::stamp`] marks desired objects, [`TrackingSettings::claim`] reads the mark
//! of live ones, [`TrackingSettings::is_self_referenced`] detects marks that were copied by somebody else, and
//! [`TrackingSettings::normalize_live`] hides differences that only come from a change of method.
//!
//! Absent on purpose: whether an object has owners (a claim of an object with owner references counts for
//! nothing, TRK-86; the caller knows the owners), and tracking methods that write [`HashAlgorithm`] digests.

mod claim;
mod hash;
mod id;
mod name;
mod settings;
mod stamp;

pub use hash::HashAlgorithm;
pub use id::{TrackingId, TrackingIdError};
pub use name::{app_key, instance_name, qualified_name, split_instance_name, split_qualified_name};
pub use settings::{TrackingMethod, TrackingSettings};
pub use stamp::{StampError, expand_lists, truncated_label};
