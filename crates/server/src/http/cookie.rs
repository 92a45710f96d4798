//! The cookie of a session: in as many pieces as browsers need (API-33, API-34).

use http::{HeaderMap, HeaderValue, header};

/// The name of the cookie.
pub(crate) const NAME: &str = "argocd.token";
/// Bytes of one cookie with everything around it.
const BYTES_MAX: usize = 4_093;

/// How cookies are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookies {
    attributes: String,
    pieces_max: usize,
    base: String,
}

/// A token that does not fit into the cookies that are permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token needs more cookies than are permitted")]
pub struct TooLong;

/// Cookies whose first one cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid cookie")]
pub struct BadCookie;

impl Cookies {
    /// Cookies below a base path, sent over TLS alone where that is what clients use; a token may take so many.
    pub fn new(base_href: &str, is_secure: bool, pieces_max: usize) -> Self {
        let secure = if is_secure { "; Secure" } else { "" };
        let attributes = format!("path=/{}; SameSite=lax; httpOnly{secure}", base_href.trim_matches('/'));
        let base = base_href.trim_matches('/');
        let base = if base.is_empty() { String::new() } else { format!("/{base}") };
        Self { attributes, pieces_max, base }
    }

    /// The path that cookies are below, without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// A cookie that a browser forgets after some seconds; none at all after zero (API-63).
    pub(crate) fn passing(&self, name: &str, value: &str, seconds: i64) -> String {
        format!("{name}={value}; {}; Max-Age={seconds}", self.attributes)
    }

    /// Sets the cookies of a token; an empty one clears them.
    ///
    /// # Errors
    /// When the token is too long.
    pub fn set(&self, token: &str, headers: &mut HeaderMap) -> Result<(), TooLong> {
        for cookie in self.written(token)? {
            if let Ok(value) = HeaderValue::from_str(&cookie) {
                headers.append(header::SET_COOKIE, value);
            }
        }
        Ok(())
    }

    fn written(&self, token: &str) -> Result<Vec<String>, TooLong> {
        let around = NAME.len() + 3 + self.attributes.len() + 2;
        let piece_max = BYTES_MAX.saturating_sub(around);
        // Tokens are ASCII; anything else could not be cut anywhere.
        if piece_max == 0 || !token.is_ascii() {
            return Err(TooLong);
        }
        let pieces: Vec<&str> =
            token.as_bytes().chunks(piece_max).filter_map(|piece| std::str::from_utf8(piece).ok()).collect();
        let attributes = &self.attributes;
        match pieces.len() {
            0 => Ok(vec![format!("{NAME}=; {attributes}")]),
            1 => Ok(vec![format!("{NAME}={token}; {attributes}")]),
            count if count > self.pieces_max => Err(TooLong),
            count => {
                let cookies = pieces.iter().enumerate().map(|(at, piece)| match at {
                    0 => format!("{NAME}={count}:{piece}; {attributes}"),
                    _ => format!("{NAME}-{at}={piece}; {attributes}"),
                });
                Ok(cookies.collect())
            }
        }
    }

    /// Clears whatever cookies of a session a request has (API-79).
    pub fn clear(&self, request: &HeaderMap, headers: &mut HeaderMap) {
        for (name, _) in all(request).filter(|(name, _)| name.starts_with(NAME)) {
            if let Ok(value) = HeaderValue::from_str(&format!("{name}=; {}", self.attributes)) {
                headers.append(header::SET_COOKIE, value);
            }
        }
    }
}

/// The cookies of a request, in order.
pub(crate) fn all(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

/// The token that the cookies of a request make; empty when there is none.
///
/// # Errors
/// When the first one cannot be read.
pub(crate) fn token(headers: &HeaderMap) -> Result<String, BadCookie> {
    let value = |name: &str| all(headers).find(|(key, _)| *key == name).map(|(_, value)| value);
    let Some(first) = value(NAME) else { return Ok(String::new()) };
    let mut parts = first.split(':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(whole), None, _) => Ok(whole.to_owned()),
        (Some(count), Some(piece), None) => {
            let count: usize = count.parse().map_err(|_no_number| BadCookie)?;
            // No browser keeps as many.
            if count > 1_000 {
                return Err(BadCookie);
            }
            let rest = (1..count).filter_map(|at| value(&format!("{NAME}-{at}")));
            Ok(rest.fold(piece.to_owned(), |token, piece| token + piece))
        }
        _ => Err(BadCookie),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(cookies: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(cookies).unwrap())])
    }

    #[test]
    fn api_33_attributes_stand_in_their_order() {
        let cookies = Cookies::new("/", true, 20);
        assert_eq!(
            cookies.written("abc").unwrap(),
            ["argocd.token=abc; path=/; SameSite=lax; httpOnly; Secure"]
        );
        assert_eq!(cookies.written("").unwrap(), ["argocd.token=; path=/; SameSite=lax; httpOnly; Secure"]);
        let below = Cookies::new("/argo-cd/", false, 20);
        assert_eq!(
            below.written("abc").unwrap(),
            ["argocd.token=abc; path=/argo-cd; SameSite=lax; httpOnly"]
        );
    }

    #[test]
    fn api_34_large_tokens_are_split_and_joined() {
        let cookies = Cookies::new("/", true, 20);
        let token: String = ('a'..='z').cycle().take(9_000).collect();
        let written = cookies.written(&token).unwrap();
        assert_eq!(written.len(), 3);
        assert!(written[0].starts_with("argocd.token=3:abc"), "{written:?}");
        assert!(written[1].starts_with("argocd.token-1=") && written[2].starts_with("argocd.token-2="));
        assert!(
            written.iter().all(|cookie| cookie.len() <= BYTES_MAX),
            "{:?}",
            written.iter().map(String::len).collect::<Vec<_>>()
        );
        let sent: Vec<&str> = written.iter().map(|cookie| cookie.split(';').next().unwrap()).collect();
        assert_eq!(super::token(&request(&sent.join("; "))).unwrap(), token);
        assert_eq!(cookies.written(&"a".repeat(90_000)), Err(TooLong));
    }

    #[test]
    fn api_34_what_cannot_be_joined_is_refused_or_fails_later() {
        assert_eq!(token(&request("a=b; argocd.token=x.y.z; c=d")).unwrap(), "x.y.z");
        assert_eq!(token(&request("argocd.token=2:x")).unwrap(), "x", "a missing piece adds nothing");
        for bad in ["argocd.token=1:2:3", "argocd.token=x:y", "argocd.token=9999999:y", "argocd.token=-1:y"] {
            assert_eq!(token(&request(bad)), Err(BadCookie), "{bad}");
        }
        assert_eq!(token(&HeaderMap::new()).unwrap(), "");
    }
}
