//! Tokens in place of passwords, against servers of tokens on the loopback (REP-70, REP-73, REP-74).

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tiphys_source::{AzureIdentity, Freshness, Repository, Secret, SourceError, Sources, TokenSource};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::git_http::{Auth, GitServer};
use crate::world::{World, openssl};

/// Method and path, the `Authorization` header, and the body.
type Request = (String, String, String);

/// A server that answers by method and path, and remembers what it was asked.
struct TokenServer {
    url: String,
    seen: Arc<Mutex<Vec<Request>>>,
    task: JoinHandle<()>,
}

impl TokenServer {
    async fn start(answers: Vec<(&'static str, u16, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let mut stream = BufReader::new(stream);
                let (mut head, mut line) = (String::new(), String::new());
                while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
                    head.push_str(&std::mem::take(&mut line));
                }
                let header = |name: &str| {
                    let found = head.lines().find_map(|line| {
                        line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name))
                    });
                    found.map_or_else(String::new, |(_, value)| value.trim().to_owned())
                };
                let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
                stream.read_exact(&mut body).await.unwrap();
                let target = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
                let found = answers.iter().find(|(known, _, _)| *known == target);
                let (status, answer) =
                    found.map_or((404, Value::Null), |(_, status, answer)| (*status, answer.clone()));
                log.lock().unwrap().push((target, header("authorization"), String::from_utf8(body).unwrap()));
                let answer = answer.to_string();
                let text = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
                stream.write_all(text.as_bytes()).await.unwrap();
            }
        });
        Self { url, seen, task }
    }

    fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    fn targets(&self) -> Vec<String> {
        self.seen().into_iter().map(|(target, _, _)| target).collect()
    }
}

impl Drop for TokenServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A private key; the public one stands in `public.pem`.
async fn private_key(world: &World, form: &str) -> String {
    openssl(world, &format!("genrsa {form} -out key.pem 2048")).await;
    openssl(world, "rsa -in key.pem -pubout -out public.pem").await;
    fs::read_to_string(world.path().join("key.pem")).unwrap()
}

/// The claims of a token, whose signature is checked.
async fn claims(world: &World, jwt: &str) -> Value {
    let (message, signature) = jwt.rsplit_once('.').unwrap();
    fs::write(world.path().join("message"), message).unwrap();
    fs::write(world.path().join("signature"), URL_SAFE_NO_PAD.decode(signature).unwrap()).unwrap();
    openssl(world, "dgst -sha256 -verify public.pem -signature signature message").await;
    let (header, claims) = message.split_once('.').unwrap();
    let read =
        |part: &str| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap() };
    assert_eq!((read(header)["alg"].as_str(), read(header)["typ"].as_str()), (Some("RS256"), Some("JWT")));
    read(claims)
}

async fn fetch(sources: &Sources, repository: &Repository) -> Result<(), SourceError> {
    sources.invalidate(repository.url.expose());
    let commit = sources.resolve(repository, "main", Freshness::Cached).await?;
    sources.tree(repository, &commit).await.map(drop)
}

fn with(url: &str, token: TokenSource) -> Repository {
    Repository { token: Some(Arc::new(token)), ..Repository::anonymous(url) }
}

#[tokio::test]
async fn rep_73_a_github_app_is_asked_for_a_token_that_is_used_until_it_expires() {
    let world = World::with(&[("a", "1")]).await;
    let git = GitServer::start(&world.root(), Auth::Basic("x-access-token", "ghs_one")).await;
    let token = json!({"token": "ghs_one", "expires_at": "2026-01-01T02:00:00Z"});
    let api = TokenServer::start(vec![
        ("GET /api/v3/users/repo/installation", 200, json!({"id": 7})),
        ("POST /api/v3/app/installations/7/access_tokens", 201, token),
    ])
    .await;
    let app = |key: &str, installation| TokenSource::GithubApp {
        id: 42,
        installation,
        key: Secret::from(key),
        base_url: format!("{}/api/v3/", api.url),
    };
    // As GitHub gives keys out.
    let key = private_key(&world, "-traditional").await;
    assert!(key.starts_with("-----BEGIN RSA PRIVATE KEY-----"));
    let repository = with(&git.url("repo"), app(&key, 0));
    for _ in 0..3 {
        fetch(&world.sources, &repository).await.unwrap();
    }
    let expected = [
        "GET /api/v3/orgs/repo/installation",
        "GET /api/v3/users/repo/installation",
        "POST /api/v3/app/installations/7/access_tokens",
    ];
    assert_eq!(api.targets(), expected, "one token for all");
    let jwt = api.seen()[2].1.strip_prefix("Bearer ").unwrap().to_owned();
    let claims = claims(&world, &jwt).await;
    // One hour after the clock began, a minute ago; ten minutes in all.
    assert_eq!(claims, json!({"iss": "42", "iat": 1_767_229_140, "exp": 1_767_229_740}));

    let other = private_key(&world, "").await;
    fetch(&world.sources, &with(&git.url("repo"), app(&other, 7))).await.unwrap();
    assert_eq!(api.targets()[3..], expected[2..], "another key is another credential");

    world.clock.advance(Duration::from_mins(58));
    fetch(&world.sources, &repository).await.unwrap();
    assert_eq!(api.targets().len(), 4);
    world.clock.advance(Duration::from_mins(1));
    fetch(&world.sources, &repository).await.unwrap();
    assert!(api.targets().len() > 4, "shortly before it expires");
}

#[tokio::test]
async fn rep_73_what_a_token_is_not_given_for_is_an_error_without_secrets() {
    let world = World::with(&[("a", "1")]).await;
    let git = GitServer::start(&world.root(), Auth::Basic("x-access-token", "ghs_one")).await;
    let api = TokenServer::start(vec![
        ("POST /app/installations/7/access_tokens", 401, json!({"message": "you sent canary"})),
        ("POST /app/installations/8/access_tokens", 503, Value::Null),
        ("POST /app/installations/10/access_tokens", 200, json!({"token": ""})),
    ])
    .await;
    let key = private_key(&world, "").await;
    let told = async |installation, key: &str| {
        let token = TokenSource::GithubApp {
            id: 42,
            installation,
            key: Secret::from(key),
            base_url: api.url.clone(),
        };
        fetch(&world.sources, &with(&git.url("repo"), token)).await.unwrap_err()
    };
    for (installation, words, is_transient) in [
        (7, "no token from 127.0.0.1: it answered with status 401", false),
        (8, "no token from 127.0.0.1: it answered with status 503", true),
        (9, "the GitHub App is not installed there", false),
        (0, "the GitHub App is not installed at \"repo\"", false),
        (10, "holds none", false),
    ] {
        let error = told(installation, &key).await;
        assert!(error.to_string().contains(words), "{error}");
        assert!(!error.to_string().contains("canary"), "{error}");
        assert_eq!(error.is_transient(), is_transient, "{error}");
    }
    let error = told(7, "-----BEGIN canary").await.to_string();
    assert!(error.contains("has to be RSA, in PEM") && !error.contains("canary"), "{error}");
    let gone = TokenSource::GithubApp {
        id: 42,
        installation: 7,
        key: Secret::from(key.as_str()),
        base_url: "http://127.0.0.1:1".to_owned(),
    };
    let error = fetch(&world.sources, &with(&git.url("repo"), gone)).await.unwrap_err();
    assert!(error.to_string().contains("it cannot be reached"), "{error}");
}

#[tokio::test]
async fn rep_74_google_accounts_and_azure_principals_are_given_tokens() {
    let world = World::with(&[("a", "1")]).await;
    let api = TokenServer::start(vec![
        ("POST /token", 200, json!({"access_token": "ya29", "expires_in": 3600})),
        ("POST /acme.test/oauth2/v2.0/token", 200, json!({"access_token": "az", "expires_in": 3600})),
    ])
    .await;
    let sources = world.restarted(|options| options.google_token_url = format!("{}/token", api.url));
    let key = private_key(&world, "").await;
    let account = json!({"client_email": "sa@acme.test", "private_key": key, "private_key_id": "k1",
        "token_uri": "http://evil.test/token"});
    let git = GitServer::start(&world.root(), Auth::Basic("sa@acme.test", "ya29")).await;
    let google = TokenSource::Google { key: Secret::from(account.to_string()) };
    fetch(&sources, &with(&git.url("repo"), google)).await.unwrap();
    let body = api.seen()[0].2.clone();
    let assertion = body.split_once("&assertion=").unwrap();
    assert_eq!(assertion.0, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer");
    let claims = claims(&world, assertion.1).await;
    assert_eq!(claims["iss"], "sa@acme.test");
    assert_eq!(claims["scope"], "https://www.googleapis.com/auth/cloud-platform");
    assert_eq!(claims["aud"], format!("{}/token", api.url));

    let git = GitServer::start(&world.root(), Auth::Bearer("az")).await;
    let azure = |tenant: &str| TokenSource::AzureServicePrincipal {
        client_id: "id".to_owned(),
        client_secret: Secret::from("s3c&ret"),
        tenant_id: tenant.to_owned(),
        endpoint: format!("{}/", api.url),
    };
    fetch(&sources, &with(&git.url("repo"), azure("acme.test"))).await.unwrap();
    let expected = "grant_type=client_credentials&client_id=id&client_secret=s3c%26ret\
                    &scope=499b84ac-1321-427f-aa17-267ca6975798%2F.default";
    assert_eq!(api.seen()[1].2, expected);
    let error = fetch(&sources, &with(&git.url("repo"), azure("../x"))).await.unwrap_err();
    assert!(error.to_string().contains("is no id of a tenant"), "{error}");
}

/// REP-70, REP-76: the identity is the installation's; no other server than that of Azure DevOps is shown a token.
#[tokio::test]
async fn rep_70_the_identity_of_the_workload_is_for_azure_devops_alone() {
    let world = World::with(&[("a", "1")]).await;
    let answer = json!({"access_token": "az", "expires_in": 3600});
    let api = TokenServer::start(vec![("POST /acme.test/oauth2/v2.0/token", 200, answer)]).await;
    let git = GitServer::start(&world.root(), Auth::Bearer("az")).await;
    let file = world.path().join("assertion");
    fs::write(&file, "eyJ.one\n").unwrap();
    let variable = |name: &str| match name {
        "AZURE_CLIENT_ID" => Some("id".to_owned()),
        "AZURE_TENANT_ID" => Some("acme.test".to_owned()),
        "AZURE_FEDERATED_TOKEN_FILE" => Some(file.to_string_lossy().into_owned()),
        "AZURE_AUTHORITY_HOST" => Some(format!("{}/", api.url)),
        _ => None,
    };
    let identity = AzureIdentity::of(variable);
    let repository = with(&git.url("repo"), TokenSource::AzureWorkloadIdentity);
    let sources = world.restarted(|options| options.azure_identity.clone_from(&identity));
    let error = fetch(&sources, &repository).await.unwrap_err();
    assert!(error.to_string().contains("https://dev.azure.com"), "{error}");
    for url in ["http://dev.azure.com/r", "https://dev.azure.com.evil.test/r", "https://dev.azure.com:8443/r"]
    {
        let error = fetch(&sources, &with(url, TokenSource::AzureWorkloadIdentity)).await.unwrap_err();
        assert!(error.to_string().contains("https://dev.azure.com"), "{url}: {error}");
    }
    assert!(api.seen().is_empty(), "nobody asks for a token that is not shown");

    let sources = world.restarted(|options| {
        options.azure_identity.clone_from(&identity);
        options.azure_devops = Some("127.0.0.1".to_owned());
    });
    fetch(&sources, &repository).await.unwrap();
    let body = &api.seen()[0].2;
    assert!(body.contains("client_assertion=eyJ.one&") && body.contains("client_id=id&"), "{body}");
    let sources = world.restarted(|options| options.azure_devops = Some("127.0.0.1".to_owned()));
    let error = fetch(&sources, &repository).await.unwrap_err();
    assert!(error.to_string().contains("AZURE_FEDERATED_TOKEN_FILE"), "{error}");
}
