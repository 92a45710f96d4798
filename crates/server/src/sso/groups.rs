//! Groups that are not in tokens: they are asked for with the access token of a login (API-68, API-69). Both are in the
//! memory of this process alone: after a restart, or at another replica, people log in again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tiphys_api::secret::Secret;
use tiphys_oidc::config::GroupsSource;
use tiphys_service::jwt::seconds;

/// People who are remembered; those whose login ends first make room.
const PEOPLE_MAX: usize = 10_000;

/// Why the groups of somebody are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoGroups {
    /// There is nothing to ask with, or it does not count any more: they have to log in again.
    #[error("log in again: the groups of this session cannot be asked for any more")]
    LogInAgain,
    /// The provider did not tell.
    #[error("the identity provider does not tell the groups")]
    Untold,
}

/// What is known of somebody.
struct Person {
    access: Secret<String>,
    /// When their login is over.
    ends: Timestamp,
    /// Their groups, and until when these count.
    told: Option<(Timestamp, Vec<String>)>,
}

/// One asks at a time about the same.
type Shared = Arc<tokio::sync::Mutex<Person>>;

/// People who are logged in, by their subject.
#[derive(Default)]
pub(super) struct People(Mutex<BTreeMap<String, (Timestamp, Shared)>>);

fn subject(claims: &Map<String, Value>) -> &str {
    claims.get("sub").and_then(Value::as_str).unwrap_or_default()
}

impl People {
    /// Keeps the access token of a login; what was told before it counts no longer.
    pub(super) fn keep(&self, claims: &Map<String, Value>, access: &Secret<String>, ends: Timestamp) {
        let subject = subject(claims);
        if access.is_empty() || subject.is_empty() {
            return;
        }
        let person = Person { access: access.clone(), ends, told: None };
        let person = Arc::new(tokio::sync::Mutex::new(person));
        super::keep(&mut self.0.lock(), (subject.to_owned(), person), ends, PEOPLE_MAX);
    }

    /// Takes a newer access token of the same login.
    pub(super) fn renew(&self, claims: &Map<String, Value>, access: &Secret<String>) {
        let ends = self.0.lock().get(subject(claims)).map(|(ends, _)| *ends);
        if let Some(ends) = ends {
            self.keep(claims, access, ends);
        }
    }

    pub(super) fn forget(&self, claims: &Map<String, Value>) {
        self.0.lock().remove(subject(claims));
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }

    fn of(&self, claims: &Map<String, Value>) -> Option<Shared> {
        self.0.lock().get(subject(claims)).map(|(_, person)| Arc::clone(person))
    }

    /// The groups of whoever bears a token, as they were told a moment ago or are told now.
    pub(super) async fn groups<A>(
        &self,
        source: &GroupsSource,
        claims: &Map<String, Value>,
        now: Timestamp,
        ask: impl FnOnce(Secret<String>) -> A,
    ) -> Result<Vec<String>, NoGroups>
    where
        A: Future<Output = Result<Vec<String>, NoGroups>>,
    {
        let person = self.of(claims).ok_or(NoGroups::LogInAgain)?;
        let mut person = person.lock().await;
        if person.ends <= now {
            return Err(NoGroups::LogInAgain);
        }
        if let Some((until, groups)) = &person.told
            && *until > now
        {
            return Ok(groups.clone());
        }
        let groups = ask(person.access.clone()).await?;
        let token_ends = claims.get("exp").and_then(seconds).and_then(|at| Timestamp::from_second(at).ok());
        let until = SignedDuration::try_from(source.kept).ok().and_then(|kept| now.checked_add(kept).ok());
        let until = [until, token_ends].into_iter().flatten().min().unwrap_or(now);
        person.told = Some((until, groups.clone()));
        Ok(groups)
    }
}

/// Whether a token of Azure has too many groups to name them, and its bearer may ask for them (API-69).
pub(super) fn has_too_many(claims: &Map<String, Value>) -> bool {
    let names = claims.get("_claim_names").and_then(|names| names.get("groups"));
    let scopes = claims.get("scp").and_then(Value::as_str).unwrap_or_default();
    names.is_some() && scopes.split_ascii_whitespace().any(|scope| scope == "User.Read")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(changes: &Value) -> Map<String, Value> {
        let mut claims = json!({"sub": "kim", "exp": 1_000});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object().unwrap().clone()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[tokio::test]
    async fn api_68_what_was_told_counts_for_a_while_and_never_longer_than_the_token_or_the_login() {
        let people = People::default();
        let source = GroupsSource { url: String::new(), kept: std::time::Duration::from_mins(5) };
        let kim = claims(&json!({}));
        let ask = async |second: i64, claims: &Map<String, Value>| {
            let told =
                |access: Secret<String>| async move { Ok(vec![format!("{} {second}", access.expose())]) };
            people.groups(&source, claims, at(second), told).await.map(|groups| groups.concat())
        };
        assert_eq!(ask(0, &kim).await, Err(NoGroups::LogInAgain));
        people.keep(&kim, &Secret::from("a"), at(5_000));
        assert_eq!(ask(0, &kim).await.unwrap(), "a 0");
        assert_eq!(ask(299, &kim).await.unwrap(), "a 0");
        assert_eq!(ask(300, &kim).await.unwrap(), "a 300");
        people.renew(&kim, &Secret::from("b"));
        assert_eq!(ask(301, &kim).await.unwrap(), "b 301", "a fresh token drops what was told");
        assert_eq!(ask(900, &kim).await.unwrap(), "b 900");
        assert_eq!(ask(1_000, &kim).await.unwrap(), "b 1000", "not beyond the end of the token");
        assert_eq!(ask(5_000, &kim).await, Err(NoGroups::LogInAgain));
        assert_eq!(ask(0, &claims(&json!({"sub": "bo"}))).await, Err(NoGroups::LogInAgain));
        people.forget(&kim);
        assert_eq!(ask(0, &kim).await, Err(NoGroups::LogInAgain));
        people.renew(&kim, &Secret::from("c"));
        assert_eq!(
            ask(0, &kim).await,
            Err(NoGroups::LogInAgain),
            "whoever has logged out is not logged in again"
        );
    }

    #[test]
    fn api_69_a_token_of_azure_says_that_it_has_too_many_groups() {
        let many = json!({"_claim_names": {"groups": "src1"}, "scp": "openid User.Read"});
        assert!(has_too_many(&claims(&many)));
        for few in [
            json!({}),
            json!({"_claim_names": {"groups": "src1"}}),
            json!({"_claim_names": {}, "scp": "User.Read"}),
            json!({"_claim_names": {"groups": "s"}, "scp": "User.ReadAll"}),
        ] {
            assert!(!has_too_many(&claims(&few)), "{few}");
        }
    }
}
