//! Which questions are asked of plugins, and how often.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tiphys_plugin::PluginOptions;
use tiphys_plugin::message::Flags;
use tiphys_render::plugins::{PluginCall, PluginChoice};
use tiphys_render::{MemoryTree, Tree};

use crate::doubles::{Way, listen};
use crate::support::{Bench, call, named, text, tree};

/// RND-129: one message of metadata, then pieces, and a digest that holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_129_files_arrive_in_pieces_with_a_digest_that_holds() {
    for (chunk_bytes, expected) in [(100, 100), (1024, 1024)] {
        let bench = Bench::with(PluginOptions { chunk_bytes, ..PluginOptions::default() });
        let seen = listen(&bench.sockets().join("p.sock"), Flags::default(), Way::Well);
        let noise: String = (0..20_000_u32)
            .map(|at| char::from(b'a' + (at.wrapping_mul(2_654_435_761) >> 27) as u8))
            .collect();
        let large: Arc<dyn Tree> = Arc::new(MemoryTree::from_files([("apps/a/large", noise)]).unwrap());
        assert!(text(bench.answer_about(&large, &named("p"), false).await).contains("kind: A"));
        let metadata = seen.metadata.lock().unwrap().clone().unwrap();
        assert_eq!((metadata.app_name.as_str(), metadata.app_rel_path.as_str()), ("a", "apps/a"));
        assert_eq!(metadata.env, [("ARGOCD_APP_NAME".to_owned(), "shop".to_owned())]);
        assert_eq!(seen.piece.load(Ordering::SeqCst), expected);
    }
}

/// RND-128: an answer may be as long as messages may be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_128_an_answer_of_30_megabytes_arrives_whole() {
    let bench = Bench::new();
    listen(&bench.sockets().join("p.sock"), Flags::default(), Way::Amply);
    let answer = text(bench.answer(&named("p")).await);
    assert_eq!(answer.matches('x').count(), 30 << 20, "of {} bytes", answer.len());
}

/// RND-128: a server that bounds the age of connections ends the call that is under way, and the next one has a connection
/// of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_128_connections_may_end_with_a_call() {
    let bench = Bench::new();
    let seen = listen(&bench.sockets().join("p.sock"), Flags::default(), Way::Aged);
    for _ in 0..3 {
        assert!(text(bench.answer_about(&tree(), &named("p"), true).await).contains("kind: A"));
    }
    assert_eq!(seen.generated.load(Ordering::SeqCst), 3);
}

/// RND-141, RND-144: the same question is asked once, unless somebody wants it anew, or the plugin was started anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_141_a_question_is_asked_once() {
    let bench = Bench::new();
    let socket = bench.sockets().join("p.sock");
    let seen = listen(&socket, Flags { first: true, second: false }, Way::Well);
    let count = || (seen.matched.load(Ordering::SeqCst), seen.generated.load(Ordering::SeqCst));
    let any = call(PluginChoice::Any);
    for _ in 0..3 {
        bench.answer(&any).await.unwrap();
    }
    assert_eq!(count(), (1, 1));
    bench.answer_about(&tree(), &any, true).await.unwrap();
    assert_eq!(count(), (2, 2));
    let other = PluginCall { environment: Vec::new(), ..any.clone() };
    bench.answer(&other).await.unwrap();
    assert_eq!(count(), (3, 3));
    let changed: Arc<dyn Tree> = Arc::new(MemoryTree::from_files([("apps/a/x", "1")]).unwrap());
    bench.answer_about(&changed, &any, false).await.unwrap();
    assert_eq!(count(), (4, 4));
    let before = bench.plugins.servers().unwrap();
    std::fs::remove_file(&socket).unwrap();
    let again = listen(&socket, Flags::default(), Way::Well);
    assert_ne!(bench.plugins.servers().unwrap(), before);
    bench.answer(&named("p")).await.unwrap();
    assert_eq!(again.generated.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn rnd_133_sockets_alone_are_plugins() {
    let bench = Bench::new();
    std::fs::write(bench.sockets().join("file.sock"), "").unwrap();
    std::fs::create_dir(bench.sockets().join("directory.sock")).unwrap();
    let _one = std::os::unix::net::UnixListener::bind(bench.sockets().join("one.other")).unwrap();
    assert_eq!(bench.plugins.servers(), Ok(Vec::new()));
    let _b = std::os::unix::net::UnixListener::bind(bench.sockets().join("b.sock")).unwrap();
    let _a = std::os::unix::net::UnixListener::bind(bench.sockets().join("a-v1.sock")).unwrap();
    let names: Vec<String> = bench.plugins.servers().unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["a-v1", "b"]);
    let settings = bench.plugins.settings(None, true);
    assert!(settings.was_plugin && !settings.is_unknown && settings.servers.len() == 2);
    // A directory that is none: nobody knows which plugins there are.
    let none = tempfile::NamedTempFile::new().unwrap();
    let options = PluginOptions { sockets: Some(none.path().to_owned()), ..PluginOptions::default() };
    let unknown = tiphys_plugin::Plugins::new(options, bench.folder.path());
    assert!(unknown.settings(None, false).is_unknown && unknown.servers().is_err());
}
