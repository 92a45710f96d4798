//! Bytes of requests and answers in flight: of the whole process, and of each caller in it (SEC-48, INV-10, INV-16).
//!
//! Bytes of a caller in memory are covered by a [`Permit`], which grows before the bytes are kept and is returned when
//! it is dropped. Bytes are counted in pools, so that large requests leave room for small ones, answers
//! for requests, and callers who are not known for those who are. Nothing waits for room: what does not fit is refused
//! with a text that says whose limit was reached.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use smol_str::{SmolStr, format_smolstr};
use tiphys_wire::status::Code;

use crate::call::Status;
use crate::identity::{Claims, Identity};

const MIB: usize = 1 << 20;

/// A part of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pool {
    /// Heads of requests whose callers are being found out, which waits for no client.
    Arrivals,
    /// Requests of callers who are not known.
    Unknown,
    /// Small requests of known callers.
    Small,
    /// Large requests, for which a right is needed.
    Large,
    /// Answers that are held until they are sent.
    Answers,
    /// Heads that are not complete, and bodies that nothing reads.
    Heads,
}

/// Bounds of a pool.
#[derive(Clone, Copy, Debug)]
struct PoolLimits {
    /// Bytes of all callers.
    all: usize,
    /// Bytes of one caller.
    share: usize,
    /// Bytes of one permit of a caller who has no other bytes in this pool.
    alone: usize,
}

impl Pool {
    /// Together 260 MiB, which no caller reaches alone: one has at most 118 MiB, and its address 16 MiB more.
    fn limits(self) -> PoolLimits {
        let (all, share, alone) = match self {
            Self::Arrivals => (8 * MIB, 4 * MIB, 4 * MIB),
            Self::Unknown => (8 * MIB, 2 * MIB, 2 * MIB),
            Self::Small => (32 * MIB, 4 * MIB, 4 * MIB),
            Self::Large => (84 * MIB, 24 * MIB, 66 * MIB),
            // An answer that is larger than the pool is sent while there is no other.
            Self::Answers => (96 * MIB, 48 * MIB, usize::MAX),
            Self::Heads => (32 * MIB, 16 * MIB, 16 * MIB),
        };
        PoolLimits { all, share, alone }
    }
}

/// Identity for which bytes are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CallerKey {
    /// The address at the other end of the connection.
    Address(IpAddr),
    /// An account: issuer and subject, for tokens of a project's roles the project.
    Account(SmolStr),
}

impl CallerKey {
    /// The key of a caller.
    pub(crate) fn of(identity: &Identity, address: IpAddr) -> Self {
        match identity.claims() {
            Some(claims) if identity.is_trusted() => Self::Account(account(claims)),
            _ => Self::Address(address),
        }
    }

    /// The name under which servers and programs are asked for the caller: that of no project.
    pub(crate) fn owner(&self) -> SmolStr {
        match self {
            Self::Address(address) => format_smolstr!("caller/{address}"),
            Self::Account(account) => format_smolstr!("caller/{account}"),
        }
    }
}

fn account(claims: &Claims) -> SmolStr {
    let (issuer, subject) = (claims.text("iss"), claims.identifier());
    // All roles of a project together, or a project with many roles would have many shares.
    let project = subject.strip_prefix("proj:").and_then(|rest| rest.split(':').next());
    project.map_or_else(
        || format_smolstr!("{issuer}\u{0}{subject}"),
        |project| format_smolstr!("{issuer}\u{0}proj:{project}"),
    )
}

/// Room is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// For this caller.
    Caller,
    /// For all of them.
    Process,
}

impl From<Full> for Status {
    fn from(full: Full) -> Self {
        match full {
            Full::Caller => Self::new(
                Code::ResourceExhausted,
                "too many bytes of this caller's requests and answers are in flight; send fewer at a time, and try again",
            ),
            Full::Process => Self::new(
                Code::Unavailable,
                "too many bytes of requests and answers are in flight; try again",
            ),
        }
    }
}

/// Use of one pool.
#[derive(Debug, Default)]
struct PoolBooks {
    used: usize,
    /// Bytes and permits of each caller.
    callers: HashMap<CallerKey, (usize, usize)>,
}

#[derive(Debug, Default)]
struct Books {
    pools: [PoolBooks; 6],
}

/// The budget of a process. Cloning is cheap.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    books: Arc<Mutex<Books>>,
}

impl Budget {
    /// A permit for no bytes yet.
    pub(crate) fn permit(&self, pool: Pool, caller: CallerKey) -> Permit {
        let permit = Permit { budget: self.clone(), pool, caller, bytes: 0 };
        permit.books(|books| books.callers.entry(permit.caller.clone()).or_default().1 += 1);
        permit
    }

    /// Bytes in use of a pool.
    #[cfg(test)]
    pub(crate) fn used(&self, pool: Pool) -> usize {
        self.books.lock().pools.get(pool as usize).map_or(0, |books| books.used)
    }
}

/// Bytes that a caller has in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Budget,
    pool: Pool,
    caller: CallerKey,
    bytes: usize,
}

impl Permit {
    /// Adds bytes that will be kept.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let limits = self.pool.limits();
        let own = self.bytes;
        let is_granted = self.books(|books| {
            let of_caller = books.callers.get(&self.caller).map_or(0, |(of_caller, _)| *of_caller);
            let (used, share) = (books.used.saturating_add(bytes), of_caller.saturating_add(bytes));
            let is_alone = of_caller == own && share <= limits.alone;
            if share > limits.share && !is_alone {
                return Err(Full::Caller);
            }
            let is_only = books.used == own && limits.alone == usize::MAX;
            if used > limits.all && !is_only {
                return Err(Full::Process);
            }
            books.used = used;
            books.callers.entry(self.caller.clone()).or_default().0 = share;
            Ok(())
        });
        is_granted?;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Returns bytes that are not kept any more.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.books(|books| {
            books.used = books.used.saturating_sub(bytes);
            if let Some((of_caller, _)) = books.callers.get_mut(&self.caller) {
                *of_caller = of_caller.saturating_sub(bytes);
            }
        });
    }

    /// Counts the same bytes in another pool, for another caller, from now on.
    ///
    /// # Errors
    /// When there is no room for them there.
    pub(crate) fn become_of(&mut self, pool: Pool, caller: CallerKey) -> Result<(), Full> {
        let mut other = self.budget.permit(pool, caller);
        other.grow(self.bytes)?;
        *self = other;
        Ok(())
    }

    /// Counts the bytes among those of large requests from now on; those of callers who are not known stay theirs.
    ///
    /// # Errors
    /// When there is no room for them there.
    pub(crate) fn enlarge(&mut self) -> Result<(), Full> {
        if self.pool == Pool::Small { self.become_of(Pool::Large, self.caller.clone()) } else { Ok(()) }
    }

    /// A permit of the same caller for an answer.
    pub(crate) fn for_answer(&self) -> Self {
        self.budget.permit(Pool::Answers, self.caller.clone())
    }

    fn books<T>(&self, change: impl FnOnce(&mut PoolBooks) -> T) -> T {
        let mut books = self.budget.books.lock();
        let [arrivals, unknown, small, large, answers, heads] = &mut books.pools;
        change(match self.pool {
            Pool::Arrivals => arrivals,
            Pool::Unknown => unknown,
            Pool::Small => small,
            Pool::Large => large,
            Pool::Answers => answers,
            Pool::Heads => heads,
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let bytes = self.bytes;
        self.books(|books| {
            books.used = books.used.saturating_sub(bytes);
            if let Some((of_caller, permits)) = books.callers.get_mut(&self.caller) {
                *of_caller = of_caller.saturating_sub(bytes);
                *permits = permits.saturating_sub(1);
                if *permits == 0 {
                    books.callers.remove(&self.caller);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use serde_json::json;

    use super::*;

    fn caller(name: &str) -> CallerKey {
        CallerKey::Account(name.into())
    }

    fn known(claims: &serde_json::Value) -> Identity {
        Identity::Known(Claims::new(claims.as_object().unwrap().clone()))
    }

    #[test]
    fn sec_48_one_caller_cannot_use_what_all_share() {
        let budget = Budget::default();
        let mut permits: Vec<Permit> = (0..3).map(|_| budget.permit(Pool::Small, caller("a"))).collect();
        assert_eq!(permits[0].grow(3 * MIB), Ok(()));
        assert_eq!(permits[1].grow(MIB), Ok(()));
        assert_eq!(permits[2].grow(1), Err(Full::Caller));
        let mut other = budget.permit(Pool::Small, caller("b"));
        assert_eq!(other.grow(4 * MIB), Ok(()));
        assert_eq!(budget.used(Pool::Small), 8 * MIB);
        drop(permits);
        assert_eq!(budget.used(Pool::Small), 4 * MIB);
        other.shrink(3 * MIB);
        assert_eq!(budget.used(Pool::Small), MIB);
        drop(other);
        assert_eq!(budget.used(Pool::Small), 0);
        assert!(budget.books.lock().pools.iter().all(|pool| pool.callers.is_empty()));
    }

    #[test]
    fn inv_10_all_callers_together_have_one_bound() {
        let budget = Budget::default();
        let mut permits: Vec<Permit> =
            (0..9).map(|n| budget.permit(Pool::Small, caller(&n.to_string()))).collect();
        let results: Vec<_> = permits.iter_mut().map(|permit| permit.grow(4 * MIB)).collect();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 8);
        assert_eq!(results[8], Err(Full::Process));
        let mut large = budget.permit(Pool::Large, caller("0"));
        assert_eq!(large.grow(MIB), Ok(()), "pools do not take room from each other");
    }

    #[test]
    fn inv_16_a_large_request_alone_leaves_room_for_others() {
        let budget = Budget::default();
        let mut upload = budget.permit(Pool::Large, caller("a"));
        assert_eq!(upload.grow(66 * MIB), Ok(()));
        assert_eq!(upload.grow(1), Err(Full::Caller));
        let mut second = budget.permit(Pool::Large, caller("a"));
        assert_eq!(second.grow(1), Err(Full::Caller));
        let mut other = budget.permit(Pool::Large, caller("b"));
        assert_eq!(other.grow(18 * MIB), Ok(()));
        assert_eq!(other.grow(1), Err(Full::Process));
    }

    #[test]
    fn api_23_an_answer_larger_than_the_pool_is_sent_alone() {
        let budget = Budget::default();
        let mut answer = budget.permit(Pool::Answers, caller("a"));
        assert_eq!(answer.grow(180 * MIB), Ok(()));
        let mut other = budget.permit(Pool::Answers, caller("b"));
        assert_eq!(other.grow(MIB), Err(Full::Process));
        drop(answer);
        assert_eq!(other.grow(MIB), Ok(()));
        let mut large = budget.permit(Pool::Answers, caller("a"));
        assert_eq!(large.grow(180 * MIB), Err(Full::Process));
    }

    #[test]
    fn sec_48_bytes_move_to_the_account_when_it_is_known() {
        let budget = Budget::default();
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let mut permit = budget.permit(Pool::Unknown, CallerKey::Address(address));
        permit.grow(1_000).unwrap();
        permit.become_of(Pool::Small, caller("a")).unwrap();
        assert_eq!((budget.used(Pool::Unknown), budget.used(Pool::Small)), (0, 1_000));
        permit.enlarge().unwrap();
        assert_eq!((budget.used(Pool::Small), budget.used(Pool::Large)), (0, 1_000));
    }

    #[test]
    fn inv_16_tokens_of_a_project_share_one_budget() {
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let of = |identity: &Identity| CallerKey::of(identity, address);
        let token = |subject: &str| of(&known(&json!({"iss": "argocd", "sub": subject})));
        assert_eq!(token("proj:shop:ci"), token("proj:shop:dev"));
        assert_ne!(token("proj:shop:ci"), token("proj:desk:ci"));
        assert_ne!(token("kim"), of(&known(&json!({"iss": "sso", "sub": "kim"}))));
        for unknown in [Identity::Anonymous, Identity::Unchecked, Identity::Known(Claims::expired_sso())] {
            assert_eq!(of(&unknown), CallerKey::Address(address));
        }
    }
}
