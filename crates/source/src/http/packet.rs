//! The frames of git's protocol: four hex digits of length, then content.

use bytes::{Buf as _, Bytes, BytesMut};

/// Bytes of one frame, with its length.
const FRAME_BYTES_MAX: usize = 65_520;
/// Bytes of a frame's length.
const PREFIX_BYTES: usize = 4;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// Content, possibly empty.
    Data(Bytes),
    /// Ends a message.
    Flush,
    /// Ends a section of a message.
    Delimiter,
    /// Ends an answer on transports that need to be told.
    End,
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not made of packets")]
pub(super) struct NotPackets;

/// Splits bytes into frames as they arrive; keeps at most one frame of what it was given before.
#[derive(Debug, Default)]
pub(super) struct Packets(BytesMut);

impl Packets {
    /// Adds bytes that arrived.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next complete frame; `None` until more bytes arrive.
    pub(super) fn next(&mut self) -> Result<Option<Packet>, NotPackets> {
        let Some(prefix) = self.0.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let mut length = 0;
        for digit in prefix {
            let digit = char::from(*digit).to_digit(16).ok_or(NotPackets)?;
            length = length * 16 + usize::try_from(digit).map_err(|_range| NotPackets)?;
        }
        let control = match length {
            0 => Some(Packet::Flush),
            1 => Some(Packet::Delimiter),
            2 => Some(Packet::End),
            3 => return Err(NotPackets),
            length if length > FRAME_BYTES_MAX => return Err(NotPackets),
            _ => None,
        };
        if control.is_some() {
            self.0.advance(PREFIX_BYTES);
            return Ok(control);
        }
        if self.0.len() < length {
            return Ok(None);
        }
        let mut frame = self.0.split_to(length);
        frame.advance(PREFIX_BYTES);
        Ok(Some(Packet::Data(frame.freeze())))
    }

    /// Whether every byte belonged to a complete frame.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a frame with a line of text.
pub(super) fn write_line(message: &mut Vec<u8>, line: &str) {
    message.extend_from_slice(format!("{:04x}{line}\n", line.len() + PREFIX_BYTES + 1).as_bytes());
}

/// The text of a frame without its line end.
pub(super) fn line(data: &Bytes) -> String {
    let text = String::from_utf8_lossy(data);
    text.strip_suffix('\n').unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8], step: usize) -> (Vec<Packet>, Result<bool, NotPackets>) {
        let (mut packets, mut found) = (Packets::default(), Vec::new());
        for part in bytes.chunks(step.max(1)) {
            packets.push(part);
            loop {
                match packets.next() {
                    Ok(Some(packet)) => found.push(packet),
                    Ok(None) => break,
                    Err(error) => return (found, Err(error)),
                }
            }
        }
        (found, Ok(packets.is_empty()))
    }

    #[test]
    fn rnd_29_frames_are_split() {
        let mut message = Vec::new();
        write_line(&mut message, "command=ls-refs");
        message.extend_from_slice(b"000100040002");
        message.extend_from_slice(b"0000");
        let expected = vec![
            Packet::Data(Bytes::from_static(b"command=ls-refs\n")),
            Packet::Delimiter,
            Packet::Data(Bytes::new()),
            Packet::End,
            Packet::Flush,
        ];
        for step in 1..message.len() {
            assert_eq!(read(&message, step), (expected.clone(), Ok(true)));
        }
        assert_eq!(line(&Bytes::from_static(b"a\n")), "a");
    }

    #[test]
    fn rnd_29_what_is_no_frame_is_refused() {
        for bytes in ["0003", "fff1", "ffff", "00g0", "-001", "<htm"] {
            assert_eq!(read(bytes.as_bytes(), 9), (Vec::new(), Err(NotPackets)), "{bytes}");
        }
        assert_eq!(read(b"0005", 9), (Vec::new(), Ok(false)));
        assert_eq!(read(b"000", 9), (Vec::new(), Ok(false)));
    }

    proptest! {
        #[test]
        fn rnd_29_reading_is_total_and_does_not_depend_on_pieces(
            bytes in proptest::collection::vec(prop_oneof![Just(b'0'), Just(b'1'), Just(b'5'), any::<u8>()], 0..200),
            step in 1_usize..20,
        ) {
            let (whole, pieces) = (read(&bytes, bytes.len()), read(&bytes, step));
            prop_assert_eq!(whole, pieces);
        }

        #[test]
        fn rnd_29_what_was_written_is_read(lines in proptest::collection::vec("[ -~]{0,300}", 0..10)) {
            let mut message = Vec::new();
            for text in &lines {
                write_line(&mut message, text);
            }
            let (packets, rest) = read(&message, 7);
            let read: Vec<String> = packets.iter().map(|packet| match packet {
                Packet::Data(data) => line(data),
                other => format!("{other:?}"),
            }).collect();
            prop_assert_eq!(read, lines);
            prop_assert_eq!(rest, Ok(true));
        }
    }
}
