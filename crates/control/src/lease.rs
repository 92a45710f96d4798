//! The lease of an installation: of several processes only its holder writes (CTL-91, F28, INV-4).
//!
//! The lease is an object like that of any Kubernetes controller. Whoever waits takes it when nobody renewed it for
//! its whole duration, measured on the waiting process's own clock; the holder stops writing well before that, on
//! its own. No clock is compared with another one.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_cluster::{ApiError, Fence, Target, Writer};
use tiphys_object::{Gvk, Object};
use tiphys_policy::permit::{Own, Permit};
use tiphys_source::Clock;
use tokio::time::Instant;

/// Name of the lease in the control plane's namespace.
const NAME: &str = "tiphys-controller";
/// How long a lease that nobody renews is respected.
const DURATION: Duration = Duration::from_secs(15);
/// How long its holder writes after a renewal.
const WRITES: Duration = Duration::from_secs(10);
/// Time between two renewals.
const RENEW: Duration = Duration::from_secs(4);
/// Time until the next attempt after one that failed, and between two looks of one who waits.
const AGAIN: Duration = Duration::from_secs(1);
/// Time for one attempt.
const ATTEMPT: Duration = Duration::from_secs(4);

/// One process's part in the lease.
pub(crate) struct Lease {
    writer: Writer,
    target: Target,
    identity: String,
    clock: Clock,
    fence: Fence,
}

/// The lease as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    holder: String,
    duration: Duration,
    transitions: i64,
    version: String,
}

/// What to do with a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Create,
    Take,
    Renew,
    Wait,
}

/// Decides by what was found and for how long nobody has changed it.
fn decide(found: Option<&Found>, identity: &str, unchanged: Duration) -> Act {
    match found {
        None => Act::Create,
        Some(found) if found.holder == identity => Act::Renew,
        Some(found) if found.holder.is_empty() || unchanged >= found.duration => Act::Take,
        Some(_) => Act::Wait,
    }
}

/// What one who waits has seen last, and since when.
struct Watched {
    version: String,
    since: Instant,
}

/// How an attempt ended.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Held,
    /// Somebody else holds it.
    Other(String),
    /// Somebody else changed it at the same time.
    Conflict,
}

impl Lease {
    /// The part of a process with this name, which no other one has. Its writes are not fenced.
    pub(crate) fn new(writer: Writer, namespace: &str, identity: String, clock: Clock, fence: Fence) -> Self {
        let target = Target::new(Gvk::new("coordination.k8s.io", "v1", "Lease"), namespace, NAME);
        Self { writer, target, identity, clock, fence }
    }

    /// Waits until the lease is ours.
    ///
    /// # Errors
    /// When the API server refuses, with what to do about it.
    pub(crate) async fn acquire(&self) -> Result<(), String> {
        let mut watched = Watched { version: String::new(), since: Instant::now() };
        let mut told = String::new();
        loop {
            match self.attempt(&mut watched).await {
                Ok(Attempt::Held) => return Ok(()),
                Ok(Attempt::Other(holder)) if holder != told => {
                    tracing::info!(
                        holder,
                        "another process works for this installation; waiting for its lease"
                    );
                    told = holder;
                }
                Ok(Attempt::Other(_) | Attempt::Conflict) => {}
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, "the lease cannot be looked at now");
                }
                Err(error) => {
                    return Err(format!(
                        "{error}; allow get, create and update of leases (coordination.k8s.io) in the namespace, or \
                         start with --no-lease where no second process can run"
                    ));
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Renews the lease until somebody else has it; returns who.
    pub(crate) async fn keep(&self) -> String {
        let mut watched = Watched { version: String::new(), since: Instant::now() };
        let mut wait = RENEW;
        loop {
            tokio::time::sleep(wait).await;
            wait = match self.attempt(&mut watched).await {
                Ok(Attempt::Held) => RENEW,
                Ok(Attempt::Other(holder)) => {
                    self.fence.close();
                    return holder;
                }
                Ok(Attempt::Conflict) => AGAIN,
                Err(error) => {
                    tracing::warn!(%error, "the lease cannot be renewed now; without it nothing is written");
                    AGAIN
                }
            };
        }
    }

    /// Lets the next process have it at once.
    pub(crate) async fn release(&self) {
        self.fence.close();
        let given_up = async {
            let Some(found) = self.look().await? else { return Ok(()) };
            if found.holder == self.identity { self.write(&found, "").await } else { Ok(()) }
        };
        match tokio::time::timeout(ATTEMPT, given_up).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "the lease could not be given up; it ends by itself"),
            Err(_) => tracing::debug!("the lease could not be given up in time; it ends by itself"),
        }
    }

    async fn attempt(&self, watched: &mut Watched) -> Result<Attempt, ApiError> {
        let once = self.attempt_once(watched);
        let timeout = |_elapsed| ApiError::Timeout { what: "renew the lease", after: ATTEMPT };
        tokio::time::timeout(ATTEMPT, once).await.map_err(timeout)?
    }

    async fn attempt_once(&self, watched: &mut Watched) -> Result<Attempt, ApiError> {
        // The right to write is counted from before the request: it may be carried out at any time after.
        let began = Instant::now();
        let found = self.look().await?;
        let version = found.as_ref().map(|found| found.version.clone()).unwrap_or_default();
        if version != watched.version {
            *watched = Watched { version, since: Instant::now() };
        }
        let written = match (decide(found.as_ref(), &self.identity, watched.since.elapsed()), &found) {
            (Act::Wait, found) => {
                return Ok(Attempt::Other(found.as_ref().map(|f| f.holder.clone()).unwrap_or_default()));
            }
            (Act::Create, _) | (_, None) => self.create().await,
            (Act::Take | Act::Renew, Some(found)) => self.write(found, &self.identity).await,
        };
        match written {
            Ok(()) => {
                self.fence.open_until(began + WRITES);
                Ok(Attempt::Held)
            }
            Err(error) if error.is_conflict() || error.is_already_exists() || error.is_not_found() => {
                Ok(Attempt::Conflict)
            }
            Err(error) => Err(error),
        }
    }

    async fn look(&self) -> Result<Option<Found>, ApiError> {
        self.writer.get(&self.target).await?.map(|object| found(&object)).transpose()
    }

    async fn create(&self) -> Result<(), ApiError> {
        let now = micro(self.clock.now());
        let lease = self.manifest(&Found::default(), &self.identity, json!({"acquireTime": now}));
        self.writer.create_unread(&self.permit(), &lease).await
    }

    /// Writes the lease in the place of what was found, and only of that.
    async fn write(&self, found: &Found, holder: &str) -> Result<(), ApiError> {
        let changes = found.holder != holder;
        let times = if changes { json!({"acquireTime": micro(self.clock.now())}) } else { json!({}) };
        let next = Found { transitions: found.transitions + i64::from(changes), ..found.clone() };
        let lease = self.manifest(&next, holder, times);
        self.writer.update(&self.permit(), &lease).await.map(drop)
    }

    fn permit(&self) -> Permit {
        Permit::own(Own::Lease, &self.target.namespace, &self.target.name)
    }

    fn manifest(&self, found: &Found, holder: &str, times: Value) -> Value {
        let mut spec = json!({
            "holderIdentity": holder,
            "leaseDurationSeconds": DURATION.as_secs(),
            "leaseTransitions": found.transitions,
            "renewTime": micro(self.clock.now()),
        });
        if let (Some(spec), Value::Object(times)) = (spec.as_object_mut(), times) {
            spec.extend(times);
        }
        let mut metadata = json!({"name": self.target.name, "namespace": self.target.namespace});
        if let Some(metadata) = metadata.as_object_mut().filter(|_| !found.version.is_empty()) {
            metadata.insert("resourceVersion".to_owned(), found.version.as_str().into());
        }
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    }
}

fn found(object: &Object) -> Result<Found, ApiError> {
    let malformed = |reason: String| ApiError::Malformed { what: "read the lease", reason };
    let value = object.to_value().map_err(|error| malformed(error.to_string()))?;
    let number = |path: &str| value.pointer(path).and_then(Value::as_i64);
    let seconds = number("/spec/leaseDurationSeconds").and_then(|seconds| u64::try_from(seconds).ok());
    let holder = value.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
    Ok(Found {
        holder: holder.to_owned(),
        // A shorter one than ours would let two write.
        duration: Duration::from_secs(seconds.unwrap_or(0)).clamp(DURATION, DURATION * 4),
        transitions: number("/spec/leaseTransitions").unwrap_or(0),
        version: object.metadata().resource_version.to_string(),
    })
}

/// A time as leases have it.
fn micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CTL-91: a lease is taken when it is free or nobody renews it, and by nobody else before.
    #[test]
    fn ctl_91_a_lease_is_taken_only_when_it_is_free() {
        let held = Found { holder: "a".to_owned(), duration: DURATION, ..Found::default() };
        let free = Found { holder: String::new(), ..held.clone() };
        let just_before = DURATION.saturating_sub(Duration::from_millis(1));
        assert_eq!(decide(None, "b", Duration::ZERO), Act::Create);
        assert_eq!(decide(Some(&held), "a", Duration::from_hours(1)), Act::Renew);
        assert_eq!(decide(Some(&held), "b", just_before), Act::Wait);
        assert_eq!(decide(Some(&held), "b", DURATION), Act::Take);
        assert_eq!(decide(Some(&free), "b", Duration::ZERO), Act::Take);
    }

    /// F28: the holder stops before anybody else can begin, a request under way included.
    #[test]
    fn f28_the_right_to_write_ends_before_the_lease() {
        assert!(WRITES < DURATION && RENEW + ATTEMPT < WRITES);
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(micro(at), "2026-01-01T00:00:00.000000Z");
    }
}
