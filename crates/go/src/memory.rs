//! What values take in memory, by a tariff, while they are read.
//!
//! Counting values does not bound memory: a mapping with one key takes as much as one with eleven, and a budget
//! of five million values was two gigabytes. The tariff is an upper bound of what the allocator is asked for; a
//! test with a counting allocator holds the readers to it (SEC-07).

use serde_json::Value;

/// Bytes that a reader may still use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    limit: usize,
    left: usize,
}

/// The limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The limit.
    pub limit: usize,
}

/// The first node of a map holds eleven members, however few there are.
const FIRST_NODE: usize = 640;
/// The twelfth member makes three nodes of it.
const SPLIT: usize = 1_400;
/// Each further member: nodes are at least half full.
const MEMBER: usize = 160;
/// Members of the first node.
const FIRST_MEMBERS: usize = 11;
/// What an allocator adds to a small text.
const TEXT: usize = 16;

impl Memory {
    /// A fresh budget of so many bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, left: limit }
    }

    /// The bound.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes that were used.
    pub fn used(&self) -> usize {
        self.limit - self.left
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// When fewer are left.
    pub fn spend(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.left = self.left.checked_sub(bytes).ok_or(Exceeded { limit: self.limit })?;
        Ok(())
    }

    /// Takes what a text of so many bytes does; the empty one is free.
    ///
    /// # Errors
    /// When the bytes do not suffice.
    pub fn text(&mut self, bytes: usize) -> Result<(), Exceeded> {
        if bytes == 0 { Ok(()) } else { self.spend(bytes.saturating_add(bytes / 8).saturating_add(TEXT)) }
    }

    /// Takes what one more member does in a map of so many, without its key's text.
    ///
    /// # Errors
    /// When the bytes do not suffice.
    pub fn member(&mut self, members: usize) -> Result<(), Exceeded> {
        match members {
            0 => self.spend(FIRST_NODE),
            FIRST_MEMBERS => self.spend(SPLIT),
            members if members > FIRST_MEMBERS => self.spend(MEMBER),
            _ => Ok(()),
        }
    }

    /// Takes what one more item does in a list. A list that grows is copied, so the old one counts too.
    ///
    /// # Errors
    /// When the bytes do not suffice.
    pub fn item(&mut self, items: &Vec<Value>) -> Result<(), Exceeded> {
        if items.len() < items.capacity() {
            return Ok(());
        }
        self.spend(items.capacity().saturating_mul(2).max(4).saturating_mul(size_of::<Value>()))
    }
}
