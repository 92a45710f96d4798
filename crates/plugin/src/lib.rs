//! Config management plugins: programs of the user that turn files into manifests (RND section 13).
//!
//! A plugin is a server of gRPC behind a socket in a directory that it shares with us. [`Plugins`] finds those that are
//! there, sends files to the one that a source means, and reads what it answers; [`server`] is such a server, for those
//! who run theirs with this program. [`message`] is what both say, [`pack`] and [`unpack`] how files travel.
//!
//! What a plugin says is from outside: it has a time, a number of bytes, and no way to our own files.

mod choose;
mod client;
pub mod config;
pub mod message;
mod options;
pub mod pack;
mod remembered;
pub mod server;
pub mod unpack;

pub use choose::{Answer, CALLS_MAX, Credentials, Plugins};
pub use client::PluginError;
pub use options::PluginOptions;
