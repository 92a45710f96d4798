use base64::Engine as _;

use super::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

fn secret(pairs: &[(&str, &str)]) -> Object {
    let engine = base64::engine::general_purpose::STANDARD;
    let data: Map<String, Value> =
        pairs.iter().map(|(key, text)| ((*key).to_owned(), engine.encode(text).into())).collect();
    Object::from_value(&json!({"apiVersion": "v1", "kind": "Secret", "data": data,
        "metadata": {"name": "argocd-secret", "namespace": "argocd", "uid": "u", "resourceVersion": "7"}}))
    .unwrap()
}

fn texts(change: &Change) -> BTreeMap<String, String> {
    let (Change::Create(sealed) | Change::Patch(_, sealed)) = change else { panic!("{change:?}") };
    let engine = base64::engine::general_purpose::STANDARD;
    let decode = |value: &Value| String::from_utf8(engine.decode(value.as_str().unwrap()).unwrap()).unwrap();
    let data = sealed.expose()["data"].as_object().unwrap();
    data.iter().map(|(key, value)| (key.clone(), decode(value))).collect()
}

fn now() -> Timestamp {
    "2026-08-01T10:00:00.5Z".parse().unwrap()
}

fn issue(id: &str, expires_in: i64) -> Issue<'_> {
    Issue { account: "bot", id, expires_in, now: now() }
}

#[test]
fn api_56_a_password_is_checked_hashed_and_dated() {
    let settings = map(&[("accounts.kim", "login")]);
    assert_eq!(check_password(&settings, "long enough"), Ok(()));
    let short = check_password(&settings, "short").unwrap_err();
    assert_eq!(short.to_string(), "new password does not match the following expression: ^.{8,32}$");
    let own = map(&[("passwordPattern", "^[a-z]+$")]);
    assert!(check_password(&own, "short").is_ok() && check_password(&own, "Short").is_err());
    assert!(matches!(
        check_password(&map(&[("passwordPattern", "(")]), "x"),
        Err(AccountCallError::Pattern(_))
    ));
    let hash = hashed(&Secret::from("long enough")).unwrap();
    assert!(hash.expose().starts_with("$2b$10$") && bcrypt::verify("long enough", hash.expose()).unwrap());
    assert!(hashed(&Secret::from("a\0b")).is_err() && hashed(&Secret::new("x".repeat(80))).is_err());
    for (name, key) in [("kim", "accounts.kim.password"), ("admin", "admin.password")] {
        let change = plan_password(("argocd", None), &settings, (name, &hash), now()).unwrap();
        let written = texts(&change);
        assert_eq!(written[key], *hash.expose());
        assert_eq!(written[&format!("{key}Mtime")], "2026-08-01T10:00:00Z");
    }
    let missing = plan_password(("argocd", None), &settings, ("x", &hash), now()).unwrap_err();
    assert_eq!(
        (missing.code(), missing.to_string()),
        (Code::NotFound, "account 'x' does not exist".to_owned())
    );
}

#[test]
fn api_57_tokens_are_noted_once_and_end() {
    let settings = map(&[("accounts.bot", "apiKey"), ("accounts.kim", "login")]);
    let stored = secret(&[("accounts.bot.tokens", r#"[{"id":"old","iat":1}]"#), ("other", "stays")]);
    let place = ("argocd", Some(&stored));
    let change = plan_token(place, &settings, &issue("new", 60)).unwrap();
    assert_eq!(
        texts(&change),
        map(&[(
            "accounts.bot.tokens",
            r#"[{"id":"new","iat":1785578400,"exp":1785578460},{"id":"old","iat":1}]"#
        )])
    );
    let told = |error: AccountCallError| error.to_string();
    assert_eq!(
        told(plan_token(place, &settings, &issue("old", 0)).unwrap_err()),
        "account already has token with id 'old'"
    );
    let kim = Issue { account: "kim", ..issue("a", 0) };
    assert_eq!(
        told(plan_token(place, &settings, &kim).unwrap_err()),
        "account 'kim' does not have apiKey capability"
    );
    assert_eq!(plan_token(place, &settings, &issue("a", -1)).unwrap_err().code(), Code::InvalidArgument);
    let gone = plan_delete_token(place, &settings, ("bot", "old")).unwrap();
    assert_eq!(texts(&gone), map(&[("accounts.bot.tokens", "[]")]));
    let unknown = plan_delete_token(place, &settings, ("bot", "x")).unwrap_err();
    assert_eq!(
        (unknown.code(), told(unknown)),
        (Code::NotFound, "token with id 'x' does not exist".to_owned())
    );
}

#[test]
fn api_55_answers_show_no_hash() {
    let stored = secret(&[
        ("accounts.bot.password", "hunter2"),
        ("accounts.bot.tokens", r#"[{"id":"t","iat":1,"exp":2}]"#),
    ]);
    let account = find(&map(&[("accounts.bot", "apiKey")]), Some(&stored), "bot").unwrap();
    assert_eq!(
        shown(&account),
        json!({"name": "bot", "enabled": true, "capabilities": ["apiKey"],
            "tokens": [{"id": "t", "issuedAt": 1, "expiresAt": 2}]})
    );
}
