//! An identity provider on loopback for tests: real HTTP, real signatures, and people who are signed in at once.
//!
//! Tests of several crates include this file; what one of them does not use is no dead code.
#![allow(dead_code, clippy::allow_attributes, unreachable_pub, reason = "not every crate uses all of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// The client of the API server, its secret, and that of the command line.
pub(crate) const CLIENT: &str = "cd";
pub(crate) const SECRET: &str = "hunter2";
pub(crate) const CLI_CLIENT: &str = "cd-cli";

/// A key that signs.
#[derive(Clone)]
pub(crate) struct Signer {
    pub(crate) id: String,
    material: Arc<Material>,
}

enum Material {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
}

impl Signer {
    pub(crate) fn rsa(id: &str) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        Self { id: id.to_owned(), material: Arc::new(Material::Rsa(pair)) }
    }

    pub(crate) fn p256(id: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self { id: id.to_owned(), material: Arc::new(Material::P256(pair)) }
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match &*self.material {
            Material::Rsa(_) => "RS256",
            Material::P256(_) => "ES256",
        }
    }

    /// The public key, as a provider shows it.
    pub(crate) fn shown(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match &*self.material {
            Material::Rsa(pair) => {
                // A sequence of two numbers (PKCS #1); with 2048 bits their places are known.
                let key = pair.public_key().as_ref();
                assert_eq!(&key[..9], [0x30, 0x82, 1, 10, 2, 0x82, 1, 1, 0]);
                json!({"kty": "RSA", "use": "sig", "kid": self.id, "alg": "RS256",
                    "n": text(&key[9..265]), "e": text(&key[267..])})
            }
            Material::P256(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": self.id, "x": text(&point[1..33]), "y": text(&point[33..])})
            }
        }
    }

    /// A token that says this, signed.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_as(&json!({"alg": self.algorithm(), "kid": self.id}), claims)
    }

    /// The same with another header.
    pub(crate) fn sign_as(&self, header: &Value, claims: &Value) -> String {
        let message = unsigned(header, claims);
        let random = SystemRandom::new();
        let proof = match &*self.material {
            Material::Rsa(pair) => {
                let mut proof = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut proof).unwrap();
                proof
            }
            Material::P256(pair) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(proof))
    }

    /// What somebody makes who takes the public key for a shared secret.
    pub(crate) fn confuse(&self, claims: &Value) -> String {
        let message = unsigned(&json!({"alg": "HS256", "kid": self.id}), claims);
        let shown = self.shown();
        let secret = shown["n"].as_str().or(shown["x"].as_str()).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &URL_SAFE_NO_PAD.decode(secret).unwrap());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, message.as_bytes())))
    }
}

fn unsigned(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// A token that nobody signed.
pub(crate) fn without_signature(claims: &Value) -> String {
    format!("{}.", unsigned(&json!({"alg": "none"}), claims))
}

/// How the provider answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Good,
    /// It takes a connection and says nothing.
    Silent,
    /// It says more than anybody reads.
    Endless,
    /// It is not well.
    Broken,
    /// It sends everybody elsewhere.
    Redirecting,
}

pub(crate) struct State {
    /// Those that are shown.
    pub(crate) keys: Vec<Signer>,
    /// The one that signs.
    pub(crate) signer: Signer,
    pub(crate) mood: Mood,
    /// Members of the document that are otherwise.
    pub(crate) metadata: Value,
    /// What is said of whoever logs in.
    pub(crate) person: Value,
    /// The second of issue; tokens last an hour.
    pub(crate) now: i64,
    /// Methods and targets of requests.
    pub(crate) requests: Vec<String>,
    /// What came to the token endpoint.
    pub(crate) forms: Vec<BTreeMap<String, String>>,
    /// Codes that were given out, with what they were asked with.
    codes: BTreeMap<String, BTreeMap<String, String>>,
    /// The id and the secret of the API server.
    pub(crate) client: (String, String),
    /// What is answered, the last first, before a login by a code is allowed.
    pub(crate) undecided: Vec<&'static str>,
    /// The refresh token that counts; empty gives none.
    pub(crate) refresh_token: String,
    /// What is told of the bearer of the access token `access`: an object, or a text that is a token; null refuses.
    pub(crate) told: Value,
}

/// A provider.
#[derive(Clone)]
pub(crate) struct Double {
    pub(crate) issuer: String,
    /// Host and port.
    pub(crate) address: String,
    /// The path below which it is.
    base: String,
    pub(crate) state: Arc<Mutex<State>>,
}

impl Double {
    pub(crate) async fn start(now: i64) -> Self {
        Self::with(Signer::p256("k1"), now).await
    }

    pub(crate) async fn with(signer: Signer, now: i64) -> Self {
        Self::named(None, "/sso", signer, now).await
    }

    /// One that is behind the address of somebody else, as Dex is.
    pub(crate) async fn behind(origin: &str, base: &str, now: i64) -> Self {
        Self::named(Some(format!("{origin}{base}")), base, Signer::p256("k1"), now).await
    }

    async fn named(issuer: Option<String>, base: &str, signer: Signer, now: i64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let issuer = issuer.unwrap_or_else(|| format!("http://{address}{base}"));
        let state = State {
            keys: vec![signer.clone()],
            signer,
            mood: Mood::Good,
            metadata: json!({}),
            person: json!({"sub": "u1", "email": "kim@acme.test", "groups": ["devs"], "jti": "t1"}),
            now,
            requests: Vec::new(),
            forms: Vec::new(),
            codes: BTreeMap::new(),
            client: (CLIENT.to_owned(), SECRET.to_owned()),
            undecided: Vec::new(),
            refresh_token: String::new(),
            told: Value::Null,
        };
        let double = Self { issuer, address, base: base.to_owned(), state: Arc::new(Mutex::new(state)) };
        let serving = double.clone();
        drop(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(tokio::spawn(serving.clone().connection(stream)));
            }
        }));
        double
    }

    /// Claims of a good token for an audience.
    pub(crate) fn claims(&self, audience: &str) -> Value {
        let state = self.state.lock();
        let mut claims =
            json!({"iss": self.issuer, "aud": audience, "iat": state.now, "exp": state.now + 3600});
        for (name, value) in state.person.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    /// A good token for an audience.
    pub(crate) fn token(&self, audience: &str) -> String {
        let claims = self.claims(audience);
        self.state.lock().signer.clone().sign(&claims)
    }

    /// A good token, but for some claims.
    pub(crate) fn token_with(&self, changes: &Value) -> String {
        let mut claims = self.claims(CLIENT);
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        self.state.lock().signer.clone().sign(&claims)
    }

    pub(crate) fn count(&self, path: &str) -> usize {
        self.state.lock().requests.iter().filter(|request| request.contains(path)).count()
    }

    async fn connection(self, mut stream: TcpStream) {
        let (reading, mut writing) = stream.split();
        let mut reading = BufReader::new(reading);
        let mut line = String::new();
        reading.read_line(&mut line).await.unwrap();
        let (mut length, mut authorization) = (0, String::new());
        loop {
            let mut header = String::new();
            reading.read_line(&mut header).await.unwrap();
            let Some((name, value)) = header.trim().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().unwrap(),
                "authorization" => value.clone_into(&mut authorization),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reading.read_exact(&mut body).await.unwrap();
        let mut words = line.split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        self.state.lock().requests.push(format!("{method} {target}"));
        let mood = self.state.lock().mood;
        let (status, headers, text) = match mood {
            Mood::Silent => std::future::pending().await,
            Mood::Endless => ("200 OK", String::new(), " ".repeat(4 << 20)),
            Mood::Broken => ("500 Broken", String::new(), r#"{"error": "server_error"}"#.to_owned()),
            Mood::Redirecting => {
                ("302 Found", "location: http://127.0.0.1:1/stolen\r\n".to_owned(), String::new())
            }
            Mood::Good => self.answer(target, &body, &authorization),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\n{headers}content-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{text}",
            text.len()
        );
        // Whoever reads no further than they want is gone.
        let _gone = writing.write_all(answer.as_bytes()).await;
    }

    fn answer(&self, target: &str, body: &[u8], authorization: &str) -> (&'static str, String, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let ok = |value: Value| ("200 OK", String::new(), value.to_string());
        match path.strip_prefix(self.base.as_str()).unwrap_or_default() {
            "/.well-known/openid-configuration" => ok(self.document()),
            "/keys" => {
                let keys: Vec<Value> = self.state.lock().keys.iter().map(Signer::shown).collect();
                ok(json!({"keys": keys}))
            }
            "/auth" => (
                "302 Found",
                format!("location: {}\r\n", self.sign_in(&pairs(query.as_bytes()))),
                String::new(),
            ),
            "/device" => ok(json!({"device_code": "device-1", "user_code": "AB-CD", "expires_in": 600,
                "interval": 1, "verification_uri": format!("{}/enter", self.issuer)})),
            "/token" => match self.exchange(&pairs(body), authorization) {
                Ok(value) => ok(value),
                Err(word) => ("400 Bad", String::new(), json!({"error": word}).to_string()),
            },
            "/me" => match &self.state.lock().told {
                Value::Null => ("401 Unauthorized", String::new(), "{}".to_owned()),
                _ if authorization != "Bearer access" => ("401 Unauthorized", String::new(), "{}".to_owned()),
                Value::String(token) => ("200 OK", String::new(), token.clone()),
                told => ok(told.clone()),
            },
            _ => ("404 Not Found", String::new(), "{}".to_owned()),
        }
    }

    fn document(&self) -> Value {
        let issuer = &self.issuer;
        let mut document = json!({"issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"),
            "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
            "response_types_supported": ["code", "id_token"], "scopes_supported": ["openid", "offline_access"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256"]});
        for (name, value) in self.state.lock().metadata.as_object().unwrap() {
            document[name] = value.clone();
        }
        document
    }

    /// Signs somebody in, and says where the browser goes.
    fn sign_in(&self, asked: &BTreeMap<String, String>) -> String {
        let back = &asked["redirect_uri"];
        if asked["response_type"] == "id_token" {
            let token = self.token_with(&json!({"aud": asked["client_id"], "nonce": asked["nonce"]}));
            return format!("{back}#id_token={token}&state={}", asked["state"]);
        }
        let mut state = self.state.lock();
        let code = format!("code-{}", state.codes.len() + 1);
        state.codes.insert(code.clone(), asked.clone());
        format!("{back}?code={code}&state={}", asked["state"])
    }

    fn exchange(&self, form: &BTreeMap<String, String>, authorization: &str) -> Result<Value, &'static str> {
        self.state.lock().forms.push(form.clone());
        let text = |name: &str| form.get(name).map_or("", String::as_str);
        let (id, secret) = self.state.lock().client.clone();
        let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        let client = if authorization == basic || (text("client_id"), text("client_secret")) == (&id, &secret)
        {
            id.as_str()
        } else if text("client_id") == CLI_CLIENT && authorization.is_empty() {
            CLI_CLIENT
        } else {
            return Err("invalid_client");
        };
        let mut nonce = Value::Null;
        let mut state = self.state.lock();
        match text("grant_type") {
            "authorization_code" => {
                let asked = state.codes.remove(text("code")).ok_or("invalid_grant")?;
                let proof = digest::digest(&digest::SHA256, text("code_verifier").as_bytes());
                let has_proof = asked
                    .get("code_challenge")
                    .is_none_or(|challenge| *challenge == URL_SAFE_NO_PAD.encode(proof.as_ref()));
                if asked["client_id"] != client || asked["redirect_uri"] != text("redirect_uri") || !has_proof
                {
                    return Err("invalid_grant");
                }
                nonce = Value::from(asked["nonce"].as_str());
            }
            "urn:ietf:params:oauth:grant-type:device_code" if text("device_code") == "device-1" => {
                if let Some(word) = state.undecided.pop() {
                    return Err(word);
                }
            }
            "refresh_token"
                if !state.refresh_token.is_empty() && text("refresh_token") == state.refresh_token => {}
            _ => return Err("invalid_grant"),
        }
        let refresh_token = state.refresh_token.clone();
        drop(state);
        let mut claims = self.claims(client);
        if !nonce.is_null() && claims.get("nonce").is_none() {
            claims["nonce"] = nonce;
        }
        let token = self.state.lock().signer.clone().sign(&claims);
        let mut answer =
            json!({"access_token": "access", "token_type": "Bearer", "id_token": token, "expires_in": 3600});
        if !refresh_token.is_empty() {
            answer["refresh_token"] = refresh_token.into();
        }
        Ok(answer)
    }
}

fn pairs(text: &[u8]) -> BTreeMap<String, String> {
    form_urlencoded::parse(text).map(|(name, value)| (name.into_owned(), value.into_owned())).collect()
}
