//! Plugins of a request: answers that it gives, or a service on this machine (EVAL section 11).

use super::environment::Environment;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tiphys_api::names::SECRET;
use tiphys_appset::facts::{Answer, NoAnswer, PluginQuestion};
use tiphys_appset::generate::{
    PLUGIN_USER_AGENT, PluginConfig, PluginError, TokenReference, plugin_body, plugin_parameters, plugin_url,
};
use tiphys_appset::params::Params;
use tiphys_appset::references::{Found, Purpose, project_of};

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 32 << 20;

pub(super) fn ask(environment: &Environment, question: &PluginQuestion) -> Answer<Arc<[Params]>> {
    let said = |error: PluginError| NoAnswer::failed(error.to_string());
    let reference = environment.reference(Purpose::PluginConfig, &question.config_map);
    let config_map = environment.described(&question.access, &reference)?;
    if let Some(answers) = environment.plugins.get(&question.config_map).and_then(Value::as_array) {
        let asked = Value::Object(question.parameters.clone());
        let fits = |answer: &&Value| answer.get("match").is_none_or(|wanted| *wanted == asked);
        let Some(answer) = answers.iter().find(fits) else {
            return Err(NoAnswer::failed(format!("plugins.{}: no answer matches", question.config_map)));
        };
        let status =
            answer.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
        let body = match answer.get("body") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(body) => body.to_string(),
        };
        return plugin_parameters(status.unwrap_or(200), body.as_bytes()).map(Into::into).map_err(said);
    }
    let missing = || question.access.refusal(&reference, Found::Missing).unwrap_or_default();
    let config_map = config_map.ok_or_else(|| NoAnswer::Failed(missing()))?;
    let config = PluginConfig::read(&config_map).map_err(said)?;
    let token = token(environment, question, (&config.token, project_of(&config_map)))?;
    let url = plugin_url(&config.base_url);
    let Some(place) = loopback(&url) else {
        return Err(
            environment.need_network(&format!("the plugin {:?} is not on this machine", question.config_map))
        );
    };
    let (status, body) = call(&place, &token, plugin_body(question), config.timeout).map_err(|why| {
        NoAnswer::failed(format!("error calling the plugin {:?}: {why}", question.config_map))
    })?;
    plugin_parameters(status, &body).map(Into::into).map_err(said)
}

fn token(
    environment: &Environment,
    question: &PluginQuestion,
    (token, config_project): (&TokenReference, &str),
) -> Answer<String> {
    let (secret, key) = match token {
        TokenReference::Own { key } => (SECRET, key),
        TokenReference::Of { secret, key } => (secret.as_str(), key),
    };
    let found = if secret == SECRET {
        if let Some(refusal) = question.access.own_key_refusal(key, config_project) {
            return Err(NoAnswer::Failed(refusal));
        }
        let value = environment.secrets.get(secret).and_then(|data| data.get(key)).and_then(Value::as_str);
        value.map(str::to_owned)
    } else {
        let reference = environment.reference(Purpose::PluginToken, secret);
        environment.described(&question.access, &reference)?.and_then(|data| data.get(key).cloned())
    };
    found.ok_or_else(|| NoAnswer::failed(format!("key {key:?} not found in Secret {secret:?}")))
}

/// Where a service on this machine is.
struct Place {
    address: IpAddr,
    port: u16,
    authority: String,
    path: String,
}

/// Reads an `http` URL of a loopback address; nothing is looked up (EVAL-5).
fn loopback(url: &str) -> Option<Place> {
    let uri: hyper::Uri = url.parse().ok()?;
    if uri.scheme_str() != Some("http") {
        return None;
    }
    let host = uri.host()?.trim_matches(['[', ']']);
    let address = match host {
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        literal => literal.parse().ok().filter(IpAddr::is_loopback)?,
    };
    Some(Place {
        address,
        port: uri.port_u16().unwrap_or(80),
        authority: uri.authority()?.as_str().rsplit('@').next()?.to_owned(),
        path: uri.path_and_query()?.to_string(),
    })
}

fn call(place: &Place, token: &str, body: String, timeout: Duration) -> Result<(u16, Bytes), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let answer =
        runtime.block_on(async { tokio::time::timeout(timeout, exchange(place, token, body)).await });
    answer.map_err(|_elapsed| "timeout".to_owned())?
}

async fn exchange(place: &Place, token: &str, body: String) -> Result<(u16, Bytes), String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let stream = tokio::net::TcpStream::connect((place.address, place.port)).await.map_err(|e| text(&e))?;
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.map_err(|e| text(&e))?;
    let request = hyper::Request::post(&place.path)
        .header(HOST, &place.authority)
        .header(CONTENT_TYPE, "application/json")
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header(USER_AGENT, PLUGIN_USER_AGENT)
        .body(Full::new(Bytes::from(body)))
        .map_err(|e| text(&e))?;
    let exchange = async move {
        let response = sender.send_request(request).await.map_err(|e| text(&e))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok((status, body.map_err(|e| e.to_string())?.to_bytes()))
    };
    let connection = async move {
        // The exchange says what went wrong.
        let _ended = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        answer = exchange => answer,
        () = connection => Err("the connection ended".to_owned()),
    }
}
