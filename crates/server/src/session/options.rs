//! What is set about sessions (API-41, API-48, API-50).

use std::time::Duration;

use jiff::SignedDuration;
use tiphys_api::Settings;

use super::guard::GuardOptions;

/// How long a session lasts where nothing is set.
const SESSION_DEFAULT: Duration = Duration::from_hours(24);
/// Logins at the same time, of all replicas together.
const LOGINS_DEFAULT: u64 = 50;

/// How logins are bounded; read once at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoginOptions {
    /// How failures are counted.
    pub(crate) guard: GuardOptions,
    /// Logins at the same time; `None` has no bound.
    pub(crate) at_once_max: Option<usize>,
}

impl LoginOptions {
    /// Reads the environment. What is out of range has its default.
    pub(crate) fn read(settings: &Settings) -> Self {
        let number = |name: &str, default: u64, range: std::ops::RangeInclusive<u64>| {
            let set = settings.env().get(name).and_then(|text| text.trim().parse().ok());
            set.filter(|number| range.contains(number)).unwrap_or(default)
        };
        let failures = number("ARGOCD_SESSION_FAILURE_MAX_FAIL_COUNT", 5, 0..=u64::from(u32::MAX));
        let window = number("ARGOCD_SESSION_FAILURE_WINDOW_SECONDS", 300, 0..=315_360_000);
        let names = number("ARGOCD_SESSION_MAX_CACHE_SIZE", 10_000, 1..=10_000_000);
        let logins = number("ARGOCD_MAX_CONCURRENT_LOGIN_REQUESTS_COUNT", LOGINS_DEFAULT, 0..=1_000_000);
        let replicas = number("ARGOCD_API_SERVER_REPLICAS", 1, 1..=10_000);
        Self {
            guard: GuardOptions {
                failures_max: u32::try_from(failures).unwrap_or(5),
                window: (window > 0).then(|| SignedDuration::from_secs(i64::try_from(window).unwrap_or(300))),
                names_max: usize::try_from(names).unwrap_or(10_000),
            },
            at_once_max: (logins > 0).then(|| usize::try_from((logins / replicas).max(1)).unwrap_or(1)),
        }
    }
}

/// How long a session lasts: digits and one of `s`, `m`, `h`, `d` (API-41). With a warning where it cannot be read.
pub(crate) fn session_duration(settings: &Settings) -> (Duration, Option<String>) {
    const KEY: &str = "users.session.duration";
    let Some(text) = settings.cm().get(KEY).map(String::as_str).filter(|text| !text.is_empty()) else {
        return (SESSION_DEFAULT, None);
    };
    let read = || {
        let unit = text.chars().next_back()?;
        let digits = text.strip_suffix(unit)?;
        let count: u64 = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
        let seconds = match unit {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return None,
        };
        // A century is for ever.
        count.checked_mul(seconds).filter(|seconds| *seconds <= 3_155_760_000).map(Duration::from_secs)
    };
    if let Some(duration) = read() {
        return (duration, None);
    }
    let warning = format!("argocd-cm: {KEY}: {text:?} is no duration like 24h; 24h is used");
    (SESSION_DEFAULT, Some(warning))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tiphys_api::settings::SettingsData;

    use super::*;

    fn settings(cm: &[(&str, &str)], env: &[(&str, &str)]) -> Settings {
        let map = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        Settings::new(SettingsData { cm: map(cm), env: map(env), ..SettingsData::default() })
    }

    #[test]
    fn api_41_a_session_lasts_a_number_of_one_unit() {
        let read = |text: &str| session_duration(&settings(&[("users.session.duration", text)], &[]));
        for (text, seconds) in [("90s", 90), ("5m", 300), ("24h", 86_400), ("2d", 172_800), ("", 86_400)] {
            assert_eq!(read(text), (Duration::from_secs(seconds), None), "{text}");
        }
        for wrong in ["1h30m", "24", "h", "-1h", "1.5h", "1w", "99999999999999999999h", "99999999d", "1ä"] {
            let (duration, warning) = read(wrong);
            assert_eq!(duration, SESSION_DEFAULT, "{wrong}");
            assert!(warning.is_some_and(|text| text.contains("users.session.duration")), "{wrong}");
        }
    }

    #[test]
    fn api_50_what_is_out_of_range_has_its_default() {
        let read = |env: &[(&str, &str)]| LoginOptions::read(&settings(&[], env));
        assert_eq!(read(&[]), LoginOptions { guard: GuardOptions::default(), at_once_max: Some(50) });
        let odd = [
            ("ARGOCD_SESSION_FAILURE_MAX_FAIL_COUNT", "-1"),
            ("ARGOCD_SESSION_FAILURE_WINDOW_SECONDS", "x"),
            ("ARGOCD_SESSION_MAX_CACHE_SIZE", "0"),
            ("ARGOCD_MAX_CONCURRENT_LOGIN_REQUESTS_COUNT", ""),
        ];
        assert_eq!(read(&odd), read(&[]));
        let set = [
            ("ARGOCD_SESSION_FAILURE_MAX_FAIL_COUNT", "3"),
            ("ARGOCD_SESSION_FAILURE_WINDOW_SECONDS", "0"),
            ("ARGOCD_MAX_CONCURRENT_LOGIN_REQUESTS_COUNT", "10"),
            ("ARGOCD_API_SERVER_REPLICAS", "3"),
        ];
        let guard = GuardOptions { failures_max: 3, window: None, names_max: 10_000 };
        assert_eq!(read(&set), LoginOptions { guard, at_once_max: Some(3) });
        assert_eq!(read(&[("ARGOCD_MAX_CONCURRENT_LOGIN_REQUESTS_COUNT", "0")]).at_once_max, None);
    }
}
