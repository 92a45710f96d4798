//! Looks up and changes repositories, credential templates, clusters, projects, applications, their sets and accounts for
//! whoever asks: the command line in core mode, and the API server.
//!
//! Each area is two layers. Pure functions decide: from the objects as they were read and a request they make a
//! [`Change`], or an error in the words of the specification ([`repository`], [`template`], [`project`],
//! [`cluster`], [`application`], [`application_set`], [`account`], [`certificate`], [`gpg_key`]). A thin shell carries the
//! change out ([`Store`]): it writes with the version that was read, and when somebody else was faster it reads that one
//! object again and asks the same function again.
//!
//! Who may do what is not decided here: a [`Caller`] is asked with the resource, the action and the object of the
//! RBAC rules before anything is looked at or changed. In core mode Kubernetes decides. Of kinds that have several owners
//! the store writes a [`Planned`] alone, which names the object that it changes and the one that it makes.

mod access;
pub mod account;
pub mod application;
pub mod application_set;
pub mod certificate;
mod change;
pub mod cluster;
mod config_map;
pub mod connection;
mod error;
pub mod fetcher;
pub mod gpg_key;
pub mod installation_watch;
pub mod jwt;
pub mod links;
mod managed;
mod planned;
pub mod port_certificate;
pub mod project;
mod purpose;
pub mod repository;
pub mod revoked;
mod secrets;
mod store;
pub mod template;

pub use access::{Access, Action, Caller, Located, Object, Resource};
pub use change::{Change, Sealed, Seen};
pub use error::{Code, Error};
pub use managed::SecretError;
pub use planned::{Need, Planned};
pub use purpose::Purpose;
pub use secrets::Secrets;
pub use store::{Guarded, Record, Store};
