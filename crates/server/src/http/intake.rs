//! Reading what a request brings: as far as its caller may send it, counted while it is in memory, and not slower than
//! it is worth waiting for (SEC-48, INV-10).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tiphys_wire::json;
use tiphys_wire::status::Code;
use tokio::time::Instant;

use super::body;
use super::budget::{Budget, CallerKey, Permit, Pool};
use super::invoke::Bounds;
use crate::call::{Admitted, Api, Status};
use crate::listen::meter::Meter;

/// Memory of a header beside its text.
const HEADER_BYTES: usize = 64;
/// Bytes of JSON are read twice: as text and as values.
const VALUES_MAX: usize = 500_000;
/// Bytes of a small body of a page that is no call.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// Time that every body may take.
const LEAST_TIME: Duration = Duration::from_secs(30);
/// The same where the caller is not known: a login is short, and there is less room for such bodies.
const UNKNOWN_LEAST_TIME: Duration = Duration::from_secs(5);
/// Bytes of a body for which one more second is granted.
const BYTES_PER_SECOND: u64 = 8 << 10;
/// Time between two pieces of a body.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// What one request has in memory, and how much more it may bring.
pub(crate) struct Intake {
    permit: Arc<Mutex<Permit>>,
    bounds: Bounds,
    /// Bytes that may come, as far as they are known.
    bytes_max: usize,
    /// Whether the caller's right to send more was asked for.
    is_decided: bool,
    /// Bytes of values of the message that was read last.
    values: usize,
    pace: Pace,
    meter: Option<Meter>,
}

/// Keeps what a request brought counted as long as its call goes on.
#[derive(Debug)]
pub(crate) struct Kept(Arc<Mutex<Permit>>);

impl Kept {
    /// A permit of the same caller for the answer.
    pub(crate) fn for_answer(&self) -> Permit {
        self.0.lock().for_answer()
    }
}

impl Intake {
    /// Begins with the head of a request whose caller is not known yet.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(crate) fn begin(
        budget: &Budget,
        peer: IpAddr,
        (headers, meter): (&HeaderMap, Option<Meter>),
        bounds: Bounds,
    ) -> Result<Self, Status> {
        let mut permit = budget.permit(Pool::Arrivals, CallerKey::Address(peer));
        let bytes = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES);
        permit.grow(bytes.sum())?;
        let (bytes_max, pace) = (bounds.unknown_bytes_max, Pace::begin());
        let permit = Arc::new(Mutex::new(permit));
        Ok(Self { permit, bounds, bytes_max, is_decided: true, values: 0, pace, meter })
    }

    /// Goes on for a caller who is known now, or stays unknown: bodies of such callers take no room that those with a token
    /// need, also where all come from the address of one proxy.
    ///
    /// # Errors
    /// When there is no room for what came so far.
    pub(crate) fn known(mut self, call: &Admitted) -> Result<Self, Status> {
        let caller = CallerKey::of(&call.identity, call.head.peer.ip());
        if !call.identity.is_trusted() {
            self.permit.lock().become_of(Pool::Unknown, caller)?;
            self.pace.least = UNKNOWN_LEAST_TIME;
            return Ok(self);
        }
        self.permit.lock().become_of(Pool::Small, caller)?;
        Ok(Self { bytes_max: self.bounds.small_bytes_max, is_decided: false, ..self })
    }

    /// Prepares for a message, or a body, of this length.
    ///
    /// # Errors
    /// When the caller may not send so much.
    pub(crate) fn expect(
        &mut self,
        api: &Arc<dyn Api>,
        call: &Admitted,
        (bytes, most): (usize, usize),
    ) -> Result<(), TooLong> {
        if bytes > self.bytes_max && !self.is_decided {
            self.is_decided = true;
            let allowed = api.bytes_max(call).map_err(TooLong::Denied)?;
            self.bytes_max = allowed.min(most).max(self.bytes_max);
        }
        if bytes > self.bytes_max { Err(TooLong::Larger(self.bytes_max)) } else { Ok(()) }
    }

    /// The next piece of a body, counted; `None` at its end.
    ///
    /// # Errors
    /// When there is no room for it, or it does not come.
    pub(crate) async fn next(&mut self, body: &mut Incoming) -> Result<Option<Bytes>, Status> {
        let deadline = self.pace.deadline();
        let Some(piece) = body::next(body, deadline).await? else { return Ok(None) };
        self.meter.iter().for_each(Meter::progress);
        self.pace.bytes = self.pace.bytes.saturating_add(piece.len() as u64);
        self.grow(piece.len())?;
        Ok(Some(piece))
    }

    /// Nothing of a message is missing: the next one may take its time.
    pub(crate) fn rest(&mut self) {
        self.pace = Pace::begin();
    }

    /// A whole body.
    ///
    /// # Errors
    /// When it is larger than the caller may send, or does not come.
    pub(crate) async fn body(
        &mut self,
        api: &Arc<dyn Api>,
        call: &Admitted,
        body: &mut Incoming,
    ) -> Result<Bytes, Status> {
        use hyper::body::Body as _;
        let most = self.bounds.body_bytes_max;
        let larger = |error: TooLong| error.status(|max| format!("the request is larger than {max} bytes"));
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        self.expect(api, call, (announced, most)).map_err(larger)?;
        let mut pieces: Vec<Bytes> = Vec::new();
        let mut length = 0_usize;
        while let Some(piece) = self.next(body).await? {
            length = length.saturating_add(piece.len());
            self.expect(api, call, (length, most)).map_err(larger)?;
            pieces.push(piece);
        }
        match &pieces[..] {
            [only] => Ok(only.clone()),
            several => Ok(several.concat().into()),
        }
    }

    /// Counts what a text of JSON becomes when it is read.
    ///
    /// # Errors
    /// When there is no room for that.
    pub(crate) fn values(&mut self, text: &[u8]) -> Result<(), Status> {
        let weight = json::weight(text);
        if weight.values > VALUES_MAX {
            let text = format!("the request has more than {VALUES_MAX} values");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        self.grow(weight.bytes)
    }

    /// Counts bytes that the request becomes.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Status> {
        let mut permit = self.permit.lock();
        // Only callers with a right to send more are counted among the large requests.
        if self.bytes_max > self.bounds.small_bytes_max {
            permit.enlarge()?;
        }
        Ok(permit.grow(bytes)?)
    }

    /// The same for values of a message, until the next one is read.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(crate) fn grow_values(&mut self, bytes: usize) -> Result<(), Status> {
        self.grow(bytes)?;
        self.values = self.values.saturating_add(bytes);
        Ok(())
    }

    /// The values of the last message are not kept here any more.
    pub(crate) fn forget_values(&mut self) {
        self.permit.lock().shrink(std::mem::take(&mut self.values));
    }

    /// Bytes that may come, as far as the caller's rights are known.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Keeps everything counted after the reading has ended.
    pub(crate) fn kept(&self) -> Kept {
        Kept(Arc::clone(&self.permit))
    }
}

/// A whole body of at most so many bytes for a page that is no call, counted in a permit.
///
/// # Errors
/// When it is larger, there is no room for it, or it does not come.
pub(crate) async fn read(
    body: &mut Incoming,
    bytes_max: usize,
    permit: &mut Permit,
) -> Result<Bytes, Status> {
    use hyper::body::Body as _;
    let larger = || Status::new(Code::OutOfRange, format!("the request is larger than {bytes_max} bytes"));
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max {
        return Err(larger());
    }
    let (mut pace, mut pieces, mut length) = (Pace::begin(), Vec::new(), 0_usize);
    while let Some(piece) = body::next(body, pace.deadline()).await? {
        length = length.saturating_add(piece.len());
        if length > bytes_max {
            return Err(larger());
        }
        if length > SMALL_BYTES_MAX {
            permit.enlarge()?;
        }
        permit.grow(piece.len())?;
        pace.bytes = pace.bytes.saturating_add(piece.len() as u64);
        pieces.push(piece);
    }
    match &pieces[..] {
        [only] => Ok(only.clone()),
        several => Ok(several.concat().into()),
    }
}

/// More comes than its sender may send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TooLong {
    /// More than any caller may send with this call.
    Larger(usize),
    /// The caller has no right that needs so much.
    Denied(Status),
}

impl TooLong {
    /// The status, with the words of the transport.
    pub(crate) fn status(self, text: impl FnOnce(usize) -> String) -> Status {
        match self {
            Self::Larger(max) => Status::new(Code::ResourceExhausted, text(max)),
            Self::Denied(status) => status,
        }
    }
}

/// How fast a body has to arrive: a sender who is slower holds memory that others need.
struct Pace {
    began: Instant,
    bytes: u64,
    /// Time that is granted without any bytes.
    least: Duration,
}

impl Pace {
    fn begin() -> Self {
        Self { began: Instant::now(), bytes: 0, least: LEAST_TIME }
    }

    /// When the next piece has to be there.
    fn deadline(&self) -> Instant {
        let granted = self.least + Duration::from_secs(self.bytes / BYTES_PER_SECOND);
        (self.began + granted).min(Instant::now() + STALL_TIMEOUT)
    }
}
