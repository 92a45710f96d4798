//! What follows a value: members, indexes, slices.

use super::{Parsed, Parser};
use crate::expr::ast::{Kind, Node};
use crate::expr::error::{Misplaced, Place};
use crate::expr::token::{Kind as TokenKind, is_name};

impl Parser {
    /// Reads everything that is taken from a value.
    pub(super) fn postfix(&mut self, node: Node) -> Parsed {
        let mut node = node;
        loop {
            let place = self.place();
            if self.is_operator(".") || self.is_operator("?.") {
                let optional = self.is_operator("?.");
                self.next()?;
                node = if optional && self.is_bracket("[") {
                    self.index(node, true, self.place())?
                } else {
                    self.member(node, optional)?
                };
            } else if self.is_bracket("[") {
                node = self.index(node, false, place)?;
            } else {
                return Ok(node);
            }
        }
    }

    fn member(&mut self, node: Node, optional: bool) -> Parsed {
        let token = self.current().clone();
        self.next()?;
        let names = match token.kind {
            TokenKind::Name => true,
            // Operators that are words are names here.
            TokenKind::Operator => is_name(token.value()),
            _ => false,
        };
        if !names {
            return Err(Misplaced::new(token.place, "expected name"));
        }
        let place = token.place;
        let property = self.node(Kind::Text(token.value.into()), place)?;
        // What is optional ends the whole chain.
        let (inner, is_chain) = match node.kind {
            Kind::Chain(inner) => (*inner, true),
            kind => (Node { kind, ..node }, false),
        };
        let member = Kind::Member { node: Box::new(inner), property: Box::new(property), optional };
        let mut node = self.node(member, place)?;
        if self.is_bracket("(") {
            let arguments = self.arguments(Vec::new())?;
            node = self.node(Kind::Call { callee: Box::new(node), arguments }, place)?;
        }
        if is_chain || optional {
            node = self.node(Kind::Chain(Box::new(node)), place)?;
        }
        Ok(node)
    }

    /// `[i]`, `[from:to]` with either left out.
    fn index(&mut self, node: Node, optional: bool, place: Place) -> Parsed {
        self.expect_bracket("[")?;
        let from = if self.is_operator(":") { None } else { Some(Box::new(self.expression(0)?)) };
        if self.is_operator(":") {
            self.next()?;
            let to = if self.is_bracket("]") { None } else { Some(Box::new(self.expression(0)?)) };
            let slice = self.node(Kind::Slice { node: Box::new(node), from, to }, place)?;
            self.expect_bracket("]")?;
            return Ok(slice);
        }
        let Some(property) = from else { return Err(self.unexpected()) };
        let mut node = self.node(Kind::Member { node: Box::new(node), property, optional }, place)?;
        if optional {
            node = self.node(Kind::Chain(Box::new(node)), place)?;
        }
        self.expect_bracket("]")?;
        Ok(node)
    }
}
