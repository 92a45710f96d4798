//! Calls over gRPC-web, for what REST would have in its address: a request there is logged by everybody on the way
//! (API-P13..P15).

use reqwest::{Method, StatusCode, header};
use serde_json::{Map, Value};
use tiphys_wire::frame::unescaped;
use tiphys_wire::proto::{Limits, Secrets, decode, encode};
use tiphys_wire::schema;

use super::{ANSWER_TIMEOUT, Api, by_status, of_code};
use crate::failure::Failure;

const CONTENT_TYPE: &str = "application/grpc-web+proto";
/// Bytes before each message: a flag, and how long it is.
const PREFIX: usize = 5;
/// The flag of what stands at the end.
const TRAILERS: u8 = 0x80;

impl Api {
    /// Asks something whose answer is empty.
    pub(crate) async fn call_web(&self, path: &str, message: &Map<String, Value>) -> Result<(), Failure> {
        self.ask_web(path, message).await.map(drop)
    }

    /// Asks something; the answer's message.
    pub(crate) async fn ask_web(&self, path: &str, message: &Map<String, Value>) -> Result<Value, Failure> {
        let body = framed(path, message)?;
        let url = self.base.join(path.trim_start_matches('/'));
        let url = url.map_err(|error| Failure::generic(error.to_string()))?;
        let request = self.request(Method::POST, url).timeout(ANSWER_TIMEOUT);
        let request = request.header(header::CONTENT_TYPE, CONTENT_TYPE).header("x-grpc-web", "1").body(body);
        let answer = request.send().await.map_err(|error| self.unreached(error))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let bytes = self.read(answer).await?;
        if status != StatusCode::OK {
            return Err(of_code(by_status(status), &format!("POST {path}: {status}")));
        }
        let named = |name: &str| headers.get(name).map(|value| value.as_bytes().to_vec());
        let told = match named("grpc-status") {
            Some(code) => Some((code, named("grpc-message").unwrap_or_default())),
            None => trailers(&bytes),
        };
        let odd = || {
            Failure::status("Internal", format!("{} did not answer in the form of gRPC-web", self.address))
        };
        let (code, text) = told.ok_or_else(odd)?;
        outcome(&code, &text)?;
        answered(path, &bytes).ok_or_else(odd)
    }
}

/// The one message of a call, with its prefix.
fn framed(path: &str, message: &Map<String, Value>) -> Result<Vec<u8>, Failure> {
    let schema = schema();
    let failed = |why: &dyn std::fmt::Display| Failure::generic(format!("{path} cannot be asked: {why}"));
    let method = schema.method_at(path).ok_or_else(|| failed(&"there is no such call"))?;
    let bytes = encode(schema, schema.method(method).request, &Value::Object(message.clone()), Secrets::Kept)
        .map_err(|misfit| failed(&misfit))?;
    let length = u32::try_from(bytes.len()).map_err(|_too_long| failed(&"the message is too long"))?;
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(bytes);
    Ok(framed)
}

/// The first frame of a body: its flag, what it holds, and what is behind it.
fn frame(body: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (prefix, rest) = body.split_at_checked(PREFIX)?;
    let [flag, length @ ..] = <[u8; PREFIX]>::try_from(prefix).ok()?;
    let length = usize::try_from(u32::from_be_bytes(length)).ok()?;
    let (frame, rest) = rest.split_at_checked(length)?;
    Some((flag, frame, rest))
}

/// The message of an answer. Nothing stands for one in which nothing is set.
fn answered(path: &str, body: &[u8]) -> Option<Value> {
    let message = match frame(body) {
        Some((flag, message, _)) if flag & TRAILERS == 0 => message,
        _ => &[],
    };
    let schema = schema();
    let answer = schema.method(schema.method_at(path)?).response;
    decode(schema, answer, message, Limits::default()).ok()
}

/// Status and message at the end of a body.
fn trailers(mut body: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    loop {
        let (flag, frame, rest) = frame(body)?;
        if flag & TRAILERS == 0 {
            body = rest;
            continue;
        }
        let lines = std::str::from_utf8(frame).ok()?.lines();
        let pairs: Vec<_> = lines.filter_map(|line| line.split_once(':')).collect();
        let named = |name: &str| {
            let found = pairs.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.trim().as_bytes().to_vec())
        };
        return Some((named("grpc-status")?, named("grpc-message").unwrap_or_default()));
    }
}

/// What a status means.
fn outcome(code: &[u8], text: &[u8]) -> Result<(), Failure> {
    let number = std::str::from_utf8(code).ok().and_then(|code| code.parse::<usize>().ok());
    match number {
        Some(0) => Ok(()),
        number => {
            let code = number.and_then(|number| super::CODES.get(number)).unwrap_or(&"Unknown");
            Err(of_code(code, &unescaped(text)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const VALIDATE: &str = "/repository.RepositoryService/ValidateAccess";
    const CAN_I: &str = "/account.AccountService/CanI";

    /// An answer that says yes, before what ends it.
    fn yes(end: &[u8]) -> Vec<u8> {
        [b"\x00\x00\x00\x00\x05\x0a\x03yes", end].concat()
    }

    #[test]
    fn api_p13_a_message_has_a_prefix_and_its_secrets() {
        let message = json!({"repo": "r", "password": "p", "nosuch": 1});
        let framed = framed(VALIDATE, message.as_object().unwrap()).unwrap();
        assert_eq!(framed, b"\x00\x00\x00\x00\x06\x0a\x01r\x1a\x01p");
    }

    #[test]
    fn api_p14_the_status_stands_at_the_end() {
        let mut body = b"\x00\x00\x00\x00\x01x\x80\x00\x00\x00\x29".to_vec();
        body.extend(b"grpc-status: 7\r\ngrpc-message: may%20not\r\n");
        let (code, text) = trailers(&body).unwrap();
        let failure = outcome(&code, &text).unwrap_err();
        assert_eq!(answered(CAN_I, &yes(&body[6..])), Some(json!({"value": "yes"})));
        assert_eq!(answered(CAN_I, &body[6..]), Some(json!({})));
        assert_eq!(failure.message, "rpc error: code = PermissionDenied desc = may not");
        assert!(outcome(b"0", b"").is_ok());
        for cut in [&body[..8], &body[..20], b""] {
            assert!(trailers(cut).is_none());
        }
    }
}
