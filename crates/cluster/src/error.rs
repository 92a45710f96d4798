//! What can go wrong when talking to an API server, with everything a caller decides on.

use std::time::Duration;

use tiphys_object::{Gvk, ResourceKey};

/// A refusal of the API server, as its `Status` answer says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, for example `NotFound`; empty when the answer was no `Status`.
    pub reason: String,
    /// Text for people, as the server wrote it.
    pub message: String,
    /// How long the server asks to wait before the next attempt (F10).
    pub retry_after: Option<Duration>,
}

/// Why a request to a cluster did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The API server answered with a failure.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
    /// The named time ran out.
    #[error("no answer within {} s while trying to {what}", after.as_secs())]
    Timeout {
        /// What was attempted.
        what: &'static str,
        /// The time that was given.
        after: Duration,
    },
    /// No answer arrived: connection, TLS or credentials.
    #[error("cannot reach the API server: {reason}")]
    Unreachable {
        /// The chain of causes, outermost first.
        reason: String,
    },
    /// The answer is not what the API promises.
    #[error("unexpected answer to {what}: {reason}")]
    Malformed {
        /// What was attempted.
        what: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The answer is larger than what is read into memory.
    #[error("the answer has more than {bytes_max} bytes")]
    TooLarge {
        /// The bound.
        bytes_max: usize,
    },
    /// The cluster serves no such kind.
    #[error("the server could not find the requested resource, kind {:?} of {:?} is not served", .0.kind, .0.api_version().as_str())]
    NotServed(Gvk),
    /// The name or namespace of an object cannot stand in a path.
    #[error("{0}")]
    Name(String),
    /// The account that a change is to be made as cannot stand in a request (REP-190).
    #[error("cannot act as {0:?}: a user name has visible ASCII characters only")]
    Account(String),
    /// The object is outside of what the cluster's definition allows to manage (ENG-22).
    #[error("{0}")]
    NotManaged(String),
    /// No project was asked about this object, or about another scope of its kind: a fault of ours, which writes
    /// nothing (INV-6).
    #[error("no permission was asked for {0}, so it is not changed; please report this")]
    NotPermitted(Box<ResourceKey>),
    /// An object was deleted to be made anew, and the new one was refused (ENG-175).
    #[error("{source}. The live object had been deleted; {}", match .lost {
        None => "it was created again as it was".to_owned(),
        Some(why) => format!("it could not be created again: {why}"),
    })]
    NotRecreated {
        /// Why the new object was refused.
        source: Box<Self>,
        /// Why the old one did not come back; `None` when it did.
        lost: Option<String>,
    },
    /// Another process may have the lease of the installation by now (F28).
    #[error("this process does not hold the lease of the installation any more, and writes nothing")]
    Fenced,
    /// The program was started to look and not to change anything.
    #[error("this process only reads (--read-only), and writes nothing")]
    ReadOnly,
    /// It could not be learned whether the cluster serves the kind: its API group does not answer.
    #[error("the API group of kind {:?} in {:?} does not answer", .0.kind, .0.api_version().as_str())]
    GroupUnavailable(Gvk),
}

impl ApiError {
    /// HTTP status code of a refusal, 0 for everything else.
    pub fn code(&self) -> u16 {
        match self {
            Self::Refused(refusal) => refusal.code,
            Self::NotRecreated { source, .. } => source.code(),
            _ => 0,
        }
    }

    /// Reason of a refusal, empty for everything else.
    pub fn reason(&self) -> &str {
        match self {
            Self::Refused(refusal) => &refusal.reason,
            Self::NotRecreated { source, .. } => source.reason(),
            _ => "",
        }
    }

    /// The object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == 404
    }

    /// Somebody else changed the object first, or a precondition does not hold.
    pub fn is_conflict(&self) -> bool {
        self.code() == 409 && self.reason() != "AlreadyExists"
    }

    /// The object exists already.
    pub fn is_already_exists(&self) -> bool {
        self.code() == 409 && self.reason() == "AlreadyExists"
    }

    /// The server has not loaded the objects of this kind yet: a definition that was made a moment ago, or a server that has
    /// just started. It says so with 429, which is no sign of load here, and answers within a second or two.
    pub fn is_initializing(&self) -> bool {
        matches!(self, Self::Refused(refusal)
            if refusal.code == 429 && refusal.message.contains("storage is (re)initializing"))
    }

    /// The resource version asked for is no longer kept.
    pub fn is_gone(&self) -> bool {
        self.code() == 410
    }

    /// A second attempt later may succeed without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(refusal) => matches!(refusal.code, 429 | 500 | 502 | 503 | 504),
            Self::Timeout { .. } | Self::Unreachable { .. } | Self::GroupUnavailable(_) => true,
            Self::NotRecreated { source, .. } => source.is_transient(),
            Self::Malformed { .. }
            | Self::TooLarge { .. }
            | Self::NotServed(_)
            | Self::Name(_)
            | Self::Account(_)
            | Self::NotManaged(_)
            | Self::NotPermitted(_)
            | Self::ReadOnly
            | Self::Fenced => false,
        }
    }

    /// The object is outside of what the cluster's definition allows to manage (ENG-22).
    pub(crate) fn not_managed(target: &crate::write::Target, is_namespaced: bool) -> Self {
        let (kind, name, namespace) = (&target.gvk.kind, &target.name, &target.namespace);
        Self::NotManaged(if is_namespaced {
            format!("namespace {namespace:?} for {kind} {name:?} is not managed")
        } else {
            format!("cluster level {kind} {name:?} can not be managed when in namespaced mode")
        })
    }

    pub(crate) fn unreachable(error: &(dyn std::error::Error + 'static)) -> Self {
        if quotes_credentials(error) {
            return Self::Unreachable {
                reason: "the credentials of the kubeconfig cannot be used".to_owned(),
            };
        }
        Self::Unreachable { reason: without_presented(error_chain(error)) }
    }

    /// An answer that is other JSON than was asked for, or none. The error's own text quotes it.
    pub(crate) fn malformed(what: &'static str, error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let problem = if error.is_data() { "is not what is expected there" } else { "is no JSON" };
        Self::Malformed { what, reason: format!("line {line} column {column} {problem}") }
    }
}

/// A text without the names that the certificate of a server has: whoever names an address does not get to read what another
/// server presents there (SEC-38).
fn without_presented(mut text: String) -> String {
    if let Some(end) = text.find("; certificate is only valid for") {
        text.truncate(end);
    }
    text
}

/// Whether an error, or a cause of it, is about credentials: its text shows arguments and output of the program that
/// was asked for them.
fn quotes_credentials(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<kube::client::AuthError>()
            || matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Auth(_)))
        {
            return true;
        }
        next = error.source();
    }
    false
}

/// An error with its causes in one line; a cause that the text before it tells already is not told again.
pub fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SEC-38: what another server says does not come back in an error.
    #[test]
    fn sec_38_errors_do_not_quote_what_a_server_answered() {
        for (text, expected) in [
            (r#"{"versions": "canary"}"#, "line 1 column 21 is not what is expected there"),
            ("canary", "line 1 column 1 is no JSON"),
        ] {
            #[derive(Debug, serde::Deserialize)]
            struct Versions {
                #[expect(dead_code, reason = "it is never read")]
                versions: Vec<String>,
            }
            let error = serde_json::from_str::<Versions>(text).unwrap_err();
            let shown = ApiError::malformed("discover", &error).to_string();
            assert_eq!(shown, format!("unexpected answer to discover: {expected}"));
        }
        let presented = "invalid peer certificate: certificate not valid for name \"a\"; certificate is only valid for \
                         DnsName(\"canary\")";
        assert_eq!(
            without_presented(presented.to_owned()),
            "invalid peer certificate: certificate not valid for name \"a\""
        );
    }
}
