//! What an answer that is none says: refused, asked too often, broken. Pure.

use jiff::{SignedDuration, Timestamp};
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::ScmError;

/// Seconds that a server may tell us to wait; more is nonsense.
const WAIT_SECONDS_MAX: i64 = 86_400;

/// The error of an answer with this status.
pub(crate) fn refusal(
    status: u16,
    headers: &HeaderMap,
    body: &Value,
    host: &str,
    doing: &'static str,
    now: Timestamp,
) -> ScmError {
    let host = host.to_owned();
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let number = |name: &str| text(name).and_then(|digits| digits.trim().parse::<i64>().ok());
    // Names of GitHub and Gitea, and those of GitLab.
    let remaining = number("x-ratelimit-remaining").or_else(|| number("ratelimit-remaining"));
    let is_limit = match status {
        429 => true,
        403 => remaining == Some(0) || text("retry-after").is_some(),
        400 | 503 => is_throttled(body),
        _ => false,
    };
    if is_limit {
        let wait = number("retry-after").filter(|seconds| (0..=WAIT_SECONDS_MAX).contains(seconds));
        let reset = number("x-ratelimit-reset").or_else(|| number("ratelimit-reset"));
        let until = wait
            .and_then(|seconds| now.checked_add(SignedDuration::from_secs(seconds)).ok())
            .or_else(|| reset.and_then(|second| Timestamp::from_second(second).ok()));
        return ScmError::RateLimited { host, doing, until };
    }
    match status {
        401 | 403 => ScmError::Denied { host, doing, status },
        _ => ScmError::Status { host, doing, status },
    }
}

/// Whether AWS says that it is asked too often.
pub(crate) fn is_throttled(body: &Value) -> bool {
    let kind = body.get("__type").and_then(Value::as_str).unwrap_or_default();
    kind.ends_with("ThrottlingException") || kind.ends_with("TooManyRequestsException")
}

/// The error that AWS names.
pub(crate) fn aws_error(body: &Value) -> &str {
    let kind = body.get("__type").and_then(Value::as_str).unwrap_or_default();
    kind.rsplit('#').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    fn of(status: u16, headers: &[(&'static str, &'static str)], body: &Value) -> ScmError {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let now = "2026-11-24T08:00:00Z".parse().unwrap();
        refusal(status, &headers, body, "h", "d", now)
    }

    #[test]
    fn f24_rate_limits_are_recognised_with_when_they_end() {
        let limited = |until: &str| ScmError::RateLimited {
            host: "h".to_owned(),
            doing: "d",
            until: (!until.is_empty()).then(|| until.parse().unwrap()),
        };
        let null = Value::Null;
        let reset = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1795507200")];
        assert_eq!(of(403, &reset, &null), limited("2026-11-24T08:00:00Z"));
        assert_eq!(of(429, &reset, &null), limited("2026-11-24T08:00:00Z"));
        assert_eq!(of(403, &[("retry-after", "60")], &null), limited("2026-11-24T08:01:00Z"));
        assert_eq!(of(429, &[("ratelimit-reset", "1795507200")], &null), limited("2026-11-24T08:00:00Z"));
        assert_eq!(of(429, &[("retry-after", "99999999999999")], &null), limited(""));
        assert_eq!(of(400, &[], &json!({"__type": "ThrottlingException"})), limited(""));
        let denied = |status| ScmError::Denied { host: "h".to_owned(), doing: "d", status };
        assert_eq!(of(403, &[("x-ratelimit-remaining", "7")], &null), denied(403));
        assert_eq!(of(401, &[], &null), denied(401));
        let failed = |status| ScmError::Status { host: "h".to_owned(), doing: "d", status };
        assert_eq!(of(500, &[], &null), failed(500));
        assert_eq!(of(400, &[], &json!({"__type": "x#RepositoryDoesNotExistException"})), failed(400));
    }
}
