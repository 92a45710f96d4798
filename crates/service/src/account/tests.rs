use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tiphys_api::settings::SettingsData;
use tiphys_object::Object;

use super::*;
use crate::change::Change;

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn accounts(cm: &[(&str, &str)], secret: &[(&str, &str)]) -> Accounts {
    Accounts::read(&Settings::new(SettingsData {
        cm: map(cm),
        secret: map(secret),
        ..SettingsData::default()
    }))
}

fn stored(data: &[(&str, &str)]) -> Object {
    let data: serde_json::Map<String, Value> =
        data.iter().map(|(key, value)| ((*key).to_owned(), STANDARD.encode(value).into())).collect();
    let value = json!({"apiVersion": "v1", "kind": "Secret", "data": data,
        "metadata": {"name": "argocd-secret", "uid": "u", "resourceVersion": "7"}});
    Object::from_value(&value).unwrap()
}

/// The entries that a change sets, decoded.
fn entries(change: &Change) -> BTreeMap<String, String> {
    let value = match change {
        Change::Create(manifest) => manifest.expose(),
        Change::Patch(_, patch) => patch.expose(),
        other => panic!("{other:?}"),
    };
    let decode =
        |value: &Value| String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap();
    value["data"].as_object().unwrap().iter().map(|(key, value)| (key.clone(), decode(value))).collect()
}

#[test]
fn api_44_accounts_are_declared_in_the_settings() {
    let cm = [
        ("accounts.kim", " login, apiKey ,sudo"),
        ("accounts.bot", "apiKey"),
        ("accounts.bot.enabled", "False"),
        ("accounts.kim.color", "red"),
        ("accounts.a.b.c", "login"),
    ];
    let secret = [
        ("accounts.kim.password", "$2a$10$x"),
        ("accounts.kim.passwordMtime", "2026-01-02T03:04:05Z"),
        ("accounts.bot.tokens", r#"[{"id": "a", "iat": 5, "exp": 9}, {"id": "b", "iat": 6}]"#),
        ("accounts.ghost.password", "x"),
    ];
    let read = accounts(&cm, &secret);
    let names: Vec<&str> = read.all().unwrap().map(|account| account.name.as_str()).collect();
    assert_eq!(names, ["admin", "bot", "kim"]);
    let kim = read.get("kim").unwrap();
    assert!(kim.is_enabled && kim.has(Capability::Login) && kim.has(Capability::ApiKey));
    assert_eq!(kim.password.expose(), "$2a$10$x");
    assert_eq!(kim.password_changed.unwrap().as_second(), 1_767_323_045);
    let bot = read.get("bot").unwrap();
    assert!(!bot.is_enabled && !bot.has(Capability::Login) && bot.has_token("b"));
    assert_eq!(bot.tokens[1], AccountToken { id: "b".to_owned(), issued_at: 6, expires_at: 0 });
    assert_eq!(read.get("ghost").unwrap_err().code(), Code::NotFound);
    let warned = read.warnings().join("\n");
    for what in ["\"sudo\" is no capability", "accounts.kim.color", "accounts.a.b.c"] {
        assert!(warned.contains(what), "{warned}");
    }
    assert_eq!(read.warnings().len(), 3);
}

#[test]
fn api_44_a_switch_that_is_neither_on_nor_off_makes_every_look_fail() {
    let read = accounts(&[("accounts.kim", "login"), ("accounts.kim.enabled", "maybe")], &[]);
    assert!(read.get("admin").unwrap_err().to_string().contains("accounts.kim.enabled"));
    assert!(read.all().is_err());
}

#[test]
fn api_45_admin_is_always_there() {
    let admin =
        |cm: &[(&str, &str)]| accounts(cm, &[("admin.password", "hash")]).get("admin").unwrap().clone();
    assert!(
        admin(&[]).is_enabled && admin(&[]).has(Capability::Login) && !admin(&[]).has(Capability::ApiKey)
    );
    assert_eq!(admin(&[]).password.expose(), "hash");
    assert!(!admin(&[("admin.enabled", "false")]).is_enabled);
    assert!(admin(&[("admin.enabled", "nope")]).is_enabled);
    let with = admin(&[("accounts.admin", "apiKey, login")]);
    assert_eq!(with.capabilities, [Capability::Login, Capability::ApiKey]);
    assert!(!accounts(&[], &[]).has_no_logins());
    assert!(accounts(&[("admin.enabled", "false"), ("accounts.bot", "apiKey")], &[]).has_no_logins());
}

#[test]
fn what_cannot_be_read_of_an_account_is_nothing() {
    let secret = [("admin.passwordMtime", "yesterday"), ("admin.tokens", "{}"), ("admin.password", "")];
    let read = accounts(&[], &secret);
    let admin = read.get("admin").unwrap();
    assert!(admin.password.is_empty() && admin.password_changed.is_none() && admin.tokens.is_empty());
    assert_eq!(read.warnings().len(), 2);
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

#[test]
fn api_56_new_passwords_match_the_pattern() {
    let check = |password: &str, pattern| check_pattern(&Secret::from(password), pattern);
    assert!(check("12345678", None).is_ok());
    let refused = check("1234567", None).unwrap_err();
    assert_eq!(refused.to_string(), "new password does not match the following expression: ^.{8,32}$");
    assert!(check("abc", Some("^[a-z]+$")).is_ok());
    assert!(check("12345678", Some("")).is_ok(), "the default");
    assert!(check("anything", Some("(")).is_err(), "a pattern that does not compile matches nothing");
}

#[test]
fn api_56_a_password_is_stored_with_its_time() {
    let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let made = hash(&Secret::from("x"), [7; SALT_BYTES]).unwrap();
    let object = stored(&[]);
    let admin = entries(&plan_password(("argocd", Some(&object)), "admin", &made, now));
    assert_eq!(admin["admin.passwordMtime"], "2026-01-02T03:04:05Z");
    assert!(admin["admin.password"].starts_with("$2a$10$"));
    let kim = plan_password(("argocd", None), "kim", &made, now);
    assert!(matches!(kim, Change::Create(_)));
    assert_eq!(
        entries(&kim).keys().collect::<Vec<_>>(),
        ["accounts.kim.password", "accounts.kim.passwordMtime"]
    );
}

#[test]
fn api_57_tokens_are_stored_once_and_removed() {
    let object = stored(&[("accounts.bot.tokens", r#"[{"id":"a","iat":5,"exp":9}]"#)]);
    let token = |id: &str| AccountToken { id: id.to_owned(), issued_at: 7, expires_at: 0 };
    let added = plan_add_token(("argocd", Some(&object)), "bot", token("b")).unwrap();
    assert_eq!(entries(&added)["accounts.bot.tokens"], r#"[{"exp":9,"iat":5,"id":"a"},{"iat":7,"id":"b"}]"#);
    let used = plan_add_token(("argocd", Some(&object)), "bot", token("a")).unwrap_err();
    assert_eq!(used.to_string(), "account already has token with id 'a'");
    let removed = plan_delete_token(("argocd", Some(&object)), "bot", "a").unwrap();
    assert_eq!(entries(&removed)["accounts.bot.tokens"], "[]");
    let missing = plan_delete_token(("argocd", Some(&object)), "bot", "z").unwrap_err();
    assert_eq!(
        (missing.to_string().as_str(), missing.code()),
        ("token with id 'z' does not exist", Code::NotFound)
    );
    assert_eq!(plan_delete_token(("argocd", None), "admin", "a").unwrap_err().code(), Code::NotFound);
}

fn drawn() -> Drawn {
    let mut password = [0_u8; 64];
    password.iter_mut().zip(100_u8..).for_each(|(byte, value)| *byte = value);
    Drawn { signing_key: [1; 32], password, salt: [2; SALT_BYTES] }
}

/// The Secret that a change makes or patches.
fn made(change: &Change) -> Object {
    let Change::Create(manifest) = change else { panic!("{change:?}") };
    let mut value = manifest.expose().clone();
    value["metadata"]["uid"] = "u".into();
    value["metadata"]["resourceVersion"] = "1".into();
    Object::from_value(&value).unwrap()
}

#[test]
fn api_46_a_first_start_makes_a_key_and_a_password() {
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    let initial = plan_initial("argocd", (None, None), true, &drawn()).unwrap();
    let clear = entries(&initial)["password"].clone();
    assert!(
        clear.len() == 16 && clear.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'),
        "{clear}"
    );
    let initial = made(&initial);
    let hash = prepare(Some(&initial), &drawn()).unwrap().unwrap();
    let keys = plan_keys(("argocd", None), Some(&hash), &drawn(), now);
    let stored = made(&keys);
    let data = entries(&keys);
    assert_eq!(STANDARD.decode(&data["server.secretkey"]).unwrap(), [1; 32]);
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
    let clear = tiphys_installation::objects::decoded(&initial).remove("password").unwrap();
    assert!(verify(&Secret::new(clear), &Secret::from(hash.as_str())));
}

#[test]
fn api_46_a_password_that_was_in_force_is_not_taken_again() {
    let old = stored(&[("password", "known-to-all")]);
    let renewed = plan_initial("argocd", (None, Some(&old)), true, &drawn()).unwrap();
    assert_ne!(entries(&renewed)["password"], "known-to-all");
    assert_eq!(prepare(Some(&old), &drawn()).unwrap(), None);
    assert_eq!(plan_initial("argocd", (None, None), false, &drawn()).unwrap(), Change::Keep, "admin is off");
    let key = stored(&[("server.secretkey", "k")]);
    let now = Timestamp::from_second(1).unwrap();
    assert_eq!(plan_keys(("argocd", Some(&key)), None, &drawn(), now), Change::Keep);
}

#[test]
fn sec_12_letters_of_passwords_are_equally_likely() {
    let mut counts = BTreeMap::new();
    for byte in 0..=251_u8 {
        let drawn = Drawn { password: [byte; 64], ..drawn() };
        let password = plan_initial("a", (None, None), true, &drawn).unwrap();
        *counts.entry(entries(&password)["password"].chars().next().unwrap()).or_insert(0) += 1;
    }
    assert_eq!(counts.len(), 63);
    assert!(counts.values().all(|count| *count == 4), "{counts:?}");
    let odd = Drawn { password: [252; 64], ..drawn() };
    assert!(plan_initial("a", (None, None), true, &odd).is_err());
}
