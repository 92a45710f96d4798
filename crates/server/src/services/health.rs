//! Whether the server works, as load balancers and clients of gRPC ask (API-P12). Whoever asks is logged in, as for any
//! other call (API-30); `/healthz` asks nobody.

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_wire::schema;
use tiphys_wire::status::Code;

use super::context::Context;
use super::standing::{Owned, RECHECK_INTERVAL};
use super::watching::{Watch, reply};
use super::{request, unimplemented};
use crate::call::{Message, Reply, Status};

const SERVING: i32 = 1;
const NOT_SERVING: i32 = 2;
const SERVICE_UNKNOWN: i32 = 3;

/// `HealthCheckRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    service: String,
}

pub(super) fn call(context: &Context<'_>, method: &str, message: Value) -> Result<Reply, Status> {
    let asked: Asked = request::read(message)?;
    match method {
        "Check" => match status(context, &asked.service) {
            SERVICE_UNKNOWN => Err(Status::new(Code::NotFound, "unknown service")),
            status => Ok(Reply::value(json!({"status": status}))),
        },
        "Watch" => Ok(reply(Watching { owned: context.owned(), asked, told: None })),
        _ => Err(unimplemented(method)),
    }
}

/// The whole server, or one service of it: they work together or not at all.
fn status(context: &Context<'_>, service: &str) -> i32 {
    if !service.is_empty() && !schema().services().iter().any(|it| it.full == service) {
        return SERVICE_UNKNOWN;
    }
    if context.parts.catalog.is_complete() { SERVING } else { NOT_SERVING }
}

struct Watching {
    owned: Owned,
    asked: Asked,
    told: Option<i32>,
}

impl Watch for Watching {
    async fn next(&mut self) -> Option<Result<Message, Status>> {
        loop {
            if let Err(status) = self.owned.check().await {
                return Some(Err(status));
            }
            let status = self.owned.within(|context| status(context, &self.asked.service));
            if self.told.replace(status) != Some(status) {
                return Some(Ok(Message::new(json!({"status": status}))));
            }
            tokio::time::sleep(RECHECK_INTERVAL).await;
        }
    }
}
