//! Describes the messages and methods of the API, and translates them between protobuf, JSON and `OpenAPI`.
//!
//! There is one description: the tables in `schema/`, in the notation of the wire reference. [`schema()`] is that
//! description as data; everything else follows from it:
//!
//! - [`proto`] reads and writes the binary form of gRPC,
//! - [`json`] reads and writes the JSON of REST and of the command line,
//! - [`rest`] finds the method of an HTTP request and puts path, query and body together,
//! - [`openapi`] writes the document of the REST API,
//! - [`frame`] cuts bodies of gRPC into messages,
//! - [`descriptor`] writes the description in protobuf's own form, for reflection and for other implementations.
//!
//! In memory a message is a [`serde_json::Value`] in the form that REST shows: services and stored objects are that
//! already. What is zero and needs no mention is left out of it; [`json::write`] and [`proto::encode`] put in what
//! clients rely on.
//!
//! Nothing here does I/O, and nothing from outside is trusted: readers are total, and bounded in bytes, depth and
//! number of values.

pub mod descriptor;
pub mod frame;
pub mod json;
pub mod openapi;
pub mod proto;
pub mod rest;
pub mod schema;
pub mod selection;
mod shape;
pub mod status;

pub use schema::{Method, MethodId, Schema, schema};
