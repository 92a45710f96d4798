//! Which servers are believed, and through what they are asked (ASET-59).

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use tiphys_scm::{Credentials, ScmError, ScmOptions};
use tokio_rustls::TlsAcceptor;

use crate::double::{Double, ok, options, repositories_with, status};

/// An authority in PEM, and a server that it vouches for.
fn authority() -> (String, TlsAcceptor) {
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().unwrap();
    let pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let server =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
        .unwrap();
    (pem, TlsAcceptor::from(Arc::new(config)))
}

#[tokio::test]
async fn aset_59_certificates_are_trusted_in_addition() {
    let (pem, tls) = authority();
    let server = Double::listen(|_| ok(json!([])).with("x-total-count", "0"), Some(tls)).await;
    let gitea = json!({"gitea": {"owner": "acme", "api": server.url}});
    let none = Credentials::default();
    let error = repositories_with(options(), &gitea, &none).await.unwrap_err();
    assert!(matches!(error, ScmError::Unreachable { .. }), "nobody vouches for it: {error}");
    let root = ScmOptions { root_ca: Some(pem.clone()), ..options() };
    assert_eq!(repositories_with(root, &gitea, &none).await, Ok(Vec::new()));
    let insecure = json!({"gitea": {"owner": "acme", "api": server.url, "insecure": true}});
    assert_eq!(repositories_with(options(), &insecure, &none).await, Ok(Vec::new()));

    let gitlab =
        json!({"gitlab": {"group": "g", "api": server.url, "caRef": {"configMapName": "c", "key": "k"}}});
    let own = Credentials { ca: Some(pem.clone()), ..Credentials::default() };
    assert_eq!(repositories_with(options(), &gitlab, &own).await, Ok(Vec::new()));
    for wrong in ["", "nothing", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"] {
        let own = Credentials { ca: Some(wrong.to_owned()), ..Credentials::default() };
        let error = repositories_with(options(), &gitlab, &own).await.unwrap_err();
        assert!(matches!(error, ScmError::Credentials(_)), "{error}");
    }
    let error = repositories_with(options(), &gitlab, &none).await.unwrap_err();
    assert_eq!(error, ScmError::Credentials("the certificate of caRef was not read".to_owned()));
}

#[tokio::test]
async fn aset_59_the_proxy_of_providers() {
    let proxy = Double::start(|asked| {
        if asked.target.starts_with("http://git.example/api/v1/orgs/acme/repos") {
            ok(json!([]))
        } else {
            status(500)
        }
    })
    .await;
    let server = Double::start(|_| ok(json!([]))).await;
    let through =
        ScmOptions { proxy: proxy.url.clone(), no_proxy: "127.0.0.1,other.example".to_owned(), ..options() };
    let none = Credentials::default();
    let far = json!({"gitea": {"owner": "acme", "api": "http://git.example"}});
    assert_eq!(repositories_with(through.clone(), &far, &none).await, Ok(Vec::new()));
    let near = json!({"gitea": {"owner": "acme", "api": server.url}});
    assert_eq!(repositories_with(through, &near, &none).await, Ok(Vec::new()));
    assert_eq!((proxy.asked().len(), server.asked().len()), (1, 1));
    let wrong = ScmOptions { proxy: "::".to_owned(), ..options() };
    assert!(matches!(repositories_with(wrong, &near, &none).await, Err(ScmError::Block(_))));
}

#[tokio::test]
async fn aset_58_repositories_of_bitbucket_come_through_a_proxy_too() {
    // Its address is fixed, and asked for by TLS: the proxy is told to connect.
    let proxy = Double::start(|_| status(502)).await;
    let through = ScmOptions { proxy: proxy.url.clone(), ..options() };
    let block =
        json!({"bitbucket": {"owner": "o", "user": "u", "appPasswordRef": {"secretName": "s", "key": "k"}}});
    let error = repositories_with(through, &block, &crate::double::password("p")).await.unwrap_err();
    assert!(matches!(error, ScmError::Unreachable { .. }), "{error}");
    let asked = proxy.asked();
    assert_eq!(asked.first().map(|asked| asked.target.as_str()), Some("api.bitbucket.org:443"));
    assert!(!asked.first().unwrap().headers.contains_key("authorization"));
}
