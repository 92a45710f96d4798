//! What happens to live objects is noticed at once, not by the next poll.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::World;

const MOMENT: Duration = Duration::from_secs(10);
const MAP: &str = "/api/v1/namespaces/default/configmaps/shop";
const MARK: &str = "/metadata/annotations/argocd.argoproj.io~1tracking-id";

/// CTL-29, TRK-30: the change event looks at the old record too. The poll would come after two minutes.
#[tokio::test(start_paused = true)]
async fn ctl_29_a_mark_that_is_removed_is_noticed_at_once() {
    let world = World::start().await;
    world.commit("one");
    world.create();
    world.pass(MOMENT).await;
    assert!(world.get(MAP).pointer(MARK).is_some(), "{:#}", world.get(MAP));
    world.change_object(
        MAP,
        &json!({"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": Value::Null}}}),
    );
    assert!(world.get(MAP).pointer(MARK).is_none());
    world.pass(MOMENT).await;
    assert!(world.get(MAP).pointer(MARK).is_some(), "self-heal put it back: {:#}", world.get(MAP));
}
