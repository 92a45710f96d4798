//! Whom an installation trusts: certificates of servers, host keys for SSH, and who may sign (REP A9).
//!
//! Values only: what the `ConfigMaps` say is read here, changed here as text, and described for people. Nothing
//! asks a server or a program.

mod der;
mod host;
mod keyring;
mod known_hosts;
mod pem;
mod pgp;
mod tls;

pub use der::{Certificate, NotACertificate};
pub use host::{HostPattern, is_host, is_ssh_host};
pub use keyring::{EntryError, Keyring};
pub use known_hosts::{KnownHost, KnownHosts};
pub use pem::{Pem, PemError, certificates};
pub use pgp::{KeyError, PublicKey, key_id, public_keys};
pub use tls::TlsCertificates;
