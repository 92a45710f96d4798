//! What is counted of calls and of requests to proxy extensions, for metrics (API-12).
//!
//! Labels are names of our own methods, of extensions that are declared, and codes, never what somebody sends.

mod visits;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use tiphys_wire::Method;
use tiphys_wire::status::Code;
use visits::Visits;

pub(crate) use visits::Visiting;

/// The method that logs in.
const LOGIN: &str = "/session.SessionService/Create";
/// What happens to calls before they end, with its family and what that says.
const STEPS: [(Step, &str, &str); 3] = [
    (Step::Started, "started", "Number of calls that began"),
    (Step::Received, "msg_received", "Number of messages of callers"),
    (Step::Sent, "msg_sent", "Number of messages to callers"),
];

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// It begins.
    Started,
    /// A message of it came.
    Received,
    /// A message of the answer goes out.
    Sent,
}

/// How many calls began and ended how. Cloning is cheap, and counts the same.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    calls: Arc<Mutex<Calls>>,
    visits: Visits,
}

/// By path: as many as there are methods, times codes at most.
#[derive(Clone, Debug, Default)]
struct Calls {
    handled: BTreeMap<(&'static str, &'static str), Count>,
    steps: BTreeMap<(Step, &'static str), Count>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    kind: &'static str,
    count: u64,
}

impl Count {
    fn none(method: &Method) -> Self {
        let kind = match (method.client_streams, method.server_streams) {
            (false, false) => "unary",
            (false, true) => "server_stream",
            (true, false) => "client_stream",
            (true, true) => "bidi_stream",
        };
        Self { kind, count: 0 }
    }
}

impl Counts {
    /// Something happens to a call, over REST or gRPC.
    pub(crate) fn step(&self, method: &'static Method, step: Step) {
        let mut calls = self.calls.lock();
        calls.steps.entry((step, &method.path)).or_insert_with(|| Count::none(method)).count += 1;
    }

    /// A call has ended, over REST or gRPC.
    pub(crate) fn ended(&self, method: &'static Method, code: Code) {
        let mut calls = self.calls.lock();
        calls.handled.entry((&method.path, code.as_str())).or_insert_with(|| Count::none(method)).count += 1;
    }

    /// A request is on its way to an extension that is declared.
    pub(crate) fn visit(&self, extension: &str) -> Visiting {
        self.visits.begin(extension)
    }

    /// Families in the text of a scrape, without its end.
    pub fn text(&self) -> String {
        let Calls { handled, steps } = self.calls.lock().clone();
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
        for ((path, code), count) in handled {
            let code = format!("grpc_code=\"{code}\",");
            write_call(&mut text, ("handled", &code), path, count);
        }
        for (step, name, help) in STEPS {
            let _ended = write!(
                text,
                "# HELP grpc_server_{name} {help}, over gRPC and REST.\n# TYPE grpc_server_{name} counter\n"
            );
            for ((_, path), count) in steps.iter().filter(|((of, _), _)| *of == step) {
                write_call(&mut text, (name, ""), path, *count);
            }
        }
        self.visits.write(&mut text);
        text
    }
}

fn write_call(text: &mut String, (name, code): (&str, &str), path: &str, Count { kind, count }: Count) {
    let (service, method) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let _ended = writeln!(
        text,
        "grpc_server_{name}_total{{{code}grpc_method=\"{method}\",grpc_service=\"{service}\",grpc_type=\"{kind}\"}} {count}"
    );
}

#[cfg(test)]
mod tests {
    use tiphys_wire::schema;

    use super::*;

    fn method(path: &str) -> &'static Method {
        schema().method(schema().method_at(path).unwrap())
    }

    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }

    #[test]
    fn api_12_calls_are_counted_by_how_they_ended() {
        let counts = Counts::default();
        let ended = |path: &str, code| counts.clone().ended(method(path), code);
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
            has(&text, line);
        }
    }

    #[test]
    fn api_12_calls_that_go_on_are_counted_with_their_messages() {
        let counts = Counts::default();
        let watch = method("/application.ApplicationService/Watch");
        for step in [Step::Started, Step::Received, Step::Sent, Step::Sent, Step::Started] {
            counts.clone().step(watch, step);
        }
        let text = counts.text();
        let of = "grpc_method=\"Watch\",grpc_service=\"application.ApplicationService\",grpc_type=\"server_stream\"";
        for (name, count) in [("started", 2), ("msg_received", 1), ("msg_sent", 2)] {
            has(&text, &format!("# TYPE grpc_server_{name} counter"));
            has(&text, &format!("grpc_server_{name}_total{{{of}}} {count}"));
        }
        assert!(!text.contains("grpc_server_handled_total"));
    }
}
