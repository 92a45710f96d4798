//! Verifying tokens and exchanging codes, against a provider on loopback.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests count as no tests"
)]

#[path = "../testing/double.rs"]
mod double;

use std::time::Duration;

use serde_json::json;
use tiphys_api::secret::Secret;
use tiphys_service::jwt::TokenError;

use double::{CLI_CLIENT, CLIENT, Double, Mood, SECRET, Signer, without_signature};
use tiphys_oidc::keys::KeyError;
use tiphys_oidc::metadata::MetadataError;
use tiphys_oidc::{
    ClaimError, Client, Expected, HttpError, Limits, Poll, Provider, ProviderError, Transport, flow, http,
};

const NOW: i64 = 1_700_000_000;

fn transport() -> Transport {
    // Nobody waits ten seconds for a provider that says nothing.
    Transport { limits: Limits { time: Duration::from_millis(300), bytes: 1 << 20 }, ..Transport::default() }
}

fn provider(double: &Double) -> Provider {
    Provider::new(&double.issuer, &transport()).unwrap()
}

async fn verified(double: &Double, provider: &Provider, token: &str) -> Result<String, ProviderError> {
    let audiences = [CLIENT.to_owned()];
    let expected =
        Expected { issuer: &double.issuer, audiences: &audiences, may_lack_audience: false, nonce: None };
    let claims = provider.verify(token, &expected, NOW).await?;
    Ok(claims["sub"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn api_65_tokens_of_both_kinds_of_keys_count() {
    for signer in [Signer::rsa("r"), Signer::p256("e")] {
        let double = Double::with(signer, NOW).await;
        let provider = provider(&double);
        assert_eq!(verified(&double, &provider, &double.token(CLIENT)).await.unwrap(), "u1");
        // One that names no key is tried with all.
        let signer = double.state.lock().signer.clone();
        let nameless = signer.sign_as(&json!({"alg": signer.algorithm()}), &double.claims(CLIENT));
        assert_eq!(verified(&double, &provider, &nameless).await.unwrap(), "u1");
        assert_eq!(double.count("/keys"), 1, "what is known is not asked again");
    }
}

#[tokio::test]
async fn api_65_wrong_claims_do_not_count() {
    let double = Double::start(NOW).await;
    let provider = provider(&double);
    for (changes, error) in [
        (json!({"iss": "https://evil.test"}), ClaimError::Issuer),
        (json!({"aud": "other"}), ClaimError::Audience),
        (json!({"aud": null}), ClaimError::Audience),
        (json!({"exp": NOW}), ClaimError::Expired),
        (json!({"nbf": NOW + 301}), ClaimError::NotYet),
        (json!({"sub": null}), ClaimError::Subject),
    ] {
        let outcome = verified(&double, &provider, &double.token_with(&changes)).await;
        assert_eq!(outcome, Err(error.into()), "{changes}");
        assert_eq!(error == ClaimError::Expired, outcome.unwrap_err().is_expired());
    }
}

#[tokio::test]
async fn sec_15_unsigned_and_confused_tokens_do_not_count() {
    let double = Double::with(Signer::rsa("k1"), NOW).await;
    let provider = provider(&double);
    let claims = double.claims(CLIENT);
    let signer = double.state.lock().signer.clone();
    let refused = [without_signature(&claims), signer.confuse(&claims)];
    for token in refused {
        assert_eq!(verified(&double, &provider, &token).await, Err(KeyError::Algorithm.into()));
    }
    assert_eq!(double.count("/sso"), 0, "they are not worth a question");
    // A way of signing that the provider does not say it has.
    double.state.lock().metadata = json!({"id_token_signing_alg_values_supported": ["ES256"]});
    assert_eq!(verified(&double, &provider, &double.token(CLIENT)).await, Err(KeyError::Algorithm.into()));
    assert_eq!(verified(&double, &provider, &"a".repeat(200 << 10)).await, Err(TokenError::Malformed.into()));
}

#[tokio::test]
async fn sec_15_a_signature_of_somebody_else_does_not_count() {
    let double = Double::start(NOW).await;
    let provider = provider(&double);
    let stranger = Signer::p256("k1").sign(&double.claims(CLIENT));
    assert_eq!(verified(&double, &provider, &stranger).await, Err(KeyError::Unknown.into()));
    let good = double.token(CLIENT);
    let (body, _) = good.rsplit_once('.').unwrap();
    for proof in ["", "AAAA"] {
        let cut = format!("{body}.{proof}");
        assert_eq!(verified(&double, &provider, &cut).await, Err(KeyError::Unknown.into()));
    }
    let elsewhere = Signer::rsa("k1").sign(&double.claims(CLIENT));
    assert_eq!(verified(&double, &provider, &elsewhere).await, Err(KeyError::Unknown.into()), "another kind");
}

#[tokio::test]
async fn api_65_new_keys_are_asked_for_at_a_bounded_rate() {
    let double = Double::start(NOW).await;
    let provider = provider(&double);
    verified(&double, &provider, &double.token(CLIENT)).await.unwrap();
    let old = double.token(CLIENT);
    let rotated = Signer::rsa("k2");
    {
        let mut state = double.state.lock();
        state.keys = vec![rotated.clone()];
        state.signer = rotated;
    }
    assert_eq!(verified(&double, &provider, &double.token(CLIENT)).await.unwrap(), "u1");
    assert_eq!(double.count("/keys"), 2);
    assert_eq!(verified(&double, &provider, &old).await, Err(KeyError::Unknown.into()), "it was taken back");
    for number in 0..20 {
        let stranger = Signer::p256(&format!("x{number}")).sign(&double.claims(CLIENT));
        assert_eq!(verified(&double, &provider, &stranger).await, Err(KeyError::Unknown.into()));
    }
    assert_eq!(double.count("/keys"), 2, "strangers do not make us ask");
    double.state.lock().mood = Mood::Broken;
    assert_eq!(
        verified(&double, &provider, &double.token(CLIENT)).await.unwrap(),
        "u1",
        "keys stay in force"
    );
}

#[tokio::test]
async fn api_72_a_provider_that_is_not_well_costs_little() {
    for mood in [Mood::Silent, Mood::Endless, Mood::Broken, Mood::Redirecting] {
        let double = Double::start(NOW).await;
        let provider = provider(&double);
        double.state.lock().mood = mood;
        let token = double.token(CLIENT);
        let failure = verified(&double, &provider, &token).await.unwrap_err();
        let expected = match mood {
            Mood::Silent => "no answer within",
            Mood::Endless => "is larger than 1048576 bytes",
            Mood::Broken => "status 500: server_error",
            _ => "status 302",
        };
        assert!(failure.to_string().contains(expected), "{mood:?}: {failure}");
        // The next one is told the same at once.
        assert_eq!(verified(&double, &provider, &token).await, Err(failure));
        assert_eq!(double.count("/sso"), 1, "{mood:?}");
    }
}

#[tokio::test]
async fn api_65_a_provider_is_who_it_should_be() {
    let double = Double::start(NOW).await;
    double.state.lock().metadata = json!({"issuer": "https://evil.test"});
    let failure = verified(&double, &provider(&double), &double.token(CLIENT)).await.unwrap_err();
    assert!(matches!(failure, ProviderError::Metadata(MetadataError::Issuer { .. })), "{failure}");
    double.state.lock().metadata = json!({"jwks_uri": "file:///etc/passwd"});
    let failure = verified(&double, &provider(&double), &double.token(CLIENT)).await.unwrap_err();
    assert_eq!(failure, MetadataError::Missing("jwks_uri").into());
}

/// Signs in as a browser does, and gives the code.
async fn code(provider: &Provider, client: &str, verifier: Option<&str>) -> Secret<String> {
    let asked = flow::Authorization {
        client_id: client,
        redirect_uri: "http://cd/auth/callback",
        scopes: &["openid".to_owned()],
        state: "s",
        nonce: "n",
        verifier,
        id_token_claims: &std::collections::BTreeMap::new(),
        connector_id: "",
        domain_hint: "",
    };
    let url = flow::authorization_url(&provider.metadata().await.unwrap(), &asked).unwrap();
    let browser = http::client(&transport()).unwrap();
    let answer = browser.get(url).send().await.unwrap();
    let place = answer.headers()["location"].to_str().unwrap().to_owned();
    match flow::Callback::read(place.split_once('?').unwrap().1) {
        flow::Callback::Code { code, state } if state == "s" => code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn api_64_a_code_is_exchanged_by_whoever_asked_for_it() {
    let double = Double::start(NOW).await;
    let provider = provider(&double);
    let back = "http://cd/auth/callback";
    let server = Client { id: CLIENT.to_owned(), secret: Secret::from(SECRET), assertion: None };
    let program = Client { id: CLI_CLIENT.to_owned(), ..Client::default() };
    let given = code(&provider, CLIENT, None).await;
    assert!(!provider.exchange(&server, &given, (back, None)).await.unwrap().id_token.is_empty());
    let again = provider.exchange(&server, &given, (back, None)).await.unwrap_err();
    assert!(again.to_string().ends_with("status 400: invalid_grant"), "{again}");
    let given = code(&provider, CLI_CLIENT, Some("verifier")).await;
    assert!(provider.exchange(&program, &given, (back, Some("other"))).await.is_err());
    let given = code(&provider, CLI_CLIENT, Some("verifier")).await;
    assert!(provider.exchange(&program, &given, (back, Some("verifier"))).await.is_ok());
    let liar = Client { secret: Secret::from("wrong"), ..server.clone() };
    let given = code(&provider, CLIENT, None).await;
    let refused = provider.exchange(&liar, &given, (back, None)).await.unwrap_err().to_string();
    assert!(refused.ends_with("status 400: invalid_client") && !refused.contains("wrong"), "{refused}");
}

#[tokio::test]
async fn api_64_the_secret_stands_where_the_provider_wants_it() {
    let double = Double::start(NOW).await;
    double.state.lock().metadata = json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]});
    double.state.lock().refresh_token = "r1".to_owned();
    let provider = provider(&double);
    let server = Client { id: CLIENT.to_owned(), secret: Secret::from(SECRET), assertion: None };
    let granted = provider.refresh(&server, &Secret::from("r1")).await.unwrap();
    assert_eq!(granted.refresh_token.expose(), "r1");
    assert_eq!(double.state.lock().forms[0]["client_secret"], SECRET);
    assert!(provider.refresh(&server, &Secret::from("r0")).await.is_err());
}

#[test]
fn api_72_certificates_that_are_none_are_told() {
    let transport = Transport { root_ca: "no PEM".to_owned(), ..Transport::default() };
    assert_eq!(Provider::new("https://sso", &transport).unwrap_err(), HttpError::RootCa);
}

#[tokio::test]
async fn cli_207_a_login_by_a_code_waits_for_the_person() {
    let double = Double::start(NOW).await;
    let endpoint = format!("{}/device", double.issuer);
    let client = Client { id: CLI_CLIENT.to_owned(), ..Client::default() };
    let scopes = ["openid".to_owned(), "email".to_owned()];
    let none = provider(&double).begin_device(&client, &scopes).await.unwrap_err();
    assert_eq!(none, ProviderError::NoDeviceLogins);
    double.state.lock().metadata = json!({"device_authorization_endpoint": endpoint});
    let provider = provider(&double);
    let device = provider.begin_device(&client, &scopes).await.unwrap();
    assert_eq!((device.user_code.as_str(), device.interval), ("AB-CD", Duration::from_secs(1)));
    double.state.lock().undecided =
        vec!["expired_token", "access_denied", "slow_down", "authorization_pending"];
    assert_eq!(provider.poll_device(&client, &device).await.unwrap(), Poll::Pending);
    assert_eq!(provider.poll_device(&client, &device).await.unwrap(), Poll::TooEarly);
    for word in ["access_denied", "expired_token"] {
        let refused = provider.poll_device(&client, &device).await.unwrap_err();
        assert!(refused.to_string().ends_with(word), "{refused}");
    }
    let Poll::Granted(granted) = provider.poll_device(&client, &device).await.unwrap() else { panic!() };
    assert!(!granted.id_token.is_empty());
    let form = double.state.lock().forms.last().unwrap().clone();
    assert_eq!((form["client_id"].as_str(), form["device_code"].as_str()), (CLI_CLIENT, "device-1"));
}
