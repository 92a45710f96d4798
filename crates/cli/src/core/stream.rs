//! Streams of a server about one object: what it is now, and each change.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tiphys_object::access;

use super::remote::items;
use super::{AppName, remote_sets};
use crate::failure::Failure;
use crate::server::{Api, Events};

/// Time until a stream that ended is begun again.
const STREAM_AGAIN: Duration = Duration::from_secs(1);
/// Streams that may end in a row without a word.
const SILENT_STREAMS_MAX: u32 = 10;

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Application,
    ApplicationSet,
}

/// A stream of the changes of one object.
pub(crate) struct Stream {
    api: Arc<Api>,
    kind: Kind,
    name: AppName,
    events: Option<Events>,
    silent: u32,
}

impl Kind {
    /// The last part of its path, the namespace in queries of streams, and the object in events.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Application => ("applications", "appNamespace", "application"),
            Self::ApplicationSet => ("applicationsets", "appSetNamespace", "applicationSet"),
        }
    }

    /// The object as it is; `None` when there is none.
    async fn find(self, api: &Api, name: &AppName) -> Result<Option<Value>, Failure> {
        match self {
            // A list, as one that is gone and one that may not be seen have the same refusal.
            Self::Application => {
                let query = [("name", &*name.name), ("appNamespace", &*name.namespace)];
                let mut answer = api.get(&["api", "v1", "applications"], &query).await?;
                Ok(items(&mut answer, "items").pop())
            }
            Self::ApplicationSet => remote_sets::find(api, name).await,
        }
    }
}

impl Stream {
    /// Nothing is asked yet.
    pub(super) fn new(api: &Arc<Api>, kind: Kind, name: &AppName) -> Self {
        Self { api: Arc::clone(api), kind, name: name.clone(), events: None, silent: 0 }
    }

    /// Opens the stream, and tells what is there then: a change before that is no event of it.
    async fn begin(&mut self) -> Result<Option<Value>, Failure> {
        let (path, namespace, _) = self.kind.words();
        let query = [("name", &*self.name.name), (namespace, &*self.name.namespace)];
        self.events = Some(self.api.events(&["api", "v1", "stream", path], &query).await?);
        self.kind.find(&self.api, &self.name).await
    }

    /// What the object is next, `None` when it is gone; a stream that ended is begun again.
    pub(super) async fn next(&mut self) -> Result<Option<Value>, Failure> {
        loop {
            let Some(events) = &mut self.events else {
                return self.begin().await;
            };
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) | Err(_) if self.silent < SILENT_STREAMS_MAX => {
                    self.events = None;
                    self.silent = self.silent.saturating_add(1);
                    tokio::time::sleep(STREAM_AGAIN).await;
                    continue;
                }
                Ok(None) => {
                    return Err(Failure::status("Unavailable", "the server ends every stream at once"));
                }
                Err(failure) => return Err(failure),
            };
            self.silent = 0;
            let (_, _, member) = self.kind.words();
            let Some(object) = event.get(member) else { continue };
            let is_gone = access::text(&event, "type") == "DELETED";
            return Ok((!is_gone).then(|| object.clone()));
        }
    }
}
