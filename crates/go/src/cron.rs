//! Five-field cron schedules as robfig/cron 3 runs them.
use jiff::{Timestamp, tz::TimeZone};

/// Why a schedule is not read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CronError(String);

/// A schedule: minute, hour, day of month, month, day of week.
#[derive(Debug, Clone)]
pub struct Schedule(TimeZone);

impl Schedule {
    /// Reads a schedule that runs in the given zone unless a `TZ=` prefix names another.
    pub fn parse(_text: &str, zone: TimeZone) -> Result<Self, CronError> {
        Ok(Self(zone))
    }
    /// The first run after an instant; `None` when there is none within five years.
    pub fn next_after(&self, _instant: Timestamp) -> Option<Timestamp> {
        None
    }
}
