//! What is counted of calls, for metrics (API-12).
//!
//! Labels are names of our own methods and codes, never what somebody sends.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use tiphys_wire::Method;
use tiphys_wire::status::Code;

/// The method that logs in.
const LOGIN: &str = "/session.SessionService/Create";

/// How many calls ended how. Cloning is cheap, and counts the same.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// By path and code: as many as there are methods and codes at most.
    handled: Arc<Mutex<BTreeMap<(&'static str, &'static str), Handled>>>,
}

#[derive(Clone, Copy, Debug)]
struct Handled {
    kind: &'static str,
    count: u64,
}

impl Counts {
    /// A call has ended, over REST or gRPC.
    pub(crate) fn ended(&self, method: &'static Method, code: Code) {
        let kind = match (method.client_streams, method.server_streams) {
            (false, false) => "unary",
            (false, true) => "server_stream",
            (true, false) => "client_stream",
            (true, true) => "bidi_stream",
        };
        let mut handled = self.handled.lock();
        handled.entry((&method.path, code.as_str())).or_insert(Handled { kind, count: 0 }).count += 1;
    }

    /// Families in the text of a scrape, without its end.
    pub fn text(&self) -> String {
        let handled = self.handled.lock().clone();
        let mut text = String::from(
            "# HELP argocd_login_request Number of logins with a password.\n# TYPE argocd_login_request counter\n",
        );
        for (status, is_success) in [("success", true), ("failure", false)] {
            let logins = handled
                .iter()
                .filter(|((path, code), _)| *path == LOGIN && (*code == Code::Ok.as_str()) == is_success);
            let count: u64 = logins.map(|(_, handled)| handled.count).sum();
            // Writing to a String cannot fail.
            let _ended = writeln!(text, "argocd_login_request_total{{status=\"{status}\"}} {count}");
        }
        text.push_str(
            "# HELP grpc_server_handled Number of calls that ended, over gRPC and REST.\n# TYPE grpc_server_handled counter\n",
        );
        for ((path, code), Handled { kind, count }) in handled {
            let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
            let _ended = writeln!(
                text,
                "grpc_server_handled_total{{grpc_code=\"{code}\",grpc_method=\"{method}\",grpc_service=\"{service}\",grpc_type=\"{kind}\"}} {count}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use tiphys_wire::schema;

    use super::*;

    #[test]
    fn api_12_calls_are_counted_by_how_they_ended() {
        let counts = Counts::default();
        let ended = |path: &str, code| {
            counts.clone().ended(schema().method(schema().method_at(path).unwrap()), code);
        };
        assert!(counts.text().contains("argocd_login_request_total{status=\"failure\"} 0\n"));
        ended(LOGIN, Code::Ok);
        ended(LOGIN, Code::Unauthenticated);
        ended(LOGIN, Code::ResourceExhausted);
        ended("/application.ApplicationService/Watch", Code::Canceled);
        let text = counts.text();
        for line in [
            "argocd_login_request_total{status=\"success\"} 1",
            "argocd_login_request_total{status=\"failure\"} 2",
            "grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Create\",grpc_service=\"session.SessionService\",grpc_type=\"unary\"} 1",
            "grpc_server_handled_total{grpc_code=\"Canceled\",grpc_method=\"Watch\",grpc_service=\"application.ApplicationService\",grpc_type=\"server_stream\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }
}
