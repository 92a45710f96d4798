//! A call as the transports hand it to the services, whichever way it came: REST, gRPC or gRPC-web.
//!
//! A transport finds the method, asks [`Api::admit`] who calls before it reads any of the body, reads as much as that
//! caller may send, and hands the messages to [`Api::call`]. What comes back is messages again.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::HeaderMap;
use serde_json::Value;
use smol_str::SmolStr;
use tiphys_api::secret::Secret;
use tiphys_wire::frame::FrameError;
use tiphys_wire::selection::Selection;
use tiphys_wire::status::Code;
use tiphys_wire::{Method, MethodId, schema};
use tokio::time::Instant;

use crate::counts::Step;
use crate::identity::Identity;

/// The way a call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// gRPC over HTTP/2.
    Grpc,
    /// gRPC-web.
    GrpcWeb,
    /// JSON over HTTP.
    Rest,
}

/// What is known of a call before its messages.
#[derive(Clone, Debug)]
pub struct Head {
    /// The method.
    pub method: MethodId,
    /// The way it came.
    pub via: Via,
    /// The headers of the request.
    pub headers: HeaderMap,
    /// Who is at the other end of the connection.
    pub peer: SocketAddr,
    /// When the caller stops waiting.
    pub deadline: Option<Instant>,
    /// Which members of the answer are wanted; of REST alone (API-P29).
    pub fields: Option<Selection>,
}

impl Head {
    /// The method, as the schema describes it.
    pub fn description(&self) -> &'static Method {
        schema().method(self.method)
    }

    /// Metadata of gRPC; in REST a header with a prefix (API-P32).
    pub fn metadata(&self, name: &str) -> Option<&str> {
        let found = match self.via {
            Via::Grpc | Via::GrpcWeb => self.headers.get(name),
            Via::Rest => self.headers.get(format!("grpc-metadata-{name}")),
        };
        found.and_then(|value| value.to_str().ok())
    }

    /// A header that all transports have alike.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// The outcome of a call that did not go well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code.
    pub code: Code,
    /// The text. It holds no secret.
    pub message: String,
}

impl Status {
    /// An outcome with its text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The request is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// Something is wrong with us.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for Status {}

impl From<FrameError> for Status {
    fn from(error: FrameError) -> Self {
        Self { code: error.code, message: error.message }
    }
}

/// A call whose caller is known.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// The call.
    pub head: Head,
    /// Who calls.
    pub identity: Identity,
    /// A token that replaces the one the caller has (API-40).
    pub renewed_token: Option<Secret<String>>,
}

/// The messages of a call.
pub enum Requests {
    /// One.
    One(Value),
    /// As many as the client sends.
    Stream(BoxStream<'static, Result<Value, Status>>),
}

impl fmt::Debug for Requests {
    /// Messages may hold secrets; they do not print.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One(_) => "One(***)",
            Self::Stream(_) => "Stream(***)",
        })
    }
}

/// The two forms of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Protobuf.
    Binary,
    /// JSON.
    Json,
}

/// Pieces of a message, made one after the other: a large one is never whole in memory where nobody needs it whole.
pub type Pieces = Box<dyn Iterator<Item = Result<Bytes, Status>> + Send>;

/// Writes a message in one of its forms.
pub type Written = Arc<dyn Fn(Form) -> Pieces + Send + Sync>;

/// A message of an answer.
#[derive(Clone)]
pub struct Message {
    content: Content,
    about: Option<SmolStr>,
}

#[derive(Clone)]
enum Content {
    Value(Value),
    Written(Written),
}

impl Message {
    /// A message as a value.
    pub fn new(value: Value) -> Self {
        Self { content: Content::Value(value), about: None }
    }

    /// A message that is written by somebody who has most of it already.
    pub fn written(written: Written) -> Self {
        Self { content: Content::Written(written), about: None }
    }

    /// The same, about an object: over REST it is left out when it says of the object what the one before it said
    /// (API-P31).
    #[must_use]
    pub fn about(self, object: SmolStr) -> Self {
        Self { about: Some(object), ..self }
    }

    /// What it is about.
    pub(crate) fn object(&self) -> Option<&SmolStr> {
        self.about.as_ref()
    }

    /// Whether it is whole in memory, as a value, before it is written.
    pub(crate) fn is_value(&self) -> bool {
        matches!(self.content, Content::Value(_))
    }

    /// The whole message in one form.
    pub(crate) fn write(&self, method: &Method, form: Form) -> Result<Vec<Bytes>, Status> {
        self.pieces(method, form)?.collect()
    }

    /// The message in one form, as far as it is asked for.
    pub(crate) fn pieces(&self, method: &Method, form: Form) -> Result<Pieces, Status> {
        use tiphys_wire::proto::{self, Secrets};
        let misfit = |misfit: &dyn fmt::Display| {
            // A bug of ours: what we answer with is not what the tables say.
            tracing::error!(method = %method.path, %misfit, "an answer does not fit its message");
            Status::internal("the answer cannot be written")
        };
        match (&self.content, form) {
            (Content::Written(written), form) => Ok(written(form)),
            (Content::Value(value), Form::Binary) => {
                let bytes = proto::encode(schema(), method.response, value, Secrets::Dropped);
                bytes.map(one_piece).map_err(|error| misfit(&error))
            }
            (Content::Value(value), Form::Json) => {
                let mut out = Vec::new();
                tiphys_wire::json::write(schema(), method.response, value, Secrets::Dropped, &mut out)
                    .map_err(|error| misfit(&error))?;
                Ok(one_piece(out))
            }
        }
    }
}

/// Something that is written whole.
pub(crate) fn one_piece(bytes: Vec<u8>) -> Pieces {
    Box::new(std::iter::once(Ok(bytes.into())))
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("about", &self.about).finish_non_exhaustive()
    }
}

/// The messages of an answer.
pub enum Payload {
    /// One.
    One(Message),
    /// As many as there are.
    Stream(BoxStream<'static, Result<Message, Status>>),
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(message) => f.debug_tuple("One").field(message).finish(),
            Self::Stream(_) => f.write_str("Stream(…)"),
        }
    }
}

/// The answer to a call.
#[derive(Debug)]
pub struct Reply {
    /// The messages.
    pub payload: Payload,
    /// The token of the session that begins, empty when one ends; REST sets the cookie (API-48, API-52).
    pub session: Option<Secret<String>>,
    /// What the caller should know although the call went well: `Warning` headers of REST, metadata of gRPC.
    pub warnings: Vec<String>,
}

/// Bytes of a warning.
const WARNING_BYTES_MAX: usize = 2_000;

impl Reply {
    /// One message.
    pub fn value(value: Value) -> Self {
        Self::of(Payload::One(Message::new(value)))
    }

    /// A message that somebody writes.
    pub fn message(message: Message) -> Self {
        Self::of(Payload::One(message))
    }

    /// Several messages.
    pub fn stream(stream: BoxStream<'static, Result<Message, Status>>) -> Self {
        Self::of(Payload::Stream(stream))
    }

    fn of(payload: Payload) -> Self {
        Self { payload, session: None, warnings: Vec::new() }
    }

    /// The warnings as headers hold them: one line each, of letters that headers may have (API-P32).
    pub(crate) fn warning_texts(&self) -> impl Iterator<Item = String> + use<> {
        let line = |warning: &String| {
            let plain = |letter: char| if letter.is_ascii_graphic() || letter == ' ' { letter } else { '?' };
            let line: String = tiphys_api::printable::line(warning).chars().map(plain).collect();
            line.chars().take(WARNING_BYTES_MAX).collect::<String>()
        };
        self.warnings.iter().map(line).collect::<Vec<_>>().into_iter()
    }
}

/// What answers calls.
pub trait Api: Send + Sync + 'static {
    /// Finds out who calls, before anything of the body was read.
    fn admit(self: Arc<Self>, head: Head) -> BoxFuture<'static, Result<Admitted, Status>>;

    /// Bytes that a caller may send with a call, where they are more than every known caller may.
    ///
    /// # Errors
    /// When the caller has no right that needs so many.
    fn bytes_max(&self, _call: &Admitted) -> Result<usize, Status> {
        Ok(usize::MAX)
    }

    /// Answers.
    fn call(self: Arc<Self>, call: Admitted, requests: Requests)
    -> BoxFuture<'static, Result<Reply, Status>>;

    /// Told of every call that begins, and of each message of it (API-12).
    fn step(&self, _head: &Head, _step: Step) {}

    /// Told of every call that ended, with the time it took.
    fn ended(&self, head: &Head, identity: Option<&Identity>, code: Code, took: std::time::Duration);
}
