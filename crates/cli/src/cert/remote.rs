//! Certificates and host keys by way of an API server (API-178, API-179).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use tiphys_api::trust::KnownHost;
use tiphys_service::Error;
use tiphys_service::certificate::{CertificateType, Item};

use super::Meant;
use crate::core::{Remote, items, word};
use crate::failure::Failure;

/// What is meant, in the words of a query.
fn query<'a>(meant: &Meant<'a>) -> [(&'static str, &'a str); 3] {
    let kind = meant.kind.map_or("", CertificateType::as_str);
    [("hostNamePattern", meant.host), ("certType", kind), ("certSubType", meant.sub_type)]
}

fn read(mut answer: Value) -> Result<Vec<Item>, Failure> {
    let read = |item: &Value| Item::read(item).map_err(|error| Failure::from(Error::from(error)));
    items(&mut answer, "items").iter().map(read).collect()
}

/// What is stored, as far as it is meant.
pub(super) async fn list(server: &Remote, meant: &Meant<'_>) -> Result<Vec<Item>, Failure> {
    read(server.api.call(Method::GET, &["certificates"], (&query(meant), None)).await?)
}

/// Removes what is meant; what it was.
pub(super) async fn delete(server: &Remote, meant: &Meant<'_>) -> Result<Vec<Item>, Failure> {
    read(server.api.call(Method::DELETE, &["certificates"], (&query(meant), None)).await?)
}

async fn create(server: &Remote, certificates: &[Value], is_upsert: bool) -> Result<Value, Failure> {
    let (query, body) = ([("upsert", word(is_upsert))], json!({"items": certificates}));
    server.api.call(Method::POST, &["certificates"], (&query, Some(&body))).await
}

/// Stores the certificates that vouch for a server.
pub(super) async fn create_tls(
    server: &Remote,
    (host, text): (&str, &str),
    is_upsert: bool,
) -> Result<(), Failure> {
    create(server, &[entry(host, CertificateType::Https, ("", text))], is_upsert).await.map(drop)
}

/// Stores host keys; how many were not there.
pub(super) async fn create_ssh(
    server: &Remote,
    keys: &[KnownHost],
    is_upsert: bool,
) -> Result<usize, Failure> {
    let entries: Vec<Value> =
        keys.iter().map(|key| entry(&key.host, CertificateType::Ssh, (&key.kind, &key.data))).collect();
    let mut answer = create(server, &entries, is_upsert).await?;
    Ok(items(&mut answer, "items").len())
}

/// A certificate or host key as it is sent.
fn entry(host: &str, kind: CertificateType, (sub_type, text): (&str, &str)) -> Value {
    json!({
        "serverName": host,
        "certType": kind.as_str(),
        "certSubType": sub_type,
        "certData": STANDARD.encode(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_178_certificates_are_meant_and_sent_in_the_words_of_the_call() {
        let meant = Meant { host: "*.h", kind: Some(CertificateType::Ssh), sub_type: "" };
        assert_eq!(query(&meant), [("hostNamePattern", "*.h"), ("certType", "ssh"), ("certSubType", "")]);
        assert_eq!(
            entry("h", CertificateType::Ssh, ("ssh-rsa", "AAAA")),
            json!({"serverName": "h", "certType": "ssh", "certSubType": "ssh-rsa", "certData": "QUFBQQ=="})
        );
        assert!(read(json!({"items": [{"certType": "?"}]})).is_err());
        assert!(read(json!({"items": null})).unwrap().is_empty());
    }
}
