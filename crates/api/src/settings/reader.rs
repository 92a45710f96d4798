//! Reads scalars from a `ConfigMap` and the environment and remembers what could not be read (CTL-132).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The variable when it is set and not empty, else the key.
pub(super) fn lookup<'a>(
    map: &'a BTreeMap<String, String>,
    env: &'a BTreeMap<String, String>,
    key: &str,
    variable: &str,
) -> Option<&'a str> {
    let set = |map: &'a BTreeMap<String, String>, name: &str| {
        map.get(name).map(String::as_str).filter(|value| !value.is_empty())
    };
    set(env, variable).or_else(|| set(map, key))
}

/// Typed access with defaults and bounds.
pub(super) struct Reader<'a> {
    map: &'a BTreeMap<String, String>,
    env: &'a BTreeMap<String, String>,
    warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(map: &'a BTreeMap<String, String>, env: &'a BTreeMap<String, String>) -> Self {
        Self::with_warnings(map, env, vec![])
    }

    pub(super) fn with_warnings(
        map: &'a BTreeMap<String, String>,
        env: &'a BTreeMap<String, String>,
        warnings: Vec<String>,
    ) -> Self {
        Self { map, env, warnings }
    }

    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    /// Text; empty counts as absent.
    pub(super) fn text(&self, key: &str, variable: &str) -> Option<&'a str> {
        lookup(self.map, self.env, key, variable)
    }

    /// One of Go's booleans.
    pub(super) fn flag(&mut self, key: &str, variable: &str, default: bool) -> bool {
        let parsed = self.text(key, variable).map(|text| (text, crate::repository::parse_bool(text.trim())));
        match parsed {
            None => default,
            Some((_, Some(value))) => value,
            Some((text, None)) => self.reject(key, text, "is not a boolean", default),
        }
    }

    /// A decimal integer inside the bounds.
    pub(super) fn number(
        &mut self,
        key: &str,
        variable: &str,
        default: i64,
        bounds: RangeInclusive<i64>,
    ) -> i64 {
        let Some(text) = self.text(key, variable) else { return default };
        match text.trim().parse() {
            Ok(value) if bounds.contains(&value) => value,
            Ok(_) => self.reject(key, text, "is out of range", default),
            Err(_) => self.reject(key, text, "is not an integer", default),
        }
    }

    /// A decimal count that fits the machine.
    pub(super) fn count(&mut self, key: &str, variable: &str, default: usize, least: i64) -> usize {
        let fallback = i64::try_from(default).unwrap_or(i64::MAX);
        usize::try_from(self.number(key, variable, fallback, least..=i64::from(i32::MAX))).unwrap_or(default)
    }

    /// Whole seconds, zero or more.
    pub(super) fn seconds(&mut self, key: &str, variable: &str, default: u64) -> Duration {
        let fallback = i64::try_from(default).unwrap_or(i64::MAX);
        let seconds = self.number(key, variable, fallback, 0..=i64::from(i32::MAX));
        Duration::from_secs(u64::try_from(seconds).unwrap_or(default))
    }

    /// A Go duration, zero or more; `<n>d` is accepted for days.
    pub(super) fn duration(&mut self, key: &str, variable: &str, default: Duration) -> Duration {
        let Some(text) = self.text(key, variable) else { return default };
        match parse_duration(text.trim()) {
            Some(value) => value,
            None => self.reject(key, text, "is not a duration such as 90s", default),
        }
    }

    /// Says that something could not be read.
    pub(super) fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }

    fn reject<T: std::fmt::Debug>(&mut self, key: &str, text: &str, problem: &str, default: T) -> T {
        self.warnings.push(format!("{key}: {text:?} {problem}, {default:?} is used"));
        default
    }
}

fn parse_duration(text: &str) -> Option<Duration> {
    if let Some(days) = text.strip_suffix('d') {
        return days.parse::<u32>().ok().map(|days| Duration::from_secs(u64::from(days) * 86_400));
    }
    Duration::try_from(tiphys_go::duration::parse(text).ok()?).ok()
}
