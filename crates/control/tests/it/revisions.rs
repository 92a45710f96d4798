//! An application never goes back to an older commit by itself (INV-3).

use std::time::Duration;

use crate::world::World;

const MOMENT: Duration = Duration::from_secs(10);

/// Longer than listings of references are used.
const AGE: Duration = Duration::from_mins(6);

async fn stays_at(world: &World, commit: &str, value: &str) {
    for _ in 0..AGE.as_secs() / MOMENT.as_secs() {
        world.pass(MOMENT).await;
        assert_eq!((world.synced().as_str(), world.value().as_str()), (commit, value));
    }
}

#[tokio::test(start_paused = true)]
async fn inv_3_a_sync_to_the_newest_commit_is_not_undone() {
    let world = World::start().await;
    let old = world.commit("old");
    world.create();
    world.pass(MOMENT).await;
    assert_eq!((world.synced(), world.value()), (old, "old".to_owned()));
    // The status still shows the old commit when the user asks for the newest.
    let new = world.commit("new");
    world.sync("");
    stays_at(&world, &new, "new").await;
}

#[tokio::test(start_paused = true)]
async fn inv_3_a_sync_to_a_commit_that_is_named_is_not_undone_by_an_old_listing() {
    let world = World::start().await;
    world.commit("old");
    world.create();
    world.pass(MOMENT).await;
    assert_eq!(world.value(), "old");
    let new = world.commit("new");
    world.sync(&new);
    stays_at(&world, &new, "new").await;
}
