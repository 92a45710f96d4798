//! One HTTP request: where it goes, and what it may do there (API-1..20).

pub mod body;
mod budget;
pub(crate) mod compress;
pub mod cookie;
mod download;
mod front;
mod grpc;
mod held;
pub(crate) mod intake;
mod invoke;
pub(crate) mod pass;
mod places;
mod rest;
pub(crate) mod socket;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use tiphys_wire::status::Code;

use crate::call::Status;

pub use body::Body;
pub use budget::Budget;
pub(crate) use budget::{CallerKey, Full, Permit, Pool};
pub use front::{Front, FrontOptions, Handler, Incoming, Request};
pub use invoke::Bounds;
pub(crate) use places::{Place, Places};

/// A text for people.
pub fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(body::full(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Why a page that is no call is not shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The status.
    pub(crate) status: StatusCode,
    /// The text for people.
    pub(crate) text: String,
}

impl Refused {
    /// A refusal with its text.
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// A body that is not read, and why.
    pub(crate) fn of_body(status: &Status) -> Self {
        let code = match status.code {
            Code::OutOfRange => StatusCode::PAYLOAD_TOO_LARGE,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::Canceled => StatusCode::REQUEST_TIMEOUT,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(code, status.message.as_str())
    }

    /// The answer.
    pub(crate) fn response(self) -> Response<Body> {
        plain(self.status, self.text + "\n")
    }
}

/// A DNS subdomain, as most objects of Kubernetes are named.
pub(crate) fn is_resource_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 253
        && !text.is_empty()
        && text.split('.').all(|label| {
            label.bytes().all(|byte| is_inner(byte) || byte == b'-')
                && label.bytes().next().is_some_and(is_inner)
                && label.bytes().next_back().is_some_and(is_inner)
        })
}
