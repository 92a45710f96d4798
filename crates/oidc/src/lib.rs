//! Signs people in with an identity provider that speaks `OpenID` Connect (API-59..72, CLI-205).
//!
//! What a token has to say ([`claims`]), by whom it is signed ([`keys`]), what a provider tells of itself
//! ([`metadata`]), and where a browser is sent ([`flow`]) are functions over values. [`Provider`] is the shell around
//! them: it asks the provider, within bounds of bytes and time, and keeps what it was told. The API server verifies
//! tokens and runs the browser's flow with it; the command line logs in with it.

pub mod claims;
pub mod config;
mod device;
pub mod flow;
pub mod http;
pub mod keys;
pub mod metadata;
mod provider;

pub use claims::{ClaimError, Expected};
pub use config::OidcConfig;
pub use device::{Device, Poll};
pub use http::{HttpError, Limits, Transport};
pub use metadata::Metadata;
pub use provider::{Client, Granted, Provider, ProviderError};
pub use reqwest::Url;
