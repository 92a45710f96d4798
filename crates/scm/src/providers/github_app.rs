//! Tokens of GitHub Apps (REP-73, ASET-58), asked for where repositories are asked for.

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use reqwest::{Method, Url};
use serde_json::json;
use tiphys_api::secret::Secret;
use tiphys_cloud::jwt;

use super::github::{HEADERS, base};
use crate::http::{Ask, Login, Site};
use crate::item::Item;
use crate::{GithubApp, ScmError};

/// Apps whose tokens are remembered.
const KNOWN_MAX: usize = 200;
/// How long before its end a token is not used any more.
const MARGIN: SignedDuration = SignedDuration::from_mins(5);
/// How long a token is used where GitHub does not say.
const USED_FOR: SignedDuration = SignedDuration::from_mins(50);

/// Where an app is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppWhere {
    base: Url,
    /// The organisation or owner.
    owner: String,
}

impl AppWhere {
    /// The API that a generator names, or that of the app's own server, or GitHub's.
    pub(crate) fn of(app: &GithubApp, api: &str, owner: &str) -> Result<Self, ScmError> {
        let api = if api.is_empty() { &app.base_url } else { api };
        Ok(Self { base: base(api)?, owner: owner.to_owned() })
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }
}

/// A token and until when it is used.
#[derive(Debug)]
struct Kept {
    app: GithubApp,
    place: AppWhere,
    token: Secret<String>,
    until: Timestamp,
}

/// The tokens that were asked for.
#[derive(Debug, Default)]
pub(crate) struct AppTokens(Mutex<Vec<Kept>>);

impl AppTokens {
    /// A token for an app; `site` is where to ask, without a login.
    pub(crate) async fn token(
        &self,
        site: Site,
        app: &GithubApp,
        place: &AppWhere,
        now: Timestamp,
    ) -> Result<Secret<String>, ScmError> {
        {
            let mut kept = self.0.lock();
            kept.retain(|one| one.until > now);
            if let Some(one) = kept.iter().find(|one| one.app == *app && one.place == *place) {
                return Ok(one.token.clone());
            }
        }
        let second = now.as_second();
        // It began a minute ago for those whose clock is late.
        let claims = json!({"iss": app.id.to_string(), "iat": second - 60, "exp": second + 540});
        let proof = jwt::signed(&claims, &app.key, None)
            .map_err(|error| ScmError::Credentials(format!("the GitHub App: {error}")))?;
        let site = Site { login: Login::Token { scheme: "Bearer", token: proof }, headers: HEADERS, ..site };
        let installation = match app.installation {
            0 => installation(&site, &place.owner).await?,
            known => known,
        };
        let doing = "asking for a token of the GitHub App";
        let url = site.url(&["app", "installations", &installation.to_string(), "access_tokens"], &[])?;
        let endpoint = "/app/installations/{installation}/access_tokens";
        let ask = Ask { method: Method::POST, ..Ask::get(url, doing, endpoint) };
        let answer = site.ask(ask).await?;
        if !answer.is_found {
            return Err(ScmError::Credentials(
                "the GitHub App is not installed there (githubAppInstallationID)".to_owned(),
            ));
        }
        let item = Item::of("the answer", &answer.body);
        let token = item.text("token").map_err(|problem| site.unreadable(doing, problem))?;
        let token = Secret::from(token);
        let ends = item.some("expires_at").and_then(|text| text.parse::<Timestamp>().ok());
        let until = ends.map_or_else(|| now.checked_add(USED_FOR), |ends| ends.checked_sub(MARGIN));
        if let Ok(until) = until {
            let mut kept = self.0.lock();
            if kept.len() >= KNOWN_MAX {
                kept.remove(0);
            }
            kept.push(Kept { app: app.clone(), place: place.clone(), token: token.clone(), until });
        }
        Ok(token)
    }
}

/// The installation at an owner, be it an organisation or a person.
async fn installation(site: &Site, owner: &str) -> Result<i64, ScmError> {
    let doing = "looking for the installation of the GitHub App";
    let ways = [("orgs", "/orgs/{org}/installation"), ("users", "/users/{user}/installation")];
    for (kind, endpoint) in ways {
        let answer = site.get(site.url(&[kind, owner, "installation"], &[])?, doing, endpoint).await?;
        if answer.is_found {
            let id = Item::of("the installation", &answer.body).number("id");
            return id.map_err(|problem| site.unreadable(doing, problem));
        }
    }
    Err(ScmError::Credentials(format!("the GitHub App is not installed at {owner:?}")))
}
