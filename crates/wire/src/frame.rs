//! Messages of gRPC within a body: a flag, a length, and the bytes.

use std::fmt::Write as _;
use std::io::Read as _;
use std::time::Duration;

use crate::status::Code;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use flate2::read::GzDecoder;

/// Why a body cannot be cut into messages, or a message is not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FrameError {
    /// The code that the call ends with.
    pub code: Code,
    /// The text.
    pub message: String,
}

impl FrameError {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }
}

/// Bytes before each message.
const PREFIX: usize = 5;
/// The flag of a message that is compressed.
const COMPRESSED: u8 = 1;
/// The flag of trailers, in gRPC-web.
pub const TRAILERS: u8 = 0x80;

/// Cuts a body into messages.
#[derive(Debug)]
pub struct Messages {
    buffer: BytesMut,
    bytes_max: usize,
    is_gzip: bool,
}

impl Messages {
    /// Messages of at most so many bytes; `encoding` is that of compressed ones.
    ///
    /// # Errors
    /// When nobody here knows the encoding.
    pub fn new(bytes_max: usize, encoding: Option<&str>) -> Result<Self, FrameError> {
        let is_gzip = match encoding {
            None | Some("" | "identity") => false,
            Some("gzip") => true,
            Some(other) => {
                let text = format!("grpc: Decompressor is not installed for grpc-encoding {other:?}");
                return Err(FrameError::new(Code::Unimplemented, text));
            }
        };
        Ok(Self { buffer: BytesMut::new(), bytes_max, is_gzip })
    }

    /// Takes a piece of the body.
    pub fn push(&mut self, piece: &Bytes) {
        self.buffer.extend_from_slice(piece);
    }

    /// Whether nothing of a message is left.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Length of the next message as its sender announces it, as soon as that is known.
    pub fn announced(&self) -> Option<usize> {
        let (mut prefix, _) = self.buffer.split_at_checked(PREFIX)?;
        let _flag = prefix.get_u8();
        Some(usize::try_from(prefix.get_u32()).unwrap_or(usize::MAX))
    }

    /// The next message that is there as a whole.
    ///
    /// # Errors
    /// When it is too large, or cannot be unpacked.
    pub fn take(&mut self) -> Result<Option<Bytes>, FrameError> {
        match self.take_packed()? {
            Some(Packed { message, is_packed: true }) => unpack(&message, self.bytes_max).map(Some),
            found => Ok(found.map(|found| found.message)),
        }
    }

    /// The next message that is there as a whole, packed where its sender packed it.
    ///
    /// # Errors
    /// When it is too large, or packed in a way that was not announced.
    pub fn take_packed(&mut self) -> Result<Option<Packed>, FrameError> {
        let Some((prefix, _)) = self.buffer.split_at_checked(PREFIX) else { return Ok(None) };
        let mut prefix = prefix;
        let (flag, length) = (prefix.get_u8(), prefix.get_u32());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.bytes_max {
            return Err(too_large(length, self.bytes_max));
        }
        if flag > COMPRESSED {
            return Err(FrameError::internal("grpc: received a message with an unknown flag"));
        }
        if self.buffer.len() < PREFIX + length {
            // What comes is known to be within bounds.
            self.buffer.reserve((PREFIX + length - self.buffer.len()).min(64 * 1024));
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        let message = self.buffer.split_to(length).freeze();
        match (flag, self.is_gzip) {
            (0, _) => Ok(Some(Packed { message, is_packed: false })),
            (_, true) => Ok(Some(Packed { message, is_packed: true })),
            (_, false) => {
                Err(FrameError::internal("grpc: compressed flag set with identity or empty encoding"))
            }
        }
    }
}

/// A message as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Its bytes.
    pub message: Bytes,
    /// Whether they are packed by gzip.
    pub is_packed: bool,
}

/// The refusal of a message of this length.
pub fn too_large(length: usize, bytes_max: usize) -> FrameError {
    let text = format!("grpc: received message larger than max ({length} vs. {bytes_max})");
    FrameError::new(Code::ResourceExhausted, text)
}

/// Unpacks a message.
///
/// # Errors
/// When it is larger than this, or damaged.
pub fn unpack(message: &Bytes, bytes_max: usize) -> Result<Bytes, FrameError> {
    let mut out = Vec::new();
    let bound = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    GzDecoder::new(message.as_ref())
        .take(bound)
        .read_to_end(&mut out)
        .map_err(|_damaged| FrameError::internal("grpc: failed to decompress the received message"))?;
    if out.len() > bytes_max {
        return Err(too_large(out.len(), bytes_max));
    }
    Ok(out.into())
}

/// A message with its prefix.
///
/// # Errors
/// When it is larger than clients take.
pub fn framed(parts: Vec<Bytes>, bytes_max: usize) -> Result<Vec<Bytes>, FrameError> {
    let length: usize = parts.iter().map(Bytes::len).sum();
    let Some(wire_length) = u32::try_from(length).ok().filter(|_| length <= bytes_max) else {
        let text = format!("trying to send message larger than max ({length} vs. {bytes_max})");
        return Err(FrameError::new(Code::ResourceExhausted, text));
    };
    let mut prefix = BytesMut::with_capacity(PREFIX);
    prefix.put_u8(0);
    prefix.put_u32(wire_length);
    let mut framed = vec![prefix.freeze()];
    framed.extend(parts);
    Ok(framed)
}

/// The text of a status in a header: percent signs for what headers cannot hold.
pub fn escaped(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for byte in message.bytes() {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            out.push(char::from(byte));
        } else {
            // A string takes every write.
            let _written = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// The text of a status as it was before it was escaped; bytes that are no text become replacement characters.
pub fn unescaped(header: &[u8]) -> String {
    percent_encoding::percent_decode(header).decode_utf8_lossy().into_owned()
}

/// Longest deadline that a client may ask for; more is none.
const TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);

/// How long a caller waits that says so in gRPC's words, for example `100m` (API-P32).
pub fn timeout(text: &str) -> Option<Duration> {
    let unit = text.chars().next_back()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    let time = match unit {
        'H' => Duration::from_secs(count.saturating_mul(3_600)),
        'M' => Duration::from_secs(count.saturating_mul(60)),
        'S' => Duration::from_secs(count),
        'm' => Duration::from_millis(count),
        'u' => Duration::from_micros(count),
        'n' => Duration::from_nanos(count),
        _ => return None,
    };
    (time <= TIMEOUT_MAX).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefixed(flag: u8, message: &[u8]) -> Vec<u8> {
        let mut out = vec![flag];
        out.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
        out.extend_from_slice(message);
        out
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn api_p14_messages_are_cut_out_however_they_arrive() {
        let mut whole = prefixed(0, b"abc");
        whole.extend(prefixed(0, b""));
        whole.extend(prefixed(1, &gzip(b"packed")));
        for size in 1..whole.len() {
            let mut messages = Messages::new(100, Some("gzip")).unwrap();
            let mut found = Vec::new();
            for piece in whole.chunks(size) {
                messages.push(&Bytes::copy_from_slice(piece));
                while let Some(message) = messages.take().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, [&b"abc"[..], b"", b"packed"]);
            assert!(messages.is_empty());
        }
    }

    #[test]
    fn sec_07_messages_have_a_bound_packed_and_unpacked() {
        let error = |bytes: Vec<u8>, encoding| {
            let mut messages = Messages::new(10, encoding).unwrap();
            messages.push(&bytes.into());
            messages.take().unwrap_err()
        };
        assert_eq!(error(prefixed(0, b"12345678901"), None).code, Code::ResourceExhausted);
        assert_eq!(
            error(vec![0, 0xff, 0xff, 0xff, 0xff], None).code,
            Code::ResourceExhausted,
            "before it arrives"
        );
        let bomb = gzip(&vec![0; 1_000_000]);
        let mut messages = Messages::new(100_000, Some("gzip")).unwrap();
        messages.push(&prefixed(1, &bomb).into());
        assert_eq!(messages.take().unwrap_err().code, Code::ResourceExhausted);
        assert_eq!(error(prefixed(1, b"abc"), None).code, Code::Internal);
        assert_eq!(error(prefixed(1, b"abc"), Some("gzip")).code, Code::Internal);
        assert_eq!(error(prefixed(2, b"abc"), None).code, Code::Internal);
        assert_eq!(Messages::new(1, Some("br")).unwrap_err().code, Code::Unimplemented);
        assert_eq!(framed(vec![Bytes::from_static(b"abc")], 2).unwrap_err().code, Code::ResourceExhausted);
    }

    #[test]
    fn api_p15_texts_of_statuses_are_escaped() {
        assert_eq!(escaped("plain text"), "plain text");
        assert_eq!(escaped("100%\r\nX: ä"), "100%25%0D%0AX: %C3%A4");
        assert_eq!(unescaped(escaped("100%\r\nX: ä").as_bytes()), "100%\r\nX: ä");
    }
}
