//! From tokens to nodes.

use std::borrow::Cow;
use std::collections::HashMap;

use smol_str::SmolStr;
use tiphys_go::nesting::DEPTH_MAX;

use super::resolve::resolve_plain;
use super::scan::{Scanner, SyntaxError, TokenKind};
use crate::fault::{Fault, Result};
use crate::graph::{Graph, Kind, Node, NodeId, Style, Tag};

/// `%TAG` directives of a document: each is compared with those before it.
const TAG_DIRECTIVES_MAX: usize = 100;

/// Reads the first document of a text; `None` when there is none.
///
/// What stands behind the first document is not looked at. Anchors and aliases stay.
pub(crate) fn parse_first(graph: &mut Graph, text: &str) -> Result<Option<NodeId>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.chars().any(is_forbidden) {
        return Err(Fault::new("yaml: control characters are not allowed"));
    }
    Parser { scanner: Scanner::new(text), graph, anchors: HashMap::new(), tags: Vec::new() }.document()
}

/// What a text is after it was a text of JSON that was read as YAML: a `NEL` ends a line there.
///
/// # Errors
/// When it has characters that YAML forbids, of which JSON does not write all as escapes.
pub(crate) fn json_text_again(text: &str) -> Result<Option<String>> {
    let is_odd = |character: char| matches!(character, '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}');
    if text.is_ascii() && !text.contains('\u{7f}') || !text.chars().any(is_odd) {
        return Ok(None);
    }
    if text.chars().any(|character| is_odd(character) && is_forbidden(character)) {
        return Err(Fault::new("yaml: control characters are not allowed"));
    }
    let json = tiphys_go::json::to_string_go(&serde_json::Value::from(text));
    let mut scanner = Scanner::new(&json);
    loop {
        let token = scanner.next().map_err(Fault::from)?;
        match token.kind {
            TokenKind::Scalar => return Ok(Some(token.text.into_owned())),
            TokenKind::StreamEnd => return Ok(None),
            _ => {}
        }
    }
}

fn is_forbidden(character: char) -> bool {
    !matches!(character,
        '\t' | '\n' | '\r' | '\u{85}'
        | '\u{20}'..='\u{7e}'
        | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

impl From<SyntaxError> for Fault {
    fn from(error: SyntaxError) -> Self {
        Self::new(match error.line {
            Some(line) => format!("yaml: line {line}: {}", error.problem),
            None => format!("yaml: {}", error.problem),
        })
    }
}

struct Parser<'t, 'g> {
    scanner: Scanner<'t>,
    graph: &'g mut Graph,
    anchors: HashMap<SmolStr, NodeId>,
    /// Handles of tags and what they stand for.
    tags: Vec<(SmolStr, SmolStr)>,
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Inside of brackets.
    Flow,
    /// In a block.
    Block,
    /// A value or key in a block, whose list may stand at the column of the key.
    BlockMember,
}

/// Properties before a node.
#[derive(Default)]
struct Properties {
    anchor: Option<SmolStr>,
    tag: Option<SmolStr>,
}

impl Parser<'_, '_> {
    fn kind(&mut self) -> Result<TokenKind> {
        Ok(self.scanner.peek()?.kind)
    }

    fn line(&mut self) -> Result<u32> {
        Ok(self.scanner.peek()?.line)
    }

    /// An error of the grammar: its lines are counted from 0, as the library does.
    fn error<T>(&mut self, context: u32, problem: &'static str) -> Result<T> {
        let line = if context != 0 { context } else { self.line()? };
        let line = (line != 0).then_some(line);
        Err(SyntaxError { line, problem: Cow::Borrowed(problem) }.into())
    }

    fn document(mut self) -> Result<Option<NodeId>> {
        let node = match self.kind()? {
            TokenKind::StreamEnd => return Ok(None),
            TokenKind::Version(..) | TokenKind::TagDirective | TokenKind::DocumentStart => {
                self.directives()?;
                if self.kind()? != TokenKind::DocumentStart {
                    return self.error(0, "did not find expected <document start>");
                }
                self.scanner.next()?;
                match self.kind()? {
                    TokenKind::Version(..)
                    | TokenKind::TagDirective
                    | TokenKind::DocumentStart
                    | TokenKind::DocumentEnd
                    | TokenKind::StreamEnd => {
                        let line = self.line()?;
                        self.nothing(line)?
                    }
                    _ => self.node(Place::Block, 0)?,
                }
            }
            _ => {
                self.directives()?;
                self.node(Place::Block, 0)?
            }
        };
        // What comes next says whether the document ends here.
        self.kind()?;
        Ok(Some(node))
    }

    fn directives(&mut self) -> Result<()> {
        let mut versions = 0;
        loop {
            match self.kind()? {
                TokenKind::Version(major, minor) => {
                    versions += 1;
                    if versions > 1 {
                        return self.error(0, "found duplicate %YAML directive");
                    }
                    if (major, minor) != (1, 1) {
                        return self.error(0, "found incompatible YAML document");
                    }
                    self.scanner.next()?;
                }
                TokenKind::TagDirective => {
                    let (handle, prefix) = {
                        let token = self.scanner.peek()?;
                        (SmolStr::new(&token.text), SmolStr::new(&token.suffix))
                    };
                    if self.tags.iter().any(|(known, _)| *known == handle) {
                        return self.error(0, "found duplicate %TAG directive");
                    }
                    if self.tags.len() >= TAG_DIRECTIVES_MAX {
                        return Err(Fault::exhausted(format!(
                            "more than {TAG_DIRECTIVES_MAX} %TAG directives"
                        )));
                    }
                    self.tags.push((handle, prefix));
                    self.scanner.next()?;
                }
                _ => break,
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tags.iter().any(|(known, _)| known == handle) {
                self.tags.push((handle.into(), prefix.into()));
            }
        }
        Ok(())
    }

    /// A scalar that is not there.
    fn nothing(&mut self, line: u32) -> Result<NodeId> {
        self.graph.add(Node { tag: Tag::Null, line: line + 1, ..Node::new(Kind::Scalar) })
    }

    fn properties(&mut self) -> Result<Properties> {
        let mut properties = Properties::default();
        let start = self.line()?;
        for _ in 0..2 {
            match self.kind()? {
                TokenKind::Anchor if properties.anchor.is_none() => {
                    properties.anchor = Some(SmolStr::new(&self.scanner.next()?.text));
                }
                TokenKind::Tag if properties.tag.is_none() => {
                    let token = self.scanner.next()?;
                    let tag = if token.text.is_empty() {
                        SmolStr::new(&token.suffix)
                    } else {
                        let known = self.tags.iter().find(|(handle, _)| handle.as_str() == token.text);
                        match known {
                            Some((_, prefix)) => smol_str::format_smolstr!("{prefix}{}", token.suffix),
                            None => SmolStr::default(),
                        }
                    };
                    if tag.is_empty() {
                        return self.error(start, "found undefined tag handle");
                    }
                    properties.tag = Some(tag);
                }
                _ => break,
            }
        }
        Ok(properties)
    }

    /// Adds a node with its properties; `default` is its type when no tag says one.
    fn add(&mut self, mut node: Node, properties: &Properties, default: Option<Tag>) -> Result<NodeId> {
        match &properties.tag {
            Some(tag) if tag != "!" => {
                node.tag = Tag::new(tag);
                node.style = node.style.and(Style::TAGGED);
            }
            _ => node.tag = default.unwrap_or_else(|| resolve_plain(&node.value).tag()),
        }
        let id = self.graph.add(node)?;
        if let Some(anchor) = &properties.anchor {
            self.graph.take(2 * anchor.len() + 96)?;
            self.graph.anchors.insert(id, anchor.clone());
            self.anchors.insert(anchor.clone(), id);
        }
        Ok(id)
    }

    fn node(&mut self, place: Place, depth: usize) -> Result<NodeId> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        let start = self.line()?;
        if self.kind()? == TokenKind::Alias {
            let token = self.scanner.next()?;
            let Some(target) = self.anchors.get(token.text.as_ref()).copied() else {
                return Err(Fault::new(format!("yaml: unknown anchor '{}' referenced", token.text)));
            };
            let mut node = Node { line: token.line + 1, ..Node::new(Kind::Alias) };
            node.value = SmolStr::new(&token.text);
            node.content.push(target);
            return self.graph.add(node);
        }
        let properties = self.properties()?;
        let line = start + 1;
        match self.kind()? {
            TokenKind::BlockEntry if place == Place::BlockMember => {
                let node = Node { line, ..Node::new(Kind::Sequence) };
                let id = self.add(node, &properties, Some(Tag::Sequence))?;
                self.block_items(id, depth, true)?;
                Ok(id)
            }
            TokenKind::Scalar => {
                let token = self.scanner.next()?;
                let default = if token.style.is_text() {
                    Some(Tag::Text)
                } else {
                    (token.text == "<<").then_some(Tag::Merge)
                };
                let value = SmolStr::new(&token.text);
                let node = Node { line, style: token.style, value, ..Node::new(Kind::Scalar) };
                self.add(node, &properties, default)
            }
            TokenKind::FlowSequenceStart => {
                let node = Node { line, style: Style::FLOW, ..Node::new(Kind::Sequence) };
                let id = self.add(node, &properties, Some(Tag::Sequence))?;
                self.flow_items(id, depth)?;
                Ok(id)
            }
            TokenKind::FlowMappingStart => {
                let node = Node { line, style: Style::FLOW, ..Node::new(Kind::Mapping) };
                let id = self.add(node, &properties, Some(Tag::Mapping))?;
                self.flow_members(id, depth)?;
                Ok(id)
            }
            TokenKind::BlockSequenceStart if place != Place::Flow => {
                let node = Node { line, ..Node::new(Kind::Sequence) };
                let id = self.add(node, &properties, Some(Tag::Sequence))?;
                self.block_items(id, depth, false)?;
                Ok(id)
            }
            TokenKind::BlockMappingStart if place != Place::Flow => {
                let node = Node { line, ..Node::new(Kind::Mapping) };
                let id = self.add(node, &properties, Some(Tag::Mapping))?;
                self.block_members(id, depth)?;
                Ok(id)
            }
            _ if properties.anchor.is_some() || properties.tag.is_some() => {
                self.add(Node { line, ..Node::new(Kind::Scalar) }, &properties, None)
            }
            _ => self.error(start, "did not find expected node content"),
        }
    }

    fn block_items(&mut self, parent: NodeId, depth: usize, indentless: bool) -> Result<()> {
        let start = self.line()?;
        if !indentless {
            self.scanner.next()?;
        }
        loop {
            match self.kind()? {
                TokenKind::BlockEntry => {
                    let line = self.scanner.next()?.line;
                    let child = match self.kind()? {
                        TokenKind::BlockEntry | TokenKind::BlockEnd => self.nothing(line)?,
                        TokenKind::Key | TokenKind::Value if indentless => self.nothing(line)?,
                        _ => self.node(Place::Block, depth + 1)?,
                    };
                    self.graph.push(parent, child)?;
                }
                _ if indentless => return Ok(()),
                TokenKind::BlockEnd => {
                    self.scanner.next()?;
                    return Ok(());
                }
                _ => return self.error(start, "did not find expected '-' indicator"),
            }
        }
    }

    fn block_members(&mut self, parent: NodeId, depth: usize) -> Result<()> {
        let start = self.scanner.next()?.line;
        let is_absent =
            |kind: TokenKind| matches!(kind, TokenKind::Key | TokenKind::Value | TokenKind::BlockEnd);
        loop {
            match self.kind()? {
                TokenKind::Key => {
                    let line = self.scanner.next()?.line;
                    let absent = is_absent(self.kind()?);
                    let key =
                        if absent { self.nothing(line)? } else { self.node(Place::BlockMember, depth + 1)? };
                    self.graph.push(parent, key)?;
                }
                TokenKind::BlockEnd => {
                    self.scanner.next()?;
                    return Ok(());
                }
                _ => return self.error(start, "did not find expected key"),
            }
            let mut line = self.line()?;
            let mut absent = true;
            if self.kind()? == TokenKind::Value {
                line = self.scanner.next()?.line;
                absent = is_absent(self.kind()?);
            }
            let value = if absent { self.nothing(line)? } else { self.node(Place::BlockMember, depth + 1)? };
            self.graph.push(parent, value)?;
        }
    }

    fn flow_items(&mut self, parent: NodeId, depth: usize) -> Result<()> {
        let start = self.scanner.next()?.line;
        let mut first = true;
        loop {
            if self.kind()? != TokenKind::FlowSequenceEnd && !first {
                if self.kind()? != TokenKind::FlowEntry {
                    return self.error(start, "did not find expected ',' or ']'");
                }
                self.scanner.next()?;
            }
            first = false;
            match self.kind()? {
                TokenKind::FlowSequenceEnd => {
                    self.scanner.next()?;
                    return Ok(());
                }
                TokenKind::Key => {
                    let line = self.scanner.next()?.line;
                    let pair = self.pair(line, depth + 1)?;
                    self.graph.push(parent, pair)?;
                }
                _ => {
                    let child = self.node(Place::Flow, depth + 1)?;
                    self.graph.push(parent, child)?;
                }
            }
        }
    }

    /// A mapping of one member inside of brackets: `[a: 1]`.
    fn pair(&mut self, line: u32, depth: usize) -> Result<NodeId> {
        let node = Node { line: line + 1, style: Style::FLOW, tag: Tag::Mapping, ..Node::new(Kind::Mapping) };
        let mapping = self.graph.add(node)?;
        let is_absent = |kind: TokenKind| {
            matches!(kind, TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowSequenceEnd)
        };
        let key = if is_absent(self.kind()?) {
            // The library passes the token here, whatever it is.
            let line = self.scanner.next()?.line;
            self.nothing(line)?
        } else {
            self.node(Place::Flow, depth + 1)?
        };
        self.graph.push(mapping, key)?;
        let mut absent = true;
        if self.kind()? == TokenKind::Value {
            self.scanner.next()?;
            absent = matches!(self.kind()?, TokenKind::FlowEntry | TokenKind::FlowSequenceEnd);
        }
        let value = if absent {
            let line = self.line()?;
            self.nothing(line)?
        } else {
            self.node(Place::Flow, depth + 1)?
        };
        self.graph.push(mapping, value)?;
        Ok(mapping)
    }

    fn flow_members(&mut self, parent: NodeId, depth: usize) -> Result<()> {
        let start = self.scanner.next()?.line;
        let mut first = true;
        loop {
            if self.kind()? != TokenKind::FlowMappingEnd && !first {
                if self.kind()? != TokenKind::FlowEntry {
                    return self.error(start, "did not find expected ',' or '}'");
                }
                self.scanner.next()?;
            }
            first = false;
            let explicit = match self.kind()? {
                TokenKind::FlowMappingEnd => {
                    self.scanner.next()?;
                    return Ok(());
                }
                TokenKind::Key => {
                    self.scanner.next()?;
                    true
                }
                _ => false,
            };
            let is_absent = explicit
                && matches!(
                    self.kind()?,
                    TokenKind::Value | TokenKind::FlowEntry | TokenKind::FlowMappingEnd
                );
            let key = if is_absent {
                let line = self.line()?;
                self.nothing(line)?
            } else {
                self.node(Place::Flow, depth + 1)?
            };
            self.graph.push(parent, key)?;
            let mut absent = true;
            if explicit && self.kind()? == TokenKind::Value {
                self.scanner.next()?;
                absent = matches!(self.kind()?, TokenKind::FlowEntry | TokenKind::FlowMappingEnd);
            }
            let value = if absent {
                let line = self.line()?;
                self.nothing(line)?
            } else {
                self.node(Place::Flow, depth + 1)?
            };
            self.graph.push(parent, value)?;
        }
    }
}
