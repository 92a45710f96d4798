//! Why a call fails, with the class that gRPC gives it.

use tiphys_cluster::ApiError;

use crate::account::AccountCallError;
use crate::application::ApplicationError;
use crate::application_set::ApplicationSetError;
use crate::certificate::CertificateError;
use crate::cluster::ClusterCallError;
use crate::gpg_key::GpgKeyError;
use crate::managed::SecretError;
use crate::project::ProjectError;
use crate::repository::RepositoryError;
use crate::template::TemplateError;

/// Class of a failure, with the names of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A value is wrong.
    InvalidArgument,
    /// A value is outside of what is permitted.
    OutOfRange,
    /// It does not exist.
    NotFound,
    /// It exists already.
    AlreadyExists,
    /// The caller may not.
    PermissionDenied,
    /// Nobody knows who the caller is.
    Unauthenticated,
    /// Not in the present state.
    FailedPrecondition,
    /// Somebody else changed it at the same time.
    Aborted,
    /// This version does not do it.
    Unimplemented,
    /// Somebody who is needed does not answer.
    Unavailable,
    /// Somebody who is needed does not answer in time.
    DeadlineExceeded,
    /// Too much was asked for.
    ResourceExhausted,
    /// Something is wrong with whoever was asked.
    Internal,
    /// Everything else.
    Unknown,
}

impl Code {
    /// The name of gRPC.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "InvalidArgument",
            Self::OutOfRange => "OutOfRange",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::PermissionDenied => "PermissionDenied",
            Self::Unauthenticated => "Unauthenticated",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::Aborted => "Aborted",
            Self::Unimplemented => "Unimplemented",
            Self::Unavailable => "Unavailable",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::Internal => "Internal",
            Self::Unknown => "Unknown",
        }
    }

    /// The class of what a Kubernetes API server answered (API-26, CLI-9).
    pub fn of(error: &ApiError) -> Self {
        match error {
            ApiError::Refused(refusal) => match refusal.code {
                400 => Self::FailedPrecondition,
                422 => Self::InvalidArgument,
                401 => Self::Unauthenticated,
                403 => Self::PermissionDenied,
                404 => Self::NotFound,
                409 if error.is_already_exists() => Self::AlreadyExists,
                405 => Self::Unimplemented,
                409 => Self::Aborted,
                429 => Self::ResourceExhausted,
                503 => Self::Unavailable,
                504 => Self::DeadlineExceeded,
                500 if refusal.reason == "ServerTimeout" => Self::Unavailable,
                500 => Self::Internal,
                _ => Self::Unknown,
            },
            ApiError::Timeout { .. } => Self::DeadlineExceeded,
            ApiError::Unreachable { .. } | ApiError::GroupUnavailable(_) => Self::Unavailable,
            _ => Self::Unknown,
        }
    }
}

/// Why a call fails. No text has credentials in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call about a repository.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// A call about a credential template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A call about a cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterCallError),
    /// A call about a project.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// A call about an application.
    #[error(transparent)]
    Application(#[from] ApplicationError),
    /// A call about an `ApplicationSet`.
    #[error(transparent)]
    ApplicationSet(#[from] ApplicationSetError),
    /// A call about certificates or host keys.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A call about keys of those who sign.
    #[error(transparent)]
    GpgKey(#[from] GpgKeyError),
    /// A call about an account.
    #[error(transparent)]
    Account(#[from] AccountCallError),
    /// A Secret that is to be written.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The record of tokens that were given back.
    #[error(transparent)]
    Revoked(#[from] crate::revoked::Unreadable),
    /// The caller may not.
    #[error("{0}")]
    Denied(String),
    /// The cluster refused, or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// Somebody changes an application all the time; clients know the text (API-117).
    #[error("Failed to update application. Too many conflicts")]
    Conflicts,
    /// Somebody changes the object all the time.
    #[error("{name} was changed by somebody else {attempts} times in a row; try again")]
    Busy {
        /// The object.
        name: String,
        /// How often.
        attempts: u32,
    },
}

impl Error {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::Repository(error) => error.code(),
            Self::Template(error) => error.code(),
            Self::Cluster(error) => error.code(),
            Self::Project(error) => error.code(),
            Self::Application(error) => error.code(),
            Self::ApplicationSet(error) => error.code(),
            Self::Certificate(error) => error.code(),
            Self::GpgKey(error) => error.code(),
            Self::Account(error) => error.code(),
            Self::Secret(error) => error.code(),
            Self::Revoked(_) => Code::FailedPrecondition,
            Self::Denied(_) => Code::PermissionDenied,
            Self::Api(error) => Code::of(error),
            Self::Conflicts => Code::Internal,
            Self::Busy { .. } => Code::Aborted,
        }
    }
}

#[cfg(test)]
mod tests {
    use tiphys_cluster::Refusal;

    use super::*;

    #[test]
    fn api_26_what_kubernetes_refuses_has_a_class() {
        let of = |code, reason: &str| {
            let refusal =
                Refusal { code, reason: reason.to_owned(), message: String::new(), retry_after: None };
            Code::of(&ApiError::Refused(Box::new(refusal)))
        };
        for (code, reason, class) in [
            (404, "NotFound", Code::NotFound),
            (409, "AlreadyExists", Code::AlreadyExists),
            (409, "Conflict", Code::Aborted),
            (422, "Invalid", Code::InvalidArgument),
            (405, "MethodNotAllowed", Code::Unimplemented),
            (503, "ServiceUnavailable", Code::Unavailable),
            (400, "BadRequest", Code::FailedPrecondition),
            (401, "Unauthorized", Code::Unauthenticated),
            (403, "Forbidden", Code::PermissionDenied),
            (504, "Timeout", Code::DeadlineExceeded),
            (500, "ServerTimeout", Code::Unavailable),
            (500, "InternalError", Code::Internal),
            (429, "TooManyRequests", Code::ResourceExhausted),
            (418, "", Code::Unknown),
        ] {
            assert_eq!(of(code, reason), class, "{code} {reason}");
        }
    }
}
