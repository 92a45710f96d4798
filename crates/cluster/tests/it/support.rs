//! A connection to the API server under test, and what tests share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_cluster::{
    Claims, ClusterIndex, Connection, Derived, Discovery, IndexEvent, IndexOptions, Target, Writer,
};
use tiphys_object::{Gvk, Metadata, ResourceKey};
use tiphys_policy::permit::Permit;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long anything is waited for; a busy machine must not decide about a test.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);

pub(crate) const TRACKING: &str = "argocd.argoproj.io/tracking-id";

/// The kubeconfig of the API server under test; says so when there is none.
pub(crate) fn kubeconfig(test: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "tests have no settings")]
    let path = std::env::var("TIPHYS_TEST_KUBECONFIG").ok();
    if path.is_none() {
        println!("skipped: {test} needs TIPHYS_TEST_KUBECONFIG");
    }
    path.map(PathBuf::from)
}

/// What a test changes is permitted to it.
pub(crate) trait Permitted {
    fn permit(&self) -> Permit;
}

impl Permitted for Value {
    fn permit(&self) -> Permit {
        Permit::operator(ResourceKey::of(self))
    }
}

impl Permitted for Target {
    fn permit(&self) -> Permit {
        Permit::operator(self.key())
    }
}

pub(crate) struct Bed {
    pub(crate) connection: Connection,
    pub(crate) discovery: Discovery,
    pub(crate) writer: Writer,
}

impl Bed {
    pub(crate) async fn connect(test: &str) -> Option<Self> {
        let path = kubeconfig(test)?;
        let connection =
            Connection::from_kubeconfig(Some(&path), None, tiphys_api::settings::ClientLimits::default())
                .await
                .unwrap();
        let discovery = Discovery::new(connection.clone());
        let writer = Writer::new(connection.clone(), discovery.clone());
        Some(Self { connection, discovery, writer })
    }

    /// An empty namespace of the given name, made anew.
    pub(crate) async fn namespace(&self, name: &str) {
        let target = Target::new(Gvk::new("", "v1", "Namespace"), "", name);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        if self.writer.get(&target).await.unwrap().is_none() {
            match self.writer.create(&namespace.permit(), &namespace).await {
                // Another test was faster.
                Err(error) if error.is_already_exists() => {}
                made => drop(made.unwrap()),
            }
        }
    }

    pub(crate) async fn remove(&self, target: &Target) {
        self.writer.delete(&target.permit(), target, &background()).await.unwrap();
    }

    pub(crate) fn index(&self) -> Started {
        self.index_with(|_| {})
    }

    pub(crate) fn index_with(&self, change: impl FnOnce(&mut IndexOptions)) -> Started {
        let mut options =
            IndexOptions::new(self.connection.server(), claims(), Arc::new(derive), Arc::new(|| 0.5));
        change(&mut options);
        let (sender, events) = mpsc::channel(1024);
        let tracker = TaskTracker::new();
        let cancel = CancellationToken::new();
        let index = ClusterIndex::start(
            self.connection.clone(),
            Discovery::new(self.connection.clone()),
            options,
            sender,
            &tracker,
            cancel.clone(),
        );
        Started { index, events, _stop: cancel.drop_guard() }
    }
}

pub(crate) struct Started {
    pub(crate) index: ClusterIndex,
    pub(crate) events: mpsc::Receiver<IndexEvent>,
    _stop: tokio_util::sync::DropGuard,
}

impl Started {
    /// The next event that satisfies the test.
    pub(crate) async fn event(&mut self, is_it: impl Fn(&IndexEvent) -> bool) -> IndexEvent {
        let wait = async {
            loop {
                let event = self.events.recv().await.expect("events end");
                if is_it(&event) {
                    return event;
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("no such event")
    }
}

pub(crate) fn background() -> tiphys_cluster::DeleteOptions {
    tiphys_cluster::DeleteOptions {
        propagation: tiphys_cluster::Propagation::Background,
        ..tiphys_cluster::DeleteOptions::default()
    }
}

fn claims() -> Claims {
    let claim = |metadata: &Metadata| {
        metadata
            .annotations
            .get(TRACKING)
            .and_then(|id| id.split(':').next())
            .map(SmolStr::new)
            .into_iter()
            .collect()
    };
    Claims { keys: vec![TRACKING.into()], claim: Arc::new(claim), ways: vec![1] }
}

fn derive(object: &Value) -> Derived {
    Derived {
        health: Some((object["kind"].as_str().unwrap_or("?").into(), String::new())),
        ..Derived::default()
    }
}
