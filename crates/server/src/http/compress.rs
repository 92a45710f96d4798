//! gzip of answers (API-20).

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, header};

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

/// Packs the pieces of an answer, if that gains something.
pub(crate) async fn pack(pieces: Vec<Bytes>, encoding: Encoding) -> (Vec<Bytes>, Encoding) {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    if encoding == Encoding::Identity || length < BYTES_MIN {
        return (pieces, Encoding::Identity);
    }
    let packed = if length <= BYTES_INLINE_MAX {
        packed(&pieces)
    } else {
        let pieces = pieces.clone();
        tokio::task::spawn_blocking(move || packed(&pieces)).await.ok().flatten()
    };
    match packed {
        Some(packed) => (vec![packed.into()], Encoding::Gzip),
        None => (pieces, Encoding::Identity),
    }
}

fn packed(pieces: &[Bytes]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for piece in pieces {
        encoder.write_all(piece).ok()?;
    }
    encoder.finish().ok()
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
