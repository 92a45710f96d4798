//! Resolves, fetches and caches content of git repositories, chart repositories and registries.
//!
//! [`Sources`] is the handle: it turns a revision into a commit ([`Sources::resolve`]), a commit into an
//! immutable [`tiphys_render::Tree`] ([`Sources::tree`]), and answers what changed between two commits. What every
//! push asks of an HTTP server is asked in-process; everything else is left to the `git` program, started through
//! [`tiphys_exec::run`] only. Objects are read in-process from one bare repository per (normalised URL, scope). There are
//! no worktrees (DEP-52).
//!
//! Everything on disk is a cache: it may vanish at any time, and damage is answered by fetching again.
//! Concurrent questions about one repository cost one listing and one fetch.

mod address;
mod allowance;
mod archive;
mod charts;
mod checkout;
mod clock;
mod compute;
mod directory;
mod error;
mod git;
mod http;
mod hydrate;
mod lfs;
mod local;
mod memo;
mod memory;
mod modules;
mod observer;
mod owner;
mod pack;
mod packed;
mod refs;
mod registry;
mod repository;
mod sources;
mod store;
mod tokens;
mod tree;
mod trust;
mod turns;
mod web;
mod work;

pub use allowance::FetchLimits;
pub use charts::{ChartIndex, ChartVersion, IndexError};
pub use checkout::{CheckoutLimits, checkout_files};
pub use clock::{Clock, ManualClock};
pub use compute::{Compute, StopOnDrop};
pub use directory::{pack_directory, read_directory};
pub use error::SourceError;
pub use hydrate::{Directory as HydratedDirectory, Hydrated, Hydration, IsStale, Pushed};
pub use memory::{MemoryRepositories, Trouble};
pub use observer::{Ended, Observer, Request};
pub use owner::on_behalf_of;
pub use refs::{RefList, Resolution};
pub use repository::{Repository, Tls};
pub use sources::{
    ArtifactMetadata, ChartDetails, CommitReference, FetchedChart, Freshness, LAYER_TYPES, Resolved, Retry,
    RevisionMetadata, Signed, SourceOptions, Sources, TokenUse,
};
pub use tiphys_api::secret::Secret;
pub use tiphys_exec as exec;
pub use tokens::{AzureIdentity, TokenSource};
pub use trust::Trust;
pub use turns::{Size, Turn, Turns};
