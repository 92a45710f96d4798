//! The plugin that a set asks: a service with bad days (F24).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_control::services::{PluginCall, Plugins};

/// Its `ConfigMap`.
pub(super) const NAME: &str = "plugin";

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Answers,
    /// It cannot be reached.
    Unreachable,
    /// It says that something is wrong.
    Fails,
    /// Its answer ends in the middle.
    Half,
    /// Its answer is something else.
    Garbage,
    /// It knows of nothing.
    Empty,
}

/// All ways in which it is of no use.
pub(super) const BAD: [Mood; 5] = [Mood::Unreachable, Mood::Fails, Mood::Half, Mood::Garbage, Mood::Empty];

/// The service.
#[derive(Clone, Debug)]
pub(super) struct Plugin(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    mood: Mood,
    elements: BTreeSet<String>,
    delay: Duration,
}

impl Plugin {
    pub(super) fn new(elements: BTreeSet<String>) -> Self {
        Self(Arc::new(Mutex::new(State { mood: Mood::Answers, elements, delay: Duration::ZERO })))
    }

    /// From now on it is like that, and takes so long.
    pub(super) fn set(&self, mood: Mood, delay: Duration) {
        let mut state = self.0.lock();
        (state.mood, state.delay) = (mood, delay);
    }

    /// Another element, or one less.
    pub(super) fn toggle(&self, element: &str) {
        let mut state = self.0.lock();
        if !state.elements.remove(element) {
            state.elements.insert(element.to_owned());
        }
    }

    /// What it means; `None` while it fails.
    pub(super) fn elements(&self) -> Option<BTreeSet<String>> {
        let state = self.0.lock();
        match state.mood {
            Mood::Answers => Some(state.elements.clone()),
            Mood::Empty => Some(BTreeSet::new()),
            Mood::Unreachable | Mood::Fails | Mood::Half | Mood::Garbage => None,
        }
    }
}

impl Plugins for Plugin {
    fn post(&self, _call: PluginCall) -> BoxFuture<'_, Result<(u16, Bytes), String>> {
        let (mood, elements, delay) = {
            let state = self.0.lock();
            (state.mood, state.elements.clone(), state.delay)
        };
        Box::pin(async move {
            tokio::time::sleep(delay).await;
            let parameters: Vec<Value> = elements.iter().map(|element| json!({"element": element})).collect();
            let whole = json!({"output": {"parameters": parameters}}).to_string();
            Ok(match mood {
                Mood::Answers => (200, Bytes::from(whole)),
                Mood::Unreachable => return Err("it cannot be reached".to_owned()),
                Mood::Fails => (500, Bytes::from_static(b"{\"error\":\"a bad day\"}")),
                Mood::Half => (200, Bytes::from(whole.chars().take(whole.len() / 2).collect::<String>())),
                Mood::Garbage => (200, Bytes::from_static(b"<html>please log in</html>")),
                Mood::Empty => (200, Bytes::from_static(b"{\"output\":{\"parameters\":[]}}")),
            })
        })
    }
}
