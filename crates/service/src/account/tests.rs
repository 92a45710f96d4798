use base64::Engine as _;

use super::*;
use crate::change::made;

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
    assert!(hash.as_str().starts_with("$2a$10$") && bcrypt::verify("long enough", hash.as_str()).unwrap());
    assert!(hashed(&Secret::from("a\0b")).is_err() && hashed(&Secret::new("x".repeat(80))).is_err());
    for (name, key) in [("kim", "accounts.kim.password"), ("admin", "admin.password")] {
        let change = plan_password(("argocd", None), &settings, (name, &hash), now()).unwrap();
        let written = texts(&change);
        assert_eq!(written[key], hash.as_str());
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

#[test]
fn api_47_passwords_are_bcrypt_of_any_cost_and_variant() {
    let password = Secret::from("correct horse");
    let made = hash(&password, [7; SALT_BYTES]).unwrap();
    assert!(made.as_str().starts_with("$2a$10$"), "{}", made.as_str());
    assert_eq!(format!("{made:?}"), "PasswordHash(***)");
    let stored = Secret::from(made.as_str());
    assert!(verify(&password, &stored) && !verify(&Secret::from("correct hors"), &stored));
    for variant in ["$2b$", "$2y$"] {
        assert!(verify(&password, &Secret::new(made.as_str().replace("$2a$", variant))), "{variant}");
    }
    let cheap = bcrypt::hash_with_salt("x", 4, [1; 16]).unwrap().to_string();
    assert!(verify(&Secret::from("x"), &Secret::from(cheap.as_str())));
    for broken in
        ["", "x", "$2a$10$", "$2a$99$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "$2a$10$ä"]
    {
        assert!(!verify(&password, &Secret::from(broken)), "{broken}");
    }
    assert!(hash(&Secret::new("x".repeat(73)), [0; SALT_BYTES]).is_err(), "a part of it would not count");
}

fn drawn() -> Drawn {
    let mut password = [0_u8; 64];
    password.iter_mut().zip(100_u8..).for_each(|(byte, value)| *byte = value);
    Drawn { signing_key: [1; 32], password, salt: [2; SALT_BYTES] }
}

#[test]
fn api_46_a_first_start_makes_a_key_and_a_password() {
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    let initial = plan_initial("argocd", (None, None), true, &drawn()).unwrap();
    let clear = texts(&initial)["password"].clone();
    assert!(
        clear.len() == 16 && clear.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
        "{clear}"
    );
    let initial = made(&initial);
    let hash = prepare(Some(&initial), &drawn()).unwrap().unwrap();
    let keys = plan_keys(("argocd", None), Some(&hash), &drawn(), now);
    let stored = made(&keys);
    let data = texts(&keys);
    assert_eq!(base64::engine::general_purpose::STANDARD.decode(&data["server.secretkey"]).unwrap(), [1; 32]);
    assert!(verify(&Secret::new(clear), &Secret::from(data["admin.password"].as_str())));
    assert_eq!(data["admin.passwordMtime"], "2023-11-14T22:13:20Z");
    assert!(matches!(plan_done(Some(&initial)), Change::Patch(..)));
    // A second start changes nothing.
    assert_eq!(
        plan_initial("argocd", (Some(&stored), Some(&initial)), true, &drawn()).unwrap(),
        Change::Keep
    );
    assert_eq!(plan_keys(("argocd", Some(&stored)), Some(&hash), &drawn(), now), Change::Keep);
    assert_eq!(plan_keys(("argocd", Some(&stored)), None, &drawn(), now), Change::Keep);
}

#[test]
fn api_46_another_start_at_the_same_time_takes_the_same_password() {
    let initial = made(&plan_initial("argocd", (None, None), true, &drawn()).unwrap());
    let other = Drawn { password: [9; 64], ..drawn() };
    assert_eq!(plan_initial("argocd", (None, Some(&initial)), true, &other).unwrap(), Change::Keep);
    let hash = prepare(Some(&initial), &other).unwrap().unwrap();
    let clear = objects::decoded(&initial).remove("password").unwrap();
    assert!(verify(&Secret::new(clear), &Secret::from(hash.as_str())));
}

#[test]
fn api_46_a_password_that_was_in_force_is_not_taken_again() {
    let old = secret(&[("password", "known-to-all")]);
    let renewed = plan_initial("argocd", (None, Some(&old)), true, &drawn()).unwrap();
    assert_ne!(texts(&renewed)["password"], "known-to-all");
    assert_eq!(prepare(Some(&old), &drawn()).unwrap(), None);
    assert_eq!(plan_initial("argocd", (None, None), false, &drawn()).unwrap(), Change::Keep, "admin is off");
    let key = secret(&[("server.secretkey", "k")]);
    let now = Timestamp::from_second(1).unwrap();
    assert_eq!(plan_keys(("argocd", Some(&key)), None, &drawn(), now), Change::Keep);
}

#[test]
fn sec_12_letters_of_passwords_are_equally_likely() {
    let mut counts = BTreeMap::new();
    for byte in 0..=251_u8 {
        let drawn = Drawn { password: [byte; 64], ..drawn() };
        let password = plan_initial("a", (None, None), true, &drawn).unwrap();
        *counts.entry(texts(&password)["password"].chars().next().unwrap()).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 63);
    assert!(counts.values().all(|count| *count == 4), "{counts:?}");
    let odd = Drawn { password: [252; 64], ..drawn() };
    assert!(plan_initial("a", (None, None), true, &odd).is_err());
}
