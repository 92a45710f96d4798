//! The nouns of the product: Applications, projects, settings, and the names they use.
//!
//! Wire types mirror the CRDs and keep what they do not know. Decisions about them live in the engine and the
//! policy crate; reading and writing them in the cluster crate.

pub mod account;
pub mod application;
pub mod applicationset;
pub mod cluster;
pub mod codes;
pub mod commit;
pub mod crd;
pub mod names;
pub mod printable;
pub mod project;
pub mod repo_url;
pub mod repository;
pub mod secret;
pub mod settings;
pub mod signature;
pub mod support;
pub mod trust;

pub use application::Application;
pub use applicationset::ApplicationSet;
pub use project::AppProject;
pub use settings::Settings;
