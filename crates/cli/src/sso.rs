//! Single sign-on of a person at a terminal: a browser is sent to the provider and comes back to a port of this process
//! (CLI-205, CLI-206); and tokens that are renewed (CLI-122).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tiphys_api::secret::Secret;
use tiphys_oidc::config::{ClaimRequest, default_scopes};
use tiphys_oidc::flow::{Authorization, Callback, authorization_url, fragment_page, random_text};
use tiphys_oidc::metadata::ResponseType;
use tiphys_oidc::{Client, Expected, Granted, Metadata, Poll, Provider, Transport};
use tiphys_source::exec::{self, Invocation};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::config_file::{Editor, Found};
use crate::failure::Failure;
use crate::server::{Access, Api};
use crate::session::Session;

/// Letters of a state.
const STATE_CHARS: usize = 24;
/// Time for a person to sign in.
const PERSON_TIMEOUT: Duration = Duration::from_mins(5);
/// Time for the head of a request of the browser.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the program that opens a browser.
const BROWSER_TIMEOUT: Duration = Duration::from_secs(10);
/// Where the browser comes back to.
const PATH: &str = "/auth/callback";
/// The client that Dex knows us as.
const DEX_CLIENT: &str = "argo-cd-cli";
/// Asks for a token that gives further ones.
const OFFLINE: &str = "offline_access";

/// What a server says of its provider (API-181).
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Told {
    url: String,
    oidc_config: Option<Oidc>,
    dex_config: Option<Dex>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Oidc {
    issuer: String,
    #[serde(rename = "clientID")]
    client_id: String,
    #[serde(rename = "cliClientID")]
    cli_client_id: String,
    scopes: Vec<String>,
    #[serde(rename = "idTokenClaims")]
    id_token_claims: BTreeMap<String, ClaimRequest>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Dex {
    connectors: Vec<Value>,
    #[serde(rename = "dexAuthConnectorID")]
    connector_id: String,
}

/// A provider, and what is asked of it.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    issuer: String,
    client_id: String,
    scopes: Vec<String>,
    claims: BTreeMap<String, ClaimRequest>,
    connector_id: String,
}

/// Whom to ask, and for what; `None` without single sign-on.
fn asked(told: Told) -> Option<Asked> {
    let scopes = |given: Vec<String>| if given.is_empty() { default_scopes() } else { given };
    if let Some(oidc) = told.oidc_config.filter(|oidc| !oidc.issuer.is_empty()) {
        let own = Some(oidc.cli_client_id).filter(|id| !id.is_empty());
        return Some(Asked {
            issuer: oidc.issuer,
            client_id: own.unwrap_or(oidc.client_id),
            scopes: scopes(oidc.scopes),
            claims: oidc.id_token_claims,
            connector_id: String::new(),
        });
    }
    let dex = told.dex_config.filter(|dex| !dex.connectors.is_empty())?;
    let mut all = default_scopes();
    all.push("federated:id".to_owned());
    Some(Asked {
        issuer: format!("{}/api/dex", told.url.trim_end_matches('/')),
        client_id: DEX_CLIENT.to_owned(),
        scopes: all,
        claims: BTreeMap::new(),
        connector_id: dex.connector_id,
    })
}

async fn provider(access: &Access) -> Result<(Asked, Provider, Arc<Metadata>), Failure> {
    let api = Api::new(&Access { token: Secret::default(), ..access.clone() })?;
    let told = api.get(&["api", "v1", "settings"], &[]).await?;
    let told: Told = serde_json::from_value(told)
        .map_err(|error| Failure::status("Internal", format!("the settings of the server: {error}")))?;
    let asked = asked(told)
        .ok_or_else(|| Failure::fatal(format!("{} is not configured with SSO", access.entry.server)))?;
    let transport = Transport {
        root_ca: access.roots()?,
        skips_verification: access.entry.insecure,
        ..Transport::default()
    };
    let provider = Provider::new(&asked.issuer, &transport).map_err(|error| failed(&error))?;
    let metadata = provider.metadata().await.map_err(|error| failed(&error))?;
    Ok((asked, provider, metadata))
}

fn failed(error: &dyn std::fmt::Display) -> Failure {
    Failure::generic(error.to_string())
}

/// A random text; the system has to have randomness.
fn chance() -> Result<String, Failure> {
    random_text().ok_or_else(|| Failure::generic("the system gives no randomness"))
}

/// Letters alone.
fn letters() -> Result<String, Failure> {
    let mut text = String::new();
    while text.len() < STATE_CHARS {
        text.extend(chance()?.chars().filter(char::is_ascii_alphabetic));
    }
    text.truncate(STATE_CHARS);
    Ok(text)
}

/// Has a person sign in with a browser.
pub(crate) async fn sign_in(session: &Session<'_>, access: &Access) -> Result<Granted, Failure> {
    let flags = session.flags;
    let port = u16::try_from(flags.int("sso-port"))
        .map_err(|_no_port| Failure::generic(format!("--sso-port {}: is no port", flags.text("sso-port"))))?;
    let (mut asked, provider, metadata) = provider(access).await?;
    if metadata.scopes_supported.iter().any(|scope| scope == OFFLINE)
        && !asked.scopes.iter().any(|s| s == OFFLINE)
    {
        asked.scopes.push(OFFLINE.to_owned());
    }
    if flags.is_on("device") {
        return by_code(session, &asked, &provider).await;
    }
    let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
        Failure::generic(format!("listen on 127.0.0.1:{port}: {}", crate::terminal::io_text(&error)))
            .hint("choose another port with `--sso-port`; the provider has to know it")
    })?;
    let redirect_uri = match flags.text("callback") {
        "" => format!("http://localhost:{port}{PATH}"),
        place => format!("http://{place}{PATH}"),
    };
    let (state, nonce, verifier) = (letters()?, chance()?, chance()?);
    let is_code = metadata.response_type() == ResponseType::Code;
    let url = authorization_url(
        &metadata,
        &Authorization {
            client_id: &asked.client_id,
            redirect_uri: &redirect_uri,
            scopes: &asked.scopes,
            state: &state,
            nonce: &nonce,
            verifier: is_code.then_some(&*verifier),
            id_token_claims: &asked.claims,
            connector_id: &asked.connector_id,
            domain_hint: "",
        },
    )
    .map_err(|error| failed(&error))?;
    let flow = if is_code { "authorization_code" } else { "implicit" };
    session.terminal.line(&format!("Performing {flow} flow login: {url}"));
    let is_opened = flags.is_on("sso-launch-browser") && opened(session, &url).await;
    // Somebody at another machine has no browser that comes back to this one.
    let has_codes = !metadata.device_authorization_endpoint.is_empty();
    if flags.is_on("sso-launch-browser") && !is_opened && has_codes && session.terminal.stdout_is_tty {
        return by_code(session, &asked, &provider).await;
    }
    if !is_opened {
        session.terminal.line(&format!(
            "To authenticate, copy-and-paste the following URL into your preferred browser: {url}"
        ));
    }
    let back = came_back(listener, state);
    let back = tokio::time::timeout(PERSON_TIMEOUT, back).await.map_err(|_elapsed| {
        Failure::generic(format!("nobody signed in within {} minutes", PERSON_TIMEOUT.as_secs() / 60))
    })??;
    let granted = match back {
        Back::Code(code) => {
            let client = Client { id: asked.client_id.clone(), ..Client::default() };
            let how = (redirect_uri.as_str(), Some(&*verifier));
            provider.exchange(&client, &code, how).await.map_err(|error| failed(&error))?
        }
        Back::Token(id_token) => Granted { id_token, ..Granted::default() },
    };
    confirmed(session, &asked, (&provider, Some(&nonce)), granted).await
}

/// Tokens that count: what the provider says of the person is signed by it and for us.
async fn confirmed(
    session: &Session<'_>,
    asked: &Asked,
    (provider, nonce): (&Provider, Option<&str>),
    granted: Granted,
) -> Result<Granted, Failure> {
    let audiences = std::slice::from_ref(&asked.client_id);
    let expected = Expected { issuer: &asked.issuer, audiences, may_lack_audience: false, nonce };
    let now = session.terminal.now().as_second();
    provider.verify(granted.id_token.expose(), &expected, now).await.map_err(|error| failed(&error))?;
    session.terminal.line("Authentication successful");
    Ok(granted)
}

/// Has a person sign in with any browser anywhere, by a code that they enter there (CLI-207).
async fn by_code(session: &Session<'_>, asked: &Asked, provider: &Provider) -> Result<Granted, Failure> {
    let client = Client { id: asked.client_id.clone(), ..Client::default() };
    let mut device = provider.begin_device(&client, &asked.scopes).await.map_err(|error| failed(&error))?;
    let (place, code) = (&device.verification_uri, &device.user_code);
    session.terminal.line(&format!("To authenticate, open {place} in a browser and enter the code {code}"));
    if !device.verification_uri_complete.is_empty() {
        session.terminal.line(&format!("or open {}", device.verification_uri_complete));
    }
    let ends = Instant::now() + device.lifetime;
    let granted = loop {
        match provider.poll_device(&client, &device).await.map_err(|error| failed(&error))? {
            Poll::Granted(granted) => break granted,
            Poll::Pending => {}
            Poll::TooEarly => device = device.slower(),
        }
        if Instant::now() + device.interval > ends {
            return Err(Failure::generic("nobody signed in before the code was over"));
        }
        tokio::time::sleep(device.interval).await;
    };
    confirmed(session, asked, (provider, None), granted).await
}

/// Opens the system's browser; whether that was possible.
async fn opened(session: &Session<'_>, url: &str) -> bool {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let invocation = Invocation {
        program: program.into(),
        arguments: vec![OsString::from(url)],
        environment: session.terminal.env.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        directory: std::env::temp_dir(),
        deadline: BROWSER_TIMEOUT,
        grace: Duration::from_secs(1),
        stdout_bytes_max: 64 << 10,
        limits: exec::Limits::default(),
    };
    session.terminal.line("Opening system default browser for authentication");
    exec::run(invocation).await.is_ok()
}

/// What the browser brought.
enum Back {
    Code(Secret<String>),
    Token(Secret<String>),
}

/// Answers the browser until it comes back with something.
async fn came_back(listener: TcpListener, state: String) -> Result<Back, Failure> {
    let (sender, mut told) = oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let state: Arc<str> = state.into();
    loop {
        let accepted = tokio::select! {
            biased;
            back = &mut told => return back.unwrap_or_else(|_gone| Err(Failure::generic("the login ended"))),
            accepted = listener.accept() => accepted,
        };
        // A connection that fails concerns its browser alone.
        let Ok((stream, _)) = accepted else { continue };
        let (sender, state) = (Arc::clone(&sender), Arc::clone(&state));
        let service = service_fn(move |request: Request<Incoming>| {
            let (answer, back) = answer(&request, &state);
            if let Some(back) = back
                && let Some(sender) = sender.lock().take()
            {
                // Whoever waited has gone otherwise.
                let _told = sender.send(back);
            }
            async move { Ok::<_, Infallible>(answer) }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        drop(tokio::spawn(serving));
    }
}

/// The answer to one request, and what came back with it.
fn answer(
    request: &Request<Incoming>,
    state: &str,
) -> (Response<Full<Bytes>>, Option<Result<Back, Failure>>) {
    if request.uri().path() != PATH {
        return (page(StatusCode::NOT_FOUND, "Not Found\n".to_owned(), None), None);
    }
    let refused = |text: String| {
        (page(StatusCode::BAD_REQUEST, format!("{text}\n"), None), Some(Err(Failure::generic(text))))
    };
    let (token, given) = match Callback::read(request.uri().query().unwrap_or_default()) {
        Callback::Refused(text) => return refused(text),
        Callback::Nothing if request.uri().query().is_none() => {
            let (text, policy) = fragment_page();
            return (page(StatusCode::OK, text, Some(policy)), None);
        }
        Callback::Nothing => return refused("no code in request".to_owned()),
        Callback::Code { code, state } => (Back::Code(code), state),
        Callback::IdToken { token, state } => (Back::Token(token), state),
    };
    if given != state {
        return refused("Unknown nonce: the browser came back from another login".to_owned());
    }
    let text = "<!DOCTYPE html><html><body><p>Authentication successful! You can now return to the terminal.</p></body></html>\n";
    let policy = "default-src 'none'; frame-ancestors 'none'".to_owned();
    (page(StatusCode::OK, text.to_owned(), Some(policy)), Some(Ok(token)))
}

/// A page; one with a policy is HTML.
fn page(status: StatusCode, text: String, policy: Option<String>) -> Response<Full<Bytes>> {
    let kind = if policy.is_some() { "text/html; charset=utf-8" } else { "text/plain; charset=utf-8" };
    let mut response = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    if let Some(policy) = policy {
        response = response.header(header::CONTENT_SECURITY_POLICY, policy);
    }
    response.body(Full::new(Bytes::from(text))).unwrap_or_default()
}

/// Renews the token of a context that is over, where there is one to renew it by (CLI-122). Whoever cannot goes on with
/// the old one, and the server says so.
pub(crate) async fn renew(session: &Session<'_>, access: &mut Access, found: &Found) {
    let claims = crate::login::claims(access.token.expose()).unwrap_or_default();
    let ends = claims.get("exp").and_then(Value::as_i64);
    let is_over = ends.is_some_and(|ends| ends <= session.terminal.now().as_second());
    if !is_over || found.refresh_token.is_empty() || access.token != found.token {
        return;
    }
    let renewed = Box::pin(async {
        let (asked, provider, _) = provider(access).await?;
        let client = Client { id: asked.client_id, ..Client::default() };
        provider.refresh(&client, &found.refresh_token).await.map_err(|error| failed(&error))
    });
    let outcome = renewed.await.and_then(|granted| {
        let mut editor = Editor::open(session.flags.text("config"), session.terminal)?;
        editor.set_tokens(&found.user, (granted.id_token.expose(), granted.refresh_token.expose()));
        editor.save()?;
        Ok(granted.id_token)
    });
    match outcome {
        Ok(token) => access.token = token,
        Err(failure) => session.warn(&format!("the token could not be renewed: {failure}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(told: Value) -> Option<Asked> {
        asked(serde_json::from_value(told).unwrap())
    }

    #[test]
    fn cli_205_the_server_says_whom_to_ask() {
        let oidc = json!({"oidcConfig": {"issuer": "https://sso", "clientID": "cd", "cliClientID": "cli",
            "scopes": ["openid"], "idTokenClaims": {"groups": {"essential": true}}}});
        let found = of(oidc).unwrap();
        assert_eq!((found.client_id.as_str(), &found.scopes[..]), ("cli", &["openid".to_owned()][..]));
        assert!(found.claims["groups"].essential);
        let plain =
            of(json!({"oidcConfig": {"issuer": "https://sso", "clientID": "cd", "scopes": []}})).unwrap();
        assert_eq!((plain.client_id.as_str(), plain.scopes), ("cd", default_scopes()));
        let dex = json!({"url": "https://cd/", "dexConfig": {"connectors": [{"id": "a"}], "dexAuthConnectorID": "a"}});
        let dex = of(dex).unwrap();
        assert_eq!((dex.issuer.as_str(), dex.client_id.as_str()), ("https://cd/api/dex", DEX_CLIENT));
        assert!(dex.scopes.contains(&"federated:id".to_owned()) && dex.connector_id == "a");
        assert_eq!(of(json!({"url": "https://cd", "dexConfig": {"connectors": []}})), None);
        assert_eq!(of(json!({})), None);
    }

    #[test]
    fn cli_205_a_state_is_letters() {
        let (one, other) = (letters().unwrap(), letters().unwrap());
        assert!(one.len() == STATE_CHARS && one.chars().all(|letter| letter.is_ascii_alphabetic()));
        assert_ne!(one, other);
    }
}
