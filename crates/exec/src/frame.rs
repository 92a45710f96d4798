//! Messages over a pipe: a length of four bytes, the lowest first, then the bytes.

use std::io::{self, Read, Write};

/// Writes one message.
///
/// # Errors
/// When the pipe breaks, or the message is longer than 4 GiB.
pub fn write(pipe: &mut impl Write, message: &[u8]) -> io::Result<()> {
    let length = u32::try_from(message.len())
        .map_err(|_too_long| io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"))?;
    pipe.write_all(&length.to_le_bytes())?;
    pipe.write_all(message)?;
    pipe.flush()
}

/// Reads one message; `None` at the end of the stream.
///
/// # Errors
/// When the pipe breaks, inside a message, or at a message longer than `bytes_max`.
pub fn read(pipe: &mut impl Read, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0_u8; 4];
    match pipe.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    // Grows as bytes come: a length alone reserves nothing.
    let mut message = Vec::new();
    pipe.take(length as u64).read_to_end(&mut message)?;
    if message.len() == length { Ok(Some(message)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sty_113_messages_are_read_as_written() {
        let mut pipe = Vec::new();
        write(&mut pipe, b"one").unwrap();
        write(&mut pipe, b"").unwrap();
        let mut reader = pipe.as_slice();
        assert_eq!(read(&mut reader, 3).unwrap().unwrap(), b"one");
        assert_eq!(read(&mut reader, 3).unwrap().unwrap(), b"");
        assert_eq!(read(&mut reader, 3).unwrap(), None);
        assert!(read(&mut pipe.as_slice(), 2).is_err(), "longer than allowed");
        assert!(read(&mut [3, 0, 0, 0, 1].as_slice(), 9).is_err(), "ends in the middle");
    }
}
