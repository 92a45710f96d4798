//! Nodes of a cluster, what they have and what Pods ask of them (ENG-203).

use smol_str::SmolStr;

/// Amounts of what nodes have, in thousandths of cores and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of cores.
    pub cpu: i64,
    /// Thousandths of bytes.
    pub memory: i64,
    /// Thousandths of bytes.
    pub storage: i64,
}

impl Amounts {
    /// The names of Kubernetes, each with its amount.
    pub fn named(self) -> [(&'static str, i64); 3] {
        [("cpu", self.cpu), ("memory", self.memory), ("storage", self.storage)]
    }

    /// Amounts, each made of two.
    #[must_use]
    pub fn with(self, other: Self, make: impl Fn(i64, i64) -> i64) -> Self {
        Self {
            cpu: make(self.cpu, other.cpu),
            memory: make(self.memory, other.memory),
            storage: make(self.storage, other.storage),
        }
    }
}

/// What an object says about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A Pod that runs on it.
    Guest {
        /// Name of the node.
        node: SmolStr,
        /// What it asks for.
        asks: Amounts,
    },
    /// The node itself.
    Node {
        /// What it has.
        has: Amounts,
        /// What else is shown of it, as JSON: members of a `HostInfo`.
        shown: Box<str>,
    },
}

/// A node with Pods of somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostUse {
    /// Name of the node.
    pub name: SmolStr,
    /// What the Pods in question ask for.
    pub asked: Amounts,
    /// What all Pods on it ask for.
    pub asked_by_all: Amounts,
    /// The node as [`Host::Node`] says it is, where it is known.
    pub node: Option<(Amounts, Box<str>)>,
}
