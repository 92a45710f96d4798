//! Looks through a pack before anything of it is decoded in full: how many objects, how large, how many of them
//! differences.
//!
//! A pack of some hundred kilobytes may say "copy the whole base a thousand times", a thousand times. Every size is
//! declared before its content, so the sum is known at the price of inflating what was sent, and that is stopped
//! at the declared size.

use std::sync::atomic::{AtomicBool, Ordering};

use gix::hash::Kind;
use gix::zlib::{Decompress, FlushDecompress, Status};
use gix_pack::data::entry::Header;
use gix_pack::data::{self, Entry};

use super::PackError;
use crate::tree::OBJECT_BYTES_MAX;

/// Bytes of all objects of a pack, decoded, with the bases that are not in it. More is left to the git program,
/// which the system limits.
const DECODED_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Differences in a pack. Finding their bases takes time with the square of their number; no chain is longer.
const DELTAS_MAX: u32 = 20_000;
/// Bytes of a pack's head.
const HEAD_BYTES: usize = 12;
/// Bytes inflated at once; the sizes at the beginning of a difference fit.
const STEP_BYTES: usize = 64 * 1024;
/// Bytes of the two sizes at the beginning of a difference.
const SIZES_BYTES_MAX: usize = 20;

/// Checks that a pack can be decoded within our limits. What is in it is checked when it is decoded.
pub(super) fn survey(pack: &[u8], interrupt: &AtomicBool) -> Result<(), PackError> {
    let head = pack.first_chunk::<HEAD_BYTES>().ok_or(PackError::Invalid)?;
    let (_version, count) = data::header::decode(head).map_err(|_error| PackError::Invalid)?;
    let mut survey = Survey::of(pack, interrupt);
    let mut offset = HEAD_BYTES;
    for _ in 0..count {
        offset = survey.entry(offset)?;
    }
    Ok(())
}

struct Survey<'a> {
    pack: &'a [u8],
    inflate: Decompress,
    decoded_bytes: u64,
    deltas: u32,
    interrupt: &'a AtomicBool,
}

impl<'a> Survey<'a> {
    fn of(pack: &'a [u8], interrupt: &'a AtomicBool) -> Self {
        Self { pack, inflate: Decompress::new(), decoded_bytes: 0, deltas: 0, interrupt }
    }

    /// Takes one object into account; gives the place after it.
    fn entry(&mut self, offset: usize) -> Result<usize, PackError> {
        let bytes = self.pack.get(offset..).ok_or(PackError::Invalid)?;
        let entry = Entry::from_bytes(bytes, 0, Kind::Sha1).map_err(|_error| PackError::Invalid)?;
        // The sum first: what is declared too large is not inflated at all.
        self.add(entry.decompressed_size)?;
        let content = bytes.get(entry.header_size()..).ok_or(PackError::Invalid)?;
        let (length, begin) = self.inflate(content, entry.decompressed_size)?;
        match entry.header {
            Header::OfsDelta { .. } => self.delta(&begin, false)?,
            Header::RefDelta { .. } => self.delta(&begin, true)?,
            Header::Commit | Header::Tree | Header::Blob | Header::Tag => {}
        }
        Ok(offset + entry.header_size() + length)
    }

    /// The sizes that a difference declares. A base that is not in the pack is added to it.
    fn delta(&mut self, begin: &[u8], has_base_elsewhere: bool) -> Result<(), PackError> {
        self.deltas += 1;
        if self.deltas > DELTAS_MAX {
            return Err(PackError::TooLarge);
        }
        let (base, rest) = size_of_delta(begin)?;
        let (result, _rest) = size_of_delta(rest)?;
        if has_base_elsewhere {
            self.add(base)?;
        }
        self.add(result)
    }

    fn add(&mut self, size: u64) -> Result<(), PackError> {
        self.decoded_bytes = self.decoded_bytes.saturating_add(size);
        if size > OBJECT_BYTES_MAX as u64 || self.decoded_bytes > DECODED_BYTES_MAX {
            return Err(PackError::TooLarge);
        }
        Ok(())
    }

    /// Bytes that the content takes in the pack, and the beginning of the content.
    fn inflate(&mut self, content: &[u8], size: u64) -> Result<(usize, Vec<u8>), PackError> {
        self.inflate.reset();
        let mut begin = Vec::new();
        let mut buffer = vec![0; STEP_BYTES];
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(PackError::Interrupted);
            }
            let (taken, given) = (self.inflate.total_in(), self.inflate.total_out());
            let taken_bytes = usize::try_from(taken).map_err(|_range| PackError::Invalid)?;
            let rest = content.get(taken_bytes..).ok_or(PackError::Invalid)?;
            let status = self
                .inflate
                .decompress(rest, &mut buffer, FlushDecompress::None)
                .map_err(|_error| PackError::Invalid)?;
            if given == 0 {
                let got = usize::try_from(self.inflate.total_out()).unwrap_or(0).min(SIZES_BYTES_MAX);
                begin = buffer.get(..got).unwrap_or_default().to_vec();
            }
            if self.inflate.total_out() > size {
                return Err(PackError::Invalid);
            }
            if status == Status::StreamEnd {
                break;
            }
            if (self.inflate.total_in(), self.inflate.total_out()) == (taken, given) {
                // The content ends before its end.
                return Err(PackError::Invalid);
            }
        }
        if self.inflate.total_out() != size {
            return Err(PackError::Invalid);
        }
        let length = usize::try_from(self.inflate.total_in()).map_err(|_range| PackError::Invalid)?;
        Ok((length, begin))
    }
}

/// One size at the beginning of a difference, seven bits a byte, and what follows it.
fn size_of_delta(bytes: &[u8]) -> Result<(u64, &[u8]), PackError> {
    let mut size = 0_u64;
    let mut rest = bytes;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, after) = rest.split_first().ok_or(PackError::Invalid)?;
        size |= u64::from(byte & 0x7f) << shift;
        rest = after;
        if byte & 0x80 == 0 {
            return Ok((size, rest));
        }
    }
    Err(PackError::Invalid)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write as _;

    fn deflate(content: &[u8]) -> Vec<u8> {
        let level = gix::zlib::Compression::BEST_SPEED;
        let mut out = gix::zlib::stream::deflate::Write::new(Vec::new(), level);
        out.write_all(content).unwrap();
        out.flush().unwrap();
        out.into_inner()
    }

    fn written_size(mut size: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while size > 127 {
            bytes.push(u8::try_from(size & 127).unwrap() | 128);
            size >>= 7;
        }
        bytes.push(u8::try_from(size).unwrap());
        bytes
    }

    /// A pack of these objects, with its checksum.
    pub(in super::super) fn pack(entries: &[(Header, u64, Vec<u8>)]) -> Vec<u8> {
        let count = u32::try_from(entries.len()).unwrap();
        let mut pack = data::header::encode(data::Version::V2, count).to_vec();
        for (header, size, content) in entries {
            header.write_to(*size, &mut pack).unwrap();
            pack.extend_from_slice(&deflate(content));
        }
        let mut hasher = gix::hash::hasher(Kind::Sha1);
        hasher.update(&pack);
        pack.extend_from_slice(hasher.try_finalize().unwrap().as_slice());
        pack
    }

    /// A pack whose differences each repeat a base of 1 MiB `copies` times: a bomb.
    pub(in super::super) fn bomb(deltas: usize, copies: usize) -> Vec<u8> {
        let base = vec![b'a'; 1 << 20];
        let mut delta = written_size(1 << 20);
        delta.extend(written_size((copies as u64) << 20));
        for _ in 0..copies {
            // Copy from 0, 1 MiB: one byte of size is given, the third.
            delta.extend_from_slice(&[0x80 | 0x40, 0x10]);
        }
        let mut entries = vec![(Header::Blob, base.len() as u64, base.clone())];
        let id = gix::objs::compute_hash(Kind::Sha1, gix::objs::Kind::Blob, &base).unwrap();
        for _ in 0..deltas {
            entries.push((Header::RefDelta { base_id: id }, delta.len() as u64, delta.clone()));
        }
        pack(&entries)
    }

    fn surveyed(pack: &[u8]) -> Result<(), PackError> {
        survey(pack, &AtomicBool::new(false))
    }

    /// INV-10, F21: sizes are declared, and a sum beyond the limit ends the work before it begins.
    #[test]
    fn inv_10_a_pack_that_unpacks_to_too_much_is_refused_by_its_declared_sizes() {
        let bomb = bomb(100, 100);
        assert!(bomb.len() < 64 * 1024, "{}", bomb.len());
        assert!(matches!(surveyed(&bomb), Err(PackError::TooLarge)));
        let entry = |size| [(Header::Blob, size, b"x".to_vec())];
        assert!(matches!(surveyed(&pack(&entry(3 << 30))), Err(PackError::TooLarge)));
        let large = OBJECT_BYTES_MAX as u64;
        assert!(matches!(surveyed(&pack(&entry(large))), Err(PackError::Invalid)));
        assert!(matches!(surveyed(&pack(&entry(large + 1))), Err(PackError::TooLarge)));
        // A base that is not in the pack is read too.
        let id = gix::ObjectId::null(Kind::Sha1);
        let mut delta = written_size(large + 1);
        delta.extend_from_slice(&[1, 1, b'x']);
        let delta = [(Header::RefDelta { base_id: id }, delta.len() as u64, delta)];
        assert!(matches!(surveyed(&pack(&delta)), Err(PackError::TooLarge)));
        let many: Vec<_> = (0..3).map(|_| (Header::Blob, 0, Vec::new())).collect();
        assert!(surveyed(&pack(&many)).is_ok());
    }

    /// INV-10, F21: an object that inflates to more than it declares is not inflated to its end.
    #[test]
    fn inv_10_what_does_not_have_its_declared_size_is_refused() {
        for (declared, actual) in [(10, 1 << 24), (10, 9), (1, 0)] {
            let pack = pack(&[(Header::Blob, declared, vec![0; actual])]);
            let never = AtomicBool::new(false);
            let mut survey = Survey::of(&pack, &never);
            assert!(matches!(survey.entry(HEAD_BYTES), Err(PackError::Invalid)), "{declared} {actual}");
            assert!(survey.inflate.total_out() <= STEP_BYTES as u64, "{}", survey.inflate.total_out());
        }
        let small = pack(&[(Header::Blob, 3, b"abc".to_vec())]);
        for end in 0..small.len() - 20 {
            assert!(matches!(surveyed(&small[..end]), Err(PackError::Invalid)), "{end}");
        }
        assert!(surveyed(&small).is_ok());
    }

    /// INV-10, F21: the number of differences is bounded, as the time to find their bases grows with its square.
    #[test]
    fn inv_10_the_number_of_differences_is_bounded() {
        let id = gix::ObjectId::null(Kind::Sha1);
        let delta = [0, 1, 1, b'x'];
        let entries: Vec<_> = (0..=DELTAS_MAX)
            .map(|_| (Header::RefDelta { base_id: id }, delta.len() as u64, delta.to_vec()))
            .collect();
        assert!(matches!(surveyed(&pack(&entries)), Err(PackError::TooLarge)));
        assert!(surveyed(&pack(&entries[1..])).is_ok());
    }

    #[test]
    fn inv_10_a_survey_can_be_interrupted() {
        let pack = pack(&[(Header::Blob, 3, b"abc".to_vec())]);
        assert!(matches!(survey(&pack, &AtomicBool::new(true)), Err(PackError::Interrupted)));
    }
}
