//! Servers that do what they should not.

use std::os::unix::net::UnixListener as StdListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{BufMut as _, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tiphys_plugin::message::{self, Flags, Metadata};
use tiphys_plugin::{PluginError, PluginOptions};
use tiphys_render::plugins::PluginChoice;
use tokio::net::UnixStream;

use crate::doubles::{Way, listen};
use crate::support::{Bench, call, is_empty, named, text};

const PLAIN: Flags = Flags { first: false, second: false };

fn short() -> Bench {
    Bench::with(PluginOptions { timeout: Duration::from_millis(500), ..PluginOptions::default() })
}

/// F22: a plugin that never answers costs its time and no more: the connection ends with the call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f22_a_plugin_that_hangs_is_left() {
    let bench = short();
    let seen = listen(&bench.sockets().join("p.sock"), PLAIN, Way::Hangs);
    let error = bench.answer(&named("p")).await.unwrap_err();
    assert!(matches!(error, PluginError::Timeout { .. }) && error.is_transient(), "{error}");
    // Of the question how it is set up, and of the one for manifests.
    while seen.ended.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(seen.generated.load(Ordering::SeqCst), 1);
    assert!(is_empty(&bench.folder.path().join("packed")));
}

/// A socket behind which somebody accepts and says nothing at all: an error, and no answer of any kind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_1_a_plugin_that_says_nothing_is_no_plugin_that_refuses() {
    let bench = short();
    let _listens = StdListener::bind(bench.sockets().join("p.sock")).unwrap();
    for choice in [PluginChoice::Any, PluginChoice::Perhaps { was_plugin: false }] {
        let error = bench.answer(&call(choice)).await.unwrap_err();
        assert!(matches!(error, PluginError::Timeout { .. }), "{error}");
    }
}

/// RND-146: a plugin that ends in the middle of an answer has answered nothing, and another try may help.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_146_a_plugin_that_dies_while_it_answers_is_tried_again_later() {
    let bench = Bench::new();
    let socket = bench.sockets().join("p.sock");
    listen(&socket, PLAIN, Way::Dies);
    let error = bench.answer(&named("p")).await.unwrap_err();
    assert!(matches!(error, PluginError::Broken { .. }) && error.is_transient(), "{error}");
    std::fs::remove_file(&socket).unwrap();
    listen(&socket, PLAIN, Way::Well);
    assert!(text(bench.answer(&named("p")).await).contains("kind: A"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_07_answers_that_are_no_answers_are_errors() {
    for (way, expected) in [
        (Way::Gigabyte, "error: the plugin \"p\" answers more than 1048576 bytes"),
        (Way::Bomb, "error: the plugin \"p\" answers more than 1048576 bytes"),
        (
            Way::Garbage,
            "error: the plugin \"p\" broke the call: what it answers is not the protocol: unexpected end of message",
        ),
        (Way::Breaks, "error: the plugin \"p\" broke the call: the call ended without an outcome"),
        (Way::Twice, "error: the plugin \"p\" broke the call: more than one answer"),
    ] {
        let bench = Bench::with(PluginOptions { message_bytes_max: 1 << 20, ..PluginOptions::default() });
        let seen = listen(&bench.sockets().join("p.sock"), PLAIN, way);
        assert_eq!(text(bench.answer(&named("p")).await), expected, "{way:?}");
        // A failure is not remembered here.
        let _again = bench.answer(&named("p")).await;
        assert_eq!(seen.generated.load(Ordering::SeqCst), 2, "{way:?}");
    }
}

/// INV-1, RND-133: a socket behind which nobody listens is passed over, unless the source was a plugin's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_1_a_dead_socket_says_nothing_about_a_source_that_was_a_plugins() {
    let bench = Bench::new();
    drop(StdListener::bind(bench.sockets().join("dead.sock")).unwrap());
    let open = |was_plugin| call(PluginChoice::Perhaps { was_plugin });
    assert!(text(bench.answer(&open(false)).await).starts_with("nobody: "));
    let error = bench.answer(&open(true)).await.unwrap_err();
    assert!(matches!(error, PluginError::Unknown(_)) && error.is_transient(), "{error}");
    let error = bench.answer(&named("dead")).await.unwrap_err();
    assert!(matches!(error, PluginError::Dial { .. }), "{error}");
    // With another that takes the source everything is well.
    listen(&bench.sockets().join("live.sock"), Flags { first: true, second: false }, Way::Well);
    assert!(text(bench.answer(&open(true)).await).contains("kind: A"));
    // No plugin at all.
    let empty = Bench::new();
    assert!(matches!(empty.answer(&open(true)).await, Err(PluginError::Unknown(_))));
    assert!(text(empty.answer(&open(false)).await).starts_with("nobody: "));
}

/// What a caller of the server sends that is not what it says.
async fn send(bench: &Bench, name: &str, messages: &[Vec<u8>]) -> (String, String) {
    let stream = UnixStream::connect(bench.sockets().join(format!("{name}.sock"))).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut body = BytesMut::new();
    for message in messages {
        body.put_u8(0);
        body.put_u32(u32::try_from(message.len()).unwrap());
        body.put_slice(message);
    }
    let request = Request::post(format!("http://localhost{}{}", message::SERVICE, message::GENERATE))
        .header("content-type", "application/grpc")
        .body(Full::new(body.freeze()))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let collected = response.into_body().collect().await.unwrap();
    let trailers = collected.trailers().unwrap();
    let text = |name: &str| trailers[name].to_str().unwrap().to_owned();
    (text("grpc-status"), text("grpc-message"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_129_a_wrong_digest_is_refused() {
    let bench = Bench::new();
    bench.serve("p", "{generate: {command: [echo]}}");
    let metadata = |checksum: &str, path: &str| {
        Metadata { checksum: checksum.to_owned(), app_rel_path: path.to_owned(), ..Metadata::default() }
            .encode()
    };
    let piece = |bytes: &[u8]| {
        let mut out = Vec::new();
        message::chunk(&mut out, bytes);
        out
    };
    let digest_of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let (code, text) = send(&bench, "p", &[metadata("00", "."), piece(b"abc")]).await;
    assert_eq!((code.as_str(), text.as_str()), ("2", "file checksum validation error"));
    let (_, text) = send(&bench, "p", &[metadata(digest_of_abc, "."), piece(b"a"), piece(b"bc")]).await;
    assert!(text.starts_with("cannot unpack what was sent"), "{text}");
    for (messages, expected) in [
        (vec![piece(b"abc")], "the first message should be metadata"),
        (vec![metadata("", "."), metadata("", ".")], "metadata came twice"),
        (vec![], "no metadata came"),
        (vec![b"\x0a\xff".to_vec()], "unexpected end of message"),
    ] {
        let (code, text) = send(&bench, "p", &messages).await;
        assert_eq!((code.as_str(), text.as_str()), ("3", expected));
    }
    assert!(is_empty(&bench.work("p")));
}

/// RND-135: what a command printed is a part of the outcome, in one header, which may be long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_135_a_failure_that_says_much_is_told_as_the_plugin_s_own() {
    let bench = Bench::new();
    listen(&bench.sockets().join("p.sock"), PLAIN, Way::Wordy);
    let told = text(bench.answer(&named("p")).await);
    assert!(told.starts_with("error: plugin \"p\": word\nword\n") && told.ends_with('…'), "{told}");
    assert!(told.len() < 10_000, "{}", told.len());
}
