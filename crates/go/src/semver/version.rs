//! One version: three numbers, a pre-release, build metadata.

use super::SemverError;
use std::cmp::Ordering;
use std::fmt;

/// A version. Order and equality follow the specification: build metadata has no influence.
#[derive(Debug, Clone)]
pub struct Version {
    /// First number.
    pub major: u64,
    /// Second number.
    pub minor: u64,
    /// Third number.
    pub patch: u64,
    /// What follows `-`, else empty.
    pub pre_release: String,
    /// What follows `+`, else empty.
    pub metadata: String,
}

impl Version {
    /// Reads a version leniently: a leading `v`, missing parts and leading zeros of the numbers are allowed.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        Self::parse_numbers(text, text.strip_prefix('v').unwrap_or(text), false)
    }

    /// Reads a version of exactly three numbers without leading zeros and without `v`.
    pub fn parse_strict(text: &str) -> Result<Self, SemverError> {
        Self::parse_numbers(text, text, true)
    }

    fn parse_numbers(whole: &str, text: &str, strict: bool) -> Result<Self, SemverError> {
        let invalid = || SemverError::Version(whole.to_owned());
        let (text, metadata) = split_marked(text, '+');
        // The first `-` starts the pre-release; the numbers contain none.
        let (numbers, pre_release) = split_marked(text, '-');
        if !metadata.is_none_or(is_dotted) || !pre_release.is_none_or(is_dotted) {
            return Err(invalid());
        }
        let mut values = [0; 3];
        let mut parts = numbers.split('.');
        let mut count = 0;
        for (value, part) in values.iter_mut().zip(&mut parts) {
            if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(invalid());
            }
            if strict && part.len() > 1 && part.starts_with('0') {
                return Err(SemverError::LeadingZero(whole.to_owned()));
            }
            *value = part.parse().map_err(|_overflow| SemverError::TooLarge(part.to_owned()))?;
            count += 1;
        }
        if parts.next().is_some() || (strict && count < 3) {
            return Err(invalid());
        }
        let pre_release = pre_release.unwrap_or_default();
        let numeric_with_zero = |part: &str| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if pre_release.split('.').any(numeric_with_zero) {
            return Err(SemverError::LeadingZero(whole.to_owned()));
        }
        let [major, minor, patch] = values;
        let metadata = metadata.unwrap_or_default().to_owned();
        Ok(Self { major, minor, patch, pre_release: pre_release.to_owned(), metadata })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre_release.is_empty() {
            write!(out, "-{}", self.pre_release)?;
        }
        if !self.metadata.is_empty() {
            write!(out, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_pre_release(&self.pre_release, &other.pre_release))
    }
}

/// Orders two pre-releases; none is higher than any.
pub(super) fn compare_pre_release(left: &str, right: &str) -> Ordering {
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let (mut left, mut right) = (left.split('.'), right.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(left), Some(right)) => match (left.parse::<u64>(), right.parse::<u64>()) {
                (Ok(left), Ok(right)) => left.cmp(&right),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => left.cmp(right),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

fn split_marked(text: &str, mark: char) -> (&str, Option<&str>) {
    match text.split_once(mark) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

/// Whether a text is identifiers of letters, digits and hyphens joined by dots.
fn is_dotted(text: &str) -> bool {
    text.split('.')
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
}
