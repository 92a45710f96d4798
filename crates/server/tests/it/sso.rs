use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_server::listen::tls::TlsOptions;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::double::{CLIENT, Double, SECRET, Signer, without_signature};
use crate::home::{BEGIN, Home, KEY, Setup, ask};
use crate::support::read;

const ORIGIN: &str = "http://localhost";

fn begin() -> i64 {
    BEGIN.parse::<jiff::Timestamp>().unwrap().as_second()
}

/// An installation whose people the provider knows; `devs` see accounts.
fn setup(double: &Double, more: &str) -> Setup {
    let config = format!(
        "name: SSO\nissuer: {}\nclientID: {CLIENT}\nclientSecret: $sso:secret\ncliClientID: cd-cli\n{more}\n",
        double.issuer
    );
    Setup::new()
        .config_map(
            "argocd-cm",
            &[("url", ORIGIN), ("additionalUrls", "[http://other.test/argo]"), ("oidc.config", &config)],
        )
        .config_map(
            "argocd-rbac-cm",
            &[("policy.csv", "p, role:d, accounts, get, *, allow\ng, devs, role:d\n")],
        )
        .secret("sso", &[("secret", SECRET)])
}

/// Somebody's browser, with its cookies.
struct Browser<'h> {
    home: &'h Home,
    cookies: BTreeMap<String, String>,
}

impl Browser<'_> {
    fn new(home: &Home) -> Browser<'_> {
        Browser { home, cookies: BTreeMap::new() }
    }

    async fn get(&mut self, target: &str) -> (u16, HeaderMap, String) {
        let pairs: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = Request::get(target).header("cookie", pairs.join("; ")).body(Bytes::new()).unwrap();
        let answer = read(self.home.server.http1(request).await).await;
        for cookie in answer.1.get_all("set-cookie") {
            let text = cookie.to_str().unwrap();
            let (name, value) = text.split(';').next().unwrap().split_once('=').unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        self.cookies.retain(|_, value| !value.is_empty());
        answer
    }

    /// Begins a login, and says where the provider sends the browser back to.
    async fn sent_back(&mut self, return_url: &str) -> String {
        let (status, headers, text) = self.get(&format!("/auth/login?return_url={return_url}")).await;
        assert_eq!(status, 303, "{text}");
        assert_eq!(headers["cache-control"], "no-store");
        let browser = tiphys_oidc::http::client(&tiphys_oidc::Transport::default()).unwrap();
        let answer = browser.get(location(&headers)).send().await.unwrap();
        let place = answer.headers()["location"].to_str().unwrap();
        place.strip_prefix(ORIGIN).unwrap().to_owned()
    }

    async fn log_in(&mut self) -> (u16, HeaderMap, String) {
        let back = self.sent_back("").await;
        self.get(&back).await
    }

    async fn user(&mut self) -> Value {
        serde_json::from_str(&self.get("/api/v1/session/userinfo").await.2).unwrap()
    }
}

fn location(headers: &HeaderMap) -> &str {
    headers["location"].to_str().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_64_people_of_a_provider_log_in_and_their_groups_count() {
    let double = Double::start(begin()).await;
    let home = setup(&double, "enablePKCEAuthentication: true").start().await;
    let mut browser = Browser::new(&home);
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 401);
    let back = browser.sent_back("http://localhost/applications?x=1").await;
    assert!(browser.cookies.contains_key("argocd.oauthstate"));
    let (status, headers, text) = browser.get(&back).await;
    assert_eq!((status, location(&headers)), (303, "http://localhost/applications?x=1"), "{text}");
    assert_eq!(browser.cookies.keys().collect::<Vec<_>>(), ["argocd.token"], "the login is over");
    let user =
        json!({"loggedIn": true, "username": "kim@acme.test", "iss": double.issuer, "groups": ["devs"]});
    assert_eq!(browser.user().await, user);
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 200, "by the group");
    let form = double.state.lock().forms[0].clone();
    assert_eq!(form["code_verifier"].len(), 43);
    assert_eq!(form["redirect_uri"], "http://localhost/auth/callback");
    // What was used once cannot be used again.
    assert_eq!(browser.get(&back).await.0, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_62_a_login_leads_to_nobody_elses_page() {
    let double = Double::start(begin()).await;
    let home = setup(&double, "").start().await;
    let mut browser = Browser::new(&home);
    for hostile in
        ["https://evil.test", "//evil.test", "http://localhost@evil.test", "http://other.test/argoevil"]
    {
        let (status, _, text) = browser.get(&format!("/auth/login?return_url={hostile}")).await;
        assert_eq!(status, 400, "{hostile}");
        assert!(text.starts_with("Invalid redirect URL: ") && !text.contains("evil"), "{text}");
    }
    let back = browser.sent_back("http://other.test/argo/x").await;
    assert_eq!(location(&browser.get(&back).await.1), "http://other.test/argo/x");
    assert_eq!(double.count("/keys"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_64_a_login_ends_where_it_began() {
    let double = Double::start(begin()).await;
    let home = setup(&double, "").start().await;
    let mut browser = Browser::new(&home);
    let back = browser.sent_back("").await;
    let mut stranger = Browser::new(&home);
    let other = stranger.sent_back("").await;
    for (browser, target) in [
        (&mut Browser::new(&home), back.as_str()),
        (&mut browser, &other),
        (&mut stranger, "/auth/callback?code=code-1&state="),
        (&mut Browser::new(&home), "/auth/callback?code=code-1"),
    ] {
        let (status, headers, text) = browser.get(target).await;
        assert_eq!((status, text.as_str()), (400, "Invalid state: begin the login again\n"), "{target}");
        assert!(headers.get("set-cookie").is_none());
    }
    assert_eq!(double.state.lock().forms.len(), 0, "the provider is not asked");
    // A token in place of the code that was asked for, with the right state.
    let state = back.split_once("state=").unwrap().1;
    let target = format!("/auth/callback?id_token={}&state={state}", double.token(CLIENT));
    assert_eq!(browser.get(&target).await.0, 400);
    assert_eq!(browser.get(&back).await.0, 303, "the login goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_65_a_login_with_a_wrong_token_gives_no_session() {
    let double = Double::start(begin()).await;
    let home = setup(&double, "").start().await;
    let good = double.state.lock().person.clone();
    for (name, value) in [
        ("nonce", json!("other")),
        ("aud", json!("other")),
        ("iss", json!("https://evil.test")),
        ("iss", json!("argocd")),
        ("exp", json!(begin() - 1)),
        ("sub", json!("")),
    ] {
        let mut person = good.clone();
        person[name] = value;
        double.state.lock().person = person;
        let mut browser = Browser::new(&home);
        let (status, headers, text) = browser.log_in().await;
        assert_eq!(status, 401, "{name}: {text}");
        assert!(headers.get("set-cookie").is_none() && text.starts_with("invalid session token: "), "{text}");
        assert_eq!(browser.user().await, json!({}));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_15_forged_tokens_are_nobodys() {
    let double = Double::with(Signer::rsa("k1"), begin()).await;
    let home = setup(&double, "").start().await;
    let claims = double.claims(CLIENT);
    let signer = double.state.lock().signer.clone();
    let own = tiphys_service::jwt::sign(&claims, &Secret::from(KEY)).expose().clone();
    let elsewhere = double.token_with(&json!({"iss": "https://evil.test"}));
    for token in [
        without_signature(&claims),
        signer.confuse(&claims),
        Signer::p256("k1").sign(&claims),
        double.token_with(&json!({"aud": "other"})),
        double.token_with(&json!({"exp": begin() - 1})),
        own,
        elsewhere,
    ] {
        let (status, text) = home.with(&token).refused("GET", "/api/v1/account/admin", &Value::Null).await;
        assert_eq!((status, text.as_str()), (401, "invalid session: failed to verify the token"));
    }
    assert_eq!(home.with(&double.token(CLIENT)).get("/api/v1/account/admin").await.0, 200);
    assert_eq!(home.with(&double.token("cd-cli")).get("/api/v1/account/admin").await.0, 200);
    let over = home.with(&double.token_with(&json!({"exp": begin() - 1})));
    let info = over.ok("GET", "/api/v1/session/userinfo", &Value::Null).await;
    assert_eq!(info, json!({"iss": "sso"}), "the provider is who has to be asked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_79_whoever_logs_out_has_no_session_any_more() {
    let double = Double::start(begin()).await;
    let more = "logoutURL: https://sso.test/out?hint={{token}}&to={{logoutRedirectURL}}";
    let home = setup(&double, more).start().await;
    let mut browser = Browser::new(&home);
    assert_eq!(browser.get("/auth/logout").await.0, 400);
    browser.log_in().await;
    let token = browser.cookies["argocd.token"].clone();
    let (status, headers, _) = browser.get("/auth/logout").await;
    let expected = format!("https://sso.test/out?hint={token}&to={ORIGIN}");
    assert_eq!((status, location(&headers)), (303, expected.as_str()));
    assert_eq!(browser.cookies.len(), 0);
    let (status, text) = home.with(&token).refused("GET", "/api/v1/account/admin", &Value::Null).await;
    assert_eq!((status, text.as_str()), (401, "invalid session: token is revoked, please re-login"));
    // A token that does not count, and one of a local account.
    for (token, target) in
        [("a.b.c", ORIGIN), (home.account("admin").bearer().strip_prefix("Bearer ").unwrap(), ORIGIN)]
    {
        browser.cookies.insert("argocd.token".to_owned(), token.to_owned());
        let (status, headers, _) = browser.get("/auth/logout").await;
        assert_eq!((status, location(&headers)), (303, target));
    }
}

/// A token without an id is identified by its owner and its times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_79_a_logout_ends_a_token_without_an_id() {
    let double = Double::start(begin()).await;
    double.state.lock().person = json!({"sub": "u1", "email": "kim@acme.test", "groups": ["devs"]});
    let home = setup(&double, "").start().await;
    let mut browser = Browser::new(&home);
    browser.log_in().await;
    let token = browser.cookies["argocd.token"].clone();
    assert_eq!(home.with(&token).get("/api/v1/account/admin").await.0, 200);
    // Another session of the same user, and a session of another user at the same time.
    let later = double.token_with(&json!({"iat": begin() + 1}));
    let other = double.token_with(&json!({"sub": "u2"}));
    assert_eq!(browser.get("/auth/logout").await.0, 303);
    let (status, text) = home.with(&token).refused("GET", "/api/v1/account/admin", &Value::Null).await;
    assert_eq!((status, text.as_str()), (401, "invalid session: token is revoked, please re-login"));
    for token in [later, other] {
        assert_eq!(home.with(&token).get("/api/v1/account/admin").await.0, 200);
    }
}

/// Creators of tokens choose their ids, so a logout must not revoke another caller's token with the same id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_16_a_logout_ends_no_token_of_another_caller() {
    let double = Double::start(begin()).await;
    let home = setup(&double, "").start().await;
    let of_the_provider = double.token_with(&json!({"jti": "x"}));
    let (kim, admin) = (home.account("admin"), home.with(&of_the_provider));
    assert_eq!(
        (kim.get("/api/v1/account/admin").await.0, admin.get("/api/v1/account/admin").await.0),
        (200, 200)
    );
    let mut browser = Browser::new(&home);
    browser.cookies.insert("argocd.token".to_owned(), of_the_provider.clone());
    assert_eq!(browser.get("/auth/logout").await.0, 303);
    assert_eq!(home.with(&of_the_provider).get("/api/v1/account/admin").await.0, 401);
    assert_eq!(kim.get("/api/v1/account/admin").await.0, 200, "the same id, and another caller");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_70_tokens_are_refreshed_while_the_session_lasts() {
    let double = Double::start(begin()).await;
    double.state.lock().refresh_token = "r1".to_owned();
    let home = setup(&double, "").start().await;
    let mut browser = Browser::new(&home);
    browser.log_in().await;
    let first = browser.cookies["argocd.token"].clone();
    // The same token, a day later.
    let over = double.token_with(&json!({"exp": begin() - 1}));
    double.state.lock().now += 60;
    browser.cookies.insert("argocd.token".to_owned(), over.clone());
    assert_eq!(browser.user().await["username"], "kim@acme.test");
    let second = browser.cookies["argocd.token"].clone();
    assert!(second != over && second != first);
    // Another request with the old one gets the one that there is.
    browser.cookies.insert("argocd.token".to_owned(), over.clone());
    browser.user().await;
    assert_eq!(browser.cookies["argocd.token"], second);
    let refreshed =
        double.state.lock().forms.iter().filter(|form| form["grant_type"] == "refresh_token").count();
    assert_eq!(refreshed, 1);
    // Whoever has logged out is not refreshed.
    browser.get("/auth/logout").await;
    assert_eq!(home.with(&over).get("/api/v1/account/admin").await.0, 401);
}

/// API-68: what the provider tells of the bearer of the access token counts, in JSON and signed, and nothing else does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_68_groups_are_asked_for_with_the_access_token_of_the_login() {
    let double = Double::start(begin()).await;
    double.state.lock().told = json!({"sub": "u1", "groups": ["ops", "devs"]});
    let more = "enableUserInfoGroups: true\nuserInfoPath: /sso/me\nuserInfoCacheExpiration: 1ns";
    let home = setup(&double, more).start().await;
    let elsewhere = home.with(&double.token(CLIENT));
    let (status, text) = elsewhere.refused("GET", "/api/v1/account/admin", &Value::Null).await;
    assert_eq!(
        (status, text.as_str()),
        (401, "invalid session: log in again: the groups of this session cannot be asked for any more")
    );
    let mut browser = Browser::new(&home);
    browser.log_in().await;
    assert_eq!(browser.user().await["groups"], json!(["ops", "devs"]));
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 200, "by the group");
    double.state.lock().told = json!({"sub": "u1", "groups": ["ops"]});
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 403, "the token still names devs");
    let signed = double.state.lock().signer.clone();
    double.state.lock().told = signed.sign(&json!({"sub": "u1", "groups": ["devs"]})).into();
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 200);
    double.state.lock().told = Signer::p256("k1").sign(&json!({"sub": "u1", "groups": ["devs"]})).into();
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 503, "signed by somebody else");
    for unreadable in [json!({"devs": true}), json!([{"name": "devs"}]), json!(["devs", 5])] {
        double.state.lock().told = json!({"sub": "u1", "groups": unreadable});
        assert_eq!(browser.get("/api/v1/account/admin").await.0, 503, "{unreadable} is not nobody");
    }
    double.state.lock().told = json!({"sub": "u1"});
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 403, "no groups");
    double.state.lock().told = json!({"sub": "u2", "groups": ["devs"]});
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 503, "of somebody else");
    double.state.lock().told = Value::Null;
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 401);
}

/// API-69: whoever's token has too many groups for it is asked about at Microsoft, whose address nobody sets elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_69_a_token_of_azure_with_too_many_groups_needs_a_login_here() {
    let double = Double::start(begin()).await;
    let more = "azure:\n  enableUserGroupOverageClaim: true\n  graphApiEndpoint: https://127.0.0.1/v1.0";
    let home = setup(&double, more).start().await;
    let many = json!({"groups": [], "_claim_names": {"groups": "src1"}, "scp": "openid User.Read"});
    let somebody = home.with(&double.token_with(&many));
    assert_eq!(somebody.get("/api/v1/account/admin").await.0, 401);
    let few = home.with(&double.token_with(&json!({"scp": "User.Read"})));
    assert_eq!(few.get("/api/v1/account/admin").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_64_a_provider_without_codes_is_asked_for_the_token() {
    let double = Double::start(begin()).await;
    double.state.lock().metadata = json!({"response_types_supported": ["id_token"]});
    let home = setup(&double, "enablePKCEAuthentication: true").start().await;
    let mut browser = Browser::new(&home);
    let back = browser.sent_back("").await;
    let (path, fragment) = back.split_once('#').unwrap();
    let (status, headers, page) = browser.get(path).await;
    assert_eq!((status, headers["content-type"].to_str().unwrap()), (200, "text/html; charset=utf-8"));
    assert!(page.contains("window.location.hash") && headers.contains_key("content-security-policy"));
    let (status, _, text) = browser.get(&format!("{path}?{fragment}")).await;
    assert_eq!(status, 303, "{text}");
    assert_eq!(browser.user().await["username"], "kim@acme.test");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_23_what_a_provider_says_is_no_markup() {
    let double = Double::start(begin()).await;
    let home = setup(&double, "").start().await;
    let target = "/auth/callback?error=%3Cscript%3E&error_description=x";
    let (status, headers, text) = Browser::new(&home).get(target).await;
    assert_eq!((status, text.as_str()), (400, "&lt;script&gt;: x\n"));
    assert_eq!(headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(headers["x-content-type-options"], "nosniff");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_61_single_sign_on_follows_its_settings_without_a_restart() {
    let double = Double::start(begin()).await;
    let home = setup(&double, "requestedScopes: [openid, groups]").start().await;
    let shown = home.nobody().ok("GET", "/api/v1/settings", &Value::Null).await;
    let expected = json!({"name": "SSO", "issuer": double.issuer, "clientID": CLIENT, "cliClientID": "cd-cli",
        "scopes": ["openid", "groups"]});
    assert_eq!(shown["oidcConfig"], expected);
    assert!(!shown.to_string().contains(SECRET));
    let somebody = home.with(&double.token(CLIENT));
    assert_eq!(somebody.get("/api/v1/account/admin").await.0, 200);
    let off = json!({"data": {"oidc.config": null}});
    ask(&home.sim, Method::PATCH, "/api/v1/namespaces/argocd/configmaps/argocd-cm", &off);
    somebody.until("/api/v1/account/admin", 401).await;
    assert_eq!(home.nobody().get("/auth/login").await.0, 404);
    let shown = home.nobody().ok("GET", "/api/v1/settings", &Value::Null).await;
    assert!(shown.get("oidcConfig").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_73_dex_beside_us_signs_people_in_behind_our_own_address() {
    let dex = Double::behind(ORIGIN, "/api/dex", begin()).await;
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, KEY.as_bytes());
    let secret: String = URL_SAFE_NO_PAD.encode(digest).chars().take(40).collect();
    dex.state.lock().client = ("argo-cd".to_owned(), secret);
    dex.state.lock().person =
        json!({"sub": "opaque", "federated_claims": {"user_id": "kim"}, "groups": ["devs"]});
    let config = "connectors:\n- {type: github, id: gh, name: GitHub, config: {clientSecret: $x}}\n";
    let home = Setup::new()
        .config_map("argocd-cm", &[("url", ORIGIN), ("dex.config", config), ("dex.auth.connectorId", "gh")])
        .config_map(
            "argocd-cmd-params-cm",
            &[("server.dex.server", &dex.address), ("server.dex.server.plaintext", "true")],
        )
        .start()
        .await;
    let shown = home.nobody().ok("GET", "/api/v1/settings", &Value::Null).await;
    let connectors = json!([{"name": "GitHub", "type": "github", "id": "gh"}]);
    assert_eq!(shown["dexConfig"], json!({"connectors": connectors, "dexAuthConnectorID": "gh"}));
    let mut browser = Browser::new(&home);
    let (status, headers, text) = browser.get("/auth/login").await;
    assert_eq!(status, 303, "{text}");
    let at_dex = location(&headers).strip_prefix(ORIGIN).unwrap().to_owned();
    assert!(at_dex.starts_with("/api/dex/auth?") && at_dex.contains("connector_id=gh"), "{at_dex}");
    assert!(at_dex.contains("scope=openid+profile+email+groups+federated%3Aid"), "{at_dex}");
    let (status, headers, _) = browser.get(&at_dex).await;
    assert_eq!(status, 302);
    let back = location(&headers).strip_prefix(ORIGIN).unwrap().to_owned();
    assert_eq!(browser.get(&back).await.0, 303);
    assert_eq!(browser.user().await["username"], "kim");
    dex.state.lock().mood = crate::double::Mood::Broken;
    let (status, headers, _) = browser.get("/api/dex/auth").await;
    assert_eq!((status, location(&headers)), (303, "/login?has_sso_error=true"));
}

/// The certified implementation, where one runs (`hack/oidc/provider.mjs`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_64_the_real_provider_signs_people_in() {
    #[expect(clippy::disallowed_methods, reason = "tests have no settings")]
    let issuer = std::env::var("TIPHYS_OIDC_ISSUER");
    let Ok(issuer) = issuer else {
        println!("skipped: no identity provider (TIPHYS_OIDC_ISSUER)");
        return;
    };
    let config = format!(
        "issuer: {issuer}\nclientID: cd\nclientSecret: hunter2\nenablePKCEAuthentication: true\n\
         requestedScopes: [openid, email, groups, offline_access]\n"
    );
    let home = Setup::new()
        .config_map("argocd-cm", &[("url", ORIGIN), ("oidc.config", &config)])
        .config_map("argocd-rbac-cm", &[("policy.csv", "g, devs, role:readonly\n")])
        .start()
        .await;
    let mut browser = Browser::new(&home);
    let mut place = location(&browser.get("/auth/login").await.1).to_owned();
    let client = tiphys_oidc::http::client(&tiphys_oidc::Transport::default()).unwrap();
    let mut cookies: BTreeMap<String, String> = BTreeMap::new();
    // From page to page until the browser is sent back.
    for _ in 0..10 {
        if place.starts_with(ORIGIN) {
            break;
        }
        let pairs: Vec<String> = cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let answer = client.get(&place).header("cookie", pairs.join("; ")).send().await.unwrap();
        for cookie in answer.headers().get_all("set-cookie") {
            let pair = cookie.to_str().unwrap().split(';').next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.to_owned());
        }
        assert!(answer.status().is_redirection(), "{place}: {}", answer.status());
        let next = answer.headers()["location"].to_str().unwrap();
        place = tiphys_oidc::Url::parse(&place).unwrap().join(next).unwrap().into();
    }
    let back = place.strip_prefix(ORIGIN).unwrap().to_owned();
    let (status, _, text) = browser.get(&back).await;
    assert_eq!(status, 303, "{text}");
    assert_eq!(
        browser.user().await,
        json!({"loggedIn": true, "username": "kim@acme.test", "iss": issuer, "groups": ["devs"]})
    );
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 200);
    assert_eq!(browser.get("/auth/logout").await.0, 303);
    assert_eq!(browser.get("/api/v1/account/admin").await.0, 401);
}

/// A provider behind TLS with a certificate of its own, and that certificate.
async fn behind_tls() -> (Double, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = Secret::new(made.signing_key.serialize_pem());
    let tls = TlsOptions::default().server(&made.cert.pem(), &key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let double = Double::behind(&origin, "/sso", begin()).await;
    let address = double.address.clone();
    drop(tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, address) = (TlsAcceptor::from(Arc::clone(&tls)), address.clone());
            drop(tokio::spawn(async move {
                // Whoever does not trust us ends here.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut plain = TcpStream::connect(address).await.unwrap();
                drop(tokio::io::copy_bidirectional(&mut stream, &mut plain).await);
            }));
        }
    }));
    (double, made.cert.pem())
}

/// SEC-17: whoever stands between us and the provider signs nobody in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_17_a_provider_whose_certificate_nobody_vouches_for_is_not_believed() {
    let (double, pem) = behind_tls().await;
    let (_, of_another) = behind_tls().await;
    let trust = |pem: &str| format!("rootCA: |\n  {}", pem.trim().replace('\n', "\n  "));
    let skipping = &[("oidc.tls.insecure.skip.verify", "true")][..];
    for (more, settings, is_believed) in [
        (String::new(), &[][..], false),
        (trust(&of_another), &[], false),
        (trust(&pem), &[], true),
        (String::new(), skipping, true),
    ] {
        let home = setup(&double, &more).start().await;
        let change = json!({"data": settings.iter().copied().collect::<BTreeMap<_, _>>()});
        ask(&home.sim, Method::PATCH, "/api/v1/namespaces/argocd/configmaps/argocd-cm", &change);
        let asked = double.count("/sso/");
        let somebody = home.with(&double.token(CLIENT));
        let (login, _, text) = home.server.get("/auth/login").await;
        if is_believed {
            somebody.until("/api/v1/account/admin", 200).await;
        } else {
            assert_eq!(somebody.get("/api/v1/account/admin").await.0, 401, "{more}");
            assert!(login >= 400 && !text.contains(SECRET), "{login}: {text}");
            assert_eq!(double.count("/sso/"), asked, "nothing is said before the certificate is checked");
        }
    }
}

/// SEC-22: an address that somebody sends around makes no page of ours say what they want.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_22_no_page_shows_a_message_of_its_address() {
    let double = Double::start(begin()).await;
    let home = setup(&double, "").start().await;
    let target = |path: &str, message: &str| {
        format!("{path}?has_sso_error=true&sso_error={message}&error={message}&error_description={message}")
    };
    for path in ["/login", "/", "/auth/login", "/auth/logout", "/swagger-ui"] {
        let (status, headers, text) = home.server.get(&target(path, "call-0800-evil")).await;
        let shown = format!("{headers:?}{text}");
        assert!(!shown.contains("0800"), "{path}: {status}: {shown}");
    }
    // What a provider says of a login is told as plain text, cut down to what people read.
    let (status, headers, _) = home.server.get(&target("/auth/callback", "denied")).await;
    assert_eq!((status, &headers["content-type"]), (400, &"text/plain; charset=utf-8".parse().unwrap()));
}
