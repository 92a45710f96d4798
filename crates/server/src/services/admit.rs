//! Who calls (API-24, API-28..32).

use std::net::SocketAddr;

use http::{HeaderMap, StatusCode};
use tiphys_api::secret::Secret;
use tiphys_go::semver::Version;
use tiphys_wire::schema;
use tiphys_wire::status::Code;

use super::Parts;
use super::standing::is_over;
use crate::call::{Admitted, Head, Status, Via};
use crate::http::{Refused as PageRefused, cookie};
use crate::identity::{Claims, Identity};
use crate::session::{Refused, Session};

/// Services whose methods anybody may call.
const OPEN: [&str; 3] =
    ["/session.SessionService/", "/version.VersionService/Version", "/cluster.SettingsService/Get"];

/// Finds out who calls.
pub(super) async fn admit(parts: &Parts, head: Head) -> Result<Admitted, Status> {
    check_client(&head)?;
    if parts.without_authentication {
        return Ok(Admitted { head, identity: Identity::Unchecked, renewed_token: None });
    }
    let outcome = match token(&head)? {
        token if token.is_empty() => {
            Err(Refused::from(Status::new(Code::Unauthenticated, "no session information")))
        }
        token => parts.sessions.identify(&token).await,
    };
    match outcome {
        Ok(session) => {
            let identity = Identity::Known(session.claims);
            Ok(Admitted { head, identity, renewed_token: session.renewed_token })
        }
        // Nobody in particular; but the service of sessions tells them where they have to go (API-65).
        Err(refused) if refused.is_expired_sso && is_of_sessions(&head) => {
            Ok(Admitted { head, identity: Identity::Known(Claims::expired_sso()), renewed_token: None })
        }
        Err(_) if is_open(&head) || admits_anonymous(parts) => {
            Ok(Admitted { head, identity: Identity::Anonymous, renewed_token: None })
        }
        Err(refused) => Err(refused.status),
    }
}

/// Repeats the admission of a call: returns its identity now, and whether its token would be renewed. The caller stays the
/// same: an expired session ends the stream even if anonymous callers have access.
///
/// # Errors
/// If the call would be refused now, or that is unknown.
pub(super) async fn readmit(parts: &Parts, call: &Admitted, token: &str) -> Result<(Identity, bool), Status> {
    match &call.identity {
        Identity::Unchecked => Ok((Identity::Unchecked, false)),
        Identity::Anonymous if is_open(&call.head) || admits_anonymous(parts) => {
            Ok((Identity::Anonymous, false))
        }
        Identity::Anonymous => Err(is_over()),
        Identity::Known(_) => match parts.sessions.confirm(token).await {
            Ok(session) => Ok((Identity::Known(session.claims), session.renewed_token.is_some())),
            Err(refused) if refused.status.code == Code::Unavailable => Err(refused.status),
            Err(_refused) => Err(is_over()),
        },
    }
}

fn admits_anonymous(parts: &Parts) -> bool {
    parts.world.load().is_set("users.anonymous.enabled")
}

/// Why somebody who comes with a cookie alone is not known (API-33).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoCookie {
    /// They have none that can be read.
    Missing,
    /// It does not count.
    Invalid,
    /// Nobody can tell now, and why.
    Unknown(String),
}

impl From<NoCookie> for PageRefused {
    fn from(why: NoCookie) -> Self {
        match why {
            NoCookie::Missing => Self::new(StatusCode::BAD_REQUEST, "Auth cookie not found"),
            NoCookie::Invalid => Self::new(StatusCode::UNAUTHORIZED, "Invalid token"),
            NoCookie::Unknown(text) => Self::new(StatusCode::SERVICE_UNAVAILABLE, text),
        }
    }
}

/// Who somebody is that comes with a cookie and nothing else (API-33): a page that is no call.
pub(super) async fn by_cookie(parts: &Parts, token: &str) -> Result<Session, NoCookie> {
    if token.is_empty() {
        return Err(NoCookie::Missing);
    }
    parts.sessions.identify(token).await.map_err(|refused| match refused.status.code {
        Code::Unavailable => NoCookie::Unknown(refused.status.message),
        _ => NoCookie::Invalid,
    })
}

/// Somebody who comes with a cookie.
pub(super) struct Known {
    pub(super) identity: Identity,
    /// Their token; `None` where nobody is asked for one.
    pub(super) token: Option<String>,
    /// A token that takes the place of the one they came with (API-40).
    pub(super) renewed: Option<Secret<String>>,
}

/// Finds out who looks at a page that is no call.
pub(super) async fn identify(parts: &Parts, headers: &HeaderMap) -> Result<Known, NoCookie> {
    if parts.without_authentication {
        return Ok(Known { identity: Identity::Unchecked, token: None, renewed: None });
    }
    let token = cookie::token(headers).unwrap_or_default();
    let session = by_cookie(parts, &token).await?;
    let token = session.renewed_token.as_ref().map_or(token, |renewed| renewed.expose().clone());
    Ok(Known {
        identity: Identity::Known(session.claims),
        token: Some(token),
        renewed: session.renewed_token,
    })
}

/// A page as a call, so that the services can be asked about whoever looks at it; `like` is the call that it is closest
/// to, which records name.
pub(super) fn as_call(
    head: &http::request::Parts,
    peer: SocketAddr,
    like: &str,
    identity: Identity,
) -> Option<Admitted> {
    let (method, headers) = (schema().method_at(like)?, head.headers.clone());
    let head = Head { method, via: Via::Rest, headers, peer, deadline: None, fields: None };
    Some(Admitted { head, identity, renewed_token: None })
}

fn is_of_sessions(head: &Head) -> bool {
    head.description().path.starts_with("/session.SessionService/")
}

/// Whether a method answers everybody (API-30).
fn is_open(head: &Head) -> bool {
    let path = head.description().path.as_str();
    OPEN.iter().any(|open| path == *open || (open.ends_with('/') && path.starts_with(open)))
}

/// The token of a call; the first place that has one counts (API-28).
pub(super) fn token(head: &Head) -> Result<String, Status> {
    if let Some(token) = head.metadata("token").filter(|token| !token.is_empty()) {
        return Ok(token.to_owned());
    }
    let bearer = head.header("authorization").and_then(|text| text.strip_prefix("Bearer "));
    if let Some(token) = bearer.filter(|token| token.split('.').count() == 3) {
        return Ok(token.to_owned());
    }
    // Only REST has cookies: a page of somebody else cannot make a browser send the others with them.
    if head.via == Via::Rest {
        return cookie::token(&head.headers)
            .map_err(|error| Status::new(Code::Unauthenticated, format!("invalid session: {error}")));
    }
    Ok(String::new())
}

/// Refuses clients that are too old to understand the answers (API-24).
fn check_client(head: &Head) -> Result<(), Status> {
    const OLDEST: &str = "1.4.0";
    let Some(agent) = head.header("user-agent").filter(|_| head.via != Via::Rest) else { return Ok(()) };
    if matches!(agent, "grpc-go/1.15.0" | "grpc-go/1.10.0") {
        return Err(unsatisfied(agent));
    }
    let Some((_, rest)) = agent.split_once("argocd-client/") else { return Ok(()) };
    let text = rest.split(' ').next().unwrap_or_default();
    let Ok(version) = Version::parse(text) else {
        return Err(Status::invalid("could not parse version of the client"));
    };
    let is_new = Version::parse(OLDEST).is_ok_and(|oldest| {
        (version.major, version.minor, version.patch) >= (oldest.major, oldest.minor, oldest.patch)
    });
    if is_new { Ok(()) } else { Err(unsatisfied(text)) }
}

fn unsatisfied(agent: &str) -> Status {
    let agent = tiphys_api::printable::line(agent).into_owned();
    Status::new(
        Code::FailedPrecondition,
        format!("unsatisfied client version constraint: {agent}; clients have to be 1.4.0 or newer"),
    )
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn head(via: Via, headers: &[(&'static str, &'static str)]) -> Head {
        let method = schema().method_at("/application.ApplicationService/Get").unwrap();
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)));
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        Head { method, via, headers: headers.collect(), peer, deadline: None, fields: None }
    }

    #[test]
    fn api_24_clients_that_are_too_old_are_refused() {
        let code = |via, agent| check_client(&head(via, &[("user-agent", agent)])).map_err(|it| it.code);
        for fine in [
            "argocd-client/v3.1.8 grpc-go/1.70.0",
            "argocd-client/1.4.0",
            "argocd-client/1.4.0-rc1",
            "grpc-go/1.15.0 and more",
            "curl/8",
        ] {
            assert_eq!(code(Via::Grpc, fine), Ok(()), "{fine}");
        }
        for old in ["argocd-client/v1.3.9 grpc-go/1.15.0", "grpc-go/1.15.0", "grpc-go/1.10.0"] {
            assert_eq!(code(Via::GrpcWeb, old), Err(Code::FailedPrecondition), "{old}");
            assert_eq!(code(Via::Rest, old), Ok(()), "{old}");
        }
        assert_eq!(code(Via::Grpc, "argocd-client/new"), Err(Code::InvalidArgument));
    }

    #[test]
    fn api_28_the_first_place_with_a_token_counts() {
        let all = [
            ("token", "meta"),
            ("grpc-metadata-token", "of-rest"),
            ("authorization", "Bearer a.b.c"),
            ("cookie", "argocd.token=cookie"),
        ];
        let found = |via, headers: &[_]| token(&head(via, headers)).unwrap();
        assert_eq!(found(Via::Grpc, &all), "meta");
        assert_eq!(found(Via::Rest, &all), "of-rest");
        assert_eq!(found(Via::Rest, &all[2..]), "a.b.c");
        assert_eq!(found(Via::Rest, &all[3..]), "cookie", "API-21");
        assert_eq!(found(Via::Grpc, &all[3..]), "", "a page of somebody else sends cookies, too");
        assert_eq!(found(Via::Rest, &[("authorization", "Bearer ab"), all[3]]), "cookie");
        assert_eq!(found(Via::Rest, &[("authorization", "Basic a.b.c")]), "");
    }
}
