//! Rendered sources by key, each in memory once.
//!
//! The targets of applications stay in memory anyway, so the cache only knows where what they hold is. What
//! nobody holds any more it keeps itself, within a bound of bytes: an application that goes back to where it was,
//! or a revision that is looked at twice, is not rendered again.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;

use super::RenderedSource;

type Key = [u8; 32];

/// Finds rendered sources. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RenderCache(Arc<Shelf>);

struct Shelf {
    /// What somebody holds. Each entry goes with the last holder, so there are never more than holders.
    held: Mutex<HashMap<Key, Weak<Held>>>,
    /// What nobody holds; the least recently used goes first.
    released: Cache<Key, Arc<RenderedSource>>,
}

/// A rendered source in somebody's hands. With the last holder it goes back to the cache.
pub(crate) struct Held {
    source: Arc<RenderedSource>,
    shelf: Weak<Shelf>,
}

impl RenderCache {
    /// An empty cache that keeps so many bytes which nobody holds.
    pub(crate) fn new(released_bytes_max: u64) -> Self {
        let released = Cache::builder()
            .max_capacity(released_bytes_max)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|_, source: &Arc<RenderedSource>| source.bytes)
            .build();
        Self(Arc::new(Shelf { held: Mutex::default(), released }))
    }

    /// What was rendered under a key and is still in memory.
    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Held>> {
        let mut held = self.0.held.lock();
        if let Some(known) = held.get(key).and_then(Weak::upgrade) {
            return Some(known);
        }
        let source = self.0.released.remove(key)?;
        Some(self.hand_out(&mut held, source))
    }

    /// Takes what was rendered now; from now on it is what its key finds.
    pub(crate) fn put(&self, source: RenderedSource) -> Arc<Held> {
        let mut held = self.0.held.lock();
        self.0.released.invalidate(&source.id);
        self.hand_out(&mut held, Arc::new(source))
    }

    fn hand_out(&self, held: &mut HashMap<Key, Weak<Held>>, source: Arc<RenderedSource>) -> Arc<Held> {
        let id = source.id;
        let handed = Arc::new(Held { source, shelf: Arc::downgrade(&self.0) });
        held.insert(id, Arc::downgrade(&handed));
        handed
    }

    /// How many somebody holds.
    pub(crate) fn held(&self) -> usize {
        self.0.held.lock().len()
    }

    /// Bytes of what nobody holds, about.
    pub(crate) fn released_bytes(&self) -> u64 {
        self.0.released.weighted_size()
    }
}

impl Deref for Held {
    type Target = RenderedSource;

    fn deref(&self) -> &RenderedSource {
        &self.source
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(shelf) = self.shelf.upgrade() else { return };
        let mut held = shelf.held.lock();
        // Rendered anew meanwhile: the newer one counts.
        if held.get(&self.source.id).is_some_and(|known| std::ptr::eq(known.as_ptr(), self)) {
            held.remove(&self.source.id);
            shelf.released.insert(self.source.id, Arc::clone(&self.source));
        }
    }
}

#[cfg(test)]
mod tests {
    use tiphys_render::SourceType;

    use super::*;

    fn source(number: u8, bytes: u32) -> RenderedSource {
        RenderedSource {
            objects: Arc::from([]),
            source_type: SourceType::Directory,
            id: [number; 32],
            is_within: true,
            bytes,
        }
    }

    /// What nobody holds, after everything that is put off was done.
    fn released(cache: &RenderCache) -> u64 {
        cache.0.released.run_pending_tasks();
        cache.released_bytes()
    }

    #[test]
    fn inv_10_what_is_held_is_found_and_counts_for_nothing() {
        let cache = RenderCache::new(100);
        let held: Vec<Arc<Held>> = (0..50).map(|number| cache.put(source(number, 90))).collect();
        assert_eq!((cache.held(), released(&cache)), (50, 0));
        for held in &held {
            assert!(cache.get(&held.id).is_some_and(|found| Arc::ptr_eq(&found, held)));
        }
        drop(held);
        // Of all of them one fits.
        assert_eq!((cache.held(), released(&cache)), (0, 90));
        let found = (0..50).filter(|number| cache.get(&[*number; 32]).is_some());
        assert_eq!(found.count(), 1);
    }

    #[test]
    fn inv_10_what_was_released_is_handed_out_again_and_is_nowhere_twice() {
        let cache = RenderCache::new(100);
        let one = cache.put(source(1, 60));
        let objects = Arc::downgrade(&one.source);
        drop(one);
        assert_eq!((cache.held(), released(&cache)), (0, 60));
        let again = cache.get(&[1; 32]).unwrap();
        assert!(std::ptr::eq(objects.as_ptr(), Arc::as_ptr(&again.source)));
        assert_eq!((cache.held(), released(&cache)), (1, 0));
        // The least recently used goes first.
        let others: Vec<Arc<Held>> = (2..4).map(|number| cache.put(source(number, 60))).collect();
        drop(again);
        drop(others);
        assert_eq!(released(&cache), 60);
        assert!(cache.get(&[1; 32]).is_none());
        assert!(cache.get(&[3; 32]).is_some());
    }

    #[test]
    fn rnd_144_what_is_rendered_anew_takes_the_place_of_what_was() {
        let cache = RenderCache::new(100);
        let old = cache.put(source(1, 10));
        let new = cache.put(source(1, 20));
        drop(old);
        assert_eq!((cache.held(), released(&cache)), (1, 0));
        assert!(cache.get(&[1; 32]).is_some_and(|found| Arc::ptr_eq(&found, &new)));
        drop(new);
        assert_eq!(released(&cache), 20);
        drop(cache.put(source(1, 30)));
        assert_eq!(released(&cache), 30);
    }

    #[test]
    fn inv_10_what_is_held_outlives_the_cache() {
        let cache = RenderCache::new(100);
        let held = cache.put(source(1, 10));
        drop(cache);
        assert_eq!(held.bytes, 10);
    }
}
