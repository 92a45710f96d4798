//! Renders Helm charts as Helm 4 does.

mod cache;
mod capabilities;
mod chart;
mod compare;
mod dependencies;
mod determinism;
mod error;
mod keys;
mod output;
mod parameters;
mod release;
mod render;
mod root;
mod schema;
mod user_values;
mod values;
mod version;

pub use cache::{CrdDocument, CrdError};
pub use capabilities::{KubeVersion, KubeVersionError};
pub use chart::{
    Chart, ChartError, ChartType, DecodeError, Dependency, DocumentError, File, IgnoreError, IgnoreRules,
    ImportValue, LoadLimits, Lock, LockError, LockState, Maintainer, Metadata, Subchart, load_archive,
    load_directory,
};
pub use compare::{Difference, Strictness, compare_objects};
pub use dependencies::{MissingCharts, NeededChart, PartsError, missing};
pub use determinism::{Determinism, Seed};
pub use error::HelmError;
pub use keys::{NativeKeys, Source};
pub use output::{Hook, HookEvent, Manifest, OutputError};
pub use parameters::{Parameter, ParametersError, flatten_parameters};
pub use release::{ReleaseNameError, check_release_name};
pub use render::{Crds, RenderLimits, RenderRequest, Rendered, render};
pub use schema::{Documents, Schema, SchemaError};
pub use user_values::{FileParameter, UserValues, UserValuesError};
pub use values::ValuesError;
pub use version::HelmVersion;
