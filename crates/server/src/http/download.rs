//! Logs as a file (API-P33).

use bytes::Bytes;
use futures::stream::BoxStream;
use http::{HeaderValue, Response, header};
use hyper::body::Frame;
use serde_json::Value;
use tiphys_wire::schema;
use tiphys_wire::status::Code;
use tokio_util::sync::CancellationToken;

use super::body::{self, Body};
use super::invoke::Ending;
use super::{grpc, is_resource_name};
use crate::call::{Form, Message, Status};

/// The lines of a log, without anything around them.
pub(super) fn response(
    request: &Value,
    stream: BoxStream<'static, Result<Message, Status>>,
    stopping: CancellationToken,
    ending: Ending,
) -> Response<Body> {
    let state = Some((stream, stopping, ending));
    let frames = futures::stream::unfold(state, |state| async move {
        let (mut stream, stopping, mut ending) = state?;
        let item = grpc::next(&mut stream, None, &stopping).await;
        let entry = match item {
            None => {
                ending.with(Code::Ok);
                return None;
            }
            Some(item) => item.and_then(|message| content(&message)),
        };
        match entry {
            // The entry that says that it is the last one has no content.
            Ok((_, true)) => {
                ending.with(Code::Ok);
                None
            }
            Ok((content, false)) => {
                ending.sent();
                Some((Frame::data(Bytes::from(content + "\n")), Some((stream, stopping, ending))))
            }
            Err(status) => {
                ending.with(status.code);
                Some((Frame::data(Bytes::from(status.message)), None))
            }
        }
    });
    let mut response = Response::new(body::frames(frames));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let disposition = format!("attachment;filename=\"{}\"", file_name(request));
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
    response
}

/// What an entry says, and whether it is the last one.
fn content(message: &Message) -> Result<(String, bool), Status> {
    let Some(method) = schema().method_at("/application.ApplicationService/PodLogs") else {
        return Err(Status::internal("there are no logs"));
    };
    let pieces = message.write(schema().method(method), Form::Json)?;
    let entry: Value = serde_json::from_slice(&pieces.concat())
        .map_err(|_unreadable| Status::internal("an entry of the log cannot be read"))?;
    let text = entry.get("content").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok((text, entry.get("last").and_then(Value::as_bool).unwrap_or(false)))
}

/// The name of the file, made of names that are names of Kubernetes, else of nothing that was asked.
fn file_name(request: &Value) -> String {
    let parts = ["namespace", "podName", "container"].map(|key| request.get(key).and_then(Value::as_str));
    match parts {
        [Some(namespace), Some(pod), Some(container)]
            if [namespace, pod, container].into_iter().all(is_resource_name) =>
        {
            format!("{namespace}-{pod}-{container}.log")
        }
        _ => "log.log".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn api_p33_files_are_named_after_what_is_named_properly() {
        let name = |namespace: &str, pod: &str, container: &str| {
            file_name(&json!({"namespace": namespace, "podName": pod, "container": container}))
        };
        assert_eq!(name("shop", "web-0.a", "main"), "shop-web-0.a-main.log");
        for bad in ["", "..", "a/b", "A", "-a", "a-", "a\"b", "a\r\nb", &"a".repeat(254)] {
            assert_eq!(name("shop", bad, "main"), "log.log", "{bad:?}");
        }
        assert_eq!(file_name(&json!({"namespace": "n"})), "log.log");
    }
}
