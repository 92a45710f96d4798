//! From tokens to a tree.

mod postfix;

use super::ast::{Binary, BuiltinCall, Kind, Node, Unary};
use super::builtins::{self, Argument, Builtin};
use super::error::{Misplaced, Place};
use super::token::{self, Token, tokens};
use super::{DEPTH_MAX, EXPRESSION_BYTES_MAX, Fault, NESTING_MAX, NODES_MAX};
use token::Kind as TokenKind;

type Parsed = Result<Node, Misplaced>;

/// Reads an expression.
pub(super) fn parse(text: &str) -> Parsed {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(Misplaced { fault: Fault::Length, place: Place::default() });
    }
    let mut parser = Parser { tokens: tokens(text)?, at: 0, nodes: 0, copies: 0, depth: 0, predicates: 0 };
    let node = parser.sequence()?;
    if !parser.is_end() {
        return Err(parser.unexpected());
    }
    Ok(node)
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
    nodes: usize,
    /// Nodes that stand a second time in the tree.
    copies: usize,
    depth: usize,
    /// Predicates around the present place.
    predicates: usize,
}

impl Parser {
    fn current(&self) -> &Token {
        static END: Token = Token { kind: TokenKind::End, value: Vec::new(), place: Place(0) };
        self.tokens.get(self.at).or(self.tokens.last()).unwrap_or(&END)
    }

    fn place(&self) -> Place {
        self.current().place
    }

    fn is(&self, kind: TokenKind, value: &str) -> bool {
        self.current().is(kind, value)
    }

    fn is_operator(&self, value: &str) -> bool {
        self.is(TokenKind::Operator, value)
    }

    fn is_bracket(&self, value: &str) -> bool {
        self.is(TokenKind::Bracket, value)
    }

    fn is_end(&self) -> bool {
        self.current().kind == TokenKind::End
    }

    fn next(&mut self) -> Result<(), Misplaced> {
        if self.is_end() {
            return Err(self.error("unexpected end of expression"));
        }
        self.at += 1;
        Ok(())
    }

    fn error(&self, text: impl std::fmt::Display) -> Misplaced {
        Misplaced::new(self.place(), text)
    }

    fn unexpected(&self) -> Misplaced {
        self.error(format_args!("unexpected token {}", self.current().shown()))
    }

    fn expect(&mut self, kind: TokenKind, value: &str) -> Result<(), Misplaced> {
        if self.is(kind, value) { self.next() } else { Err(self.unexpected()) }
    }

    fn expect_operator(&mut self, value: &str) -> Result<(), Misplaced> {
        self.expect(TokenKind::Operator, value)
    }

    fn expect_bracket(&mut self, value: &str) -> Result<(), Misplaced> {
        self.expect(TokenKind::Bracket, value)
    }

    fn expect_name(&mut self) -> Result<Token, Misplaced> {
        if self.current().kind != TokenKind::Name {
            return Err(self.unexpected());
        }
        let token = self.current().clone();
        self.next()?;
        Ok(token)
    }

    /// Makes a node, as long as there may be more.
    fn node(&mut self, kind: Kind, place: Place) -> Parsed {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(Misplaced { fault: Fault::Nodes, place });
        }
        uncounted(kind, place)
    }

    /// A copy of a part that stands twice in the tree.
    fn copy(&mut self, node: &Node) -> Parsed {
        self.copies += node.count();
        // Deviation: the original goes on until memory ends.
        if self.copies > NODES_MAX {
            return Err(Misplaced { fault: Fault::Nodes, place: node.place });
        }
        Ok(node.clone())
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Misplaced>) -> Result<T, Misplaced> {
        if self.depth >= NESTING_MAX {
            return Err(Misplaced { fault: Fault::Depth, place: self.place() });
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// `a; b; c`, whose value is that of the last one.
    fn sequence(&mut self) -> Parsed {
        self.deeper(|parser| {
            let first = parser.expression(0)?;
            let place = first.place;
            let mut nodes = vec![first];
            while parser.is_operator(";") {
                parser.next()?;
                if parser.is_end() {
                    break;
                }
                nodes.push(parser.expression(0)?);
            }
            match (nodes.len(), nodes.pop()) {
                (1, Some(only)) => Ok(only),
                (_, last) => {
                    nodes.extend(last);
                    parser.node(Kind::Sequence(nodes), place)
                }
            }
        })
    }

    /// An expression whose operators bind at least this tightly.
    fn expression(&mut self, precedence: u16) -> Parsed {
        self.deeper(|parser| {
            if precedence == 0 && parser.is_operator("let") {
                return parser.declaration();
            }
            if precedence == 0 && parser.is_operator("if") {
                return parser.conditional_if();
            }
            let left = parser.primary()?;
            let node = parser.operators(left, precedence)?;
            if precedence == 0 { parser.conditional(node) } else { Ok(node) }
        })
    }

    fn operators(&mut self, mut left: Node, precedence: u16) -> Parsed {
        let mut after_coalesce = false;
        while self.current().kind == TokenKind::Operator {
            if precedence == 0 && self.is_operator("|") {
                left = self.pipe(left)?;
                after_coalesce = false;
                continue;
            }
            let Some((operator, binds, negated)) = self.operator(precedence)? else { break };
            let place = self.place();
            if after_coalesce && operator != Binary::Coalesce {
                return Err(self.error(format_args!(
                    "Operator ({}) and coalesce expressions (??) cannot be mixed. Wrap either by parentheses.",
                    operator.as_str()
                )));
            }
            self.next()?;
            left = self.combined(left, operator, binds, place)?;
            if negated {
                left = self.node(Kind::Unary { operator: Unary::Not, node: Box::new(left) }, place)?;
            }
            after_coalesce = operator == Binary::Coalesce;
        }
        Ok(left)
    }

    /// The operator at the present place that binds at least this tightly, and whether `not` stood before it.
    fn operator(&mut self, precedence: u16) -> Result<Option<(Binary, u16, bool)>, Misplaced> {
        let before = self.at;
        let negated = self.is_operator("not");
        if negated {
            self.next()?;
            // Whatever kind of token the word is.
            if !matches!(self.current().value(), "in" | "matches" | "contains" | "startsWith" | "endsWith") {
                return Err(self.unexpected());
            }
        }
        let found = Binary::of(self.current().value()).filter(|(_, binds)| *binds >= precedence);
        if found.is_none() {
            self.at = before;
        }
        Ok(found.map(|(operator, binds)| (operator, binds, negated)))
    }

    fn pipe(&mut self, left: Node) -> Parsed {
        self.next()?;
        let name = self.expect_name()?;
        self.call(&name, vec![left])
    }

    /// An operator with what stands at its sides.
    fn combined(&mut self, left: Node, operator: Binary, binds: u16, place: Place) -> Parsed {
        if operator.is_comparison() {
            return self.comparison(left, operator, binds, place);
        }
        // Powers are read from the right.
        let right = self.expression(binds + u16::from(operator != Binary::Exponent))?;
        self.binary(operator, left, right, place)
    }

    fn binary(&mut self, operator: Binary, left: Node, right: Node, place: Place) -> Parsed {
        self.node(Kind::Binary { operator, left: Box::new(left), right: Box::new(right) }, place)
    }

    /// `a < b <= c`, which is `a < b && b <= c`.
    fn comparison(&mut self, left: Node, operator: Binary, binds: u16, place: Place) -> Parsed {
        let (mut left, mut operator, mut place) = (left, operator, place);
        let mut root: Option<Node> = None;
        loop {
            let right = self.expression(binds + 1)?;
            let following = (self.current().kind == TokenKind::Operator)
                .then(|| Binary::of(self.current().value()))
                .flatten()
                .filter(|(following, _)| following.is_comparison());
            let middle = if following.is_some() { Some(self.copy(&right)?) } else { None };
            let compared = self.binary(operator, left, right, place)?;
            let all = match root {
                None => compared,
                Some(before) => self.binary(Binary::And { word: false }, before, compared, place)?,
            };
            match (following, middle) {
                (Some((following, _)), Some(middle)) => {
                    (left, operator, place) = (middle, following, self.place());
                    root = Some(all);
                    self.next()?;
                }
                _ => return Ok(all),
            }
        }
    }

    fn declaration(&mut self) -> Parsed {
        self.expect_operator("let")?;
        let name = self.expect_name()?;
        self.expect_operator("=")?;
        let value = self.expression(0)?;
        self.expect_operator(";")?;
        let body = self.sequence()?;
        let kind = Kind::Let { name: name.value().to_owned(), value: Box::new(value), body: Box::new(body) };
        self.node(kind, name.place)
    }

    fn block(&mut self) -> Parsed {
        self.expect_bracket("{")?;
        let node = self.sequence()?;
        self.expect_bracket("}")?;
        Ok(node)
    }

    fn conditional_if(&mut self) -> Parsed {
        self.deeper(|parser| {
            let place = parser.place();
            parser.next()?;
            let condition = parser.expression(0)?;
            let yes = parser.block()?;
            parser.expect_operator("else")?;
            let no = if parser.is_operator("if") { parser.conditional_if()? } else { parser.block()? };
            let kind =
                Kind::Conditional { condition: Box::new(condition), yes: Box::new(yes), no: Box::new(no) };
            uncounted(kind, place)
        })
    }

    /// `a ? b : c`, and `a ?: c`.
    fn conditional(&mut self, node: Node) -> Parsed {
        let mut node = node;
        while self.is_operator("?") {
            self.next()?;
            let yes = if self.is_operator(":") {
                self.next()?;
                self.copy(&node)?
            } else {
                let yes = self.expression(0)?;
                self.expect_operator(":")?;
                yes
            };
            let no = self.expression(0)?;
            let kind = Kind::Conditional { condition: Box::new(node), yes: Box::new(yes), no: Box::new(no) };
            node = self.node(kind, self.place())?;
        }
        Ok(node)
    }

    /// A value with all that is taken from it. Each kind has a function of its own, so that little is on the stack
    /// while inner parts are read.
    fn primary(&mut self) -> Parsed {
        let is_operator = self.current().kind == TokenKind::Operator;
        if is_operator && let Some((operator, binds)) = Unary::of(self.current().value()) {
            return self.unary(operator, binds);
        }
        if self.is_bracket("(") {
            return self.parentheses();
        }
        if self.predicates > 0 && (self.is_operator("#") || self.is_operator(".")) {
            return self.pointer();
        }
        if self.is_operator("::") {
            self.next()?;
            let name = self.expect_name()?;
            let node = self.call(&name, Vec::new())?;
            return self.postfix(node);
        }
        let place = self.place();
        let node = match self.current().kind {
            TokenKind::Name => return self.named(),
            TokenKind::Number => return self.number(),
            TokenKind::Text | TokenKind::Bytes => self.text()?,
            _ if self.is_bracket("[") => self.list(place)?,
            _ if self.is_bracket("{") => self.map(place)?,
            _ => return Err(self.unexpected()),
        };
        self.postfix(node)
    }

    fn unary(&mut self, operator: Unary, binds: u16) -> Parsed {
        let place = self.place();
        self.next()?;
        let operand = self.expression(binds)?;
        let node = self.node(Kind::Unary { operator, node: Box::new(operand) }, place)?;
        self.postfix(node)
    }

    fn parentheses(&mut self) -> Parsed {
        self.next()?;
        let node = self.sequence()?;
        self.expect_bracket(")")?;
        self.postfix(node)
    }

    /// `#`, `#name`, and the item that `.name` is taken from.
    fn pointer(&mut self) -> Parsed {
        let place = self.place();
        let mut name = String::new();
        if self.is_operator("#") {
            self.next()?;
            if self.current().kind == TokenKind::Name {
                self.expect_name()?.value().clone_into(&mut name);
            }
        }
        let node = self.node(Kind::Pointer(name), place)?;
        self.postfix(node)
    }

    fn named(&mut self) -> Parsed {
        let token = self.expect_name()?;
        let kind = match token.value() {
            // Nothing is taken from these.
            "true" => return self.node(Kind::Bool(true), token.place),
            "false" => return self.node(Kind::Bool(false), token.place),
            "nil" => return self.node(Kind::Nil, token.place),
            _ if self.is_bracket("(") => {
                let node = self.call(&token, Vec::new())?;
                return self.postfix(node);
            }
            name => Kind::Name(name.to_owned()),
        };
        let node = self.node(kind, token.place)?;
        self.postfix(node)
    }

    /// A number, from which nothing is taken.
    fn number(&mut self) -> Parsed {
        let token = self.current().clone();
        self.next()?;
        let kind = number(token.value()).map_err(|error| self.error(error))?;
        self.node(kind, token.place)
    }

    fn text(&mut self) -> Parsed {
        let token = self.current().clone();
        self.next()?;
        let is_text = token.kind == TokenKind::Text;
        let value = token.value.into();
        self.node(if is_text { Kind::Text(value) } else { Kind::Bytes(value) }, token.place)
    }

    fn list(&mut self, place: Place) -> Parsed {
        self.expect_bracket("[")?;
        let mut nodes = Vec::new();
        while !self.is_bracket("]") {
            if !nodes.is_empty() {
                self.expect_operator(",")?;
                if self.is_bracket("]") {
                    break;
                }
            }
            nodes.push(self.expression(0)?);
        }
        self.expect_bracket("]")?;
        self.node(Kind::List(nodes), place)
    }

    fn map(&mut self, place: Place) -> Parsed {
        self.expect_bracket("{")?;
        let mut pairs = Vec::new();
        while !self.is_bracket("}") {
            if !pairs.is_empty() {
                self.expect_operator(",")?;
                if self.is_bracket("}") {
                    break;
                }
            }
            let token = self.current().clone();
            let key = match token.kind {
                TokenKind::Number | TokenKind::Text | TokenKind::Name => {
                    self.next()?;
                    self.node(Kind::Text(token.value.into()), token.place)?
                }
                TokenKind::Bracket if token.is(TokenKind::Bracket, "(") => self.expression(0)?,
                _ => {
                    return Err(self.error(format_args!(
                        "a map key must be a quoted string, a number, a identifier, or an expression enclosed in \
                         parentheses (unexpected token {})",
                        token.shown()
                    )));
                }
            };
            self.expect_operator(":")?;
            let value = self.expression(0)?;
            // The pair counts as a part too.
            self.nodes += 1;
            pairs.push((key, value));
        }
        self.expect_bracket("}")?;
        self.node(Kind::Map(pairs), place)
    }

    /// A call of a name; through a pipe the first argument is there already.
    fn call(&mut self, name: &Token, arguments: Vec<Node>) -> Parsed {
        if let Some(builtin) = builtins::find(name.value()) {
            let arguments = match builtin.arguments() {
                Some(wanted) => self.loop_arguments(wanted, arguments)?,
                None => self.arguments(arguments)?,
            };
            self.builtin(builtin, arguments, name.place)
        } else {
            let callee = self.node(Kind::Name(name.value().to_owned()), name.place)?;
            let arguments = self.arguments(arguments)?;
            self.node(Kind::Call { callee: Box::new(callee), arguments }, name.place)
        }
    }

    fn builtin(&mut self, builtin: &'static Builtin, arguments: Vec<Node>, place: Place) -> Parsed {
        let call = BuiltinCall { builtin, arguments, map: None, throws: false, threshold: None };
        self.node(Kind::Builtin(Box::new(call)), place)
    }

    fn arguments(&mut self, arguments: Vec<Node>) -> Result<Vec<Node>, Misplaced> {
        let piped = arguments.len();
        let mut arguments = arguments;
        self.expect_bracket("(")?;
        while !self.is_bracket(")") {
            if arguments.len() > piped {
                self.expect_operator(",")?;
                if self.is_bracket(")") {
                    break;
                }
            }
            arguments.push(self.expression(0)?);
        }
        self.expect_bracket(")")?;
        Ok(arguments)
    }

    fn loop_arguments(&mut self, wanted: &[Argument], arguments: Vec<Node>) -> Result<Vec<Node>, Misplaced> {
        let mut arguments = arguments;
        self.expect_bracket("(")?;
        let wanted = wanted.get(arguments.len()..).unwrap_or_default();
        for (index, argument) in wanted.iter().enumerate() {
            if self.is_bracket(")") {
                if argument.optional {
                    break;
                }
                return Err(self.error(format_args!("expected at least {} arguments", wanted.len())));
            }
            if index > 0 {
                self.expect_operator(",")?;
            }
            arguments.push(if argument.predicate { self.predicate()? } else { self.expression(0)? });
        }
        if self.is_operator(",") {
            self.next()?;
        }
        self.expect_bracket(")")?;
        Ok(arguments)
    }

    fn predicate(&mut self) -> Parsed {
        let place = self.place();
        let is_block = self.is_bracket("{");
        if is_block {
            self.next()?;
        }
        self.predicates += 1;
        let node = if is_block { self.sequence()? } else { self.expression(0)? };
        self.predicates -= 1;
        if is_block {
            self.expect_bracket("}")?;
        } else if self.is_operator(";") {
            return Err(self.error("wrap predicate with brackets { and }"));
        }
        self.node(Kind::Predicate(Box::new(node)), place)
    }
}

fn uncounted(kind: Kind, place: Place) -> Parsed {
    let node = Node::new(kind, place);
    if node.depth > DEPTH_MAX { Err(Misplaced { fault: Fault::Depth, place }) } else { Ok(node) }
}

/// Reads a number as it is written in an expression.
fn number(written: &str) -> Result<Kind, String> {
    let digits = written.replace('_', "");
    let lower = digits.to_ascii_lowercase();
    let integer = |kind: &str, digits: &str, base: u32| {
        let number =
            if digits.starts_with(['+', '-']) { None } else { i64::from_str_radix(digits, base).ok() };
        number.map(Kind::Integer).ok_or_else(|| format!("invalid {kind} literal: {written:?}"))
    };
    if let Some(hex) = lower.strip_prefix("0x") {
        return integer("hex", hex, 16);
    }
    if lower.contains(['.', 'e']) {
        let number: Option<f64> = lower.parse().ok();
        let finite = number.filter(|number| number.is_finite());
        return finite.map(Kind::Float).ok_or_else(|| format!("invalid float literal: {written:?}"));
    }
    if let Some(binary) = lower.strip_prefix("0b") {
        return integer("binary", binary, 2);
    }
    if let Some(octal) = lower.strip_prefix("0o") {
        return integer("octal", octal, 8);
    }
    integer("integer", &lower, 10)
}
