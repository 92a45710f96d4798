//! Where a browser is sent, and what it comes back with (API-62, API-64, CLI-205).

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::Url;
use serde_json::json;
use tiphys_api::secret::Secret;

use crate::config::ClaimRequest;
use crate::metadata::{Metadata, ResponseType};

/// Bytes of chance in a state, a nonce and a verifier (SEC-16).
const CHANCE_BYTES: usize = 32;
/// Bytes of what a provider says of an error.
const ERROR_BYTES_MAX: usize = 500;

/// Forty-three letters that nobody can guess; `None` where the system has no randomness.
pub fn random_text() -> Option<String> {
    let mut bytes = [0; CHANCE_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// What is shown of a verifier when the flow begins (RFC 7636, S256).
pub fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))
}

/// A request for a person to be signed in.
#[derive(Clone, Copy, Debug)]
pub struct Authorization<'a> {
    /// Who asks.
    pub client_id: &'a str,
    /// Where the browser comes back to.
    pub redirect_uri: &'a str,
    /// What is asked for.
    pub scopes: &'a [String],
    /// Tells our requests from others.
    pub state: &'a str,
    /// Ties the token to the request.
    pub nonce: &'a str,
    /// Proves that one and the same begins and ends the flow.
    pub verifier: Option<&'a str>,
    /// Claims that are asked for by name.
    pub id_token_claims: &'a BTreeMap<String, ClaimRequest>,
    /// The connector of Dex to use; empty lets people choose.
    pub connector_id: &'a str,
    /// A hint about whose account it will be; may be empty.
    pub domain_hint: &'a str,
}

/// The provider's address for logins is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the authorization endpoint of the provider is no address")]
pub struct BadAddress;

/// Where the browser is sent.
///
/// # Errors
/// When the provider's own address cannot be read.
pub fn authorization_url(metadata: &Metadata, asked: &Authorization<'_>) -> Result<String, BadAddress> {
    let mut url = Url::parse(&metadata.authorization_endpoint).map_err(|_no_address| BadAddress)?;
    let kind = match metadata.response_type() {
        ResponseType::Code => "code",
        ResponseType::IdToken => "id_token",
    };
    {
        let mut query = url.query_pairs_mut();
        query
            .append_pair("client_id", asked.client_id)
            .append_pair("redirect_uri", asked.redirect_uri)
            .append_pair("response_type", kind)
            .append_pair("scope", &asked.scopes.join(" "))
            .append_pair("state", asked.state)
            .append_pair("nonce", asked.nonce);
        if !asked.id_token_claims.is_empty() {
            query.append_pair("claims", &json!({"id_token": asked.id_token_claims}).to_string());
        }
        if let Some(verifier) = asked.verifier {
            query.append_pair("code_challenge", &challenge(verifier));
            query.append_pair("code_challenge_method", "S256");
        }
        for (name, text) in [("connector_id", asked.connector_id), ("domain_hint", asked.domain_hint)] {
            if !text.is_empty() {
                query.append_pair(name, text);
            }
        }
    }
    Ok(url.into())
}

/// What a browser comes back with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Callback {
    /// The provider says no; a text for people, without anything that HTML could take for markup (SEC-23).
    Refused(String),
    /// A code.
    Code {
        /// To be exchanged.
        code: Secret<String>,
        /// The state that the flow began with.
        state: String,
    },
    /// The token itself.
    IdToken {
        /// Not verified.
        token: Secret<String>,
        /// The state that the flow began with.
        state: String,
    },
    /// Nothing yet: what there is may be in the fragment, which servers do not see.
    Nothing,
}

impl Callback {
    /// Reads the query of the address.
    pub fn read(query: &str) -> Self {
        let value = |name: &str| {
            let mut all = form_urlencoded::parse(query.as_bytes());
            all.find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
        };
        let error = value("error");
        if !error.is_empty() {
            let text = format!("{error}: {}", value("error_description"));
            return Self::Refused(escaped(&text));
        }
        let (code, token, state) = (value("code"), value("id_token"), value("state"));
        if !code.is_empty() {
            Self::Code { code: Secret::new(code), state }
        } else if !token.is_empty() {
            Self::IdToken { token: Secret::new(token), state }
        } else {
            Self::Nothing
        }
    }
}

/// A text of somebody else in which HTML finds no markup, and terminals no commands.
fn escaped(text: &str) -> String {
    let mut made = String::new();
    for letter in text.chars() {
        match letter {
            '&' => made.push_str("&amp;"),
            '<' => made.push_str("&lt;"),
            '>' => made.push_str("&gt;"),
            '"' => made.push_str("&#34;"),
            '\'' => made.push_str("&#39;"),
            control if control.is_control() => made.push(' '),
            other => made.push(other),
        }
        if made.len() > ERROR_BYTES_MAX {
            break;
        }
    }
    made
}

/// What the page with the fragment runs.
const SCRIPT: &str = "var hash = window.location.hash.replace(/^#/, '');\
if (hash) { window.location.replace(window.location.pathname + '?' + hash); }\
else { document.body.textContent = 'The identity provider sent neither a code nor a token.'; }";

/// The page that shows the fragment of its address to the server, and the policy that lets it run nothing else.
pub fn fragment_page() -> (String, String) {
    let digest = STANDARD.encode(digest::digest(&digest::SHA256, SCRIPT.as_bytes()));
    let page = format!("<!DOCTYPE html><html><body><script>{SCRIPT}</script></body></html>\n");
    (page, format!("default-src 'none'; script-src 'sha256-{digest}'; frame-ancestors 'none'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(types: &[&str]) -> Metadata {
        Metadata {
            authorization_endpoint: "https://sso/auth?tenant=a%20b".to_owned(),
            response_types_supported: types.iter().map(|kind| (*kind).to_owned()).collect(),
            ..Metadata::default()
        }
    }

    #[test]
    fn api_62_a_browser_is_sent_with_everything_that_is_asked() {
        let claims = BTreeMap::from([(
            "groups".to_owned(),
            ClaimRequest { essential: true, ..ClaimRequest::default() },
        )]);
        let scopes = ["openid".to_owned(), "groups".to_owned()];
        let mut asked = Authorization {
            client_id: "cd",
            redirect_uri: "https://cd/auth/callback",
            scopes: &scopes,
            state: "s",
            nonce: "n",
            verifier: Some("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            id_token_claims: &claims,
            connector_id: "github",
            domain_hint: "acme.test",
        };
        assert_eq!(
            authorization_url(&metadata(&["code", "id_token"]), &asked).unwrap(),
            "https://sso/auth?tenant=a%20b&client_id=cd&redirect_uri=https%3A%2F%2Fcd%2Fauth%2Fcallback\
             &response_type=code&scope=openid+groups&state=s&nonce=n\
             &claims=%7B%22id_token%22%3A%7B%22groups%22%3A%7B%22essential%22%3Atrue%7D%7D%7D\
             &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256\
             &connector_id=github&domain_hint=acme.test"
        );
        asked.verifier = None;
        let implicit = authorization_url(&metadata(&["id_token"]), &asked).unwrap();
        assert!(
            implicit.contains("response_type=id_token&") && !implicit.contains("challenge"),
            "{implicit}"
        );
        assert_eq!(authorization_url(&Metadata::default(), &asked), Err(BadAddress));
    }

    #[test]
    fn sec_16_nobody_guesses_a_state() {
        let (one, other) = (random_text().unwrap(), random_text().unwrap());
        assert_eq!((one.len(), one == other), (43, false));
    }

    #[test]
    fn sec_23_what_a_browser_comes_back_with_is_no_markup() {
        assert_eq!(
            Callback::read("code=c%20d&state=s"),
            Callback::Code { code: Secret::from("c d"), state: "s".to_owned() }
        );
        assert_eq!(
            Callback::read("id_token=t&state=s"),
            Callback::IdToken { token: Secret::from("t"), state: "s".to_owned() }
        );
        assert_eq!(Callback::read("state=s"), Callback::Nothing);
        let hostile =
            "error=access_denied&error_description=%3Cscript%3Ealert(%22x%22)%3C/script%3E%0A%1b[2J&code=c";
        assert_eq!(
            Callback::read(hostile),
            Callback::Refused(
                "access_denied: &lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt;  [2J".to_owned()
            )
        );
        let Callback::Refused(text) = Callback::read(&format!("error={}", "<".repeat(10_000))) else {
            panic!()
        };
        assert!(text.len() < 600);
    }

    #[test]
    fn api_64_the_page_with_the_fragment_runs_its_own_script_alone() {
        let (page, policy) = fragment_page();
        assert!(page.contains(SCRIPT) && policy.starts_with("default-src 'none'; script-src 'sha256-"));
    }
}
