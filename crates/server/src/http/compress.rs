//! gzip of answers (API-20).

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, header};

use crate::call::{Pieces, Status};

/// Bytes below which nothing is gained.
const BYTES_MIN: usize = 1_024;
/// Bytes above which others would wait for the thread.
const BYTES_INLINE_MAX: usize = 128 << 10;

/// How an answer is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Not at all.
    Identity,
    /// gzip.
    Gzip,
}

/// What a client takes. Event streams are never packed.
pub(crate) fn accepted(headers: &HeaderMap) -> Encoding {
    if headers.get(header::ACCEPT).is_some_and(|accept| accept == "text/event-stream") {
        return Encoding::Identity;
    }
    let texts = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let takes_gzip = texts.flat_map(|text| text.split(',')).any(|part| {
        let (name, parameters) = part.split_once(';').unwrap_or((part, ""));
        let is_refused = parameters.split(';').any(|it| {
            let quality = it.trim().strip_prefix("q=");
            quality.is_some_and(|quality| quality.parse::<f32>().is_ok_and(|quality| quality <= 0.0))
        });
        matches!(name.trim(), "gzip" | "*") && !is_refused
    });
    if takes_gzip { Encoding::Gzip } else { Encoding::Identity }
}

/// An answer as it is sent.
pub(crate) enum Packed {
    /// As it is, and all there.
    Whole(Vec<Bytes>),
    /// As it is, made while it is sent.
    Made(Pieces),
    /// Packed.
    Gzip(Bytes),
}

/// Packs the pieces of an answer, if that gains something. A large one is made and packed where it holds nobody up, and
/// never whole in memory.
///
/// # Errors
/// When a piece cannot be made, as far as that is seen before the answer begins.
pub(crate) async fn pack(mut pieces: Pieces, encoding: Encoding) -> Result<Packed, Status> {
    let (mut whole, mut length) = (Vec::new(), 0_usize);
    let mut is_all = true;
    for piece in &mut pieces {
        let piece = piece?;
        length += piece.len();
        whole.push(piece);
        if length > BYTES_INLINE_MAX {
            is_all = false;
            break;
        }
    }
    if is_all {
        if encoding == Encoding::Identity || length < BYTES_MIN {
            return Ok(Packed::Whole(whole));
        }
        return packed(whole.into_iter().map(Ok)).map(Packed::Gzip);
    }
    let pieces = whole.into_iter().map(Ok).chain(pieces);
    match encoding {
        Encoding::Identity => Ok(Packed::Made(Box::new(pieces))),
        Encoding::Gzip => {
            let packing = tokio::task::spawn_blocking(move || packed(pieces));
            packing.await.map_err(|_ended| failed())?.map(Packed::Gzip)
        }
    }
}

fn failed() -> Status {
    Status::internal("the answer cannot be packed")
}

/// Pieces, packed as one.
///
/// # Errors
/// When a piece cannot be made.
pub(crate) fn packed(pieces: impl Iterator<Item = Result<Bytes, Status>>) -> Result<Bytes, Status> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for piece in pieces {
        // Writing to memory does not fail.
        encoder.write_all(&piece?).map_err(|_unwritable| failed())?;
    }
    encoder.finish().map(Bytes::from).map_err(|_unwritable| failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_20_clients_say_what_they_take() {
        let takes = |accept_encoding: &str, accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, accept_encoding.parse().unwrap());
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            accepted(&headers) == Encoding::Gzip
        };
        for yes in ["gzip", "deflate, gzip;q=0.5", "br,gzip", "*"] {
            assert!(takes(yes, "*/*"), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip; q=0.0", "gzipped"] {
            assert!(!takes(no, "*/*"), "{no}");
        }
        assert!(!takes("gzip", "text/event-stream"));
    }
}
