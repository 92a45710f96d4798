//! The binary form of messages, as gRPC carries them.
//!
//! [`decode`] and [`encode`] go between bytes and the JSON form of a message. They follow the presence rules of each
//! message's style: proto3 leaves zeros out, objects of Kubernetes hold them, and what is required is always there
//! (API-P2, API-P8). [`writer`] writes single fields and [`reader`] reads them, for messages that no
//! table describes.

mod decode;
mod encode;
mod limits;
pub mod reader;
pub mod writer;

pub use decode::{Grow, decode, decode_within};
pub use encode::{EncodeError, Secrets, encode};
pub use limits::{DecodeError, Limits};

#[cfg(test)]
mod tests;
