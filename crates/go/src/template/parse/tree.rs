//! Blocks: what is open, what ends it, and which templates a file defines.

use super::action::{Context, Pipe, Reader, Span, narrow};
use super::generate::{Generator, Label};
use super::lex::{Kind, Lexer, Token};
use super::tokens::Tokens;
use crate::template::code::{Body, File, Form};
use crate::template::error::{ErrorKind, TemplateError};
use crate::template::functions::FunctionSet;
use crate::template::quote::{quote, unquote};
use crate::template::value::Text;
use std::collections::HashMap;
use std::sync::Arc;

/// Reads a file.
pub(super) struct Parser<'t> {
    tokens: Tokens<'t>,
    functions: &'t FunctionSet,
    /// The template that is being read.
    present: Unit,
    /// What is open in it and around it, the innermost last.
    open: Vec<Open>,
    /// What is finished. The file's own template takes part in the rules, and comes first in the end.
    done: Vec<Body>,
    places: HashMap<Text, usize>,
    file: Arc<File>,
}

/// A template that is being read.
struct Unit {
    generator: Generator,
    /// Variables that may be named. Declarations of a branch can be seen in the next one, where they have no value.
    variables: Vec<Text>,
    ranges: usize,
}

/// What is open.
enum Open {
    If(Branch),
    With(Branch),
    Range(Branch),
    /// A `define` or a `block`, with the template around it.
    Definition {
        context: &'static str,
        outer: Box<Unit>,
    },
}

struct Branch {
    /// Where the code goes when the condition does not hold; taken at `else`.
    otherwise: Option<Label>,
    /// Where it goes at the end.
    end: Label,
    /// Variables that could be named before.
    variables: usize,
    /// Variables that have a value in all branches: those before, and those of the condition.
    scope: usize,
    /// The number of variables before.
    outer_scope: usize,
    /// The dot outside.
    dot: u16,
    /// Whether the end of this one is also the end of the one around it: `else if`.
    chained: bool,
}

impl<'t> Parser<'t> {
    pub(super) fn new(file: &'t Arc<File>, functions: &'t FunctionSet) -> Self {
        let loops = (functions.get("break").is_none(), functions.get("continue").is_none());
        // A file's name is UTF-8: it came as a text.
        let name = file.name.as_str().unwrap_or_default();
        Self {
            tokens: Tokens::new(name, Lexer::new(&file.text, loops)),
            functions,
            present: Unit::new(Generator::new(file.name.clone(), Arc::clone(file))),
            open: Vec::new(),
            done: Vec::new(),
            places: HashMap::new(),
            file: Arc::clone(file),
        }
    }

    /// Reads the whole file.
    pub(super) fn parse(mut self) -> Result<Vec<Arc<Body>>, TemplateError> {
        if self.file.text.len() > super::TEMPLATE_BYTES_MAX {
            return Err(self.tokens.error(format!("more than {} bytes", super::TEMPLATE_BYTES_MAX)));
        }
        loop {
            let next = if self.open.is_empty() { self.tokens.peek() } else { self.tokens.peek_no_space() };
            if next.kind == Kind::End {
                if !self.open.is_empty() {
                    return Err(self.tokens.error("unexpected EOF"));
                }
                break;
            }
            if self.open.is_empty() && next.kind == Kind::LeftDelimiter {
                let delimiter = self.tokens.next();
                if self.tokens.next_no_space().kind == Kind::Define {
                    self.define()?;
                    continue;
                }
                self.tokens.back_two(delimiter);
            }
            self.text_or_action()?;
        }
        let main = std::mem::replace(
            &mut self.present,
            Unit::new(Generator::new(Text::EMPTY, Arc::clone(&self.file))),
        );
        let main = main.generator.finish();
        let name = main.name.clone();
        self.add(main)?;
        // The file's own template first, whoever defined it.
        let at = self.places.get(&name).copied().unwrap_or(0);
        self.done.swap(0, at);
        Ok(self.done.into_iter().map(Arc::new).collect())
    }

    /// Keeps a template. Of two of a name one has to be empty.
    fn add(&mut self, body: Body) -> Result<(), TemplateError> {
        if let Some(problem) = body.problem {
            return Err(self.tokens.error(problem));
        }
        match self.places.get(&body.name).and_then(|at| self.done.get_mut(*at)) {
            None => {
                self.places.insert(body.name.clone(), self.done.len());
                self.done.push(body);
            }
            Some(other) if other.is_empty => *other = body,
            Some(_) if body.is_empty => {}
            Some(_) => {
                let name = quote(body.name.as_bytes());
                return Err(self.tokens.error(format!("template: multiple definition of template {name}")));
            }
        }
        Ok(())
    }

    fn text_or_action(&mut self) -> Result<(), TemplateError> {
        let token = self.tokens.next_no_space();
        match token.kind {
            Kind::Text => {
                self.present.generator.text(token.start, token.end);
                Ok(())
            }
            Kind::LeftDelimiter => {
                self.tokens.action_line = token.line;
                self.action()?;
                self.tokens.action_line = 0;
                Ok(())
            }
            _ => Err(self.tokens.unexpected(token, "input")),
        }
    }

    fn action(&mut self) -> Result<(), TemplateError> {
        let token = self.tokens.next_no_space();
        match token.kind {
            Kind::Block => self.block(),
            Kind::Break => self.leave(token, "{{break}}", Generator::leave_range),
            Kind::Continue => self.leave(token, "{{continue}}", Generator::next_round),
            Kind::Else => self.otherwise(),
            Kind::EndWord => {
                self.tokens.expect(Kind::RightDelimiter, "end")?;
                self.end()
            }
            Kind::If => self.branch(Context::If, false),
            Kind::Range => self.branch(Context::Range, false),
            Kind::Template => self.template(),
            Kind::With => self.branch(Context::With, false),
            _ => {
                self.tokens.back();
                let first = self.tokens.peek();
                let pipe = self.pipeline(Context::Command)?;
                let span = Span { at: narrow(first.start), ..pipe.span };
                self.present.generator.action(&pipe, span);
                Ok(())
            }
        }
    }

    fn pipeline(&mut self, context: Context) -> Result<Pipe, TemplateError> {
        Reader {
            tokens: &mut self.tokens,
            functions: self.functions,
            variables: &mut self.present.variables,
            depth: 0,
        }
        .pipeline(context)
    }

    fn leave(
        &mut self,
        token: Token,
        name: &str,
        leave: fn(&mut Generator, Span),
    ) -> Result<(), TemplateError> {
        let end = self.tokens.next_no_space();
        if end.kind != Kind::RightDelimiter {
            return Err(self.tokens.unexpected(end, name));
        }
        if self.present.ranges == 0 {
            return Err(self.tokens.error(format!("{name} outside {{{{range}}}}")));
        }
        leave(&mut self.present.generator, Span::of(token));
        Ok(())
    }

    /// Reads the head of an `if`, `with` or `range`.
    fn branch(&mut self, context: Context, chained: bool) -> Result<(), TemplateError> {
        let variables = self.present.variables.len();
        let pipe = self.pipeline(context)?;
        let generator = &mut self.present.generator;
        let (outer_scope, dot) = (generator.scope(), generator.dot());
        let (otherwise, end) = match context {
            Context::Range => generator.range(&pipe),
            Context::With => generator.with(&pipe),
            _ => generator.if_true(&pipe),
        };
        let scope = generator.scope();
        let branch = Branch { otherwise: Some(otherwise), end, variables, scope, outer_scope, dot, chained };
        self.open.push(match context {
            Context::Range => {
                self.present.ranges += 1;
                Open::Range(branch)
            }
            Context::With => Open::With(branch),
            _ => Open::If(branch),
        });
        Ok(())
    }

    /// Reads `else`, with the head of an `if` or `with` that may follow.
    fn otherwise(&mut self) -> Result<(), TemplateError> {
        let next = self.tokens.peek_no_space();
        // What follows is read as if it stood in an action of its own.
        let follows = matches!(next.kind, Kind::If | Kind::With);
        if !follows {
            self.tokens.expect(Kind::RightDelimiter, "else")?;
        }
        let generator = &mut self.present.generator;
        let (branch, chain) = match self.open.last_mut() {
            None => return Err(self.tokens.error("unexpected {{else}}")),
            Some(Open::Definition { context, .. }) => {
                return Err(self.tokens.error(format!("unexpected {{{{else}}}} in {context}")));
            }
            Some(Open::If(branch)) => (branch, (next.kind == Kind::If).then_some(Context::If)),
            Some(Open::With(branch)) => (branch, (next.kind == Kind::With).then_some(Context::With)),
            Some(Open::Range(branch)) => {
                if branch.otherwise.is_some() {
                    self.present.ranges -= 1;
                    generator.end_rounds();
                }
                (branch, None)
            }
        };
        let Some(label) = branch.otherwise.take() else {
            return Err(self.tokens.error("expected end; found {{else}}"));
        };
        generator.otherwise(label, branch.end, branch.scope, branch.dot);
        match chain {
            Some(context) => {
                self.tokens.next_no_space();
                self.branch(context, true)
            }
            None => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), TemplateError> {
        loop {
            let Some(open) = self.open.pop() else { return Err(self.tokens.error("unexpected {{end}}")) };
            let branch = match open {
                Open::Definition { outer, .. } => return self.end_definition(*outer),
                Open::If(branch) | Open::With(branch) => branch,
                Open::Range(branch) => {
                    if branch.otherwise.is_some() {
                        self.present.ranges -= 1;
                        self.present.generator.end_rounds();
                    }
                    branch
                }
            };
            self.present.variables.truncate(branch.variables);
            self.present.generator.end(branch.otherwise, branch.end, branch.outer_scope, branch.dot);
            if !branch.chained {
                return Ok(());
            }
        }
    }

    fn end_definition(&mut self, outer: Unit) -> Result<(), TemplateError> {
        let inner = std::mem::replace(&mut self.present, outer);
        self.add(inner.generator.finish())
    }

    fn define(&mut self) -> Result<(), TemplateError> {
        const CONTEXT: &str = "define clause";
        let token = self.tokens.next_no_space();
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return Err(self.tokens.unexpected(token, CONTEXT));
        }
        let name = self.unquoted(token)?;
        self.tokens.expect(Kind::RightDelimiter, CONTEXT)?;
        self.begin_definition(name, CONTEXT);
        Ok(())
    }

    fn begin_definition(&mut self, name: Text, context: &'static str) {
        let inner = Unit::new(Generator::new(name, Arc::clone(&self.file)));
        let outer = Box::new(std::mem::replace(&mut self.present, inner));
        self.open.push(Open::Definition { context, outer });
    }

    fn unquoted(&self, token: Token) -> Result<Text, TemplateError> {
        unquote(self.tokens.bytes(token)).map(Text::from).ok_or_else(|| self.tokens.error("invalid syntax"))
    }

    fn template_name(&mut self, context: Context) -> Result<(Token, Text), TemplateError> {
        let token = self.tokens.next_no_space();
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return Err(self.tokens.unexpected(token, context.name()));
        }
        Ok((token, self.unquoted(token)?))
    }

    /// Reads the head of a `block`: a definition, and its execution where it stands.
    fn block(&mut self) -> Result<(), TemplateError> {
        let (token, name) = self.template_name(Context::Block)?;
        let pipe = self.pipeline(Context::Block)?;
        self.execute(token, &name, Some(&pipe));
        self.begin_definition(name, Context::Block.name());
        Ok(())
    }

    fn template(&mut self) -> Result<(), TemplateError> {
        let (token, name) = self.template_name(Context::Template)?;
        let mut pipe = None;
        if self.tokens.next_no_space().kind != Kind::RightDelimiter {
            self.tokens.back();
            pipe = Some(self.pipeline(Context::Template)?);
        }
        self.execute(token, &name, pipe.as_ref());
        Ok(())
    }

    fn execute(&mut self, token: Token, name: &Text, pipe: Option<&Pipe>) {
        let name_span = Span::of(token);
        let end = pipe.map_or(name_span.end, |pipe| pipe.span.end);
        self.present.generator.template(Span { end, ..name_span }, Form::Template, name, pipe);
    }
}

impl Unit {
    fn new(generator: Generator) -> Self {
        Self { generator, variables: vec![Text::fixed("$")], ranges: 0 }
    }
}

/// An option such as `missingkey=error`.
pub(crate) fn missing_key(option: &str) -> Result<crate::template::MissingKey, TemplateError> {
    use crate::template::MissingKey;
    match option {
        "missingkey=default" | "missingkey=invalid" => Ok(MissingKey::Nothing),
        "missingkey=zero" => Ok(MissingKey::Zero),
        "missingkey=error" => Ok(MissingKey::Error),
        "" => Err(TemplateError::new(ErrorKind::Option, "empty option string")),
        other => Err(TemplateError::new(ErrorKind::Option, format!("unrecognized option: {other}"))),
    }
}
