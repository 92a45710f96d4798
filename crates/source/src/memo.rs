//! Answers of servers, remembered for a while; whoever asks at the same time shares one question (RND-36, RND-118).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::{Clock, Freshness, SourceError};

/// What is remembered of one thing.
struct Slot<T> {
    /// The answer, and when it was asked for, on the clock's time since its start.
    value: Option<(Arc<T>, Duration)>,
    /// The last failure, and when it came.
    failure: Option<(SourceError, Duration)>,
}

struct Known<T> {
    slot: Arc<tokio::sync::Mutex<Slot<T>>>,
    weight: usize,
    used: u64,
}

/// Answers by key, within a bound of bytes.
pub(crate) struct Memo<T> {
    known: Mutex<(BTreeMap<String, Known<T>>, u64)>,
    weight_max: usize,
    entries_max: usize,
}

impl<T> Memo<T> {
    pub(crate) fn new(weight_max: usize, entries_max: usize) -> Self {
        Self { known: Mutex::new((BTreeMap::new(), 0)), weight_max, entries_max }
    }

    /// The answer that is remembered, if it is fresh enough, else that of `ask`, which is given what was known before.
    pub(crate) async fn get<F: Future<Output = Result<Arc<T>, SourceError>>>(
        &self,
        key: &str,
        (clock, ttl, freshness): (&Clock, Duration, Freshness),
        weigh: impl Fn(&T) -> usize,
        ask: impl FnOnce(Option<Arc<T>>) -> F,
    ) -> Result<Arc<T>, SourceError> {
        let arrived = clock.elapsed();
        let oldest = freshness.oldest(arrived, ttl);
        let slot = self.slot(key);
        // Nobody waits longer than a question takes, and questions have a limit.
        let mut slot = slot.lock().await;
        if let Some((value, began)) = &slot.value
            && *began >= oldest
            && (freshness != Freshness::Fetch || *began > oldest)
        {
            return Ok(Arc::clone(value));
        }
        if let Some((error, came)) = &slot.failure
            && *came > arrived
        {
            return Err(error.clone());
        }
        let began = clock.elapsed();
        let result = ask(slot.value.as_ref().map(|(value, _)| Arc::clone(value))).await;
        match &result {
            Ok(value) => {
                *slot = Slot { value: Some((Arc::clone(value), began)), failure: None };
                self.note(key, weigh(value));
            }
            Err(error) => slot.failure = Some((error.clone(), clock.elapsed())),
        }
        result
    }

    fn slot(&self, key: &str) -> Arc<tokio::sync::Mutex<Slot<T>>> {
        let mut known = self.known.lock();
        known.1 += 1;
        let used = known.1;
        if !known.0.contains_key(key) && known.0.len() >= self.entries_max {
            drop_oldest(&mut known.0);
        }
        let fresh = || Known {
            slot: Arc::new(tokio::sync::Mutex::new(Slot { value: None, failure: None })),
            weight: 0,
            used,
        };
        let entry = known.0.entry(key.to_owned()).or_insert_with(fresh);
        entry.used = used;
        Arc::clone(&entry.slot)
    }

    /// Takes down what an answer weighs; others go when all together are too heavy.
    fn note(&self, key: &str, weight: usize) {
        let mut known = self.known.lock();
        if let Some(entry) = known.0.get_mut(key) {
            entry.weight = weight;
        }
        while known.0.len() > 1 && known.0.values().map(|entry| entry.weight).sum::<usize>() > self.weight_max
        {
            drop_oldest(&mut known.0);
        }
    }
}

fn drop_oldest<T>(known: &mut BTreeMap<String, Known<T>>) {
    let oldest = known.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
    if let Some(key) = oldest {
        known.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn rnd_118_answers_are_remembered_for_a_while() {
        let memo: Memo<usize> = Memo::new(100, 10);
        let (clock, time) = Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
        time.advance(Duration::from_hours(1));
        let asked = AtomicUsize::new(0);
        let ttl = Duration::from_mins(3);
        let get = async |key: &str, freshness| {
            let asked = &asked;
            let ask = move |_old: Option<Arc<usize>>| async move {
                let nth = asked.fetch_add(1, Ordering::Relaxed) + 1;
                if key == "bad" {
                    Err(SourceError::Unavailable { text: "no".to_owned() })
                } else {
                    Ok(Arc::new(nth))
                }
            };
            memo.get(key, (&clock, ttl, freshness), |_| 40, ask).await.map(|found| *found)
        };
        assert_eq!(get("a", Freshness::Cached).await, Ok(1));
        assert_eq!(get("a", Freshness::Cached).await, Ok(1));
        time.advance(Duration::from_secs(1));
        assert_eq!(get("a", Freshness::Fetch).await, Ok(2));
        assert_eq!(get("a", Freshness::Since(Duration::from_mins(1))).await, Ok(2));
        time.advance(ttl + Duration::from_secs(1));
        assert_eq!(get("a", Freshness::Cached).await, Ok(3));
        assert!(get("bad", Freshness::Cached).await.is_err());
        assert!(get("bad", Freshness::Cached).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 5, "failures are asked about again");
        // The third one makes the one go that was not asked for the longest.
        get("b", Freshness::Cached).await.unwrap();
        get("c", Freshness::Cached).await.unwrap();
        let before = asked.load(Ordering::Relaxed);
        get("a", Freshness::Cached).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), before + 1);
    }
}
