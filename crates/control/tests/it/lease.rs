//! Two processes of one installation: only the holder of the lease writes (F28).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;
use tiphys_cluster::Connection;
use tiphys_control::{Controller, ControllerOptions};
use tokio::sync::watch;

use crate::install::{Prepared, World};
use crate::support::{HOME, ask, options};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/argocd/leases/tiphys-controller";

/// A process that can be stopped in its tracks.
struct Process {
    options: Option<ControllerOptions>,
    frozen: watch::Sender<bool>,
    /// Requests of it that changed something.
    writes: Arc<AtomicU64>,
}

impl Process {
    fn new(world: &Prepared, name: &str) -> Self {
        let frozen = watch::Sender::new(false);
        let writes = Arc::new(AtomicU64::new(0));
        let (sim, ice, count) = (world.sim.clone(), frozen.subscribe(), Arc::clone(&writes));
        let answer = move |request: Request<Bytes>| {
            let (sim, mut ice, count) = (sim.clone(), ice.clone(), Arc::clone(&count));
            async move {
                drop(ice.wait_for(|frozen| !frozen).await);
                if request.method() != Method::GET {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(sim.call(request).await)
            }
        };
        let options = ControllerOptions {
            lease: Some(name.to_owned()),
            ..options(Connection::over(HOME, answer), &world.servers)
        };
        Self { options: Some(options), frozen, writes }
    }

    async fn start(&mut self) -> Controller {
        Controller::start(self.options.take().unwrap()).await.unwrap()
    }

    fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

fn holder(world: &Prepared) -> Value {
    ask(&world.sim, Method::GET, LEASE, &Value::Null)["spec"]["holderIdentity"].clone()
}

/// F28, CTL-91: the holder stands still for a minute; the other one goes on, and the first one never writes again.
#[tokio::test(start_paused = true)]
async fn f28_a_process_that_stood_still_does_not_write_any_more() {
    let world = World::prepare();
    world.commit("one");
    world.create();
    let (mut first, mut second) = (Process::new(&world, "first"), Process::new(&world, "second"));
    let one = first.start().await;
    let two = tokio::spawn(async move {
        let controller = second.start().await;
        (second, controller)
    });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!two.is_finished() && holder(&world) == "first");
    assert_eq!(world.object("shop")["data"]["value"], "one");
    // It stands still in the middle of a sync.
    world.commit("two");
    world.sync("");
    first.frozen.send_replace(true);
    tokio::time::sleep(Duration::from_secs(20)).await;
    let (second, two) = two.await.unwrap();
    assert_eq!(holder(&world), "second");
    let before = (first.writes(), second.writes());
    first.frozen.send_replace(false);
    tokio::time::timeout(Duration::from_mins(1), one.lost()).await.unwrap();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(first.writes(), before.0, "the first one wrote without the lease");
    assert!(second.writes() > before.1);
    assert_eq!(world.object("shop")["data"]["value"], "two");
    // One that ends in order leaves the lease to the next at once.
    two.stop().await;
    assert_eq!(holder(&world), "");
}
