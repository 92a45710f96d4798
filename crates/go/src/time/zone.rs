//! Where times are shown: Go's `Location`.

use super::TimeError;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use std::borrow::Cow;
use std::sync::Arc;

/// A zone. Two are equal when they go by the same name and show the same clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    /// UTC.
    Utc,
    /// That of the program, which is UTC under another name: where we run is nobody's business.
    Local,
    /// Always the same offset.
    Fixed {
        /// What it is called; may be empty.
        name: Arc<str>,
        /// Seconds that it is ahead of UTC.
        offset: i32,
    },
    /// One of the zone data compiled in.
    Named(TimeZone),
}

/// What a zone's clock is like at some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock<'z> {
    /// Seconds that it is ahead of UTC.
    pub offset: i32,
    /// What it is called then, such as `CEST`.
    pub abbreviation: Cow<'z, str>,
    /// Whether it is summer time.
    pub summer: bool,
}

/// Changes of a zone's clock that are looked at for an abbreviation; more than any zone has in its history.
const CHANGES_MAX: usize = 1_000;

impl Zone {
    /// The zone of an IANA name; the empty name and `UTC` are UTC.
    ///
    /// # Errors
    /// When the zone data does not know it.
    pub fn find(name: &str) -> Result<Self, TimeError> {
        match name {
            "" | "UTC" => Ok(Self::Utc),
            "Local" => Ok(Self::Local),
            _ => {
                crate::cron::zone(name).map(Self::Named).map_err(|_unknown| TimeError::Zone(name.to_owned()))
            }
        }
    }

    /// A zone of one offset.
    pub fn fixed(name: &str, offset: i32) -> Self {
        Self::Fixed { name: name.into(), offset }
    }

    /// What `String` gives.
    pub fn name(&self) -> &str {
        match self {
            Self::Utc => "UTC",
            Self::Local => "Local",
            Self::Fixed { name, .. } => name,
            Self::Named(zone) => zone.iana_name().unwrap_or_default(),
        }
    }

    /// The clock at some time.
    pub fn clock(&self, instant: Timestamp) -> Clock<'_> {
        match self {
            Self::Utc | Self::Local => Clock { offset: 0, abbreviation: Cow::Borrowed("UTC"), summer: false },
            Self::Fixed { name, offset } => {
                Clock { offset: *offset, abbreviation: Cow::Borrowed(name), summer: false }
            }
            Self::Named(zone) => {
                let info = zone.to_offset_info(instant);
                Clock {
                    offset: info.offset().seconds(),
                    abbreviation: Cow::Owned(info.abbreviation().to_owned()),
                    summer: info.dst().is_dst(),
                }
            }
        }
    }

    /// When the zone's clock shows so many seconds since 1970.
    ///
    /// Of a time that the clock skips, or shows twice, Go takes what the offset gives that is in force where that
    /// time would be in UTC.
    pub(super) fn seconds_of(&self, clock: i64) -> i64 {
        let offset = self.offset_at(clock);
        if offset == 0 {
            return clock;
        }
        clock - i64::from(self.offset_at(clock - i64::from(offset)))
    }

    /// The offset at a time; that of the first or last time there is beyond these.
    fn offset_at(&self, seconds: i64) -> i32 {
        let inside = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
        Timestamp::from_second(inside).map_or(0, |instant| self.clock(instant).offset)
    }

    /// The offset of an abbreviation: that in force when the clock shows this time, or else of the first period
    /// that was called so.
    pub(super) fn offset_called(&self, name: &str, clock: DateTime) -> Option<i32> {
        let zone = match self {
            Self::Utc | Self::Local => return None,
            Self::Fixed { name: own, offset } => return (**own == *name).then_some(*offset),
            Self::Named(zone) => zone,
        };
        let local = Offset::UTC.to_timestamp(clock).ok()?;
        let mut called = Vec::new();
        for change in zone.following(Timestamp::MIN).take(CHANGES_MAX) {
            let offset = change.offset().seconds();
            if change.abbreviation() == name && !called.contains(&offset) {
                called.push(offset);
            }
        }
        let in_force = called.iter().find_map(|offset| {
            let then = self.clock(Timestamp::from_second(local.as_second() - i64::from(*offset)).ok()?);
            (then.abbreviation == name).then_some(then.offset)
        });
        in_force.or_else(|| called.first().copied())
    }
}
