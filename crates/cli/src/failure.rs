//! How commands fail: a text, an exit code, and what to try (CLI-7, CLI-8, CLI-1101).

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;
use tiphys_cluster::ApiError;
use tiphys_service::Code;

/// A failure at run time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    /// What the record says; the texts of the specification.
    pub(crate) message: String,
    /// The exit code.
    pub(crate) code: u8,
    /// What the user can do about it.
    pub(crate) hint: Option<String>,
}

/// How a failure is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// One JSON record.
    Json,
    /// One text record.
    Text,
    /// Lines for people.
    Human,
}

impl Failure {
    /// A plain fatal error: exit code 1.
    pub(crate) fn fatal(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1, hint: None }
    }

    /// An error of the API server, Kubernetes, files or parsers: exit code 20.
    pub(crate) fn generic(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 20, hint: None }
    }

    /// A refusal with a gRPC code, as an API server answers (CLI-9).
    pub(crate) fn status(code: &str, text: impl std::fmt::Display) -> Self {
        Self::generic(format!("rpc error: code = {code} desc = {text}"))
    }

    /// The same with advice.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// How the time of a record is written, as Go lays it out: RFC 3339, or what `ARGOCD_LOG_FORMAT_TIMESTAMP` says (CLI-106).
pub(crate) fn stamp(layout: &str, now: Timestamp) -> String {
    let layout = if layout.is_empty() { tiphys_go::time::RFC_3339 } else { layout };
    tiphys_go::time::format(layout, now, &TimeZone::UTC)
}

/// A record of a level.
pub(crate) fn record(style: Style, level: &str, message: &str, hint: Option<&str>, time: &str) -> String {
    match style {
        Style::Json => format!(
            "{}\n",
            json!({"level": level, "msg": tiphys_api::printable::lines(message), "time": time})
        ),
        Style::Text => format!("time={} level={level} msg={}\n", quote(time), quote(message)),
        Style::Human => {
            let word = if level == "fatal" { "error" } else { level };
            let hint = hint.map_or_else(String::new, |hint| format!("  try: {hint}\n"));
            format!("{word}: {}\n{hint}", tiphys_api::printable::line(message))
        }
    }
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        of_code(Code::of(&error), &error)
    }
}

impl From<tiphys_service::Error> for Failure {
    fn from(error: tiphys_service::Error) -> Self {
        use tiphys_service::repository::RepositoryError;
        if let tiphys_service::Error::Repository(RepositoryError::Selection(_)) = &error {
            // Who asks may see everything, so "denied" means that there is nothing (REP-43).
            return Self::status(error.code().as_str(), &error)
                .hint("see `repo list` for the URLs and projects there are");
        }
        of_code(error.code(), &error)
    }
}

fn of_code(code: Code, error: &dyn std::fmt::Display) -> Failure {
    let failure = Failure::status(code.as_str(), error);
    match code {
        Code::Unavailable => {
            failure.hint("check the cluster of the kubeconfig context (`--kube-context`, KUBECONFIG)")
        }
        Code::PermissionDenied => failure
            .hint("ask for this permission in Kubernetes RBAC; core mode uses the kubeconfig's own rights"),
        Code::Unauthenticated => failure.hint("renew the credentials of the kubeconfig context"),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> Timestamp {
        "2026-08-01T10:00:00Z".parse().unwrap()
    }

    #[test]
    fn cli_7_failures_are_one_record() {
        let show = |style| record(style, "fatal", "no \"x\"", None, &stamp("", at()));
        assert_eq!(
            show(Style::Json),
            "{\"level\":\"fatal\",\"msg\":\"no \\\"x\\\"\",\"time\":\"2026-08-01T10:00:00Z\"}\n"
        );
        assert_eq!(show(Style::Text), "time=\"2026-08-01T10:00:00Z\" level=fatal msg=\"no \\\"x\\\"\"\n");
    }

    #[test]
    fn cli_1101_people_get_advice() {
        let failure = Failure::fatal("no server").hint("use `--core`");
        let shown = record(Style::Human, "fatal", &failure.message, failure.hint.as_deref(), "");
        assert_eq!(shown, "error: no server\n  try: use `--core`\n");
        assert_eq!(stamp("15:04", at()), "10:00", "CLI-106");
    }
}
