//! One HTTP request: where it goes, and what it may do there (API-1..20).

pub mod body;
mod compress;
pub mod cookie;
mod download;
mod front;
mod grpc;
mod invoke;
mod rest;

use http::{HeaderValue, Response, StatusCode, header};

pub use body::Body;
pub use front::{Front, FrontOptions, Handler, Incoming, Request};
pub use invoke::Bounds;

/// A text for people.
pub fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(body::full(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
