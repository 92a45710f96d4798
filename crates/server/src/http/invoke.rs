//! What all transports do alike: who calls, what is sent, the answer within its time, and a panic that ends nothing.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use hyper::body::Incoming;
use serde_json::Value;
use tiphys_wire::frame::{self, Messages};
use tiphys_wire::proto::{Limits, decode_within};
use tiphys_wire::schema;
use tiphys_wire::status::Code;
use tokio::time::Instant;

use super::intake::{Intake, Kept};
use crate::call::{Admitted, Api, Head, Reply, Requests, Status};
use crate::counts::Step;

/// How much the front door takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of one message of gRPC, in and out (API-P1).
    pub message_bytes_max: usize,
    /// Bytes of a body of JSON.
    pub body_bytes_max: usize,
    /// Bytes from a caller who is not known (SEC-48).
    pub unknown_bytes_max: usize,
    /// Bytes that every known caller may send; more needs a right that needs them.
    pub small_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            message_bytes_max: 200 << 20,
            body_bytes_max: 64 << 20,
            unknown_bytes_max: 16 << 10,
            small_bytes_max: 64 << 10,
        }
    }
}

/// When a call ends that says how long its caller waits (API-P32).
pub(crate) fn deadline(text: Option<&str>) -> Option<Instant> {
    frame::timeout(text?).map(|time| Instant::now() + time)
}

/// What a call took and how it ended, told once.
pub(crate) struct Ending {
    api: Arc<dyn Api>,
    head: Head,
    identity: Option<crate::identity::Identity>,
    began: Instant,
    code: Option<Code>,
}

impl Ending {
    /// A call that begins.
    pub(crate) fn new(api: &Arc<dyn Api>, head: &Head) -> Self {
        api.step(head, Step::Started);
        Self { api: Arc::clone(api), head: head.clone(), identity: None, began: Instant::now(), code: None }
    }

    /// The same messages, each counted when it is looked at.
    pub(crate) fn received(&self, requests: Requests) -> Requests {
        match requests {
            Requests::One(message) => {
                self.api.step(&self.head, Step::Received);
                Requests::One(message)
            }
            Requests::Stream(stream) => {
                let (api, head) = (Arc::clone(&self.api), self.head.clone());
                let counted = stream.inspect(move |message| {
                    if message.is_ok() {
                        api.step(&head, Step::Received);
                    }
                });
                Requests::Stream(counted.boxed())
            }
        }
    }

    /// A message of the answer goes out.
    pub(crate) fn sent(&self) {
        self.api.step(&self.head, Step::Sent);
    }

    /// Who calls.
    pub(crate) fn known(&mut self, admitted: &Admitted) {
        self.identity = Some(admitted.identity.clone());
    }

    /// How it ended; a call that is dropped before was left by its caller.
    pub(crate) fn with(&mut self, code: Code) {
        self.code = Some(code);
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let code = self.code.unwrap_or(Code::Canceled);
        self.api.ended(&self.head, self.identity.as_ref(), code, self.began.elapsed());
    }
}

/// Finds out who calls.
pub(crate) async fn admit(api: &Arc<dyn Api>, head: Head) -> Result<Admitted, Status> {
    let deadline = head.deadline;
    guarded(Arc::clone(api).admit(head), deadline).await
}

/// Calls a method.
pub(crate) async fn call(api: &Arc<dyn Api>, call: Admitted, requests: Requests) -> Result<Reply, Status> {
    let deadline = call.head.deadline;
    let reply = guarded(Arc::clone(api).call(call, requests), deadline).await?;
    Ok(match reply.payload {
        crate::call::Payload::Stream(stream) => {
            let isolated = std::panic::AssertUnwindSafe(stream).catch_unwind();
            let isolated = isolated.map(|item| item.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))));
            Reply { payload: crate::call::Payload::Stream(isolated.boxed()), ..reply }
        }
        one @ crate::call::Payload::One(_) => Reply { payload: one, ..reply },
    })
}

/// A panic is a bug of ours, and ends this call alone (API-25).
async fn guarded<T>(
    work: impl Future<Output = Result<T, Status>>,
    deadline: Option<Instant>,
) -> Result<T, Status> {
    let work = std::panic::AssertUnwindSafe(work).catch_unwind();
    let outcome = match deadline {
        None => work.await,
        Some(at) => match tokio::time::timeout_at(at, work).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => return Err(late()),
        },
    };
    outcome.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

/// The caller does not wait any longer.
pub(crate) fn late() -> Status {
    Status::new(Code::DeadlineExceeded, "context deadline exceeded")
}

fn panicked(panic: &(dyn Any + Send)) -> Status {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text");
    tracing::error!(panic = text, "a call failed by a bug");
    Status::internal("internal error")
}

/// The messages of gRPC that a call brings.
pub(crate) struct Reader {
    pub(crate) api: Arc<dyn Api>,
    pub(crate) call: Admitted,
    pub(crate) body: Incoming,
    pub(crate) messages: Messages,
    pub(crate) intake: Intake,
    /// Bytes of one message, whatever its sender may.
    pub(crate) bytes_max: usize,
}

impl Reader {
    /// Reads the one message of a call, or makes the stream of several. What was read is counted as long as the intake.
    ///
    /// # Errors
    /// When there is not exactly one where there has to be, or it is not what it should be.
    pub(crate) async fn requests(mut self) -> Result<(Requests, Kept), Status> {
        let kept = self.intake.kept();
        if self.call.head.description().client_streams {
            let stream = futures::stream::unfold(Some(self), |reader| async move {
                let mut reader = reader?;
                match reader.next().await {
                    Ok(None) => None,
                    Ok(Some(value)) => Some((Ok(value), Some(reader))),
                    Err(status) => Some((Err(status), None)),
                }
            });
            return Ok((Requests::Stream(stream.boxed()), kept));
        }
        let Some(value) = self.next().await? else {
            return Err(Status::internal("the request has no message"));
        };
        if self.bytes().await?.is_some() {
            return Err(Status::internal("the request has more than one message"));
        }
        Ok((Requests::One(value), kept))
    }

    /// The next message, read.
    async fn next(&mut self) -> Result<Option<Value>, Status> {
        self.intake.forget_values();
        let Some(bytes) = self.bytes().await? else { return Ok(None) };
        let request = self.call.head.description().request;
        let mut full = None;
        let mut grow = |bytes| self.intake.grow_values(bytes).map_err(|status| full = Some(status)).is_ok();
        let read = decode_within(schema(), request, &bytes, Limits::default(), &mut grow);
        match (read, full) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(_), Some(status)) => Err(status),
            (Err(error), None) => Err(Status::invalid(format!("grpc: error unmarshalling request: {error}"))),
        }
    }

    /// The bytes of the next message.
    async fn bytes(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(length) = self.messages.announced() {
                self.expect(length)?;
            }
            if let Some(packed) = self.messages.take_packed()? {
                let message = if packed.is_packed { self.unpacked(&packed.message)? } else { packed.message };
                return Ok(Some(message));
            }
            if self.messages.is_empty() {
                self.intake.rest();
            }
            match self.intake.next(&mut self.body).await? {
                Some(piece) => self.messages.push(&piece),
                None if self.messages.is_empty() => return Ok(None),
                None => return Err(Status::internal("the request ends within a message")),
            }
        }
    }

    /// How large a message becomes is known when it is unpacked, so that its sender's right is asked for then.
    fn unpacked(&mut self, message: &Bytes) -> Result<Bytes, Status> {
        let small = self.intake.bytes_max();
        let unpacked = match frame::unpack(message, small) {
            Err(error) if error.code == Code::ResourceExhausted => {
                self.expect(small.saturating_add(1))?;
                frame::unpack(message, self.intake.bytes_max())?
            }
            other => other?,
        };
        self.intake.grow(unpacked.len())?;
        Ok(unpacked)
    }

    fn expect(&mut self, length: usize) -> Result<(), Status> {
        let expected = self.intake.expect(&self.api, &self.call, (length, self.bytes_max));
        expected.map_err(|error| error.status(|max| frame::too_large(length, max).message))
    }
}
