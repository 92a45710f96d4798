//! Who may ask a proxy extension about which application (API-221, API-222).

use std::net::SocketAddr;

use http::StatusCode;
use http::request::Parts as Head;
use tiphys_policy::rbac::{Resource, application_object};

use super::Services;
use super::admit::{Known, as_call, identify};
use super::context::{Context, hidden};
use super::standing::Owned;
use crate::catalog::AppKey;
use crate::extension::{APPLICATION, PROJECT, Visit, unauthorized};
use crate::http::{CallerKey, Refused, is_resource_name};

/// The call that a visit is closest to: records name the method of whoever did something.
const LIKE: &str = "/application.ApplicationService/Get";

/// The application and the project that a browser is at (API-221).
#[derive(Debug, PartialEq, Eq)]
struct Place {
    namespace: String,
    app: String,
    project: String,
}

impl Place {
    fn read(head: &Head) -> Result<Self, Refused> {
        let invalid =
            |text: String| Refused::new(StatusCode::BAD_REQUEST, format!("Invalid headers: {text}"));
        let value = |name: &http::HeaderName| {
            let value = head.headers.get(name).and_then(|value| value.to_str().ok());
            value
                .filter(|value| !value.is_empty())
                .ok_or_else(|| invalid(format!("header {name:?} must be provided")))
        };
        let (named, project) = (value(&APPLICATION)?, value(&PROJECT)?);
        let parts = named.split_once(':');
        let (namespace, app) = parts.ok_or_else(|| {
            invalid(format!(
                "invalid value for {APPLICATION:?} header: expected format: <namespace>:<app-name>"
            ))
        })?;
        if ![namespace, app, project].into_iter().all(is_resource_name) {
            return Err(invalid("a name in them is none of Kubernetes".to_owned()));
        }
        let [namespace, app, project] = [namespace, app, project].map(str::to_owned);
        Ok(Self { namespace, app, project })
    }

    /// Checks that the caller may use an extension for this application, and returns the details of the visit.
    fn admit(&self, context: &Context<'_>, extension: &str) -> Result<Visit, Refused> {
        let Self { namespace, app, project } = self;
        if !context.is_enabled(namespace) {
            let text = format!("Invalid headers: namespace {namespace:?} is not permitted");
            return Err(Refused::new(StatusCode::BAD_REQUEST, text));
        }
        let own = context.namespace();
        // Argo CD asks without the namespace, wherever the application is.
        let objects = [application_object(project, namespace, app, own), format!("{project}/{app}")];
        let may_see = objects.iter().any(|object| context.may(Resource::Applications, "get", object));
        if !may_see || !context.may(Resource::Extensions, "invoke", extension) {
            return Err(unauthorized());
        }
        let entry = context.parts.catalog.look_up(&AppKey::new(namespace, app));
        let entry =
            entry.map_err(|error| Refused::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
        let entry = entry.ok_or_else(unauthorized)?;
        let installation = &context.world.installation;
        let found = installation.project(project).map_err(|_none| unauthorized())?;
        if entry.project != project.as_str() {
            return Err(unauthorized());
        }
        let cluster = installation.clusters.of_project(&entry.project).resolve(&entry.destination);
        let cluster = cluster.map_err(|_unknown| unauthorized())?;
        if !installation.permits(found, cluster, &entry.destination.namespace).permitted {
            return Err(unauthorized());
        }
        let claims = context.claims();
        Ok(Visit {
            cluster: Some(cluster.clone()),
            username: context.username(),
            user_id: claims.map(|claims| claims.identifier().to_owned()).unwrap_or_default(),
            groups: claims.map(|claims| claims.groups(context.world.scopes())).unwrap_or_default(),
        })
    }
}

/// Caller of an extension, whose access is checked repeatedly while the response is streamed.
pub(crate) struct Visitor {
    owned: Owned,
    place: Place,
    extension: String,
    caller: CallerKey,
}

impl Visitor {
    /// For whom bytes and places are counted.
    pub(crate) fn caller(&self) -> CallerKey {
        self.caller.clone()
    }

    /// Whether the caller still has access.
    pub(crate) async fn may_stay(&self) -> bool {
        let admit = |context: &Context<'_>| {
            self.place.admit(context, &self.extension).map(drop).map_err(|_refused| hidden())
        };
        self.owned.check_with(admit).await.is_ok()
    }
}

impl Services {
    /// Admits a request to an extension about an application.
    pub(crate) async fn visit(
        &self,
        head: &Head,
        peer: SocketAddr,
        extension: &str,
    ) -> Result<(Visit, Visitor), Refused> {
        let parts = &self.parts;
        let Known { identity, token, .. } = identify(parts, &head.headers).await?;
        let place = Place::read(head)?;
        let caller = CallerKey::of(&identity, peer.ip());
        let call = as_call(head, peer, LIKE, identity).ok_or_else(unauthorized)?;
        let visit = place.admit(&Context::new(parts, call.clone()), extension)?;
        let owned = Owned::new(parts, call, token.unwrap_or_default());
        Ok((visit, Visitor { owned, place, extension: extension.to_owned(), caller }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_221_both_headers_are_needed_and_hold_names() {
        let read = |app: Option<&str>, project: Option<&str>| {
            let mut request = http::Request::builder();
            for (name, value) in [(&APPLICATION, app), (&PROJECT, project)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            Place::read(&head).map(|place| format!("{place:?}")).map_err(|refused| refused.text)
        };
        assert!(read(Some("argocd:web"), Some("shop")).unwrap().contains("\"web\""));
        for (app, project) in [
            (None, Some("shop")),
            (Some("argocd:web"), None),
            (Some(""), Some("shop")),
            (Some("web"), Some("shop")),
            (Some("argocd:web/x"), Some("shop")),
            (Some("argocd:web"), Some("*")),
        ] {
            let error = read(app, project).unwrap_err();
            assert!(error.starts_with("Invalid headers: "), "{error}");
        }
    }
}
