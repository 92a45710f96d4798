//! What tokens of sessions are refreshed with (API-70). It is in the memory of this process alone: after a restart, or at
//! another replica, whose token is over logs in again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tiphys_api::secret::Secret;
use tiphys_oidc::Granted;

/// Sessions that are kept; those that end first make room.
const SESSIONS_MAX: usize = 10_000;

/// What a session is refreshed with.
pub(super) struct Kept {
    pub(super) refresh_token: Secret<String>,
    /// The last token that was given.
    pub(super) id_token: Secret<String>,
}

/// Sessions by whom they are of and which one, with when they are over whatever is refreshed.
#[derive(Default)]
pub(super) struct Refreshes(Mutex<BTreeMap<(String, String), (Timestamp, Shared)>>);

/// One refreshes at a time: a provider may take a refresh token once.
type Shared = Arc<tokio::sync::Mutex<Kept>>;

fn key(claims: &Map<String, Value>) -> (String, String) {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("sub"), text("sid"))
}

impl Refreshes {
    pub(super) fn keep(&self, claims: &Map<String, Value>, granted: &Granted, ends: Timestamp) {
        if granted.refresh_token.is_empty() {
            return;
        }
        let kept = Kept { refresh_token: granted.refresh_token.clone(), id_token: granted.id_token.clone() };
        let kept = Arc::new(tokio::sync::Mutex::new(kept));
        super::keep(&mut self.0.lock(), (key(claims), kept), ends, SESSIONS_MAX);
    }

    pub(super) fn of(&self, claims: &Map<String, Value>, now: Timestamp) -> Option<Shared> {
        let mut sessions = self.0.lock();
        let key = key(claims);
        let (ends, kept) = sessions.get(&key)?;
        if *ends > now {
            return Some(Arc::clone(kept));
        }
        sessions.remove(&key);
        None
    }

    pub(super) fn forget(&self, claims: &Map<String, Value>) {
        self.0.lock().remove(&key(claims));
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
