//! Renders Helm charts as Helm 4 does.

mod capabilities;
mod chart;
mod output;
mod release;
mod schema;
mod version;

pub use capabilities::{KubeVersion, KubeVersionError};
pub use chart::{
    Chart, ChartError, ChartType, DecodeError, Dependency, File, IgnoreError, IgnoreRules, ImportValue,
    LoadLimits, Lock, LockError, LockState, Maintainer, Metadata, Subchart, load_archive, load_directory,
};
pub use output::{Hook, HookEvent, Manifest, OutputError};
pub use release::{ReleaseNameError, check_release_name};
pub use schema::{Documents, Schema, SchemaError};
pub use version::HelmVersion;
