//! Why there is no answer. No text repeats a credential, or anything that a server sent.

use jiff::Timestamp;
use tiphys_cloud::CloudError;

/// Why repositories or pull requests are not known. None of these is an empty answer (INV-8).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScmError {
    /// The generator is not written as it has to be.
    #[error("{0}")]
    Block(String),
    /// A regular expression of a filter does not compile.
    #[error("error compiling {field} regexp {pattern:?}: {problem}")]
    Filter {
        /// The field.
        field: &'static str,
        /// The expression.
        pattern: String,
        /// What is wrong with it.
        problem: String,
    },
    /// What is needed to log in is not there, or cannot be used.
    #[error("{0}")]
    Credentials(String),
    /// A server cannot be reached, or nobody vouches for its certificate.
    #[error("{doing}: {host} cannot be reached, or its certificate is not trusted")]
    Unreachable {
        /// The server.
        host: String,
        /// What was asked for.
        doing: &'static str,
    },
    /// A server does not answer in time.
    #[error("{doing}: {host} does not answer in time")]
    Timeout {
        /// The server.
        host: String,
        /// What was asked for.
        doing: &'static str,
    },
    /// All questions together take too long.
    #[error("the questions to {host} take longer than {seconds} seconds")]
    Deadline {
        /// The server.
        host: String,
        /// The limit.
        seconds: u64,
    },
    /// A server refuses the credentials, or wants some.
    #[error("{doing}: {host} refuses (HTTP {status})")]
    Denied {
        /// The server.
        host: String,
        /// What was asked for.
        doing: &'static str,
        /// 401 or 403.
        status: u16,
    },
    /// A server has been asked too often.
    #[error("{doing}: the rate limit of {host} is exceeded{}", again(.until.as_ref()))]
    RateLimited {
        /// The server.
        host: String,
        /// What was asked for.
        doing: &'static str,
        /// When it may be asked again, where it says so.
        until: Option<Timestamp>,
    },
    /// What a server was asked for is not there.
    #[error("{doing}: {host} does not know it (HTTP 404)")]
    NotFound {
        /// The server.
        host: String,
        /// What was asked for.
        doing: &'static str,
    },
    /// The repository whose pull requests are asked for is not there (ASET-65).
    #[error("repository {0} not found")]
    RepositoryNotFound(String),
    /// A server fails.
    #[error("{doing}: {host} answered with status {status}")]
    Status {
        /// The server.
        host: String,
        /// What was asked for.
        doing: &'static str,
        /// The status.
        status: u16,
    },
    /// A server's answer is not what it should be.
    #[error("{doing}: the answer of {host} cannot be read: {problem}")]
    Answer {
        /// The server.
        host: String,
        /// What was asked for.
        doing: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A server sends to another one, which does not get our credentials.
    #[error("{doing}: {host} redirects to {to}, which is not asked")]
    Redirected {
        /// The server.
        host: String,
        /// What was asked for.
        doing: &'static str,
        /// Where it sends.
        to: String,
    },
    /// There is more than anybody wants to read.
    #[error("{doing}: {host} has more than {limit} {what}")]
    TooMany {
        /// The server.
        host: String,
        /// What was asked for.
        doing: &'static str,
        /// The limit.
        limit: usize,
        /// What there is too much of.
        what: &'static str,
    },
    /// There is no identity of ours at a cloud provider.
    #[error(transparent)]
    Cloud(#[from] CloudError),
}

fn again(until: Option<&Timestamp>) -> String {
    until.map_or_else(String::new, |until| format!("; it may be asked again at {until}"))
}
