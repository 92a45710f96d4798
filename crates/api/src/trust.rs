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

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub use der::{Certificate, NotACertificate};
pub use host::{HostPattern, is_host, is_ssh_host};
pub use keyring::{EntryError, Keyring};
pub use known_hosts::{KnownHost, KnownHosts};
pub use pem::{Pem, PemError, certificates};
pub use pgp::{KeyError, PublicKey, key_id, public_keys};
pub use tls::TlsCertificates;

/// Bytes as PEM and armoured texts hold them: base64 in lines of 64 letters, each with a line end.
fn base64_lines(bytes: &[u8]) -> String {
    let encoded = STANDARD.encode(bytes);
    let mut text = String::with_capacity(encoded.len() + encoded.len() / 64 + 1);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text
}
