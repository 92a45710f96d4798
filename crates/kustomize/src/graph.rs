//! The nodes of all documents of one build.
//!
//! kustomize works on YAML nodes, not on values: a scalar has the text it was written with, a style and a tag that
//! may be empty, and what it means is decided anew whenever it is written. Nodes have identity, too: a label that
//! several selectors got at once is one node, and a later patch of one place changes all of them. So nodes live in
//! one [`Graph`] and are named by [`NodeId`]; copying is explicit. Nothing is freed before the build ends, and what
//! is made is counted against the memory of the [`Budget`](crate::Budget).

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smol_str::SmolStr;
use tiphys_go::live;
use tiphys_go::nesting::DEPTH_MAX;

use crate::fault::{Fault, Result};

/// Steps between two looks at the caller's clock.
const STEPS_PER_LOOK: u64 = 4096;
/// Texts up to so many bytes stand inside the node.
const INLINE_TEXT: usize = 23;

/// A node of a [`Graph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text.
    Scalar,
    /// Keys and values in turns.
    Mapping,
    /// Items.
    Sequence,
    /// Another name for the one node in its content.
    Alias,
}

impl Kind {
    /// The name in error texts.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Scalar => "ScalarNode",
            Self::Mapping => "MappingNode",
            Self::Sequence => "SequenceNode",
            Self::Alias => "AliasNode",
        }
    }
}

/// How a node was, or is to be, written. A set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style(u8);

impl Style {
    pub(crate) const PLAIN: Self = Self(0);
    pub(crate) const TAGGED: Self = Self(1);
    pub(crate) const DOUBLE_QUOTED: Self = Self(2);
    pub(crate) const SINGLE_QUOTED: Self = Self(4);
    pub(crate) const LITERAL: Self = Self(8);
    pub(crate) const FOLDED: Self = Self(16);
    pub(crate) const FLOW: Self = Self(32);

    /// Whether one of the other's flags is set.
    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the style alone says that a scalar is text.
    pub(crate) fn is_text(self) -> bool {
        self.has(Self(Self::DOUBLE_QUOTED.0 | Self::SINGLE_QUOTED.0 | Self::LITERAL.0 | Self::FOLDED.0))
    }

    /// Both sets of flags.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The type of a node, in the short spelling; [`Tag::None`] is decided when the node is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tag {
    None,
    Null,
    Bool,
    Text,
    Int,
    Float,
    Timestamp,
    Sequence,
    Mapping,
    Binary,
    Merge,
    Other(SmolStr),
}

impl Tag {
    /// Reads a tag as it stands in a document, long or short.
    pub(crate) fn new(text: &str) -> Self {
        let short = text.strip_prefix("tag:yaml.org,2002:").or_else(|| text.strip_prefix("!!"));
        match short {
            Some("null") => Self::Null,
            Some("bool") => Self::Bool,
            Some("str") => Self::Text,
            Some("int") => Self::Int,
            Some("float") => Self::Float,
            Some("timestamp") => Self::Timestamp,
            Some("seq") => Self::Sequence,
            Some("map") => Self::Mapping,
            Some("binary") => Self::Binary,
            Some("merge") => Self::Merge,
            Some(other) => Self::Other(smol_str::format_smolstr!("!!{other}")),
            None => Self::Other(text.into()),
        }
    }

    /// The short spelling.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::None => "",
            Self::Null => "!!null",
            Self::Bool => "!!bool",
            Self::Text => "!!str",
            Self::Int => "!!int",
            Self::Float => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::Sequence => "!!seq",
            Self::Mapping => "!!map",
            Self::Binary => "!!binary",
            Self::Merge => "!!merge",
            Self::Other(text) => text,
        }
    }
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) style: Style,
    /// Line in its document, counted from 1; 0 for nodes that were made.
    pub(crate) line: u32,
    pub(crate) tag: Tag,
    pub(crate) value: SmolStr,
    pub(crate) content: Vec<NodeId>,
}

impl Node {
    /// A node of a kind with nothing in it.
    pub(crate) fn new(kind: Kind) -> Self {
        let (value, content) = (SmolStr::default(), Vec::new());
        Self { kind, style: Style::PLAIN, line: 0, tag: Tag::None, value, content }
    }

    /// A scalar whose type is decided when it is written.
    pub(crate) fn scalar(value: impl Into<SmolStr>) -> Self {
        Self { value: value.into(), ..Self::new(Kind::Scalar) }
    }

    /// A scalar that is text.
    pub(crate) fn text(value: impl Into<SmolStr>) -> Self {
        let value = value.into();
        let style = if value.contains('\n') { Style::LITERAL } else { Style::PLAIN };
        Self { tag: Tag::Text, style, ..Self::scalar(value) }
    }

    /// Whether the node says that there is nothing.
    pub(crate) fn is_null(&self) -> bool {
        self.tag == Tag::Null
    }

    /// Whether the node is null, or a list or mapping without members.
    pub(crate) fn is_null_or_empty(&self) -> bool {
        self.is_null() || (matches!(self.kind, Kind::Mapping | Kind::Sequence) && self.content.is_empty())
    }

    /// Whether the node is a scalar that may be text.
    pub(crate) fn is_text(&self) -> bool {
        self.kind == Kind::Scalar && matches!(self.tag, Tag::Text | Tag::None)
    }
}

/// How much a build may take.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    /// Bytes of memory.
    pub(crate) memory: usize,
    /// Steps.
    pub(crate) steps: u64,
    /// Set when the caller's time is up.
    pub(crate) cancelled: Option<Arc<AtomicBool>>,
}

/// All nodes of a build, and what the build may still take.
#[derive(Debug)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    /// Names of anchored nodes. Resources lose theirs when they are read; documents inside of texts keep them.
    pub(crate) anchors: HashMap<NodeId, SmolStr>,
    allowance: Allowance,
    memory: Cell<usize>,
    steps: Cell<u64>,
    look_at: Cell<u64>,
}

impl Graph {
    pub(crate) fn new(allowance: Allowance) -> Self {
        let (memory, steps) = (Cell::new(allowance.memory), Cell::new(allowance.steps));
        let look_at = Cell::new(allowance.steps);
        Self { nodes: Vec::new(), anchors: HashMap::new(), allowance, memory, steps, look_at }
    }

    /// Takes steps, and ends the build when there are none left or the caller's time is up.
    pub(crate) fn spend(&self, steps: usize) -> Result<()> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let Some(left) = self.steps.get().checked_sub(steps) else {
            return Err(Fault::exhausted(format!("more than {} steps", self.allowance.steps)));
        };
        self.steps.set(left);
        if left <= self.look_at.get() {
            self.look_at.set(left.saturating_sub(STEPS_PER_LOOK));
            if self.allowance.cancelled.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                return Err(Fault::cancelled());
            }
        }
        Ok(())
    }

    /// Takes memory, and ends the build when there is none left.
    pub(crate) fn take(&self, bytes: usize) -> Result<()> {
        let Some(left) = self.memory.get().checked_sub(bytes) else {
            return Err(Fault::exhausted(format!("more than {} bytes of memory", self.allowance.memory)));
        };
        self.memory.set(left);
        live::check().map_err(|held| Fault::exhausted(format!("more than {} bytes of memory", held.bound)))
    }

    /// Adds a node.
    pub(crate) fn add(&mut self, node: Node) -> Result<NodeId> {
        let text = if node.value.len() > INLINE_TEXT { node.value.len() + 16 } else { 0 };
        self.spend(1)?;
        self.take(size_of::<Node>() + text + node.content.len() * size_of::<NodeId>())?;
        let id =
            u32::try_from(self.nodes.len()).map_err(|_many| Fault::exhausted("too many nodes".to_owned()))?;
        self.nodes.push(node);
        Ok(NodeId(id))
    }

    /// A node.
    #[expect(clippy::indexing_slicing, reason = "only this graph makes ids, and it never shrinks")]
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// A node, to be changed.
    #[expect(clippy::indexing_slicing, reason = "only this graph makes ids, and it never shrinks")]
    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// Adds a member to the content of a node.
    pub(crate) fn push(&mut self, parent: NodeId, child: NodeId) -> Result<()> {
        self.take(2 * size_of::<NodeId>())?;
        self.node_mut(parent).content.push(child);
        Ok(())
    }

    /// Makes one node what another is; they share their content from now on.
    pub(crate) fn assign(&mut self, target: NodeId, source: NodeId) -> Result<()> {
        if target == source {
            return Ok(());
        }
        let node = self.node(source).clone();
        self.spend(node.content.len())?;
        self.take(node.content.len() * size_of::<NodeId>())?;
        *self.node_mut(target) = node;
        Ok(())
    }

    /// A copy of a node with everything below it; aliases still name the same nodes.
    pub(crate) fn copy(&mut self, id: NodeId) -> Result<NodeId> {
        self.copy_at(id, 0)
    }

    fn copy_at(&mut self, id: NodeId, depth: usize) -> Result<NodeId> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        let mut node = self.node(id).clone();
        if node.kind != Kind::Alias {
            for child in &mut node.content {
                *child = self.copy_at(*child, depth + 1)?;
            }
        }
        let copied = self.add(node)?;
        if let Some(anchor) = self.anchors.get(&id).cloned() {
            self.anchors.insert(copied, anchor);
        }
        Ok(copied)
    }

    /// Whether two nodes were written alike, line by line.
    pub(crate) fn is_same(&self, one: NodeId, other: NodeId) -> Result<bool> {
        let mut pending = vec![(one, other)];
        while let Some((one, other)) = pending.pop() {
            if one == other {
                continue;
            }
            self.spend(1)?;
            let (one, other) = (self.node(one), self.node(other));
            let is_alike = one.kind == other.kind
                && one.style == other.style
                && one.line == other.line
                && one.tag == other.tag
                && one.value == other.value
                && one.content.len() == other.content.len();
            if !is_alike {
                return Ok(false);
            }
            pending.extend(one.content.iter().copied().zip(other.content.iter().copied()));
        }
        Ok(true)
    }
}
