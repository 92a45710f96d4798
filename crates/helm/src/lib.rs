//! Renders Helm charts as Helm 4 does.

mod chart;
mod schema;
mod version;

pub use chart::{
    Chart, ChartError, ChartType, DecodeError, Dependency, File, IgnoreError, IgnoreRules, ImportValue,
    LoadLimits, Lock, LockError, LockState, Maintainer, Metadata, Subchart, load_archive, load_directory,
};
pub use schema::{Documents, Schema, SchemaError};
pub use version::HelmVersion;
