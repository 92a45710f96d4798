//! What notifications there are (API-184). Whoever is logged in may know.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::context::Context;
use super::unimplemented;
use crate::call::{Reply, Status};

pub(super) fn call(context: &Context<'_>, method: &str) -> Result<Reply, Status> {
    let names = &context.world.notifications;
    match method {
        "ListServices" => Ok(list(&names.services)),
        "ListTemplates" => Ok(list(&names.templates)),
        "ListTriggers" => Ok(list(&names.triggers)),
        _ => Err(unimplemented(method)),
    }
}

fn list(names: &BTreeSet<String>) -> Reply {
    let items: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    Reply::value(json!({"items": items}))
}
