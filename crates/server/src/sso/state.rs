//! What a browser carries from the begin of a login to its end, sealed (API-63).

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tiphys_api::secret::Secret;

/// The name of the cookie.
pub(super) const NAME: &str = "argocd.oauthstate";
/// Seconds that a login may take.
pub(super) const LIFETIME_SECONDS: i64 = 300;
/// What the key is made for.
const PURPOSE: &[u8] = b"tiphys: state of a login";

/// A login under way.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Pending {
    /// Comes back with the browser.
    pub(super) state: String,
    /// Has to be in the token.
    pub(super) nonce: String,
    /// Where the browser goes in the end.
    pub(super) return_url: String,
    /// The address that it comes back to.
    pub(super) redirect_uri: String,
    /// Proves that one and the same begins and ends the login; empty where it is not used.
    pub(super) verifier: String,
    /// Whether a code comes back, and not the token itself.
    pub(super) wants_code: bool,
    /// The second after which it is over.
    pub(super) ends: i64,
}

fn key(secret: &Secret<String>) -> Option<RandomizedNonceKey> {
    if secret.is_empty() {
        return None;
    }
    let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes()), PURPOSE);
    RandomizedNonceKey::new(&AES_256_GCM, key.as_ref()).ok()
}

impl Pending {
    /// As it stands in the cookie; `None` where there is no key.
    pub(super) fn sealed(&self, secret: &Secret<String>) -> Option<String> {
        let mut bytes = serde_json::to_vec(self).ok()?;
        let nonce = key(secret)?.seal_in_place_append_tag(Aad::empty(), &mut bytes).ok()?;
        let mut whole = nonce.as_ref().to_vec();
        whole.extend(bytes);
        Some(URL_SAFE_NO_PAD.encode(whole))
    }

    /// Reads a cookie; `None` when it is not ours, or over.
    pub(super) fn open(text: &str, secret: &Secret<String>, now_seconds: i64) -> Option<Self> {
        let whole = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = whole.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let bytes = key(secret)?.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        let pending: Self = serde_json::from_slice(bytes).ok()?;
        (now_seconds < pending.ends).then_some(pending)
    }

    /// Whether a state that came back is the one that went out.
    pub(super) fn is_of(&self, state: &str) -> bool {
        !state.is_empty()
            && aws_lc_rs::constant_time::verify_slices_are_equal(state.as_bytes(), self.state.as_bytes())
                .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending() -> Pending {
        Pending {
            state: "s".to_owned(),
            nonce: "n".to_owned(),
            return_url: "https://cd/".to_owned(),
            redirect_uri: "https://cd/auth/callback".to_owned(),
            verifier: "hunter2".to_owned(),
            wants_code: true,
            ends: 100,
        }
    }

    #[test]
    fn api_63_a_login_is_sealed_and_ends() {
        let secret = Secret::from("key");
        let sealed = pending().sealed(&secret).unwrap();
        assert_eq!(Pending::open(&sealed, &secret, 99), Some(pending()));
        assert_eq!(Pending::open(&sealed, &secret, 100), None, "over");
        assert_eq!(Pending::open(&sealed, &Secret::from("other"), 99), None);
        assert_eq!(pending().sealed(&Secret::from("")), None, "no key is none");
        let mut changed = URL_SAFE_NO_PAD.decode(&sealed).unwrap();
        changed[20] ^= 1;
        for bad in ["", "!", "AAAA", &URL_SAFE_NO_PAD.encode(changed)] {
            assert_eq!(Pending::open(bad, &secret, 99), None, "{bad}");
        }
        assert!(pending().is_of("s") && !pending().is_of("t") && !pending().is_of(""));
    }
}
