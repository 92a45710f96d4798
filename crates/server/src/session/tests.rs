use jiff::SignedDuration;
use serde_json::{Value, json};
use tiphys_service::jwt;
use tiphys_service::revoked::Unreadable;
use tokio::time::Instant;

use super::*;
use crate::fixtures::{Data, KEY, cheap_hash, clock, now};

fn login(username: &str, password: &str) -> Login {
    Login { username: username.to_owned(), password: Secret::from(password), token: Secret::default() }
}

fn sessions(data: &Data) -> Sessions {
    Sessions::new(data.shared(), clock(), None)
}

/// A token with other claims than those of a good one of `kim`.
fn token(changes: &Value) -> String {
    let issued = now().as_second();
    let mut claims = json!({"iss": "argocd", "sub": "kim:apiKey", "iat": issued, "nbf": issued, "jti": "t1"});
    for (key, value) in changes.as_object().unwrap() {
        claims[key] = value.clone();
    }
    jwt::sign(&claims, &Secret::from(KEY)).expose().clone()
}

/// Claims of a token of `kim` with an expiry.
fn claims(id: &str) -> serde_json::Map<String, Value> {
    let claims = json!({"iss": "argocd", "sub": "kim", "jti": id, "exp": now().as_second() + 100});
    claims.as_object().unwrap().clone()
}

fn kim() -> Data {
    Data::new()
        .config_map("argocd-cm", &[("accounts.kim", "login, apiKey")])
        .secret("argocd-secret", &[("accounts.kim.tokens", r#"[{"id": "t1", "iat": 1700000000}]"#)])
}

async fn identified(data: &Data, token: &str) -> Result<Session, String> {
    let identifying = sessions(data);
    let identified = identifying.identify(token).await;
    identified.map_err(|Refused { status, .. }| {
        assert_eq!(status.code, Code::Unauthenticated);
        status.message
    })
}

#[tokio::test(start_paused = true)]
async fn api_48_a_login_gives_a_token_that_counts() {
    let sessions = sessions(&Data::new());
    let token = sessions.login(login("admin", "hunter2hunter2")).await.unwrap();
    let session = sessions.identify(token.expose()).await.unwrap();
    assert_eq!((session.claims.text("sub"), session.claims.text("iss")), ("admin", "argocd"));
    assert!(!session.claims.text("jti").is_empty());
    assert_eq!(
        session.claims.all()["exp"].as_i64().unwrap() - session.claims.all()["iat"].as_i64().unwrap(),
        86_400
    );
    assert!(session.renewed_token.is_none());
}

#[tokio::test(start_paused = true)]
async fn api_49_what_is_wrong_is_told_without_telling_who_exists() {
    let data = Data::new()
        .config_map(
            "argocd-cm",
            &[("accounts.off", "login"), ("accounts.off.enabled", "false"), ("accounts.bot", "apiKey")],
        )
        .secret(
            "argocd-secret",
            &[("accounts.off.password", &cheap_hash()), ("accounts.bot.password", &cheap_hash())],
        );
    let sessions = sessions(&data);
    let refusal = async |username: &str, password: &str| {
        let status = sessions.login(login(username, password)).await.unwrap_err();
        assert_eq!(status.code == Code::InvalidArgument, username.len() > 32, "{username}");
        status.message
    };
    let right = "hunter2hunter2";
    assert_eq!(refusal("admin", "wrong").await, "Invalid username or password");
    assert_eq!(refusal("ghost", right).await, "Invalid username or password");
    assert_eq!(refusal("off", "wrong").await, "Invalid username or password", "before it is said to be off");
    assert_eq!(refusal("off", right).await, "Account off is disabled");
    assert_eq!(refusal("bot", right).await, "Account bot does not have login capability");
    assert_eq!(refusal(&"x".repeat(33), right).await, "Username is too long (32 bytes max)");
    assert_eq!(refusal("", right).await, "no credentials supplied");
    assert_eq!(refusal("admin", "").await, "no credentials supplied");
    let old = Login { token: Secret::from("x"), ..login("admin", right) };
    let text = sessions.login(old).await.unwrap_err().message;
    assert_eq!(text, "token-based session creation no longer supported. please upgrade argocd cli to v0.7+");
    let blank = sessions.check_password("admin", &Secret::default()).await.unwrap_err().message;
    assert_eq!(blank, "Blank passwords are not allowed");
}

#[tokio::test(start_paused = true)]
async fn sec_13_every_answer_takes_half_a_second_or_more() {
    let sessions = sessions(&Data::new());
    for (username, password) in
        [("admin", "hunter2hunter2"), ("admin", "wrong"), ("ghost", "wrong"), (&"x".repeat(40), "y")]
    {
        let began = Instant::now();
        drop(sessions.login(login(username, password)).await);
        let took = began.elapsed().as_millis();
        assert!((500..=1_001).contains(&took), "{username}: {took} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn sec_11_a_name_is_locked_after_five_failures() {
    let sessions = sessions(&Data::new());
    for _ in 0..5 {
        drop(sessions.login(login("admin", "wrong")).await);
    }
    let locked = sessions.login(login("admin", "hunter2hunter2")).await.unwrap_err();
    assert_eq!(locked.message, "Invalid username or password");
    assert_eq!(sessions.locked(), 1);
    tokio::time::advance(std::time::Duration::from_secs(301)).await;
    assert!(sessions.login(login("admin", "hunter2hunter2")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn sec_55_logins_at_the_same_time_are_counted_and_bounded() {
    let sessions = sessions(&Data::new());
    let tries = (0..20).map(|_| sessions.login(login("admin", "wrong")));
    drop(futures::future::join_all(tries).await);
    assert!(sessions.login(login("admin", "hunter2hunter2")).await.is_err(), "more than five have failed");
    let few = Data::new().env("ARGOCD_MAX_CONCURRENT_LOGIN_REQUESTS_COUNT", "2");
    let sessions = Sessions::new(few.shared(), clock(), None);
    let three = (0..3).map(|_| sessions.login(login("admin", "hunter2hunter2")));
    let outcomes = futures::future::join_all(three).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 2);
    assert_eq!(outcomes[2].as_ref().unwrap_err().message, "Invalid username or password");
}

#[tokio::test]
async fn api_39_tokens_of_accounts_follow_their_account() {
    assert_eq!(identified(&kim(), &token(&json!({}))).await.unwrap().claims.text("sub"), "kim");
    let set = |key: &str, value: &str| {
        kim().config_map("argocd-cm", &[("accounts.kim", "login, apiKey"), (key, value)])
    };
    let refusals = [
        (set("accounts.kim.enabled", "false"), json!({}), "account kim is disabled"),
        (kim(), json!({"sub": "ghost:apiKey"}), "account 'ghost' does not exist"),
        (kim(), json!({"jti": ""}), "token does not have an id"),
        (kim(), json!({"jti": "t2"}), "account kim does not have token with id t2"),
        (
            kim().config_map("argocd-cm", &[("accounts.kim", "login")]),
            json!({}),
            "account kim does not have apiKey capability",
        ),
        (
            kim().config_map("argocd-cm", &[("accounts.kim", "apiKey")]),
            json!({"sub": "kim:login"}),
            "account kim does not have login capability",
        ),
        (kim(), json!({"sub": "kim:other", "jti": "t2"}), "account kim does not have token with id t2"),
        (kim(), json!({"exp": now().as_second()}), "token is expired"),
        (kim(), json!({"iss": "https://sso"}), "token was issued by somebody else"),
        (
            kim().secret("argocd-secret", &[("accounts.kim.passwordMtime", "2023-11-14T22:13:21Z")]),
            json!({}),
            "account password has changed since token issued",
        ),
    ];
    for (data, changes, reason) in refusals {
        assert_eq!(
            identified(&data, &token(&changes)).await.unwrap_err(),
            format!("invalid session: {reason}"),
            "{changes}"
        );
    }
    let same_second =
        kim().secret("argocd-secret", &[("accounts.kim.passwordMtime", "2023-11-14T22:13:20Z")]);
    assert!(identified(&same_second, &token(&json!({}))).await.is_ok());
}

/// SEC-14: the account is asked for at every call, not when the token is made.
#[tokio::test]
async fn sec_14_a_disabled_account_has_no_session() {
    let world = kim().shared();
    let sessions = Sessions::new(Arc::clone(&world), clock(), None);
    let token = token(&json!({}));
    assert!(sessions.identify(&token).await.is_ok());
    let off = [("accounts.kim", "login, apiKey"), ("accounts.kim.enabled", "false")];
    world.store(Arc::new(kim().config_map("argocd-cm", &off).world()));
    assert!(sessions.identify(&token).await.is_err());
}

#[tokio::test]
async fn api_38_tokens_of_projects_are_in_the_books() {
    let books = json!({"jwtTokensByRole": {"ci": {"items": [{"iat": 5, "id": "a"}, {"iat": 6}]}}});
    let data = kim().project("shop", &json!({"roles": [{"name": "ci"}]}), &books);
    let with = async |subject: &str, id: &str, issued: i64| {
        identified(&data, &token(&json!({"sub": subject, "jti": id, "iat": issued, "nbf": issued}))).await
    };
    assert_eq!(with("proj:shop:ci", "a", 5).await.unwrap().claims.text("sub"), "proj:shop:ci");
    assert!(with("proj:shop:ci", "", 6).await.is_ok(), "books without ids");
    for (subject, id, issued) in [
        ("proj:shop:ci", "b", 5),
        ("proj:shop:ci", "", 7),
        ("proj:shop:other", "a", 5),
        ("proj:gone:ci", "a", 5),
        // A token that was deleted is not kept alive by another of the same second.
        ("proj:shop:ci", "deleted", 6),
    ] {
        assert!(with(subject, id, issued).await.is_err(), "{subject} {id} {issued}");
    }
}

/// Reusing an id does not make a deleted token valid again.
#[tokio::test]
async fn api_38_a_reused_id_does_not_revive_a_deleted_token() {
    let items = json!([{"iat": 100, "exp": 5_000_000_000_i64, "id": "a"}, {"iat": 200, "id": "200"}]);
    let data = kim().project(
        "shop",
        &json!({"roles": [{"name": "ci"}]}),
        &json!({"jwtTokensByRole": {"ci": {"items": items}}}),
    );
    let with = async |id: &str, issued: i64, ends: Option<i64>| {
        let claims = json!({"sub": "proj:shop:ci", "jti": id, "iat": issued, "nbf": issued, "exp": ends});
        identified(&data, &token(&claims)).await.is_ok()
    };
    assert!(with("a", 100, Some(5_000_000_000)).await, "the one that is stored");
    assert!(!with("a", 50, Some(5_000_000_000)).await, "the deleted one of the same id");
    assert!(!with("a", 100, None).await, "one that would last for ever");
    assert!(!with("a", 100, Some(6_000_000_000)).await);
    assert!(with("", 200, None).await, "a token from before there were ids");
    assert!(!with("", 100, Some(5_000_000_000)).await, "one with an id of the same second is another one");
}

#[tokio::test]
async fn api_39_a_reused_id_does_not_revive_a_deleted_token() {
    let issued = now().as_second();
    let stored = |iat: i64, exp: i64| {
        let tokens = json!([{"id": "t1", "iat": iat, "exp": exp}]).to_string();
        kim().secret("argocd-secret", &[("accounts.kim.tokens", &tokens)])
    };
    let counts = async |data: &Data, changes: Value| identified(data, &token(&changes)).await.is_ok();
    assert!(counts(&stored(issued, 0), json!({})).await);
    assert!(
        counts(&stored(issued - 1, 0), json!({})).await,
        "Argo CD takes the time once more for the token"
    );
    assert!(!counts(&stored(issued + 10, 0), json!({})).await, "the deleted one of the same id");
    assert!(!counts(&stored(issued - 10, 0), json!({})).await);
    assert!(!counts(&stored(issued, issued + 60), json!({})).await, "one that would last for ever");
    assert!(counts(&stored(issued - 1, issued + 59), json!({"exp": issued + 60})).await);
}

#[tokio::test(start_paused = true)]
async fn api_40_a_session_near_its_end_is_renewed() {
    let issued = now().as_second();
    let at = async |left: i64, subject: &str| {
        let token = token(
            &json!({"sub": subject, "iat": issued - 1_000, "nbf": issued - 1_000, "exp": issued + left}),
        );
        let listed = format!(r#"[{{"id": "t1", "iat": {}}}]"#, issued - 1_000);
        let data = kim().secret("argocd-secret", &[("accounts.kim.tokens", &listed)]);
        identified(&data, &token).await.unwrap().renewed_token
    };
    assert!(at(300, "kim:login").await.is_none());
    assert!(at(299, "kim:apiKey").await.is_none(), "tokens of programs end when they end");
    let fresh = at(299, "kim:login").await.unwrap();
    let session = identified(&kim(), fresh.expose()).await.unwrap();
    let claims = session.claims.all();
    assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 1_299, "the same lifetime");
    assert_ne!(claims["jti"], "t1");
}

#[tokio::test]
async fn api_42_tokens_that_were_given_back_do_not_count() {
    let sessions = sessions(&kim());
    let token = token(&json!({}));
    assert!(sessions.identify(&token).await.is_ok());
    sessions.revoke(&claims("t1")).await.unwrap();
    let refused = sessions.identify(&token).await.unwrap_err();
    assert_eq!(refused.status.message, "invalid session: token is revoked, please re-login");
}

/// Error is not empty: where nobody knows which tokens were given back, none counts; what was known before stays in force.
#[tokio::test]
async fn api_42_no_token_counts_while_nobody_knows_which_were_given_back() {
    let sessions = sessions(&kim());
    let token = token(&json!({}));
    assert!(sessions.identify(&token).await.is_ok());
    sessions.take_revoked(Err(Unreadable("x".to_owned())));
    assert_eq!(sessions.identify(&token).await.unwrap_err().status.code, Code::Unavailable);
    assert!(sessions.confirm(&token).await.is_err());
    sessions.take_revoked(Ok(Revoked::default()));
    assert!(sessions.identify(&token).await.is_ok());
    sessions.revoke(&claims("another")).await.unwrap();
    sessions.take_revoked(Err(Unreadable("x".to_owned())));
    assert!(sessions.identify(&token).await.is_ok());
}

#[tokio::test]
async fn api_43_a_former_key_verifies_and_does_not_sign() {
    let rotated =
        kim().secret("argocd-secret", &[("server.secretkey", "new"), ("server.secretkey.previous", KEY)]);
    assert!(identified(&rotated, &token(&json!({}))).await.is_ok());
    let fresh = login_token(&rotated.world(), "kim", 100, now()).unwrap();
    assert!(identified(&kim(), fresh.expose()).await.is_err());
    let none = kim().secret("argocd-secret", &[("server.secretkey", "")]);
    assert!(identified(&none, &token(&json!({}))).await.is_err());
    assert_eq!(login_token(&none.world(), "kim", 100, now()).unwrap_err().code, Code::Internal);
}

#[tokio::test]
async fn api_29_what_is_no_token_is_refused() {
    for text in ["", "x", "a.b.c", "e30.e30.e30"] {
        assert!(identified(&kim(), text).await.unwrap_err().starts_with("invalid session: "), "{text}");
    }
    let later = now() + SignedDuration::from_secs(5);
    let early = token(&json!({"nbf": later.as_second()}));
    assert_eq!(identified(&kim(), &early).await.unwrap_err(), "invalid session: token is not valid yet");
}
