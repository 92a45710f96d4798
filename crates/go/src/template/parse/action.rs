//! What stands in an action, as a tree.

use super::PARENTHESES_MAX;
use super::constant::Constant;
use super::lex::{Kind, Token};
use super::tokens::Tokens;
use crate::template::error::TemplateError;
use crate::template::functions::{Function, FunctionSet};
use crate::template::quote::unquote;
use crate::template::value::Text;

/// Arguments of one command; the code counts them with 16 bits.
const ARGUMENTS_MAX: usize = 30_000;

/// A part of the text, and the byte that errors name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) at: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn of(token: Token) -> Self {
        Self { at: narrow(token.start), start: narrow(token.start), end: narrow(token.end) }
    }
}

/// Texts are shorter than four gigabytes.
pub(super) fn narrow(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) span: Span,
    pub(super) declared: Vec<Text>,
    pub(super) assigns: bool,
    pub(super) commands: Vec<Command>,
}

#[derive(Debug)]
pub(super) struct Command {
    pub(super) span: Span,
    pub(super) operands: Vec<Node>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) span: Span,
    pub(super) term: Term,
}

#[derive(Debug)]
pub(super) enum Term {
    Bool(bool),
    Dot,
    Nil,
    Number(Constant),
    Text(Text),
    Function(&'static Function),
    Field(Vec<Text>),
    Variable(Text, Vec<Text>),
    Chain(Box<Node>, Vec<Text>),
    Pipe(Box<Pipe>),
}

/// Reads pipelines. The variables that may be named are the parser's.
pub(super) struct Reader<'r, 't> {
    pub(super) tokens: &'r mut Tokens<'t>,
    pub(super) functions: &'r FunctionSet,
    pub(super) variables: &'r mut Vec<Text>,
    pub(super) depth: usize,
}

/// What a pipeline stands for, in errors and for its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    Command,
    If,
    With,
    Range,
    Block,
    Template,
    Parentheses,
}

impl Context {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::If => "if",
            Self::With => "with",
            Self::Range => "range",
            Self::Block => "block clause",
            Self::Template => "template clause",
            Self::Parentheses => "parenthesized pipeline",
        }
    }
}

impl Reader<'_, '_> {
    fn text(&self, token: Token) -> Text {
        Text::from_bytes(self.tokens.bytes(token))
    }

    /// Reads a pipeline up to and with its end.
    pub(super) fn pipeline(&mut self, context: Context) -> Result<Pipe, TemplateError> {
        let end = if context == Context::Parentheses { Kind::RightParenthesis } else { Kind::RightDelimiter };
        let first = self.tokens.peek_no_space();
        let mut pipe =
            Pipe { span: Span::of(first), declared: Vec::new(), assigns: false, commands: Vec::new() };
        self.declarations(&mut pipe, context)?;
        loop {
            let token = self.tokens.next_no_space();
            match token.kind {
                kind if kind == end => {
                    self.check(&pipe, context)?;
                    return Ok(pipe);
                }
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::String
                | Kind::Variable
                | Kind::LeftParenthesis => {
                    self.tokens.back();
                    let command = self.command()?;
                    pipe.span.end = command.span.end;
                    pipe.commands.push(command);
                }
                _ => return Err(self.tokens.unexpected(token, context.name())),
            }
        }
    }

    /// Reads `$x :=`, `$x =`, and in a range `$i, $x :=`.
    fn declarations(&mut self, pipe: &mut Pipe, context: Context) -> Result<(), TemplateError> {
        loop {
            let variable = self.tokens.peek_no_space();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            self.tokens.next_no_space();
            // A variable is an operand unless `:=` follows, so it may have to be given back with the blank after it.
            let after = self.tokens.peek();
            let next = self.tokens.peek_no_space();
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.assigns = next.kind == Kind::Assign;
                    self.tokens.next_no_space();
                    self.declare(pipe, variable);
                    return Ok(());
                }
                Kind::Char if self.tokens.bytes(next) == b"," => {
                    self.tokens.next_no_space();
                    self.declare(pipe, variable);
                    if context == Context::Range && pipe.declared.len() < 2 {
                        match self.tokens.peek_no_space().kind {
                            Kind::Variable | Kind::RightDelimiter | Kind::RightParenthesis => continue,
                            _ => return Err(self.tokens.error("range can only initialize variables")),
                        }
                    }
                    return Err(self.tokens.error(format!("too many declarations in {}", context.name())));
                }
                _ if after.kind == Kind::Space => self.tokens.back_three(variable, after),
                _ => self.tokens.back_two(variable),
            }
            return Ok(());
        }
    }

    fn declare(&mut self, pipe: &mut Pipe, variable: Token) {
        let name = self.text(variable);
        pipe.declared.push(name.clone());
        self.variables.push(name);
    }

    fn check(&self, pipe: &Pipe, context: Context) -> Result<(), TemplateError> {
        if pipe.commands.is_empty() {
            return Err(self.tokens.error(format!("missing value for {}", context.name())));
        }
        for (place, command) in pipe.commands.iter().enumerate().skip(1) {
            let first = command.operands.first().map(|node| &node.term);
            if let Some(Term::Bool(_) | Term::Dot | Term::Nil | Term::Number(_) | Term::Text(_)) = first {
                let stage = place + 1;
                return Err(self.tokens.error(format!("non executable command in pipeline stage {stage}")));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Result<Command, TemplateError> {
        let first = self.tokens.peek_no_space();
        let mut command = Command { span: Span::of(first), operands: Vec::new() };
        loop {
            self.tokens.peek_no_space();
            if let Some((operand, end)) = self.operand()? {
                if command.operands.len() > ARGUMENTS_MAX {
                    return Err(self
                        .tokens
                        .error(format!("more than {ARGUMENTS_MAX} arguments of one command")));
                }
                command.span.end = end;
                command.operands.push(operand);
            }
            let token = self.tokens.next();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelimiter | Kind::RightParenthesis => self.tokens.back(),
                Kind::Pipe => {}
                _ => return Err(self.tokens.unexpected(token, "operand")),
            }
            break;
        }
        if command.operands.is_empty() {
            return Err(self.tokens.error("empty command"));
        }
        Ok(command)
    }

    /// Reads a term with the fields behind it, and says where it ends.
    fn operand(&mut self) -> Result<Option<(Node, u32)>, TemplateError> {
        let start = narrow(self.tokens.peek_no_space().start);
        let Some((mut node, mut end)) = self.term()? else { return Ok(None) };
        let first = self.tokens.peek();
        if first.kind != Kind::Field {
            return Ok(Some((node, end)));
        }
        let mut fields = Vec::new();
        while self.tokens.peek().kind == Kind::Field {
            let token = self.tokens.next();
            fields.push(Text::from_bytes(self.tokens.bytes(token).get(1..).unwrap_or_default()));
            end = narrow(token.end);
        }
        let span = Span { at: narrow(first.start), start, end };
        let term = match node.term {
            Term::Field(mut names) => {
                names.extend(fields);
                Term::Field(names)
            }
            Term::Variable(name, _) => Term::Variable(name, fields),
            Term::Bool(_) | Term::Dot | Term::Nil | Term::Number(_) | Term::Text(_) => {
                let shown = self.shown(node.span);
                return Err(self.tokens.error(format!("unexpected . after term {shown}")));
            }
            term @ (Term::Function(_) | Term::Chain(..) | Term::Pipe(_)) => {
                node.term = term;
                Term::Chain(Box::new(node), fields)
            }
        };
        Ok(Some((Node { span, term }, end)))
    }

    fn shown(&self, span: Span) -> String {
        let token = Token { kind: Kind::Text, start: span.start as usize, end: span.end as usize, line: 0 };
        crate::template::quote::quote(self.tokens.bytes(token))
    }

    fn term(&mut self) -> Result<Option<(Node, u32)>, TemplateError> {
        let token = self.tokens.next_no_space();
        let bytes = self.tokens.bytes(token);
        let term = match token.kind {
            Kind::Identifier => {
                let name = String::from_utf8_lossy(bytes);
                let Some(function) = self.functions.get(&name) else {
                    let name = crate::template::quote::quote(bytes);
                    return Err(self.tokens.error(format!("function {name} not defined")));
                };
                Term::Function(function)
            }
            Kind::Dot => Term::Dot,
            Kind::Nil => Term::Nil,
            Kind::Variable => {
                let name = Text::from_bytes(bytes);
                if !self.variables.contains(&name) {
                    let name = crate::template::quote::quote(bytes);
                    return Err(self.tokens.error(format!("undefined variable {name}")));
                }
                Term::Variable(name, Vec::new())
            }
            Kind::Field => Term::Field(vec![Text::from_bytes(bytes.get(1..).unwrap_or_default())]),
            Kind::Bool => Term::Bool(bytes == b"true"),
            Kind::CharConstant => self.number(Constant::of_character(bytes))?,
            Kind::Complex => self.number(Constant::of_complex(&String::from_utf8_lossy(bytes)))?,
            Kind::Number => self.number(Constant::of_number(&String::from_utf8_lossy(bytes)))?,
            Kind::LeftParenthesis => return self.parentheses().map(Some),
            Kind::String | Kind::RawString => match unquote(bytes) {
                Some(text) => Term::Text(Text::from(text)),
                None => return Err(self.tokens.error("invalid syntax")),
            },
            _ => {
                self.tokens.back();
                return Ok(None);
            }
        };
        Ok(Some((Node { span: Span::of(token), term }, narrow(token.end))))
    }

    fn number(&self, read: Result<Constant, String>) -> Result<Term, TemplateError> {
        read.map(Term::Number).map_err(|message| self.tokens.error(message))
    }

    fn parentheses(&mut self) -> Result<(Node, u32), TemplateError> {
        if self.depth >= PARENTHESES_MAX {
            return Err(self.tokens.error("max expression depth exceeded"));
        }
        self.depth += 1;
        let pipe = self.pipeline(Context::Parentheses)?;
        self.depth -= 1;
        // The end of the pipeline was the last token that was read.
        let end = narrow(self.tokens.last_end());
        Ok((Node { span: pipe.span, term: Term::Pipe(Box::new(pipe)) }, end))
    }
}
