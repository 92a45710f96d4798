//! Terminals in containers of applications, in a browser (API-190..194): who may have one, and the WebSocket.

mod session;
mod shown;

use std::sync::Arc;

use futures::FutureExt as _;
use http::request::Parts as Head;
use http::{HeaderValue, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use tiphys_api::secret::Secret;
use tiphys_cluster::ExecQuery;
use tiphys_object::ResourceKey;
use tiphys_policy::rbac::{Resource, application_object};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admit::{Known, as_call, identify};
use super::audit::{self, Action};
use super::context::Context;
use super::standing::{self, Owned};
use super::{Parts, Services};
use crate::catalog::AppKey;
use crate::http::cookie::Cookies;
use crate::http::{Body, CallerKey, Front, Full, Place, Places, Refused, Request, is_resource_name, socket};
use crate::live::Live;
use crate::world::World;
use session::{Shell, talk};

/// Terminals at the same time; a caller has a quarter of them.
const TERMINALS_MAX: usize = 200;
/// Bytes of what a client sends at a time; a large paste fits in.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Shells that are tried, one after the other, unless `exec.shells` names others (API-191).
const SHELLS: &str = "bash,sh,powershell,cmd";
/// Shells that are tried at most.
const SHELLS_MAX: usize = 16;
/// The call that a terminal is closest to: records name the method of whoever did something.
const LIKE: &str = "/application.ApplicationService/PodLogs";

/// Whether there are terminals at all.
pub(super) fn is_enabled(world: &World) -> bool {
    world.setting("exec.enabled") == "true"
}

/// What answers those who want a terminal.
#[derive(Clone)]
pub struct Terminals {
    parts: Arc<Parts>,
    cookies: Cookies,
    places: Places,
    tracker: TaskTracker,
    stopping: CancellationToken,
}

impl std::fmt::Debug for Terminals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Terminals")
    }
}

impl Services {
    /// Terminals over what the services know; they end with `stopping`.
    pub fn terminals(
        &self,
        cookies: Cookies,
        tracker: &TaskTracker,
        stopping: &CancellationToken,
    ) -> Terminals {
        Terminals {
            parts: Arc::clone(&self.parts),
            cookies,
            places: Places::of(TERMINALS_MAX),
            tracker: tracker.clone(),
            stopping: stopping.clone(),
        }
    }
}

/// Which container of which application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    pod: String,
    container: String,
    app: String,
    app_namespace: String,
    project: String,
    namespace: String,
    shell: String,
}

impl Wanted {
    /// Reads a query; everything in it is a name of Kubernetes afterwards, but for the shell.
    fn read(query: &str, own_namespace: &str) -> Result<Self, Refused> {
        let mut wanted = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let member = match &*name {
                "pod" => &mut wanted.pod,
                "container" => &mut wanted.container,
                "appName" => &mut wanted.app,
                "appNamespace" => &mut wanted.app_namespace,
                "projectName" => &mut wanted.project,
                "namespace" => &mut wanted.namespace,
                "shell" => &mut wanted.shell,
                _ => continue,
            };
            *member = value.into_owned();
        }
        let needed = [&wanted.pod, &wanted.container, &wanted.app, &wanted.project, &wanted.namespace];
        if needed.iter().any(|value| value.is_empty()) {
            return Err(Refused::new(StatusCode::BAD_REQUEST, "Missing required parameters"));
        }
        if wanted.app_namespace.is_empty() {
            own_namespace.clone_into(&mut wanted.app_namespace);
        }
        let named = [
            ("pod", &wanted.pod),
            ("container", &wanted.container),
            ("appName", &wanted.app),
            ("appNamespace", &wanted.app_namespace),
            ("projectName", &wanted.project),
            ("namespace", &wanted.namespace),
        ];
        match named.iter().find(|(_, value)| !is_resource_name(value)) {
            Some((name, _)) => {
                Err(Refused::new(StatusCode::BAD_REQUEST, format!("{name} is not a valid name")))
            }
            None => Ok(wanted),
        }
    }

    fn key(&self) -> AppKey {
        AppKey::new(&self.app_namespace, &self.app)
    }

    fn query(&self, shell: &str) -> ExecQuery {
        ExecQuery {
            namespace: self.namespace.clone(),
            pod: self.pod.clone(),
            container: self.container.clone(),
            command: vec![shell.to_owned()],
        }
    }
}

/// The shells to try (API-191): the one that is asked for, where the setting has it.
fn shells(setting: &str, asked: &str) -> Vec<String> {
    let setting = if setting.trim().is_empty() { SHELLS } else { setting };
    let known = setting.split(',').map(str::trim).filter(|shell| !shell.is_empty());
    let known: Vec<String> = known.take(SHELLS_MAX).map(str::to_owned).collect();
    match known.iter().find(|shell| *shell == asked) {
        Some(shell) => vec![shell.clone()],
        None => known,
    }
}

/// Whether somebody may still type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// They may.
    Good,
    /// They may no longer (API-193).
    Denied,
    /// Their token is another, or does not count.
    Over,
}

/// Somebody who has a terminal, and is asked for again and again.
struct Holder {
    parts: Arc<Parts>,
    owned: Owned,
    /// The application, in the words of the policy.
    object: String,
    live: Arc<dyn Live>,
    wanted: Wanted,
}

impl Holder {
    async fn standing(&self) -> Standing {
        match self.owned.check().await {
            Ok(_) if self.owned.is_due() => Standing::Over,
            Ok(standing::Standing::Same) => Standing::Good,
            Ok(standing::Standing::Anew) if self.may().await => Standing::Good,
            Ok(standing::Standing::Anew) => Standing::Denied,
            Err(_over) => Standing::Over,
        }
    }

    /// Checks the rights to the terminal, the application's project, and that the pod still belongs to the application.
    async fn may(&self) -> bool {
        let has_rights = self
            .owned
            .within(|context| find(context, &self.wanted).is_ok() && may(context, &self.object).is_ok());
        let pod = ResourceKey::new("", "Pod", &self.wanted.namespace, &self.wanted.pod);
        // An unavailable cluster does not end the terminal.
        has_rights && !matches!(self.live.has(&self.wanted.key(), &pod).await, Ok(false))
    }
}

/// Checks that the application exists in the requested project. In another project it is missing (SEC-25).
fn find(context: &Context<'_>, wanted: &Wanted) -> Result<(), Refused> {
    let entry = context.parts.catalog.look_up(&wanted.key());
    let entry = entry.map_err(|error| Refused::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
    let is_there = entry.is_some_and(|entry| entry.project == wanted.project.as_str());
    if is_there { Ok(()) } else { Err(Refused::new(StatusCode::NOT_FOUND, "App not found")) }
}

/// Asks for both rights that a terminal needs.
fn may(context: &Context<'_>, object: &str) -> Result<(), Refused> {
    for (resource, action) in [(Resource::Applications, "get"), (Resource::Exec, "create")] {
        let checked = context.check(resource, action, object);
        checked.map_err(|status| Refused::new(StatusCode::UNAUTHORIZED, status.message))?;
    }
    Ok(())
}

/// No place is free.
fn too_many(full: Full) -> Refused {
    match full {
        Full::Caller => Refused::new(
            StatusCode::TOO_MANY_REQUESTS,
            "this caller has too many terminals; close one, and try again",
        ),
        Full::Process => {
            Refused::new(StatusCode::SERVICE_UNAVAILABLE, "there are too many terminals, try again later")
        }
    }
}

/// A terminal that can begin.
struct Ready {
    holder: Holder,
    shell: Shell,
    accept: String,
    /// A token that takes the place of the one they came with (API-40).
    renewed: Option<Secret<String>>,
    place: Place,
}

impl Terminals {
    /// Adds the path to a front door.
    #[must_use]
    pub fn on(self, front: Front) -> Front {
        front.at("/terminal", Arc::new(move |request| self.clone().serve(request).boxed()))
    }

    async fn serve(self, mut request: Request) -> Response<Body> {
        let upgrade = hyper::upgrade::on(&mut request.http);
        let (head, _unread) = request.http.into_parts();
        let ready = match self.prepare(&head, request.peer).await {
            Ok(ready) => ready,
            Err(refused) => return refused.response(),
        };
        let mut response = socket::switching();
        let headers = response.headers_mut();
        if let Ok(accept) = HeaderValue::from_str(&ready.accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        // A token that is too long for cookies is one that its bearer cannot have had in any.
        if let Some(token) = &ready.renewed
            && self.cookies.set(token.expose(), headers).is_err()
        {
            tracing::warn!("a renewed token is too long for cookies");
        }
        let stopping = self.stopping.clone();
        self.tracker.spawn(async move {
            let upgraded = match upgrade.await {
                Ok(upgraded) => upgraded,
                Err(error) => {
                    tracing::debug!(%error, "a terminal did not begin");
                    return;
                }
            };
            let config = WebSocketConfig::default()
                .max_message_size(Some(MESSAGE_BYTES_MAX))
                .max_frame_size(Some(MESSAGE_BYTES_MAX));
            let socket = TokioIo::new(upgraded);
            let socket = WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await;
            ready.run(socket, &stopping).await;
        });
        response
    }

    /// Asks everything that is asked before there is a terminal, in the order of API-190.
    async fn prepare(&self, head: &Head, peer: std::net::SocketAddr) -> Result<Ready, Refused> {
        let world = self.parts.world.load_full();
        if !is_enabled(&world) {
            return Err(Refused::new(StatusCode::NOT_FOUND, "Not Found"));
        }
        if !socket::is_own_page(&head.headers) {
            return Err(Refused::new(StatusCode::FORBIDDEN, "the page belongs to another site"));
        }
        let Known { identity, token, renewed } = identify(&self.parts, &head.headers).await?;
        let wanted = Wanted::read(head.uri.query().unwrap_or_default(), world.namespace())?;
        let call = as_call(head, peer, LIKE, identity);
        let call =
            call.ok_or_else(|| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "there are no terminals"))?;
        let context = Context::new(&self.parts, call.clone());
        if !context.is_enabled(&wanted.app_namespace) {
            let text = format!("namespace '{}' is not permitted", wanted.app_namespace);
            return Err(Refused::new(StatusCode::FORBIDDEN, text));
        }
        let object =
            application_object(&wanted.project, &wanted.app_namespace, &wanted.app, context.namespace());
        may(&context, &object)?;
        find(&context, &wanted)?;
        let unavailable = |text: &str| Refused::new(StatusCode::SERVICE_UNAVAILABLE, text);
        let no_socket = || Refused::new(StatusCode::BAD_REQUEST, "a WebSocket is needed for a terminal");
        let accept = derive_accept_key(socket::key(head).ok_or_else(no_socket)?.as_bytes());
        let place = self.places.enter(CallerKey::of(&call.identity, peer.ip())).map_err(too_many)?;
        let live = self.parts.live.clone();
        let live = live.ok_or_else(|| unavailable("this process has no controller, which knows clusters"))?;
        let shells = shells(world.setting("exec.shells"), &wanted.shell);
        let shell = Shell::first(&*live, &wanted, shells).await;
        let shell = shell.map_err(|status| Refused::new(StatusCode::BAD_REQUEST, status.message))?;
        let owned = Owned::new(&self.parts, call, token.unwrap_or_default());
        let holder = Holder { parts: Arc::clone(&self.parts), owned, object, live, wanted };
        Ok(Ready { holder, shell, accept, renewed, place })
    }
}

impl Ready {
    /// The terminal from its beginning to its end, both of which are recorded (API-194).
    async fn run<S>(self, socket: WebSocketStream<S>, stopping: &CancellationToken)
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
    {
        let Self { holder, shell, place: _place, .. } = self;
        let wanted = &holder.wanted;
        let of = format!("container {} of pod {}/{}", wanted.container, wanted.namespace, wanted.pod);
        holder.record(&Action::OpenedTerminal(format!("opened a terminal in {of}"))).await;
        let end = talk(socket, &holder, (&*holder.live, wanted), shell, stopping).await;
        tracing::debug!(app = %wanted.app, pod = %wanted.pod, ?end, "a terminal ended");
        holder.record(&Action::ClosedTerminal(format!("closed a terminal in {of}"))).await;
    }
}

impl Holder {
    /// An Event about the application, and a line of the log.
    async fn record(&self, action: &Action) {
        let wanted = &self.wanted;
        let store = self.parts.store.of(&wanted.app_namespace);
        let read = store.get(tiphys_policy::permit::Own::Application, &wanted.app).await;
        match read {
            Ok(Some(object)) => {
                self.owned.within(|context| audit::application(context, &object, action));
            }
            Ok(None) => tracing::info!(audit = true, app = %wanted.app, ?action, "terminal"),
            Err(error) => tracing::warn!(audit = true, app = %wanted.app, ?action, %error, "terminal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "pod=web-0&container=main&appName=web&projectName=shop&namespace=shop";

    #[test]
    fn api_190_every_parameter_is_needed_and_is_a_name() {
        let read = |query: &str| Wanted::read(query, "argocd").map_err(|refused| refused.text);
        let wanted = read(ALL).unwrap();
        assert_eq!((wanted.app_namespace.as_str(), wanted.shell.as_str()), ("argocd", ""));
        assert_eq!(read(&format!("{ALL}&appNamespace=team")).unwrap().app_namespace, "team");
        for name in ["pod", "container", "appName", "projectName", "namespace"] {
            let without = ALL.replace(&format!("{name}="), "x=");
            assert_eq!(read(&without).unwrap_err(), "Missing required parameters", "{name}");
            let error = read(&format!("{ALL}&{name}=..%2Fetc")).unwrap_err();
            assert_eq!(error, format!("{name} is not a valid name"));
        }
        assert!(read(&format!("{ALL}&appNamespace=A")).is_err());
    }

    #[test]
    fn api_191_a_shell_counts_when_the_setting_has_it() {
        assert_eq!(shells("", ""), ["bash", "sh", "powershell", "cmd"]);
        assert_eq!(shells("", "sh"), ["sh"]);
        assert_eq!(shells(" fish, ,zsh", "bash"), ["fish", "zsh"]);
        assert_eq!(shells("", "rm -rf /").len(), 4);
        assert_eq!(shells(&"a,".repeat(1_000), "").len(), SHELLS_MAX);
    }
}
