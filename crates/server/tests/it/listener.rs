use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::json;
use tiphys_api::secret::Secret;
use tiphys_server::http::FrontOptions;
use tiphys_server::listen::tls::{TlsError, TlsOptions, TlsVersion};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{Server, answered, call, options};

fn certificate() -> (String, Secret<String>, rustls::pki_types::CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (made.cert.pem(), Secret::new(made.signing_key.serialize_pem()), made.cert.der().clone())
}

/// A client that trusts one certificate and offers protocols.
fn client(
    trusted: rustls::pki_types::CertificateDer<'static>,
    protocols: &[&str],
) -> tokio_rustls::TlsConnector {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
    Arc::new(config).into()
}

#[tokio::test]
async fn api_3_tls_and_plain_text_share_a_port() {
    let (pem, key, der) = certificate();
    let tls = TlsOptions::default().server(&pem, &key).unwrap();
    let server = Server::with(options(), |front| front, Some(tls)).await;
    let connect = async |protocols: &[&str]| {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        client(der.clone(), protocols).connect(name, stream).await.unwrap()
    };
    // HTTP/1.1.
    let stream = connect(&["http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    drop(tokio::spawn(connection));
    let request =
        Request::get("/api/v1/applications").header("host", "localhost").body(Full::new(Bytes::new()));
    let response = sender.send_request(request.unwrap()).await.unwrap();
    assert_eq!(response.collect().await.unwrap().to_bytes(), "abcdef");
    // gRPC.
    let path = "/application.ApplicationService/Get";
    let stream = connect(&["h2"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    drop(tokio::spawn(connection));
    let (mut parts, body) = call(path, "application/grpc", &[json!({"name": "web"})]).into_parts();
    parts.uri = format!("https://localhost{path}").parse().unwrap();
    let response = sender.send_request(Request::from_parts(parts, Full::new(body))).await.unwrap();
    assert_eq!(answered(path, response).await.messages, [json!({"metadata": {"name": "web"}})]);
    // Plain text is sent to TLS, below the path that everything is below.
    let (pem, key, _) = certificate();
    let tls = TlsOptions::default().server(&pem, &key).unwrap();
    let below = FrontOptions { root_path: "argo".to_owned(), ..options() };
    let other = Server::with(below, |front| front, Some(tls)).await;
    let response = other.http1(Request::get("/a?b=c").body(Bytes::new()).unwrap()).await;
    assert_eq!(response.headers()["location"], "https://localhost/argo/a?b=c");
    let request = Request::get("/a?b=c").body(Bytes::new()).unwrap();
    let response = server.http1(request).await;
    assert_eq!(response.status(), 307);
    assert_eq!(response.headers()["location"], "https://localhost/a?b=c");
}

/// CLI-1000: a page elsewhere whose name leads to loopback gets nothing, over either version of HTTP.
#[tokio::test]
async fn cli_1000_foreign_authorities_are_misdirected() {
    let server = Server::start().await;
    let first = async |version: &str, authority: &str| {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let io = TokioIo::new(stream);
        let body = Full::new(Bytes::new());
        if version == "1" {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            drop(tokio::spawn(connection));
            let request = Request::get("/api/v1/applications").header("host", authority).body(body).unwrap();
            return sender.send_request(request).await.unwrap().status().as_u16();
        }
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        drop(tokio::spawn(connection));
        let request = Request::get(format!("http://{authority}/api/v1/applications")).body(body).unwrap();
        sender.send_request(request).await.unwrap().status().as_u16()
    };
    for version in ["1", "2"] {
        assert_eq!(first(version, "localhost:8080").await, 200, "{version}");
        assert_eq!(first(version, "127.0.0.1").await, 200, "{version}");
        assert_eq!(first(version, "evil.example:8080").await, 421, "{version}");
    }
}

#[tokio::test]
async fn tls_on_a_plain_port_is_closed() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&[0x16, 3, 1, 0, 5]).await.unwrap();
    let mut rest = Vec::new();
    // Closed, or reset because of bytes that nobody read.
    drop(stream.read_to_end(&mut rest).await);
    assert_eq!(rest, b"");
}

#[test]
fn api_5_versions_and_ciphers_are_checked() {
    let (pem, key, _) = certificate();
    let options = |min, max, ciphers: &str| TlsOptions {
        version_min: min,
        version_max: max,
        ciphers: ciphers.to_owned(),
    };
    let (v12, v13) = (TlsVersion::V12, TlsVersion::V13);
    assert!(
        options(v12, v13, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
            .check()
            .is_ok()
    );
    assert!(matches!(options(v13, v12, "").check(), Err(TlsError::Order)));
    assert!(matches!(options(v12, v13, "TLS_RSA_WITH_RC4_128_SHA").check(), Err(TlsError::Cipher(_))));
    let list = options(v12, v13, "list").check().unwrap_err().to_string();
    assert!(list.contains("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_"), "{list}");
    assert!(options(v13, v13, "nonsense").check().is_ok(), "ignored where it means nothing");
    assert!(options(v13, v13, "").server(&pem, &key).is_ok());
    for text in ["1.0", "1.1", "", "TLS1.2"] {
        assert!(TlsVersion::parse(text).is_err(), "{text}");
    }
    let broken = TlsOptions::default();
    assert!(matches!(broken.server("", &key), Err(TlsError::Certificate)));
    assert!(matches!(broken.server(&pem, &Secret::new(String::new())), Err(TlsError::Key)));
    let (_, other, _) = certificate();
    assert!(matches!(broken.server(&pem, &other), Err(TlsError::Unusable(_))));
}

#[tokio::test]
async fn malformed_requests_are_refused() {
    let server = Server::start().await;
    let send = async |bytes: &[u8]| {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = vec![0; 12];
        let read =
            tokio::time::timeout(Duration::from_secs(10), stream.read_exact(&mut answer)).await.unwrap();
        if read.is_ok() { String::from_utf8_lossy(&answer).into_owned() } else { String::new() }
    };
    let smuggled = b"POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    let answer = send(smuggled).await;
    assert!(answer.is_empty() || answer == "HTTP/1.1 415" || answer == "HTTP/1.1 400", "{answer}");
    assert_eq!(
        send(b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").await,
        "HTTP/1.1 400"
    );
    assert_eq!(send(b"nonsense\r\n\r\n").await, "HTTP/1.1 400");
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1_000));
    assert_eq!(send(many.as_bytes()).await, "HTTP/1.1 431");
    let long = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(300_000));
    assert_eq!(send(long.as_bytes()).await, "HTTP/1.1 431");
    let path = format!("GET /{} HTTP/1.1\r\n\r\n", "b".repeat(70_000));
    assert_eq!(send(path.as_bytes()).await, "HTTP/1.1 414");
}
