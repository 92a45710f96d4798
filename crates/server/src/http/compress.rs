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
    /// Packed, and all there.
    Gzip(Bytes),
    /// Made and packed while it is sent.
    GzipMade(Pieces),
}

/// Packs the pieces of an answer, if that gains something. A large one is made and packed while it is sent, and never
/// whole in memory.
///
/// # Errors
/// When a piece cannot be made, as far as that is seen before the answer begins.
pub(crate) fn pack(mut pieces: Pieces, encoding: Encoding) -> Result<Packed, Status> {
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
    let pieces: Pieces = Box::new(whole.into_iter().map(Ok).chain(pieces));
    Ok(match encoding {
        Encoding::Identity => Packed::Made(pieces),
        Encoding::Gzip => Packed::GzipMade(Box::new(Packing::of(pieces))),
    })
}

/// Packs pieces one after the other, as they are asked for.
struct Packing<I> {
    pieces: I,
    /// `None` after the end, and after an error.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I: Iterator<Item = Result<Bytes, Status>>> Packing<I> {
    fn of(pieces: I) -> Self {
        Self { pieces, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }

    /// What is packed so far; empty while that is in the encoder.
    fn step(&mut self) -> Option<Result<Vec<u8>, Status>> {
        let mut encoder = self.encoder.take()?;
        match self.pieces.next() {
            None => Some(encoder.finish().map_err(|_unwritable| failed())),
            Some(Err(status)) => Some(Err(status)),
            Some(Ok(piece)) => {
                // Writing to memory does not fail.
                if encoder.write_all(&piece).is_err() {
                    return Some(Err(failed()));
                }
                let done = std::mem::take(encoder.get_mut());
                self.encoder = Some(encoder);
                Some(Ok(done))
            }
        }
    }
}

impl<I: Iterator<Item = Result<Bytes, Status>>> Iterator for Packing<I> {
    type Item = Result<Bytes, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step()? {
                // What repeats itself much gives nothing for some pieces.
                Ok(done) if done.is_empty() => {}
                other => return Some(other.map(Bytes::from)),
            }
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
    let packed = Packing::of(pieces).collect::<Result<Vec<_>, _>>()?;
    Ok(packed.concat().into())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

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

    fn answer(pieces: Vec<Result<Bytes, Status>>) -> Packed {
        pack(Box::new(pieces.into_iter()), Encoding::Gzip).unwrap()
    }

    #[test]
    fn api_20_large_answers_are_packed_while_they_are_sent() {
        let text = (0..200_000).map(|nth| nth.to_string()).collect::<Vec<_>>().join(",");
        let pieces = text.as_bytes().chunks(32 << 10).map(|piece| Ok(Bytes::copy_from_slice(piece)));
        let Packed::GzipMade(made) = answer(pieces.collect()) else { panic!("it is large") };
        let made: Vec<Bytes> = made.collect::<Result<_, _>>().unwrap();
        assert!(made.len() > 10 && made.iter().all(|piece| piece.len() < 64 << 10), "{}", made.len());
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(&*made.concat()).read_to_string(&mut unpacked).unwrap();
        assert_eq!(unpacked, text);
    }

    #[test]
    fn api_20_a_piece_that_cannot_be_made_ends_a_packed_answer() {
        let piece = || Ok(Bytes::from(vec![b'x'; 100 << 10]));
        let bad = Err(Status::internal("no"));
        let Packed::GzipMade(made) = answer(vec![piece(), piece(), bad, piece()]) else {
            panic!("it is large")
        };
        let made: Vec<_> = made.collect();
        assert!(made.last().unwrap().is_err(), "nobody takes a part for the whole");
    }
}
