//! Follows the objects that an installation is made of. The roles of a process each make their own snapshot of them;
//! what an event does to what is known stands in [`InstallationData::apply`].

use std::time::Duration;

use tiphys_cluster::{ObjectEvent, Received, next_of_first_list};
use tiphys_installation::{DataEvent, DataKind, InstallationData};
use tiphys_object::is_news;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Changes within this time make one snapshot.
pub const SNAPSHOT_DELAY: Duration = Duration::from_millis(50);

/// The watches of `ConfigMaps`, Secrets and projects.
#[derive(Debug)]
pub struct InstallationWatch {
    config_maps: mpsc::Receiver<ObjectEvent>,
    secrets: mpsc::Receiver<ObjectEvent>,
    projects: mpsc::Receiver<ObjectEvent>,
}

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// The time that was waited for.
    Due,
    /// An event.
    Event(DataKind, ObjectEvent),
    /// The watches ended.
    Ended,
}

impl InstallationWatch {
    /// Opens the watches by a function that opens one.
    ///
    /// # Errors
    /// Those of the function.
    pub fn open<E>(
        mut open: impl FnMut(DataKind) -> Result<mpsc::Receiver<ObjectEvent>, E>,
    ) -> Result<Self, E> {
        Ok(Self {
            config_maps: open(DataKind::ConfigMap)?,
            secrets: open(DataKind::Secret)?,
            projects: open(DataKind::Project)?,
        })
    }

    /// Takes the first complete list of each kind.
    ///
    /// # Errors
    /// When one of them cannot be had: nothing is known then, and nothing may begin.
    pub async fn first(&mut self, mut take: impl FnMut(DataKind, ObjectEvent)) -> Result<(), String> {
        for kind in DataKind::ALL {
            let receiver = match kind {
                DataKind::ConfigMap => &mut self.config_maps,
                DataKind::Secret => &mut self.secrets,
                DataKind::Project => &mut self.projects,
            };
            while let Some(event) = next_of_first_list(receiver).await? {
                take(kind, event);
            }
        }
        Ok(())
    }

    /// What comes next, or that it is time. Cancel-safe.
    pub async fn next(&mut self, due: Option<Instant>) -> Next {
        let wait = async {
            match due {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        // Every branch is cancel-safe: receiving from a channel and sleeping. The wait comes first, so that no flood of
        // events holds a snapshot back.
        let (kind, event) = tokio::select! {
            biased;
            () = wait => return Next::Due,
            event = self.config_maps.recv() => (DataKind::ConfigMap, event),
            event = self.secrets.recv() => (DataKind::Secret, event),
            event = self.projects.recv() => (DataKind::Project, event),
        };
        event.map_or(Next::Ended, |event| Next::Event(kind, event))
    }
}

/// Takes an event into what is known, and tells the log of what an operator has to know. Says whether another snapshot is
/// due.
pub fn take(data: &mut InstallationData, kind: DataKind, event: ObjectEvent) -> bool {
    match event {
        ObjectEvent::Upsert(received) if is_known(data, kind, &received) => false,
        event => read(&event).is_some_and(|event| apply(data, kind, event)),
    }
}

/// What an event says of one object, which is read here; nothing of those that tell of the watch itself.
#[must_use]
pub fn read(event: &ObjectEvent) -> Option<DataEvent> {
    Some(match event {
        ObjectEvent::Upsert(received) => match received.read() {
            Ok(object) => DataEvent::Upsert(object),
            Err(bad) => DataEvent::Unreadable {
                name: bad.key.name.to_string(),
                reason: bad.reason,
                text: received.text().to_vec(),
            },
        },
        ObjectEvent::Delete(key) => DataEvent::Delete { name: key.name.to_string() },
        ObjectEvent::Synced | ObjectEvent::Failed(_) => return None,
    })
}

/// [`InstallationData::apply`], with what an operator has to know in the log. Says whether another snapshot is due.
pub fn apply(data: &mut InstallationData, kind: DataKind, event: DataEvent) -> bool {
    let change = data.apply(kind, event);
    if let Some(problem) = change.problem {
        tracing::error!(problem, "an object that the installation is made of");
    }
    change.is_change
}

/// Whether an object need not be read, because this version or a later one was: that of a write of our own. Settings
/// that were lost are read again, as the same version may return.
fn is_known(data: &InstallationData, kind: DataKind, received: &Received) -> bool {
    let name = received.key().name.as_str();
    let is_lost = kind != DataKind::Project && data.settings_problems.contains_key(name);
    !is_lost && !is_news(data.known(kind, name), received.uid(), received.version())
}
