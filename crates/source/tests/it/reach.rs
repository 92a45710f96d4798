//! Whether repositories answer, asked by their kind (REP-78).

use tiphys_source::{Repository, Secret, SourceError, Sources};

use crate::web_server::{Asked, Reply, WebServer};
use crate::world::World;

/// `ada:pw`.
const LOGIN: &str = "Basic YWRhOnB3";

fn of(server: &WebServer, path: &str) -> Repository {
    Repository { plain_http: true, ..Repository::anonymous(&format!("{}{path}", server.host())) }
}

fn known(repository: Repository, password: &str) -> Repository {
    Repository { username: "ada".to_owned(), password: Secret::from(password), ..repository }
}

/// A registry that gives tokens to whoever has the right login, and to everybody who has none.
fn answer(asked: &Asked) -> Reply {
    if asked.path.starts_with("/token") {
        let token = match asked.header("authorization") {
            "" => "nobody",
            LOGIN => "ada",
            _ => return Reply::of(401, "canary"),
        };
        return Reply::of(200, format!("{{\"token\": \"{token}\"}}"));
    }
    let caller = asked.header("authorization");
    let challenge = || {
        let text = format!("Bearer realm=\"http://{}/token\",service=\"reg\"", asked.header("host"));
        Reply::of(401, "canary").with("WWW-Authenticate", &text)
    };
    let tags = || Reply::of(200, "{\"name\": \"x\", \"tags\": [\"1.0.0\"]}");
    match (asked.path.split('?').next().unwrap_or_default(), caller) {
        ("/v2/", "Bearer ada") => Reply::of(200, "{}"),
        ("/v2/", _) | (_, "") => challenge(),
        ("/v2/open/tags/list", _) | ("/v2/closed/tags/list", "Bearer ada") => tags(),
        ("/v2/only-pulled/tags/list", "Bearer ada") => Reply::of(403, "canary"),
        ("/v2/beginning/tags/list", _) => Reply::of(404, "canary"),
        _ => challenge(),
    }
}

fn fails(result: Result<(), SourceError>, why: &str) {
    let text = result.unwrap_err().to_string();
    assert!(text.contains(why) && !text.contains("canary") && !text.contains("wrong"), "{text}");
}

/// A registry of charts is asked whether it takes the login; without one it only has to be a registry.
#[tokio::test]
async fn rep_78_a_registry_of_charts_takes_the_login() {
    let world = World::with(&[]).await;
    let sources: &Sources = &world.sources;
    let server = WebServer::start(answer).await;
    let registry = of(&server, "/org/charts");
    assert_eq!(sources.test_registry(&registry).await, Ok(()), "nobody is asked for more without a login");
    assert_eq!(sources.test_registry(&known(registry.clone(), "pw")).await, Ok(()));
    assert!(server.asked().iter().any(|asked| asked.path == "/token?service=reg"), "no repository is wanted");
    fails(sources.test_registry(&known(registry, "wrong")).await, "answered with status 401: access denied");

    let page = WebServer::start(|_| Reply::of(404, "canary")).await;
    fails(sources.test_registry(&of(&page, "/charts")).await, "/v2/ answered with status 404: not found");
    let basic = WebServer::start(|asked| match asked.header("authorization") {
        LOGIN => Reply::of(200, "{}"),
        _ => Reply::of(401, "").with("WWW-Authenticate", "Basic realm=\"x\""),
    })
    .await;
    assert_eq!(sources.test_registry(&known(of(&basic, ""), "pw")).await, Ok(()));
    fails(sources.test_registry(&known(of(&basic, ""), "wrong")).await, "401");
    // Whoever wants no login and yet refuses is no registry that anybody can use.
    let shut = WebServer::start(|_| Reply::of(401, "canary")).await;
    fails(sources.test_registry(&of(&shut, "")).await, "access denied");
    let gone = Repository::anonymous("127.0.0.1:1/charts");
    fails(sources.test_registry(&gone).await, "cannot be reached");
}

/// A repository of artifacts lists its tags; one that is the beginning of several, or where listing is another right than
/// pulling, is reached when the registry lets us in.
#[tokio::test]
async fn rep_78_artifacts_are_listed_or_the_registry_lets_us_in() {
    let world = World::with(&[]).await;
    let sources: &Sources = &world.sources;
    let server = WebServer::start(answer).await;
    for path in ["/open", "/beginning"] {
        assert_eq!(sources.test_artifacts(&of(&server, path)).await, Ok(()), "{path}");
    }
    fails(sources.test_artifacts(&of(&server, "/closed")).await, "access denied");
    for path in ["/closed", "/only-pulled", "/beginning", ""] {
        let repository = of(&server, path);
        assert_eq!(sources.test_artifacts(&known(repository.clone(), "pw")).await, Ok(()), "{path}");
        fails(sources.test_artifacts(&known(repository, "wrong")).await, "access denied");
    }
    fails(sources.test_artifacts(&of(&server, "/only-pulled")).await, "access denied");
}

/// The index of a chart repository is read to its end: a page that says hello is none.
#[tokio::test]
async fn rep_78_the_index_of_a_chart_repository_is_read() {
    let world = World::with(&[]).await;
    let server = WebServer::start(|asked| match (asked.path.as_str(), asked.header("authorization")) {
        ("/charts/index.yaml", LOGIN) => Reply::of(200, "apiVersion: v1\nentries: {}\n"),
        ("/charts/index.yaml", _) => Reply::of(401, "canary"),
        _ => Reply::of(200, "<html>canary</html>"),
    })
    .await;
    let at = |path: &str| Repository::anonymous(&server.url(path));
    let test = async |repository: Repository| world.sources.test_charts(&repository).await;
    assert_eq!(test(known(at("/charts"), "pw")).await, Ok(()));
    fails(test(at("/charts")).await, "access denied");
    fails(test(at("/other")).await, "the index of the repository cannot be read");
}
