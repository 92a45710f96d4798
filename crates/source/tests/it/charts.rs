//! Chart repositories on the loopback (RND-109..112, F20).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tiphys_api::repository::Reach;
use tiphys_api::settings::ProjectMatching;
use tiphys_render::TreePath;
use tiphys_source::{Freshness, Repository, Secret, SourceError, Sources, Trust};

use crate::web_server::{Reply, WebServer, packed, sha256};
use crate::world::World;

fn chart() -> Vec<u8> {
    packed(&[
        (
            "web/Chart.yaml",
            "name: web\nversion: 1.2.3\ndescription: A web server\nhome: https://web.example\nmaintainers:\n- {name: Ada, email: ada@example.test}\n",
        ),
        ("web/values.yaml", "a: 1\n"),
        ("web/templates/a.yaml", "kind: A\n"),
    ])
}

fn index(url: &str, digest: &str) -> String {
    format!(
        "apiVersion: v1\nentries:\n  web:\n  - name: web\n    version: 1.2.3\n    digest: {digest}\n    urls: [\"{url}\"]\n  \
         - name: web\n    version: 1.0.0\n    urls: [web-1.0.0.tgz]\n"
    )
}

/// A repository with one chart at `/charts`.
async fn plain() -> WebServer {
    WebServer::start(|asked| match asked.path.as_str() {
        "/charts/index.yaml" => {
            if asked.header("if-none-match") == "one" {
                return Reply::of(304, "");
            }
            Reply::of(200, index("web-1.2.3.tgz", &sha256(&chart()))).with("ETag", "one")
        }
        "/charts/web-1.2.3.tgz" => Reply::of(200, chart()),
        _ => Reply::of(404, "secret page"),
    })
    .await
}

async fn values(
    sources: &Sources,
    repository: &Repository,
    version: &str,
    hard: bool,
) -> Result<String, SourceError> {
    let fetched = sources.chart(repository, "web", version, hard).await?;
    let path = TreePath::parse(&format!("{}/values.yaml", fetched.directory)).unwrap();
    Ok(String::from_utf8_lossy(&fetched.tree.read(&path, 100).unwrap()).into_owned())
}

#[tokio::test]
async fn rnd_109_to_112_a_chart_comes_from_its_repository() {
    let world = World::with(&[]).await;
    let server = plain().await;
    let repository = Repository::anonymous(&server.url("/charts/"));
    let resolve = async |revision: &str| {
        world
            .sources
            .resolve_chart(&repository, "web", revision, Freshness::Cached)
            .await
            .map_err(|error| error.to_string())
    };
    assert_eq!(resolve("1.x").await.as_deref(), Ok("1.2.3"));
    assert_eq!(resolve("~1.0").await.as_deref(), Ok("1.0.0"));
    assert_eq!(resolve("9.9.9").await.as_deref(), Ok("9.9.9"), "a version is used unchecked");
    assert_eq!(resolve("").await.unwrap_err(), "targetRevision is required for Helm charts");
    assert!(
        resolve("main")
            .await
            .unwrap_err()
            .starts_with("invalid revision: failed to determine semver constraint: ")
    );
    assert_eq!(
        resolve("2.x").await.unwrap_err(),
        "invalid revision: version matching constraint not found in 2 tags"
    );
    let other = world.sources.resolve_chart(&repository, "other", "1.x", Freshness::Cached).await;
    assert_eq!(other.unwrap_err().to_string(), "chart 'other' not found in index");
    assert_eq!(server.count("/charts/index.yaml"), 1);

    assert_eq!(values(&world.sources, &repository, "1.2.3", false).await.as_deref(), Ok("a: 1\n"));
    assert_eq!(values(&world.sources, &repository, "1.2.3", false).await.as_deref(), Ok("a: 1\n"));
    assert_eq!(server.count("/charts/web-1.2.3.tgz"), 1);
    // Also after a restart, as long as it is not old; a hard refresh fetches it in any case.
    let again = world.restarted(|_| {});
    assert_eq!(values(&again, &repository, "1.2.3", false).await.as_deref(), Ok("a: 1\n"));
    assert_eq!(server.count("/charts/web-1.2.3.tgz"), 1);
    assert_eq!(values(&again, &repository, "1.2.3", true).await.as_deref(), Ok("a: 1\n"));
    assert_eq!(server.count("/charts/web-1.2.3.tgz"), 2);
    let error = values(&world.sources, &repository, "3.0.0", false).await.unwrap_err();
    assert!(error.to_string().contains("chart \"web\" version \"3.0.0\" not found in "), "{error}");

    // An index that did not change is not sent again.
    world.clock.advance(Duration::from_hours(1));
    assert_eq!(resolve("1.x").await.as_deref(), Ok("1.2.3"));
    assert_eq!(
        server.asked().last().map(|asked| asked.header("if-none-match").to_owned()).as_deref(),
        Some("one")
    );
    let details = world.sources.chart_details(&repository, "web", "1.2.3").await.unwrap();
    assert_eq!(
        (details.description.as_str(), details.home.as_str()),
        ("A web server", "https://web.example")
    );
    assert_eq!(details.maintainers, ["Ada <ada@example.test>"]);
}

/// REP-60, RND-112: credentials decide what the cache gives out; SEC-38: errors show none.
#[tokio::test]
async fn rep_61_a_chart_is_for_those_who_may_have_it() {
    let world = World::with(&[]).await;
    let basic = "Basic YWRhOmNhbmFyeQ==";
    let server =
        WebServer::start(move |asked| match (asked.path.as_str(), asked.header("authorization") == basic) {
            (_, false) => Reply::of(401, "canary"),
            ("/index.yaml", true) => Reply::of(200, index("web-1.2.3.tgz", "")),
            ("/web-1.2.3.tgz", true) => Reply::of(200, chart()),
            _ => Reply::of(404, ""),
        })
        .await;
    let right = Repository {
        username: "ada".to_owned(),
        password: Secret::from("canary"),
        ..Repository::anonymous(&server.url(""))
    };
    assert!(values(&world.sources, &right, "1.2.3", false).await.is_ok());
    for repository in [
        Repository::anonymous(&server.url("")),
        Repository { password: Secret::from("canary2"), ..right.clone() },
    ] {
        let error = values(&world.sources, &repository, "1.2.3", false).await.unwrap_err();
        assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
        assert!(!error.to_string().contains("canary"), "{error}");
    }
    let inside = Repository::anonymous(&server.url("").replace("http://", "http://ada:canary@"));
    assert!(values(&world.sources, &inside, "1.2.3", false).await.is_ok());
}

/// RND-104, RND-109: credentials stay with their host unless they are for all.
#[tokio::test]
async fn rnd_109_credentials_do_not_leave_their_host() {
    let world = World::with(&[]).await;
    let cdn = Arc::new(WebServer::start(|_| Reply::of(200, chart())).await);
    let elsewhere = cdn.url("/web.tgz");
    let server = WebServer::start(move |asked| match asked.path.as_str() {
        "/named/index.yaml" => Reply::of(200, index(&elsewhere, "")),
        "/moved/index.yaml" => Reply::of(200, index("web.tgz", "")),
        "/moved/web.tgz" => Reply::of(302, "").with("Location", &elsewhere),
        _ => Reply::of(404, ""),
    })
    .await;
    world.sources.set_trust(local());
    for folder in ["/named", "/moved"] {
        for pass_credentials in [false, true] {
            let repository = with_credentials(&server.url(folder), pass_credentials);
            values(&world.sources, &repository, "1.2.3", false).await.unwrap();
            let last = cdn.asked().pop().unwrap();
            assert_eq!(!last.header("authorization").is_empty(), pass_credentials, "{folder}");
        }
    }
    assert!(server.asked().iter().all(|asked| !asked.header("authorization").is_empty()));
}

/// Where another server of this machine may be named.
fn local() -> Trust {
    Trust { local_addresses: true, ..Trust::default() }
}

/// F1: what a source names by URL is read from no port of this machine, however it is spelt or redirected to.
#[tokio::test]
async fn sec_50_files_by_url_are_none_of_this_machine() {
    let world = World::with(&[]).await;
    let metrics = WebServer::start(|_| Reply::of(200, "application: blue")).await;
    let port = metrics.host().trim_start_matches("127.0.0.1:").to_owned();
    for host in ["127.0.0.1", "localhost", "2130706433", "0", "[::ffff:127.0.0.1]"] {
        let url = format!("http://{host}:{port}/metrics");
        let error = world.sources.file(&url).await.unwrap_err();
        assert!(matches!(error, SourceError::InvalidRepository { .. }), "{error:?}");
        assert!(error.to_string().contains("tiphys.renderer.localAddresses"), "{error}");
    }
    assert_eq!(metrics.asked().len(), 0);
    world.sources.set_trust(local());
    let text = world.sources.file(&metrics.url("/metrics")).await.unwrap();
    assert_eq!(text.as_ref(), b"application: blue");
}

/// F1: a chart repository of the project may be on this machine; neither its index nor a redirect leads to other ports.
/// One that the project does not permit may not.
#[tokio::test]
async fn sec_50_a_chart_repository_leads_to_no_other_port() {
    let world = World::with(&[]).await;
    let other = Arc::new(WebServer::start(|_| Reply::of(200, chart())).await);
    let elsewhere = other.url("/web.tgz");
    let server = WebServer::start(move |asked| match asked.path.as_str() {
        "/named/index.yaml" => Reply::of(200, index(&elsewhere, "")),
        "/moved/index.yaml" | "/own/index.yaml" => Reply::of(200, index("web.tgz", "")),
        "/moved/web.tgz" => Reply::of(302, "").with("Location", &elsewhere),
        "/own/web.tgz" => Reply::of(200, chart()),
        _ => Reply::of(404, ""),
    })
    .await;
    for folder in ["/named", "/moved"] {
        let repository = Repository::anonymous(&server.url(folder));
        let error = values(&world.sources, &repository, "1.2.3", true).await.unwrap_err();
        assert!(error.to_string().contains("tiphys.renderer.localAddresses"), "{folder}: {error}");
    }
    assert_eq!(other.asked().len(), 0);
    let own = Repository::anonymous(&server.url("/own"));
    values(&world.sources, &own, "1.2.3", true).await.unwrap();
    let before = server.asked().len();
    let foreign = Repository { is_foreign: true, ..own };
    let sources = world.restarted(|_| {});
    let error = sources.chart_index(&foreign, Freshness::Fetch).await.unwrap_err();
    assert!(error.to_string().contains("tiphys.renderer.localAddresses"), "{error}");
    let error = sources.list_refs(&foreign, Freshness::Fetch).await.unwrap_err();
    assert!(error.to_string().contains("tiphys.renderer.localAddresses"), "{error}");
    assert_eq!(server.asked().len(), before);
}

fn with_credentials(url: &str, pass_credentials: bool) -> Repository {
    Repository {
        username: "ada".to_owned(),
        password: Secret::from("canary"),
        pass_credentials,
        ..Repository::anonymous(url)
    }
}

/// A3: an application that passes credentials on passes shared ones to where its project may read, and to nobody else.
#[tokio::test]
async fn rnd_109_shared_credentials_go_where_the_project_may_read() {
    let world = World::with(&[]).await;
    let cdn = Arc::new(WebServer::start(|_| Reply::of(200, chart())).await);
    let elsewhere = cdn.url("/web.tgz");
    let server = WebServer::start(move |asked| match asked.path.as_str() {
        "/named/index.yaml" => Reply::of(200, index(&elsewhere, "")),
        "/moved/index.yaml" => Reply::of(200, index("web.tgz", "")),
        "/moved/web.tgz" => Reply::of(302, "").with("Location", &elsewhere),
        _ => Reply::of(404, ""),
    })
    .await;
    world.sources.set_trust(local());
    let (own, both) = (server.url("/*"), vec![server.url("/*"), cdn.url("/*")]);
    for (folder, rules, is_shown) in [
        ("/named", vec![own.clone()], false),
        ("/named", both.clone(), true),
        ("/named", vec![own.clone()], false),
        ("/moved", both, false),
        ("/moved", vec![own], false),
    ] {
        let reach = Reach { source_repos: Arc::from(rules.clone()), matching: ProjectMatching::Compat };
        let reach = Some(reach);
        let repository = Repository { reach, ..with_credentials(&server.url(folder), true) };
        values(&world.sources, &repository, "1.2.3", true).await.unwrap();
        let last = cdn.asked().pop().unwrap();
        assert_eq!(!last.header("authorization").is_empty(), is_shown, "{folder} {rules:?}");
    }
}

/// F20: what is wrong is told, and nothing of it is taken for a chart.
#[tokio::test]
async fn f20_bad_answers_of_a_chart_repository() {
    let world = World::with(&[]).await;
    let server = WebServer::start(|asked| {
        let (folder, file) = asked.path.trim_start_matches('/').split_once('/').unwrap_or_default();
        let whole = Reply::of(200, index("web.tgz", &sha256(&chart())));
        match (folder, file) {
            ("half-index", "index.yaml") => Reply { cut: Some(60), ..whole },
            ("hello", "index.yaml") => Reply::of(200, "<html>hello</html>"),
            ("loop", "index.yaml") => Reply::of(302, "").with("Location", "index.yaml"),
            ("file", "index.yaml") => Reply::of(302, "").with("Location", "file:///etc/passwd"),
            ("down", "index.yaml") => Reply::of(503, "canary"),
            ("huge", "index.yaml") => Reply::of(200, vec![b'#'; 3_000_000]),
            (_, "index.yaml") => whole,
            ("half", "web.tgz") => Reply { cut: Some(100), ..Reply::of(200, chart()) },
            ("other", "web.tgz") => Reply::of(200, packed(&[("web/Chart.yaml", "name: evil")])),
            ("none", "web.tgz") => Reply::of(200, "no archive"),
            _ => Reply::of(404, "canary"),
        }
    })
    .await;
    let sources = world.restarted(|options| options.index_bytes_max = 2_000_000);
    for (folder, expected) in [
        ("half-index", "breaks off"),
        ("hello", "cannot be read"),
        ("loop", "redirects more than 10 times"),
        ("file", "redirects to a place that is none of HTTP"),
        ("down", "status 503"),
        ("huge", "has more than 2000000 bytes"),
        ("half", "breaks off"),
        ("other", "does not have the digest that the index names"),
        ("none", "does not have the digest"),
        ("missing", "status 404: not found"),
    ] {
        let repository = Repository::anonymous(&server.url(&format!("/{folder}")));
        let error = values(&sources, &repository, "1.2.3", false).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("canary"), "{folder}: {error}");
    }
    let left: Vec<_> = std::fs::read_dir(world.path().join("cache/archives/incoming")).unwrap().collect();
    assert_eq!(left.len(), 0, "nothing stays of what was refused");
}

/// F19: a file of the cache that somebody changed is fetched again.
#[tokio::test]
async fn f19_a_damaged_chart_is_fetched_again() {
    let world = World::with(&[]).await;
    let server = plain().await;
    let repository = Repository::anonymous(&server.url("/charts"));
    values(&world.sources, &repository, "1.2.3", false).await.unwrap();
    let mut damaged = 0;
    for key in std::fs::read_dir(world.path().join("cache/archives")).unwrap() {
        for file in std::fs::read_dir(key.unwrap().path()).into_iter().flatten() {
            std::fs::write(file.unwrap().path(), packed(&[("web/values.yaml", "evil")])).unwrap();
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    let again = world.restarted(|_| {});
    assert_eq!(values(&again, &repository, "1.2.3", false).await.as_deref(), Ok("a: 1\n"));
    assert_eq!(server.count("/charts/web-1.2.3.tgz"), 2);
}

/// INV-16: however many ask at once, the server is asked once.
#[tokio::test]
async fn inv_16_questions_at_the_same_time_are_one() {
    let world = World::with(&[]).await;
    let server = plain().await;
    let repository = Repository::anonymous(&server.url("/charts"));
    let done = AtomicUsize::new(0);
    let one = || async {
        values(&world.sources, &repository, "1.2.3", false).await.unwrap();
        done.fetch_add(1, Ordering::Relaxed);
    };
    futures::future::join_all((0..20).map(|_| one())).await;
    assert_eq!((done.load(Ordering::Relaxed), server.asked().len()), (20, 2));
}

#[tokio::test]
async fn rep_75_a_proxy_is_used_unless_the_host_is_exempt() {
    let world = World::with(&[]).await;
    let proxy = WebServer::start(|_| Reply::of(200, index("web.tgz", ""))).await;
    let repository = Repository {
        proxy: Secret::from(proxy.url("")),
        no_proxy: "direct.example".to_owned(),
        ..Repository::anonymous("http://charts.example/x")
    };
    let resolved = world.sources.resolve_chart(&repository, "web", "1.x", Freshness::Cached).await;
    assert_eq!(resolved.as_deref(), Ok("1.2.3"));
    assert_eq!(proxy.asked()[0].path, "http://charts.example/x/index.yaml");
    let exempt = Repository { no_proxy: "charts.example".to_owned(), ..repository };
    assert!(world.sources.resolve_chart(&exempt, "web", "1.x", Freshness::Cached).await.is_err());
}
