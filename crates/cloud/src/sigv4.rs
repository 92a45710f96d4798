//! Signatures of requests to AWS, version 4. Pure: what is signed, and when, is given.

use std::fmt::Write as _;

use aws_lc_rs::{digest, hmac};
use jiff::Timestamp;
use tiphys_api::secret::Secret;

/// Who signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    pub(crate) id: String,
    pub(crate) secret: Secret<String>,
    /// Empty for keys that last.
    pub(crate) session: Secret<String>,
}

/// Where a signature is good.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The server, with its port where that is not the usual one.
    pub host: &'a str,
    /// The region.
    pub region: &'a str,
    /// The service, as signatures name it.
    pub service: &'a str,
    /// When.
    pub now: Timestamp,
}

impl Scope<'_> {
    /// `YYYYMMDDThhmmssZ`.
    fn time(&self) -> String {
        self.now.strftime("%Y%m%dT%H%M%SZ").to_string()
    }

    fn credential(&self) -> String {
        format!("{}/{}/{}/aws4_request", self.now.strftime("%Y%m%d"), self.region, self.service)
    }

    /// The signature of a request in its canonical form.
    fn signature(&self, keys: &Keys, request: &str) -> String {
        let to_sign = format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n{}",
            self.time(),
            self.credential(),
            hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref())
        );
        let mut key = Secret::new(format!("AWS4{}", keys.secret.expose()).into_bytes());
        let date = self.now.strftime("%Y%m%d").to_string();
        for part in [date.as_str(), self.region, self.service, "aws4_request"] {
            key = Secret::new(mac(key.expose(), part));
        }
        hex(&mac(key.expose(), &to_sign))
    }
}

/// The query of a `GET /` that is signed for `seconds`, together with one more header.
pub(crate) fn presigned(
    scope: Scope<'_>,
    keys: &Keys,
    action: &[(&str, &str)],
    header: (&str, &str),
    seconds: u32,
) -> Secret<String> {
    let credential = format!("{}/{}", keys.id, scope.credential());
    let (time, seconds, signed) = (scope.time(), seconds.to_string(), format!("host;{}", header.0));
    let mut members = action.to_vec();
    members.extend([
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", &credential),
        ("X-Amz-Date", &time),
        ("X-Amz-Expires", &seconds),
        ("X-Amz-SignedHeaders", &signed),
    ]);
    if !keys.session.is_empty() {
        members.push(("X-Amz-Security-Token", keys.session.expose()));
    }
    members.sort_unstable();
    let query = query(members);
    let nothing = hex(digest::digest(&digest::SHA256, b"").as_ref());
    let request = format!(
        "GET\n/\n{query}\nhost:{}\n{}:{}\n\n{signed}\n{nothing}",
        scope.host,
        header.0,
        header.1.trim()
    );
    let signature = scope.signature(keys, &request);
    Secret::from(format!("{query}&X-Amz-Signature={signature}"))
}

/// The headers of a `POST /` of a form.
pub(crate) fn signed_form(scope: Scope<'_>, keys: &Keys, body: &str) -> Vec<(&'static str, Secret<String>)> {
    signed_post(scope, keys, &[("content-type", "application/x-www-form-urlencoded")], body)
}

/// The headers of a `POST /`: those that are given, in small letters, and those of the signature.
pub fn signed_post(
    scope: Scope<'_>,
    keys: &Keys,
    given: &[(&'static str, &str)],
    body: &str,
) -> Vec<(&'static str, Secret<String>)> {
    let time = scope.time();
    let mut headers: Vec<_> = given.iter().map(|(name, value)| (*name, Secret::from(*value))).collect();
    headers.extend([("host", Secret::from(scope.host)), ("x-amz-date", Secret::from(time))]);
    if !keys.session.is_empty() {
        headers.push(("x-amz-security-token", keys.session.clone()));
    }
    headers.sort_by_key(|(name, _)| *name);
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let mut request = "POST\n/\n\n".to_owned();
    for (name, value) in &headers {
        let _written = writeln!(request, "{name}:{}", value.expose());
    }
    let payload = hex(digest::digest(&digest::SHA256, body.as_bytes()).as_ref());
    let _written = write!(request, "\n{names}\n{payload}");
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={names}, Signature={}",
        keys.id,
        scope.credential(),
        scope.signature(keys, &request)
    );
    headers.push(("authorization", Secret::from(authorization)));
    headers
}

/// `a=b&c=d`, encoded as signatures want it.
pub(crate) fn query<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in members {
        if !text.is_empty() {
            text.push('&');
        }
        encode(&mut text, name);
        text.push('=');
        encode(&mut text, value);
    }
    text
}

/// Everything but letters, digits and `-._~` as `%XX`.
fn encode(text: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _written = write!(text, "%{byte:02X}");
        }
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _written = write!(text, "{byte:02x}");
        text
    })
}
