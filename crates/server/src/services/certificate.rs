//! Whom the installation trusts: certificates and host keys (API-178, API-179), and keys of those who sign (API-180).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::trust::{HostPattern, KnownHost, KnownHosts};
use tiphys_service::certificate::{CertificateError, CertificateType, Certificates, Filter, Item};
use tiphys_service::gpg_key::{GpgKeys, shown};
use tiphys_service::{Caller, Error};
use tiphys_wire::status::Code;

use super::context::Context;
use super::{request, unimplemented};
use crate::call::{Reply, Status};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Query {
    host_name_pattern: String,
    cert_type: String,
    cert_sub_type: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Create {
    certificates: Option<Certs>,
    upsert: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Certs {
    items: Vec<Cert>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the fields of the message")]
struct Cert {
    server_name: String,
    cert_type: String,
    cert_sub_type: String,
    cert_data: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyQuery {
    #[serde(rename = "keyID")]
    key_id: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct KeyData {
    key_data: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CreateKey {
    publickey: Option<KeyData>,
    upsert: bool,
}

pub(super) async fn call(context: &Context<'_>, method: &str, message: Value) -> Result<Reply, Status> {
    let asks = context.asks();
    let calls = Certificates::new(&context.parts.store, Caller::asking(&asks));
    let items = match method {
        "ListCertificates" => calls.list(&filter(request::read(message)?)?).await?,
        "CreateCertificate" => create(&calls, request::read(message)?).await?,
        "DeleteCertificate" => calls.delete(&filter(request::read(message)?)?).await?,
        _ => return Err(unimplemented(method)),
    };
    let items: Vec<Value> = items.iter().map(Item::to_value).collect();
    Ok(Reply::value(json!({"metadata": {}, "items": items})))
}

fn failed(error: CertificateError) -> Status {
    Error::from(error).into()
}

fn filter(query: Query) -> Result<Filter, Status> {
    Ok(Filter {
        host: HostPattern::new(&query.host_name_pattern),
        kind: CertificateType::read(&query.cert_type).map_err(failed)?,
        sub_type: query.cert_sub_type,
    })
}

/// Stores what was sent, each kind in its place; the first that cannot be stored ends it.
async fn create(calls: &Certificates<'_>, asked: Create) -> Result<Vec<Item>, Status> {
    let (mut made, mut keys) = (Vec::new(), Vec::new());
    for cert in asked.certificates.unwrap_or_default().items {
        let text = text_of(&cert.cert_data)?;
        match CertificateType::read(&cert.cert_type).map_err(failed)? {
            Some(CertificateType::Ssh) => keys.push(host_key(&cert, &text)?),
            Some(CertificateType::Https) => {
                made.extend(calls.create_tls(&cert.server_name, &text, asked.upsert).await?);
            }
            None => return Err(failed(CertificateError::UnknownType(cert.cert_type))),
        }
    }
    if !keys.is_empty() {
        made.extend(calls.create_ssh(&keys, asked.upsert).await?);
    }
    Ok(made)
}

/// The data of a request: bytes, which JSON has in base64.
fn text_of(data: &str) -> Result<String, Status> {
    let bytes = STANDARD.decode(data);
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Status::invalid("certData is no text in base64"))
}

/// A host key as clients send it: the kind stands beside the data, or before it as in a file.
fn host_key(cert: &Cert, text: &str) -> Result<KnownHost, Status> {
    let data = text.trim();
    let line = if data.contains(' ') {
        format!("{} {data}", cert.server_name)
    } else {
        format!("{} {} {data}", cert.server_name, cert.cert_sub_type)
    };
    let entry = KnownHosts::read(&line).entries().next().cloned();
    entry.ok_or_else(|| Status::invalid(format!("invalid SSH host key for {}", cert.server_name)))
}

/// Keys of those who sign.
pub(super) async fn keys(context: &Context<'_>, method: &str, message: Value) -> Result<Reply, Status> {
    let asks = context.asks();
    let calls = GpgKeys::new(&context.parts.store, Caller::asking(&asks));
    let answer = match method {
        "List" => {
            let keyring = calls.list().await?;
            json!({"metadata": {}, "items": keyring.keys().map(|key| shown(key, false)).collect::<Vec<_>>()})
        }
        "Get" => {
            let KeyQuery { key_id } = request::read(message)?;
            shown(&calls.get(&key_id).await?, true)
        }
        "Create" => {
            let asked: CreateKey = request::read(message)?;
            if asked.upsert {
                tracing::debug!("a key that is there is the same: upsert changes nothing (API-180)");
            }
            let text = asked.publickey.unwrap_or_default().key_data;
            if text.trim().is_empty() {
                return Err(Status::new(Code::InvalidArgument, "Submitted key data is empty"));
            }
            let added = calls.add(&text).await?;
            let keyring = calls.list().await?;
            let made = keyring.keys().filter(|key| added.created.iter().any(|id| id == key.key_id()));
            let items: Vec<Value> = made.map(|key| shown(key, false)).collect();
            json!({"created": {"metadata": {}, "items": items}, "skipped": added.skipped})
        }
        "Delete" => {
            let KeyQuery { key_id } = request::read(message)?;
            calls.delete(&key_id).await?;
            json!({})
        }
        _ => return Err(unimplemented(method)),
    };
    Ok(Reply::value(answer))
}
