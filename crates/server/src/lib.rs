//! Serves REST, gRPC, gRPC-web, webhooks and streams on one port.
//!
//! A connection comes in through [`listen`]: TLS or plain, HTTP/1.1 or HTTP/2, within bounds. [`http::Front`] sends each
//! request to where it belongs. Calls become the same thing whichever way they came ([`call`]), and an [`call::Api`]
//! answers them; what the messages are is said by `tiphys-wire` alone.
//!
//! Nothing of a body is read before it is known who sends it, and nothing that a client does holds up others: bytes,
//! time and number of everything have bounds, and a panic ends the call that it happens in.

pub mod call;
pub mod catalog;
pub mod counts;
pub mod extension;
#[cfg(test)]
mod fixtures;
pub mod follow;
pub mod http;
pub mod identity;
pub mod listen;
pub mod live;
pub mod pages;
pub mod process;
pub mod services;
pub mod session;
pub mod sets;
pub mod sso;
pub mod world;
