//! A call with everything that its method asks.

use std::sync::Arc;
use std::time::Duration;

use tiphys_api::names::SECRET;
use tiphys_policy::pattern::regex_list;
use tiphys_policy::permit::Own;
use tiphys_policy::project::namespace_enabled;
use tiphys_policy::rbac::{Authorized, Caller, Located, Protected, Request, Resource};
use tiphys_service::{Access, Object as Named, Secrets};
use tiphys_source::{SourceError, Sources};
use tiphys_wire::status::Code;

use super::standing::Owned;
use super::{Parts, admit};
use crate::call::{Admitted, Status};
use crate::identity::{Claims, Identity};
use crate::world::World;

/// Time that a call gives the snapshot to see what it wrote (API-117).
const CATCH_UP: Duration = Duration::from_secs(2);

/// A call under way. What it sees of the installation does not change while it runs.
pub(super) struct Context<'p> {
    pub(super) parts: &'p Arc<Parts>,
    pub(super) world: Arc<World>,
    call: Admitted,
}

impl<'p> Context<'p> {
    pub(super) fn new(parts: &'p Arc<Parts>, call: Admitted) -> Self {
        Self { parts, world: parts.world.load_full(), call }
    }

    pub(super) fn call(&self) -> &Admitted {
        &self.call
    }

    /// The call, for a stream that goes on after it.
    pub(super) fn owned(&self) -> Owned {
        // Admission has already read the token.
        let token = admit::token(&self.call.head).unwrap_or_default();
        Owned::new(self.parts, self.call.clone(), token)
    }

    /// What the token says; nothing for nobody.
    pub(super) fn claims(&self) -> Option<&Claims> {
        self.call.identity.claims()
    }

    /// What knows repositories.
    ///
    /// # Errors
    /// In a process that fetches nothing.
    pub(super) fn sources(&self) -> Result<&'p Sources, Status> {
        let found = self.parts.sources.as_ref();
        found.ok_or_else(|| Status::new(Code::Unavailable, "this process cannot ask repositories"))
    }

    /// The control plane's namespace.
    pub(super) fn namespace(&self) -> &str {
        self.world.namespace()
    }

    /// Whether nobody is asked who they are.
    pub(super) fn is_unchecked(&self) -> bool {
        self.call.identity == Identity::Unchecked
    }

    /// Whether somebody in particular calls (API-182).
    pub(super) fn is_logged_in(&self) -> bool {
        self.claims().is_some_and(|claims| !claims.identifier().is_empty())
    }

    /// The caller, as the policy of roles asks about them.
    pub(super) fn caller(&self) -> Caller<'_> {
        match &self.call.identity {
            Identity::Unchecked => self.world.open().caller(None),
            Identity::Anonymous => self.world.rbac().caller(None),
            Identity::Known(claims) => self.world.rbac().caller(Some(claims.all())),
        }
    }

    /// Asks whether the caller may.
    ///
    /// # Errors
    /// With the text of the refusal (API-98).
    pub(super) fn check(&self, resource: Resource, action: &str, object: &str) -> Result<(), Status> {
        let decision = self.caller().check(&Request { resource: resource.as_str(), action, object });
        match decision.message {
            None => Ok(()),
            Some(refusal) => Err(denied(refusal)),
        }
    }

    /// Whether the caller may.
    pub(super) fn may(&self, resource: Resource, action: &str, object: &str) -> bool {
        self.caller().may(&Request { resource: resource.as_str(), action, object })
    }

    /// Asks whether the caller may do this with a thing; the answer is the thing with the proof.
    ///
    /// # Errors
    /// With the text of the refusal.
    pub(super) fn authorize<T: Protected>(&self, action: &str, thing: T) -> Result<Authorized<T>, Status> {
        self.caller().authorize(action, thing, self.namespace()).map_err(denied)
    }

    /// Asks whether the caller may do this with what an address names (REP-41, REP-112).
    ///
    /// # Errors
    /// With the text of the refusal.
    pub(super) fn check_located(
        &self,
        resource: Resource,
        action: &str,
        located: &Located<'_>,
    ) -> Result<(), Status> {
        self.caller()
            .check_located(resource, action, located)
            .message
            .map_or(Ok(()), |text| Err(denied(text)))
    }

    /// The question that the service layer asks for this caller.
    pub(super) fn asks(&self) -> impl Fn(&Access<'_>) -> Result<(), String> + Send + Sync {
        |access| {
            let (resource, action) = (access.resource, access.action.as_str());
            let decision = match &access.object {
                Named::Name(object) => {
                    self.caller().check(&Request { resource: resource.as_str(), action, object })
                }
                Named::Address(located) => self.caller().check_located(resource, action, located),
            };
            decision.message.map_or(Ok(()), Err)
        }
    }

    /// Whether applications of a namespace are looked at at all (API-113).
    pub(super) fn is_enabled(&self, namespace: &str) -> bool {
        namespace_enabled(&self.world.installation.settings, namespace, self.namespace())
    }

    /// The same for sets.
    pub(super) fn is_set_enabled(&self, namespace: &str) -> bool {
        let settings = self.world.installation.settings.application_sets();
        namespace == self.namespace() || regex_list(&settings.namespaces, namespace)
    }

    /// Waits until a snapshot shows what was written, two seconds at most (API-117).
    pub(super) async fn catch_up(&self, is_seen: impl Fn(&World) -> bool) {
        let mut news = self.world.news();
        let waiting = async {
            while !is_seen(&self.parts.world.load()) {
                if news.changed().await.is_err() {
                    return;
                }
            }
        };
        drop(tokio::time::timeout(CATCH_UP, waiting).await);
    }

    /// The same for Secrets.
    pub(super) async fn see(&self, written: &Secrets) {
        self.catch_up(|world| world.has_seen(written)).await;
    }

    /// The same for the Secret of the installation, which is read again to find out what it is now.
    pub(super) async fn see_secret(&self) {
        if let Ok(Some(object)) = self.parts.store.get(Own::Secret, SECRET).await {
            let version = object.metadata().resource_version.clone();
            self.catch_up(|world| world.has_secret(SECRET, &version)).await;
        }
    }

    /// The name of the caller in records: the account, or what an identity provider says (API-53).
    pub(super) fn username(&self) -> String {
        self.claims().map(Claims::username).unwrap_or_default()
    }
}

/// A repository that does not answer, or not with what was asked for. The text has no passwords.
pub(super) fn source_failed(error: &SourceError) -> Status {
    let code = if error.is_transient() { Code::Unavailable } else { Code::FailedPrecondition };
    Status::new(code, tiphys_api::repo_url::redact_text(&error.to_string()))
}

/// The caller may not.
pub(super) fn denied(refusal: impl Into<String>) -> Status {
    Status::new(Code::PermissionDenied, refusal)
}

/// The same where it must not be told whether something exists (API-98).
pub(super) fn hidden() -> Status {
    denied("permission denied")
}

/// A failure of the service layer.
impl From<tiphys_service::Error> for Status {
    fn from(error: tiphys_service::Error) -> Self {
        let code = match error.code() {
            tiphys_service::Code::InvalidArgument => Code::InvalidArgument,
            tiphys_service::Code::OutOfRange => Code::OutOfRange,
            tiphys_service::Code::NotFound => Code::NotFound,
            tiphys_service::Code::AlreadyExists => Code::AlreadyExists,
            tiphys_service::Code::PermissionDenied => Code::PermissionDenied,
            tiphys_service::Code::Unauthenticated => Code::Unauthenticated,
            tiphys_service::Code::FailedPrecondition => Code::FailedPrecondition,
            tiphys_service::Code::Aborted => Code::Aborted,
            tiphys_service::Code::Unimplemented => Code::Unimplemented,
            tiphys_service::Code::Unavailable => Code::Unavailable,
            tiphys_service::Code::DeadlineExceeded => Code::DeadlineExceeded,
            tiphys_service::Code::ResourceExhausted => Code::ResourceExhausted,
            tiphys_service::Code::Internal => Code::Internal,
            tiphys_service::Code::Unknown => Code::Unknown,
        };
        Self::new(code, error.to_string())
    }
}
