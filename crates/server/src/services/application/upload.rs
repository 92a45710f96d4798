//! Manifests of files that are sent along (API-147).

use std::fmt::Write as _;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_policy::rbac::{Protected as _, Resource};
use tiphys_wire::status::Code;

use super::access;
use super::requests::Named;
use super::resources::live;
use crate::call::{Reply, Status};
use crate::services::context::Context;
use crate::services::request;

/// Bytes of an archive, packed.
const PACKED_BYTES_MAX: usize = 64 << 20;
/// Time until all of it has to be there.
const SEND_TIME_MAX: Duration = Duration::from_mins(5);

/// `ApplicationManifestQueryWithFilesWrapper`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part {
    query: Option<Query>,
    chunk: Option<Chunk>,
}

/// `ApplicationManifestQueryWithFiles`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Query {
    checksum: String,
    #[serde(flatten)]
    named: Named,
}

/// `FileChunk`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk {
    chunk: String,
}

/// Renders what comes. Who may not see the application sends nothing but the question.
pub(in crate::services) async fn manifests_with_files(
    context: &Context<'_>,
    mut parts: BoxStream<'static, Result<Value, Status>>,
) -> Result<Reply, Status> {
    let late = |_elapsed| Status::new(Code::DeadlineExceeded, "the files did not come in time");
    let ends = tokio::time::Instant::now() + SEND_TIME_MAX;
    let first = tokio::time::timeout_at(ends, parts.next()).await.map_err(late)?;
    let first =
        first.ok_or_else(|| Status::invalid("the first message has to be a query; there is none"))??;
    let query = request::read::<Part>(first)?.query;
    let query = query.ok_or_else(|| Status::invalid("the first message has to be a query"))?;
    let found = access::cached(context, "get", &query.named)?;
    let live = live(context)?;
    let owned = context.owned();
    let packed = tokio::time::timeout_at(ends, read(parts)).await.map_err(late)??;
    check(&packed, &query.checksum)?;
    // An upload takes time, and the caller may have lost access.
    owned.check().await?;
    let may_run_programs = owned.within(|context| {
        let found = access::cached(context, "get", &query.named)?;
        let object = found.proof.get().object(context.namespace());
        Ok::<_, Status>(context.may(Resource::Applications, "update", &object))
    })?;
    let manifests = live.manifests_with_files(&found.key, packed.into(), may_run_programs).await?;
    let texts: Vec<String> = manifests.iter().map(Value::to_string).collect();
    Ok(Reply::value(json!({"manifests": texts})))
}

/// All chunks in one.
async fn read(mut parts: BoxStream<'static, Result<Value, Status>>) -> Result<Vec<u8>, Status> {
    let mut packed = Vec::new();
    while let Some(part) = parts.next().await {
        let chunk = request::read::<Part>(part?)?.chunk;
        let chunk = chunk.ok_or_else(|| Status::invalid("messages after the query have to be chunks"))?;
        let bytes = STANDARD.decode(chunk.chunk).map_err(|_odd| Status::invalid("a chunk cannot be read"))?;
        if bytes.is_empty() {
            return Err(Status::invalid("a chunk is empty"));
        }
        if packed.len() + bytes.len() > PACKED_BYTES_MAX {
            let text = format!("the files have more than {PACKED_BYTES_MAX} bytes, packed; send fewer");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        packed.extend_from_slice(&bytes);
    }
    Ok(packed)
}

/// Whether what came is what was meant.
fn check(packed: &[u8], checksum: &str) -> Result<(), Status> {
    let mut found = String::with_capacity(64);
    for byte in digest(&SHA256, packed).as_ref() {
        // Writing to a text cannot fail.
        let _written = write!(found, "{byte:02x}");
    }
    if found.eq_ignore_ascii_case(checksum) {
        return Ok(());
    }
    let checksum = tiphys_api::printable::line(checksum);
    Err(Status::invalid(format!("the checksum of the files is {found}, the query says {checksum:?}")))
}
