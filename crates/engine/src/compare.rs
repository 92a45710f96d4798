//! What is the difference between the desired and the live objects of one application?
//!
//! [`compare`] matches desired objects with live ones and gives every pair, and the application, a sync status
//! (ENG sections 3, 4 and 5.1). It keeps objects behind `Arc`; trees exist only while one pair is compared,
//! and pairs that did not change since the last comparison are not even parsed: [`DiffMemo`] remembers them.
//!
//! What could not be seen makes its object and the application `Unknown`, never missing or extra. Rendering,
//! listing and permission rules are the caller's: they come in as values and functions.

mod input;
mod lists;
mod matching;
mod memo;
mod outcome;
mod status;
mod targets;

pub use input::{CompareInput, Scope, builtin_scope, managed_namespace_changed};
pub use lists::{ListsError, ListsInput, LiveObjects, compare_lists, is_root};
pub use memo::DiffMemo;
pub use outcome::{ComparedResource, Comparison, SharedResource, SyncStatusCode};
pub use status::{compare, fail_on_shared, shared_warning};
