//! From nodes to text, as kustomize writes YAML: two columns for each level, lists at the column of their key.

use tiphys_go::nesting::DEPTH_MAX;

use super::resolve::resolve_plain;
use super::scan::{Scanner, TokenKind};
use crate::fault::{Fault, Result};
use crate::graph::{Graph, Kind, Node, NodeId, Style, Tag};

/// Columns of a level.
const INDENT: isize = 2;
/// Bytes of a key that needs no `?`.
const SIMPLE_KEY_BYTES_MAX: usize = 128;

/// How a scalar will be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Emitted {
    /// The tag that is written before it.
    pub(crate) tag: Option<Tag>,
    /// One style.
    pub(crate) style: Style,
}

/// What a text allows.
struct Analysis {
    multiline: bool,
    flow_plain: bool,
    block_plain: bool,
    single: bool,
    block: bool,
}

fn analyze(text: &str) -> Analysis {
    let Some(first) = text.chars().next() else {
        return Analysis {
            multiline: false,
            flow_plain: false,
            block_plain: true,
            single: true,
            block: false,
        };
    };
    let is_blank = |character: char| matches!(character, ' ' | '\t');
    let (mut block_indicators, mut flow_indicators) = (false, false);
    if text.starts_with("---") || text.starts_with("...") {
        (block_indicators, flow_indicators) = (true, true);
    }
    let (mut breaks, mut special, mut tabs) = (false, false, false);
    let (mut break_space, mut space_break) = (false, false);
    let (mut previous_space, mut previous_break) = (false, false);
    let mut after_blank = true;
    let mut characters = text.chars().enumerate().peekable();
    while let Some((index, character)) = characters.next() {
        let before_blank = characters.peek().is_none_or(|(_, next)| is_blank(*next));
        if index == 0 {
            match character {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@'
                | '`' => {
                    (block_indicators, flow_indicators) = (true, true);
                }
                '?' | ':' => {
                    flow_indicators = true;
                    block_indicators |= before_blank;
                }
                '-' if before_blank => (block_indicators, flow_indicators) = (true, true),
                _ => {}
            }
        } else {
            match character {
                ',' | '?' | '[' | ']' | '{' | '}' => flow_indicators = true,
                ':' => {
                    flow_indicators = true;
                    block_indicators |= before_blank;
                }
                '#' if after_blank => (block_indicators, flow_indicators) = (true, true),
                _ => {}
            }
        }
        tabs |= character == '\t';
        special |= character != '\t' && !is_printable(character);
        if character == ' ' {
            break_space |= previous_break;
            (previous_space, previous_break) = (true, false);
        } else if is_break(character) {
            breaks = true;
            space_break |= previous_space;
            (previous_space, previous_break) = (false, true);
        } else {
            (previous_space, previous_break) = (false, false);
        }
        after_blank = is_blank(character) || is_break(character);
    }
    let last = text.chars().next_back().unwrap_or(first);
    let is_edge = |character: char| character == ' ' || is_break(character);
    let quoted = is_edge(first) || is_edge(last) || break_space || space_break || tabs || special || breaks;
    Analysis {
        multiline: breaks,
        flow_plain: !quoted && !flow_indicators,
        block_plain: !quoted && !block_indicators,
        single: !(break_space || space_break || tabs || special),
        block: !(last == ' ' || space_break || special),
    }
}

fn is_break(character: char) -> bool {
    matches!(character, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(character: char) -> bool {
    match character {
        '\n' | '\u{20}'..='\u{7e}' | '\u{a0}'..='\u{d7ff}' => true,
        '\u{feff}' => false,
        '\u{e000}'..='\u{fffd}' => true,
        _ => false,
    }
}

/// Tag and style that a scalar gets when it is written: as a key that fits into one line or not, inside of brackets
/// or not.
pub(crate) fn emitted_scalar(node: &Node, in_flow: bool, is_key: bool) -> Emitted {
    let (mut tag, mut forced) = (None, false);
    if node.tag != Tag::None {
        if node.style.has(Style::TAGGED) {
            tag = Some(node.tag.clone());
        } else if !(node.tag == Tag::Text && node.style.is_text())
            && resolve_plain(&node.value).tag() != node.tag
        {
            forced = node.tag == Tag::Text;
            tag = (!forced).then(|| node.tag.clone());
        }
    }
    let mut style = if node.style.has(Style::DOUBLE_QUOTED) {
        Style::DOUBLE_QUOTED
    } else if node.style.has(Style::SINGLE_QUOTED) {
        Style::SINGLE_QUOTED
    } else if node.style.has(Style::LITERAL) {
        Style::LITERAL
    } else if node.style.has(Style::FOLDED) {
        Style::FOLDED
    } else if node.value.contains('\n') {
        Style::LITERAL
    } else if forced {
        Style::DOUBLE_QUOTED
    } else {
        Style::PLAIN
    };
    let allowed = analyze(&node.value);
    if is_key && allowed.multiline {
        style = Style::DOUBLE_QUOTED;
    }
    if style == Style::PLAIN {
        let plain = if in_flow { allowed.flow_plain } else { allowed.block_plain };
        if !plain || (node.value.is_empty() && (in_flow || is_key)) {
            style = Style::SINGLE_QUOTED;
        }
    }
    if style == Style::SINGLE_QUOTED && !allowed.single {
        style = Style::DOUBLE_QUOTED;
    }
    if matches!(style, Style::LITERAL | Style::FOLDED) && (!allowed.block || in_flow || is_key) {
        style = Style::DOUBLE_QUOTED;
    }
    Emitted { tag, style }
}

/// Whether a scalar key needs no `?`.
pub(crate) fn is_simple_key(node: &Node) -> bool {
    !analyze(&node.value).multiline && node.value.len() <= SIMPLE_KEY_BYTES_MAX
}

/// What a text is after it was written in the folded style and read again, which is not always the same.
pub(crate) fn folded_again(text: &str) -> Result<String> {
    let mut writer = Writer::new();
    writer.indicator("k:", false, false, false);
    writer.indent = INDENT;
    writer.block_scalar(text, true);
    let mut scanner = Scanner::new(&writer.out);
    loop {
        let token = scanner.next().map_err(Fault::from)?;
        match token.kind {
            TokenKind::Scalar if token.style == Style::FOLDED => return Ok(token.text.into_owned()),
            TokenKind::StreamEnd => return Err(Fault::new("yaml: did not find expected node content")),
            _ => {}
        }
    }
}

/// Writes a document.
pub(crate) fn write(graph: &Graph, root: NodeId) -> Result<String> {
    let mut writer = Writer::new();
    writer.node(graph, root, Context { mapping: false, in_item: false, simple_key: false }, 0)?;
    writer.indent = 0;
    writer.write_indent();
    Ok(writer.out)
}

#[derive(Clone, Copy)]
struct Context {
    /// The node is a key or a value.
    mapping: bool,
    /// The node is an item of a list that is written in lines.
    in_item: bool,
    simple_key: bool,
}

struct Writer {
    out: String,
    column: isize,
    whitespace: bool,
    indention: bool,
    indent: isize,
    flow_level: usize,
}

impl Writer {
    fn new() -> Self {
        Self { out: String::new(), column: 0, whitespace: true, indention: true, indent: -1, flow_level: 0 }
    }

    fn put(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    fn put_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
        self.indention = true;
    }

    fn write_break(&mut self, character: char) {
        if character == '\n' {
            self.put_break();
        } else {
            self.out.push(character);
            self.column = 0;
            self.indention = true;
        }
    }

    fn write_indent(&mut self) {
        let indent = self.indent.max(0);
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.put_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
    }

    fn indicator(&mut self, text: &str, needs_whitespace: bool, is_whitespace: bool, is_indention: bool) {
        if needs_whitespace && !self.whitespace {
            self.put(' ');
        }
        for character in text.chars() {
            self.put(character);
        }
        self.whitespace = is_whitespace;
        self.indention &= is_indention;
    }

    /// The indentation of the next level.
    fn deeper(&self, flow: bool, in_item: bool, compact: bool) -> isize {
        if self.indent < 0 {
            return if flow { INDENT } else { 0 };
        }
        if in_item {
            return self.indent + 2;
        }
        let deeper = INDENT * ((self.indent + INDENT) / INDENT);
        if compact { deeper - 2 } else { deeper }
    }

    fn node(&mut self, graph: &Graph, id: NodeId, context: Context, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        graph.spend(1)?;
        let node = graph.node(id);
        if node.kind == Kind::Alias {
            self.indicator("*", true, false, false);
            self.word(&node.value);
            return Ok(());
        }
        if let Some(anchor) = graph.anchors.get(&id) {
            self.indicator("&", true, false, false);
            self.word(anchor);
        }
        match node.kind {
            Kind::Scalar => {
                let emitted = emitted_scalar(node, self.flow_level > 0, context.simple_key);
                self.tag(emitted.tag.as_ref());
                let outer = self.indent;
                self.indent = self.deeper(true, context.in_item, false);
                self.scalar(&node.value, emitted.style);
                self.indent = outer;
                Ok(())
            }
            Kind::Sequence => {
                self.tag(written_tag(node, &Tag::Sequence));
                if self.flow_level > 0 || node.style.has(Style::FLOW) || node.content.is_empty() {
                    self.flow_sequence(graph, node, context, depth)
                } else {
                    self.block_sequence(graph, node, context, depth)
                }
            }
            Kind::Mapping => {
                self.tag(written_tag(node, &Tag::Mapping));
                if self.flow_level > 0 || node.style.has(Style::FLOW) || node.content.is_empty() {
                    self.flow_mapping(graph, node, context, depth)
                } else {
                    self.block_mapping(graph, node, context, depth)
                }
            }
            Kind::Alias => Ok(()),
        }
    }

    fn word(&mut self, text: &str) {
        for character in text.chars() {
            self.put(character);
        }
        self.whitespace = false;
        self.indention = false;
    }

    fn tag(&mut self, tag: Option<&Tag>) {
        if let Some(tag) = tag {
            if !self.whitespace {
                self.put(' ');
            }
            self.word(tag.as_str());
        }
    }

    fn flow_sequence(&mut self, graph: &Graph, node: &Node, context: Context, depth: usize) -> Result<()> {
        self.indicator("[", true, true, false);
        let outer = self.indent;
        self.indent = self.deeper(true, context.in_item, false);
        self.flow_level += 1;
        for (index, child) in node.content.iter().enumerate() {
            if index > 0 {
                self.indicator(",", false, false, false);
            }
            let context = Context { mapping: false, in_item: false, simple_key: false };
            self.node(graph, *child, context, depth + 1)?;
        }
        self.flow_level -= 1;
        self.indent = outer;
        self.indicator("]", false, false, false);
        Ok(())
    }

    fn flow_mapping(&mut self, graph: &Graph, node: &Node, context: Context, depth: usize) -> Result<()> {
        self.indicator("{", true, true, false);
        let outer = self.indent;
        self.indent = self.deeper(true, context.in_item, false);
        self.flow_level += 1;
        for (index, pair) in node.content.chunks_exact(2).enumerate() {
            let [key, value] = pair else { continue };
            if index > 0 {
                self.indicator(",", false, false, false);
            }
            let simple = is_simple(graph, *key);
            if !simple {
                self.indicator("?", true, false, false);
            }
            let context = Context { mapping: true, in_item: false, simple_key: simple };
            self.node(graph, *key, context, depth + 1)?;
            self.indicator(":", !simple, false, false);
            self.node(graph, *value, Context { simple_key: false, ..context }, depth + 1)?;
        }
        self.flow_level -= 1;
        self.indent = outer;
        self.indicator("}", false, false, false);
        Ok(())
    }

    fn block_sequence(&mut self, graph: &Graph, node: &Node, context: Context, depth: usize) -> Result<()> {
        let compact = context.mapping && (self.column == 0 || !self.indention);
        let outer = self.indent;
        self.indent = self.deeper(false, context.in_item, compact);
        for child in &node.content {
            self.write_indent();
            self.indicator("-", true, false, true);
            let context = Context { mapping: false, in_item: true, simple_key: false };
            self.node(graph, *child, context, depth + 1)?;
        }
        self.indent = outer;
        Ok(())
    }

    fn block_mapping(&mut self, graph: &Graph, node: &Node, context: Context, depth: usize) -> Result<()> {
        let outer = self.indent;
        self.indent = self.deeper(false, context.in_item, false);
        for pair in node.content.chunks_exact(2) {
            let [key, value] = pair else { continue };
            self.write_indent();
            let simple = is_simple(graph, *key);
            if !simple {
                self.indicator("?", true, false, true);
            }
            let context = Context { mapping: true, in_item: false, simple_key: simple };
            self.node(graph, *key, context, depth + 1)?;
            if simple {
                self.indicator(":", false, false, false);
            } else {
                self.write_indent();
                self.indicator(":", true, false, true);
            }
            self.node(graph, *value, Context { simple_key: false, ..context }, depth + 1)?;
        }
        self.indent = outer;
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: Style) {
        match style {
            Style::SINGLE_QUOTED => self.single_quoted(text),
            Style::DOUBLE_QUOTED => self.double_quoted(text),
            Style::LITERAL => self.block_scalar(text, false),
            Style::FOLDED => self.block_scalar(text, true),
            _ => self.plain(text),
        }
    }

    fn plain(&mut self, text: &str) {
        if !text.is_empty() && !self.whitespace {
            self.put(' ');
        }
        for character in text.chars() {
            self.put(character);
        }
        if !text.is_empty() {
            self.whitespace = false;
        }
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str) {
        self.indicator("'", true, false, false);
        let mut breaks = false;
        for character in text.chars() {
            if is_break(character) {
                if !breaks && character == '\n' {
                    self.put_break();
                }
                self.write_break(character);
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                }
                if character == '\'' {
                    self.put('\'');
                }
                self.put(character);
                self.indention = false;
                breaks = false;
            }
        }
        self.indicator("'", false, false, false);
    }

    fn double_quoted(&mut self, text: &str) {
        self.indicator("\"", true, false, false);
        for character in text.chars() {
            if is_printable(character) && !is_break(character) && !matches!(character, '"' | '\\') {
                self.put(character);
                continue;
            }
            let code = u32::from(character);
            let escaped = match character {
                '\0' => "0".to_owned(),
                '\u{7}' => "a".to_owned(),
                '\u{8}' => "b".to_owned(),
                '\t' => "t".to_owned(),
                '\n' => "n".to_owned(),
                '\u{b}' => "v".to_owned(),
                '\u{c}' => "f".to_owned(),
                '\r' => "r".to_owned(),
                '\u{1b}' => "e".to_owned(),
                '"' => "\"".to_owned(),
                '\\' => "\\".to_owned(),
                '\u{85}' => "N".to_owned(),
                '\u{a0}' => "_".to_owned(),
                '\u{2028}' => "L".to_owned(),
                '\u{2029}' => "P".to_owned(),
                _ if code <= 0xFF => format!("x{code:02X}"),
                _ if code <= 0xFFFF => format!("u{code:04X}"),
                _ => format!("U{code:08X}"),
            };
            self.put('\\');
            for character in escaped.chars() {
                self.put(character);
            }
        }
        self.indicator("\"", false, false, false);
    }

    fn block_scalar(&mut self, text: &str, folded: bool) {
        self.indicator(if folded { ">" } else { "|" }, true, false, false);
        if text.starts_with([' ', '\r', '\n', '\u{85}', '\u{2028}', '\u{2029}']) {
            self.indicator("2", false, false, false);
        }
        let mut last = text.chars().rev();
        match (last.next(), last.next()) {
            (Some(end), None) if is_break(end) => self.indicator("+", false, false, false),
            (Some(end), Some(before)) if is_break(end) => {
                if is_break(before) {
                    self.indicator("+", false, false, false);
                }
            }
            _ => self.indicator("-", false, false, false),
        }
        self.put_break();
        self.whitespace = true;
        let (mut breaks, mut leading_spaces) = (true, true);
        // The library looks at the beginning of the text here, whatever line it is at.
        let behind_breaks = text.trim_start_matches(is_break);
        let doubles = !behind_breaks.is_empty() && !behind_breaks.starts_with([' ', '\t', '\0']);
        for character in text.chars() {
            if is_break(character) {
                if folded && !breaks && !leading_spaces && character == '\n' && doubles {
                    self.put_break();
                }
                self.write_break(character);
                breaks = true;
            } else {
                if breaks {
                    self.write_indent();
                    leading_spaces = matches!(character, ' ' | '\t');
                }
                self.put(character);
                self.indention = false;
                breaks = false;
            }
        }
    }
}

fn written_tag<'n>(node: &'n Node, usual: &Tag) -> Option<&'n Tag> {
    let written = node.tag != Tag::None && (node.style.has(Style::TAGGED) || node.tag != *usual);
    written.then_some(&node.tag)
}

fn is_simple(graph: &Graph, key: NodeId) -> bool {
    let node = graph.node(key);
    match node.kind {
        Kind::Scalar => is_simple_key(node),
        Kind::Alias => true,
        Kind::Sequence | Kind::Mapping => node.content.is_empty(),
    }
}
