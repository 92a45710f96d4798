//! Why a deletion does not go on, and when it is worth another try (CTL-79). The texts stand in the condition.

use jiff::SignedDuration;
use tiphys_api::cluster::ClusterError;
use tiphys_api::names::annotation;
use tiphys_cluster::ApiError;
use tiphys_object::{GroupKind, ObjectError, ResourceKey};
use tiphys_policy::project::ServiceAccountError;

use super::step::{LOOK_AGAIN, RETRY};
use crate::targets::TargetError;

/// What a user can do about hooks that cannot run (CTL-84).
const SKIP_HINT: &str = "annotate the application with argocd.argoproj.io/deletion-skip-hooks=true to delete it \
                         without its hooks";
/// What a user can do about a cluster that does not answer (CTL-78).
const UNREACHED_HINT: &str = "the deletion goes on when the cluster answers; to leave the objects behind, remove the \
                              finalizers of the application, or the cluster from the settings";

/// Why a deletion does not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeletionError {
    /// The destination means no cluster.
    #[error(transparent)]
    Destination(#[from] ClusterError),
    /// Its project is not at hand.
    #[error("{0}")]
    Project(String),
    /// Its digest is another application's (TRK-55).
    #[error("{0}")]
    Collision(String),
    /// Nobody may write there (REP-191).
    #[error("{0}")]
    Account(#[from] ServiceAccountError),
    /// The project forbids to change one object (INV-6).
    #[error("{0}")]
    Forbidden(String),
    /// The cluster cannot be asked now. It wakes the application when it can.
    #[error("{0}; {UNREACHED_HINT}")]
    Unreachable(String),
    /// What is there cannot be told.
    #[error("Failed to load live state: {0}")]
    Live(#[from] LiveError),
    /// Objects may be marked in a way that nobody looks for, because there are too many of those.
    #[error(
        "objects are marked in too many former ways at once, and those of annotation {} are not looked for; if the \
         application has none that are marked in that way, remove the annotation, and otherwise delete them first",
        annotation::TRACKING_PROFILE
    )]
    TooManyWays,
    /// The API server refused, or did not answer.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// A write was refused; the text shows no values of a Secret (SEC-37).
    #[error("{text}")]
    Refused {
        /// For people.
        text: String,
        /// The refusal.
        source: ApiError,
    },
    /// The stored application cannot be written, or read again.
    #[error("{0}")]
    Record(String),
    /// An object cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Programs of the user that judge health did not end.
    #[error("{0}")]
    Programs(String),
    /// About the hooks of the deletion.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// Several objects at once.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<Self>),
}

/// Why nobody knows what an application has.
#[derive(Debug, thiserror::Error)]
pub(super) enum LiveError {
    /// The cluster is another one now.
    #[error("the configuration of the cluster changed")]
    Reconfigured,
    /// The cluster as a whole is unknown.
    #[error("{0}")]
    Cluster(String),
    /// Objects of a kind are.
    #[error("{kind}: {why}")]
    Kind {
        /// The kind.
        kind: GroupKind,
        /// Why.
        why: String,
    },
    /// One object is.
    #[error("{key}: {why}")]
    Object {
        /// The object.
        key: ResourceKey,
        /// Why.
        why: String,
    },
    /// A list lacks an object that is there (F7).
    #[error("{0} exists, but the list of its kind is empty")]
    Contradiction(ResourceKey),
}

/// Why hooks of a deletion do not run (CTL-81..84).
#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    /// The application is not permitted as a whole, so nothing is created for it (INV-6).
    #[error("deletion hooks are not run: {0}; {SKIP_HINT}")]
    Spec(String),
    /// The cluster is not listed yet.
    #[error("the cluster is not listed yet")]
    NotReady,
    /// Their manifests are not at hand.
    #[error("Failed to load target state: {0}; {SKIP_HINT}")]
    Targets(#[source] TargetError),
    /// One has no name.
    #[error("a {0} hook has no name; {SKIP_HINT}")]
    Nameless(String),
    /// The project forbids one.
    #[error("{0}; {SKIP_HINT}")]
    Forbidden(String),
    /// Somebody else's object has its name.
    #[error("{0} exists and is not part of the application; {SKIP_HINT}")]
    Foreign(ResourceKey),
    /// They have run, and failed (CTL-82).
    #[error("{0}")]
    Failed(String),
}

impl DeletionError {
    /// Time until it is tried again: soon where that may help, later where a person has to do something first, which
    /// brings the application back by itself.
    pub(super) fn again(&self) -> SignedDuration {
        match self {
            Self::Destination(_)
            | Self::Project(_)
            | Self::Collision(_)
            | Self::Account(_)
            | Self::Forbidden(_)
            | Self::Unreachable(_)
            | Self::TooManyWays
            | Self::Object(_) => LOOK_AGAIN,
            Self::Api(source) | Self::Refused { source, .. } if is_lasting(source) => LOOK_AGAIN,
            Self::Api(_) | Self::Refused { .. } | Self::Live(_) | Self::Record(_) | Self::Programs(_) => {
                RETRY
            }
            Self::Hook(error) => error.again(),
            Self::Several(errors) => errors.iter().map(Self::again).min().unwrap_or(RETRY),
        }
    }
}

impl HookError {
    fn again(&self) -> SignedDuration {
        match self {
            Self::Spec(_)
            | Self::Nameless(_)
            | Self::Forbidden(_)
            | Self::Foreign(_)
            | Self::Targets(TargetError::Manifests(_)) => LOOK_AGAIN,
            Self::NotReady | Self::Targets(_) | Self::Failed(_) => RETRY,
        }
    }
}

/// Whether an API server would refuse the same again: a right is missing, or the request is wrong.
fn is_lasting(error: &ApiError) -> bool {
    match error {
        ApiError::Refused(refusal) => matches!(refusal.code, 400 | 401 | 403 | 405 | 413 | 422),
        ApiError::Name(_) | ApiError::Account(_) | ApiError::NotManaged(_) | ApiError::NotPermitted(_) => {
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CTL-79: what only a person can change is not asked for all the time; one of several that may go on decides.
    #[test]
    fn ctl_79_what_may_help_decides_when_it_is_tried_again() {
        let forbidden = || DeletionError::Forbidden("no".to_owned());
        assert_eq!(forbidden().again(), LOOK_AGAIN);
        assert_eq!(DeletionError::from(LiveError::Reconfigured).again(), RETRY);
        let several = DeletionError::Several(vec![forbidden(), LiveError::Reconfigured.into()]);
        assert_eq!(several.again(), RETRY);
        assert_eq!(
            several.to_string(),
            "no; Failed to load live state: the configuration of the cluster changed"
        );
        let hook = DeletionError::from(HookError::Nameless("Job".to_owned()));
        assert_eq!(
            (hook.again(), hook.to_string().starts_with("a Job hook has no name; annotate")),
            (LOOK_AGAIN, true)
        );
    }
}
