//! From trees to instructions.
//!
//! What a parameter's type says about a constant is decided here; a mistake becomes an instruction that fails when
//! it is reached, because Go finds it only then.

use super::action::{Command, Node, Pipe, Span, Term, narrow};
use super::context::normal;
use super::literal::typed;
use crate::template::code::{
    Body, CallSite, DOT, File, Form, Instruction, Literal, Op, ROOT, RangeSite, SAME_SITE, Site, Slot, Target,
};
use crate::template::functions::{Function, Logic, Run, Type};
use crate::template::value::Text;
use std::sync::Arc;

/// A place that instructions go to, known at the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label(u32);

/// A range that is open.
struct Round {
    site: usize,
    next: Label,
    end: Label,
    /// The first slot of its body.
    slots: usize,
}

/// Writes one template.
pub(super) struct Generator {
    body: Body,
    labels: Vec<u32>,
    scope: Vec<(Text, u16)>,
    dot: u16,
    rounds: Vec<Round>,
    /// How many arguments that may be passed over are around.
    maybe: usize,
}

impl Generator {
    pub(super) fn new(name: Text, file: Arc<File>) -> Self {
        Self {
            body: Body {
                name,
                file,
                code: Vec::new(),
                calls: Vec::new(),
                literals: Vec::new(),
                messages: Vec::new(),
                names: Vec::new(),
                ranges: Vec::new(),
                sites: Vec::new(),
                slots: vec![Slot::default(), Slot::default()],
                is_empty: true,
                problem: None,
            },
            labels: Vec::new(),
            scope: vec![(Text::fixed("$"), ROOT)],
            dot: DOT,
            rounds: Vec::new(),
            maybe: 0,
        }
    }

    /// The finished template.
    pub(super) fn finish(mut self) -> Body {
        self.op(Op::Return, SAME_SITE);
        let target = |target: &mut u32| {
            *target = usize::try_from(*target).ok().and_then(|at| self.labels.get(at)).copied().unwrap_or(0);
        };
        for instruction in &mut self.body.code {
            match &mut instruction.op {
                Op::ShortCircuit { target: to, .. }
                | Op::JumpIfFalse(to)
                | Op::With { target: to, .. }
                | Op::Jump(to) => target(to),
                _ => {}
            }
        }
        for call in self.body.calls.iter_mut().filter(|call| call.function.is_none()) {
            target(&mut call.after);
        }
        for range in &mut self.body.ranges {
            target(&mut range.otherwise);
            target(&mut range.end);
        }
        self.body
    }

    // Blocks.

    pub(super) fn scope(&self) -> usize {
        self.scope.len()
    }

    pub(super) fn dot(&self) -> u16 {
        self.dot
    }

    pub(super) fn text(&mut self, start: usize, end: usize) {
        let text = self.body.file.text.get(start..end).unwrap_or_default();
        if !crate::template::value::to_str(text).trim().is_empty() {
            self.body.is_empty = false;
        }
        self.op(Op::Text { start: narrow(start), end: narrow(end) }, SAME_SITE);
    }

    pub(super) fn action(&mut self, pipe: &Pipe, span: Span) {
        self.body.is_empty = false;
        self.pipe(pipe, Boxes::Any);
        if pipe.declared.is_empty() {
            let site = self.site(span, Form::Action);
            self.op(Op::Print, site);
        } else {
            self.op(Op::Pop, SAME_SITE);
        }
    }

    /// Begins an `if`; answers where it goes otherwise, and its end.
    pub(super) fn if_true(&mut self, pipe: &Pipe) -> (Label, Label) {
        self.body.is_empty = false;
        self.pipe(pipe, Boxes::Any);
        let (otherwise, end) = (self.label(), self.label());
        self.op(Op::JumpIfFalse(otherwise.0), SAME_SITE);
        (otherwise, end)
    }

    /// Begins a `with`.
    pub(super) fn with(&mut self, pipe: &Pipe) -> (Label, Label) {
        self.body.is_empty = false;
        self.pipe(pipe, Boxes::Any);
        let (otherwise, end) = (self.label(), self.label());
        let slot = self.slot(Slot::default());
        self.op(Op::With { slot, target: otherwise.0 }, SAME_SITE);
        self.dot = slot;
        (otherwise, end)
    }

    /// Begins a `range`.
    pub(super) fn range(&mut self, pipe: &Pipe) -> (Label, Label) {
        self.body.is_empty = false;
        let site = self.body.ranges.len();
        let (otherwise, end, next) = (self.label(), self.label(), self.label());
        self.pipe(pipe, Boxes::Any);
        let mut targets = pipe.declared.iter().map(|name| self.target(name)).collect::<Vec<_>>().into_iter();
        let dot = self.slot(Slot::default());
        self.body.ranges.push(RangeSite {
            dot,
            first: targets.next().flatten(),
            second: targets.next().flatten(),
            forgets: (0, 0),
            otherwise: otherwise.0,
            end: end.0,
        });
        self.op(Op::RangeBegin(narrow(site)), SAME_SITE);
        self.bind(next);
        self.op(Op::RangeNext(narrow(site)), SAME_SITE);
        self.dot = dot;
        self.rounds.push(Round { site, next, end, slots: self.body.slots.len() });
        (otherwise, end)
    }

    /// Ends the body of the innermost `range`.
    pub(super) fn end_rounds(&mut self) {
        let Some(round) = self.rounds.pop() else { return };
        self.op(Op::Jump(round.next.0), SAME_SITE);
        let inner = self.body.slots.get(round.slots..).unwrap_or_default();
        if inner.iter().any(|slot| slot.maybe)
            && let Some(range) = self.body.ranges.get_mut(round.site)
        {
            let slot = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
            range.forgets = (slot(round.slots), slot(self.body.slots.len()));
        }
    }

    pub(super) fn leave_range(&mut self, _span: Span) {
        if let Some(Round { end, .. }) = self.rounds.last() {
            let end = end.0;
            self.op(Op::RangePop, SAME_SITE);
            self.op(Op::Jump(end), SAME_SITE);
        }
    }

    pub(super) fn next_round(&mut self, _span: Span) {
        if let Some(Round { next, .. }) = self.rounds.last() {
            let next = next.0;
            self.op(Op::Jump(next), SAME_SITE);
        }
    }

    /// Begins an `else`.
    pub(super) fn otherwise(&mut self, label: Label, end: Label, scope: usize, dot: u16) {
        self.op(Op::Jump(end.0), SAME_SITE);
        self.bind(label);
        self.scope.truncate(scope);
        self.dot = dot;
    }

    /// Ends a block.
    pub(super) fn end(&mut self, otherwise: Option<Label>, end: Label, scope: usize, dot: u16) {
        if let Some(label) = otherwise {
            self.bind(label);
        }
        self.bind(end);
        self.scope.truncate(scope);
        self.dot = dot;
    }

    pub(super) fn template(&mut self, span: Span, form: Form, name: &Text, pipe: Option<&Pipe>) {
        self.body.is_empty = false;
        let (site, name) = (self.site(span, form), self.name(name));
        self.op(Op::Lookup(name), site);
        if let Some(pipe) = pipe {
            self.pipe(pipe, Boxes::Opened);
        } else {
            let nothing = self.literal(Literal::Nil);
            self.op(Op::Literal(nothing), SAME_SITE);
        }
        self.op(Op::Template(name), SAME_SITE);
    }

    // Pipelines.

    fn pipe(&mut self, pipe: &Pipe, boxes: Boxes) {
        let last = pipe.commands.len().saturating_sub(1);
        for (stage, command) in pipe.commands.iter().enumerate() {
            self.command(command, (stage == 0).then_some(pipe.span), stage > 0);
            if stage < last || boxes == Boxes::Opened || !pipe.declared.is_empty() {
                self.op(Op::Unbox, SAME_SITE);
            }
        }
        for name in &pipe.declared {
            if pipe.assigns {
                match self.target(name) {
                    Some(Target { slot, name }) if self.is_maybe(slot) => {
                        self.op(Op::CopyMaybe { slot, name }, SAME_SITE);
                    }
                    Some(Target { slot, .. }) => self.op(Op::Copy(slot), SAME_SITE),
                    None => self.fail(format!("undefined variable: {name}"), SAME_SITE),
                }
            } else {
                let slot = self.declare(name);
                self.op(Op::Copy(slot), SAME_SITE);
            }
        }
    }

    fn command(&mut self, command: &Command, pipe: Option<Span>, piped: bool) {
        let Some((first, rest)) = command.operands.split_first() else { return };
        let given = !rest.is_empty() || piped;
        let site = |generator: &mut Self| generator.site(first.span, Form::Part);
        match &first.term {
            Term::Field(names) => {
                let site = site(self);
                self.op(Op::Load(self.dot), site);
                self.fields(names, site, rest, piped);
            }
            Term::Variable(name, fields) => {
                let site = site(self);
                self.load(name, site);
                if !fields.is_empty() {
                    self.fields(fields, site, rest, piped);
                } else if given {
                    self.no_function(first, SAME_SITE);
                }
            }
            Term::Chain(node, fields) => {
                let site = site(self);
                self.op(Op::At, site);
                self.argument(node);
                self.fields(fields, site, rest, piped);
            }
            Term::Function(function) => {
                self.call(function, command.span, first.span, rest, piped);
            }
            Term::Pipe(_) if given => {
                let site = pipe.map_or(SAME_SITE, |span| self.site(span, Form::Part));
                self.no_function(first, site);
            }
            Term::Pipe(inner) => self.pipe(inner, Boxes::Opened),
            _ if given => {
                let site = site(self);
                self.no_function(first, site);
            }
            Term::Dot => {
                let site = site(self);
                self.op(Op::Load(self.dot), site);
            }
            Term::Nil => {
                let site = site(self);
                self.fail("nil is not a command".to_owned(), site);
            }
            Term::Bool(_) | Term::Number(_) | Term::Text(_) => {
                let site = site(self);
                self.constant(first, Type::Any, site);
            }
        }
    }

    fn no_function(&mut self, node: &Node, site: u32) {
        let shown = self.shown(node.span);
        self.fail(format!("can't give argument to non-function {shown}"), site);
    }

    /// Puts fields in the place of the top; the last may be a method with arguments.
    fn fields(&mut self, names: &[Text], site: u32, rest: &[Node], piped: bool) {
        let Some((last, before)) = names.split_last() else { return };
        for name in before {
            let name = self.name(name);
            self.op(Op::Field(name), SAME_SITE);
        }
        let name = self.name(last);
        if rest.is_empty() && !piped {
            self.op(Op::Field(name), SAME_SITE);
            return;
        }
        let after = self.label();
        let call = self.call_site(CallSite {
            function: None,
            count: count(rest),
            piped,
            site,
            name,
            after: after.0,
        });
        self.op(Op::Method(call), SAME_SITE);
        for (argument, node) in (0_u16..).zip(rest) {
            if let Some(literal) = literal_of(node) {
                let (literal, site) = (self.literal(literal), self.site(node.span, Form::Part));
                self.op(Op::BindLiteral { literal, argument }, site);
            } else {
                self.argument(node);
                self.op(Op::Bind { argument }, SAME_SITE);
            }
        }
        self.op(Op::CallMethod(call), SAME_SITE);
        self.bind(after);
    }

    /// Calls a function with some arguments and, from the pipeline, one that is the top.
    fn call(&mut self, function: &'static Function, whole: Span, name: Span, rest: &[Node], piped: bool) {
        let at_name = self.site(name, Form::Part);
        if let Some(message) = function.wrong_count(function.name, rest.len(), piped) {
            self.fail(message, at_name);
            return;
        }
        if let Run::Logic(logic) = function.run {
            self.logic(logic == Logic::Or, at_name, rest, piped);
            return;
        }
        let site = self.site(whole, Form::Part);
        let call = self.call_site(CallSite {
            function: Some(function),
            count: count(rest),
            piped,
            site,
            name: 0,
            after: 0,
        });
        for (argument, node) in (0_u16..).zip(rest) {
            let parameter = function.parameter(usize::from(argument));
            let site = self.site(node.span, Form::Part);
            match &node.term {
                Term::Nil if parameter.nil().is_some() => self.op(Op::Nil { call, argument }, site),
                Term::Nil | Term::Bool(_) | Term::Number(_) | Term::Text(_) => {
                    self.constant(node, parameter, site);
                }
                _ => {
                    self.argument(node);
                    if !matches!(parameter, Type::Any | Type::Reflect) {
                        self.op(Op::Check { call, argument }, SAME_SITE);
                    }
                }
            }
        }
        self.op(Op::Call(call), if rest.is_empty() { at_name } else { SAME_SITE });
    }

    /// `and` and `or`: the first argument that decides is the result.
    fn logic(&mut self, when: bool, site: u32, rest: &[Node], piped: bool) {
        self.op(Op::At, site);
        let (decided, end) = (self.label(), self.label());
        for (place, node) in rest.iter().enumerate() {
            self.maybe += usize::from(place > 0);
            let site = self.site(node.span, Form::Part);
            match &node.term {
                Term::Nil => {
                    let nothing = self.literal(Literal::Nil);
                    self.op(Op::Literal(nothing), site);
                }
                Term::Bool(_) | Term::Number(_) | Term::Text(_) => self.constant(node, Type::Reflect, site),
                _ => self.argument(node),
            }
            self.maybe -= usize::from(place > 0);
            if place + 1 < rest.len() || piped {
                self.op(Op::ShortCircuit { when, target: decided.0 }, SAME_SITE);
            }
        }
        if piped {
            self.op(Op::Jump(end.0), SAME_SITE);
            self.bind(decided);
            self.op(Op::Nip, SAME_SITE);
        } else {
            self.bind(decided);
        }
        self.bind(end);
    }

    /// Pushes what stands as an argument and is no constant.
    fn argument(&mut self, node: &Node) {
        let site = self.site(node.span, Form::Part);
        match &node.term {
            Term::Dot => self.op(Op::Load(self.dot), site),
            Term::Field(names) => {
                self.op(Op::Load(self.dot), site);
                self.fields(names, site, &[], false);
            }
            Term::Variable(name, fields) => {
                self.load(name, site);
                self.fields(fields, site, &[], false);
            }
            Term::Chain(inner, fields) => {
                self.op(Op::At, site);
                self.argument(inner);
                self.fields(fields, site, &[], false);
            }
            Term::Function(function) => self.call(function, node.span, node.span, &[], false),
            Term::Pipe(pipe) => self.pipe(pipe, Boxes::Opened),
            Term::Bool(_) | Term::Nil | Term::Number(_) | Term::Text(_) => {
                self.constant(node, Type::Any, site);
            }
        }
    }

    /// Pushes a constant for a parameter, or fails.
    fn constant(&mut self, node: &Node, parameter: Type, site: u32) {
        let Some(literal) = literal_of(node) else { return };
        match typed(&literal, parameter, &|| self.shown(node.span)) {
            Ok(literal) => {
                let literal = self.literal(literal);
                self.op(Op::Literal(literal), site);
            }
            Err(message) => self.fail(message, site),
        }
    }

    // Variables.

    fn find(&self, name: &Text) -> Option<u16> {
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, slot)| *slot)
    }

    fn target(&mut self, name: &Text) -> Option<Target> {
        let slot = self.find(name)?;
        Some(Target { slot, name: self.name(name) })
    }

    fn is_maybe(&self, slot: u16) -> bool {
        self.body.slots.get(usize::from(slot)).is_some_and(|slot| slot.maybe)
    }

    fn load(&mut self, name: &Text, site: u32) {
        match self.target(name) {
            Some(Target { slot, name }) if self.is_maybe(slot) => self.op(Op::LoadMaybe { slot, name }, site),
            Some(Target { slot, .. }) => self.op(Op::Load(slot), site),
            None => self.fail(format!("undefined variable: {name}"), site),
        }
    }

    fn declare(&mut self, name: &Text) -> u16 {
        let maybe = self.maybe > 0;
        let slot = self.slot(Slot { maybe, hides: if maybe { self.find(name) } else { None } });
        self.scope.push((name.clone(), slot));
        slot
    }

    fn slot(&mut self, slot: Slot) -> u16 {
        let Ok(at) = u16::try_from(self.body.slots.len()) else {
            self.body.problem = Some("more than 65536 variables");
            return DOT;
        };
        self.body.slots.push(slot);
        at
    }

    // The parts of a body.

    fn op(&mut self, op: Op, site: u32) {
        self.body.code.push(Instruction { op, site });
    }

    fn fail(&mut self, message: String, site: u32) {
        let at = narrow(self.body.messages.len());
        self.body.messages.push(message);
        self.op(Op::Fail(at), site);
    }

    fn label(&mut self) -> Label {
        self.labels.push(0);
        Label(narrow(self.labels.len() - 1))
    }

    fn bind(&mut self, label: Label) {
        let here = narrow(self.body.code.len());
        if let Some(place) = usize::try_from(label.0).ok().and_then(|at| self.labels.get_mut(at)) {
            *place = here;
        }
    }

    fn site(&mut self, span: Span, form: Form) -> u32 {
        self.body.sites.push(Site { at: span.at, start: span.start, end: span.end, form });
        narrow(self.body.sites.len() - 1)
    }

    fn literal(&mut self, literal: Literal) -> u32 {
        self.body.literals.push(literal);
        narrow(self.body.literals.len() - 1)
    }

    fn call_site(&mut self, call: CallSite) -> u32 {
        self.body.calls.push(call);
        narrow(self.body.calls.len() - 1)
    }

    fn name(&mut self, name: &Text) -> u32 {
        // Few names come twice in one template, and searching costs more than keeping them twice.
        self.body.names.push(name.clone());
        narrow(self.body.names.len() - 1)
    }

    fn shown(&self, span: Span) -> String {
        normal(&self.body.file.text, span.start as usize, span.end as usize)
    }
}

/// Whether what comes out of a pipeline has to be out of its box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Boxes {
    /// The next instruction does not care.
    Any,
    Opened,
}

fn count(rest: &[Node]) -> u16 {
    u16::try_from(rest.len()).unwrap_or(u16::MAX)
}

fn literal_of(node: &Node) -> Option<Literal> {
    Some(match &node.term {
        Term::Bool(truth) => Literal::Bool(*truth),
        Term::Nil => Literal::Nil,
        Term::Number(constant) => Literal::Number(*constant, Text::EMPTY),
        Term::Text(text) => Literal::Text(text.clone()),
        _ => return None,
    })
}
