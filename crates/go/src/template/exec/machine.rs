//! The machine.

use super::context::Context;
use super::no_template;
use super::rounds::Rounds;
use crate::template::code::{Body, CallSite, DOT, Op, ROOT, SAME_SITE};
use crate::template::error::{Failure, Layer, TemplateError};
use crate::template::fmt;
use crate::template::functions::{Call, Function, Operand, Rendering, Run, Source, Type};
use crate::template::limits::{Exceeded, TEMPLATES_MAX};
use crate::template::parse;
use crate::template::templates::{MissingKey, Overlay, Templates};
use crate::template::value::{Text, Value};
use std::rc::Rc;
use std::sync::Arc;

pub(super) struct Machine<'m, 'e> {
    pub(super) templates: &'e Templates,
    pub(super) context: &'m mut Context<'e>,
    stack: Vec<Operand>,
    slots: Vec<Option<Operand>>,
    rounds: Vec<Rounds>,
    methods: Vec<Method>,
    frames: Vec<Frame>,
    /// What is written, and what will be written to when that is finished.
    out: Vec<u8>,
    outer_outs: Vec<Vec<u8>>,
    overlay: Option<Rc<Overlay>>,
    /// The present part of the text.
    site: u32,
}

/// A method that is about to be called.
struct Method {
    function: &'static Function,
    receiver: Value,
}

/// Where execution goes on when a template ends.
struct Frame {
    body: Arc<Body>,
    at: usize,
    base: usize,
    site: u32,
    /// What asked for the template.
    asked: Asked,
}

enum Asked {
    /// A `template` action.
    Action,
    /// A function.
    Function(Box<Waiting>),
}

struct Waiting {
    call: CallSite,
    function: &'static Function,
    words: Option<String>,
    finish: fn(Vec<u8>) -> Vec<u8>,
    /// The name that is counted.
    counted: Option<Text>,
    overlay: Option<Rc<Overlay>>,
}

/// What an instruction leads to.
enum Next {
    Go,
    /// Another template.
    Enter {
        body: Arc<Body>,
        dot: Operand,
        asked: Asked,
    },
    Leave,
}

impl<'m, 'e> Machine<'m, 'e> {
    pub(super) fn new(templates: &'e Templates, context: &'m mut Context<'e>) -> Self {
        Self {
            templates,
            context,
            stack: Vec::with_capacity(32),
            slots: Vec::with_capacity(64),
            rounds: Vec::new(),
            methods: Vec::new(),
            frames: Vec::new(),
            out: Vec::new(),
            outer_outs: Vec::new(),
            overlay: None,
            site: SAME_SITE,
        }
    }

    pub(super) fn run(mut self, body: &Arc<Body>, dot: Operand) -> Result<Vec<u8>, TemplateError> {
        let mut body = Arc::clone(body);
        let (mut at, mut base) = (0, 0);
        self.enter(&body, base, dot);
        loop {
            let Some(instruction) = body.code.get(at) else { return Ok(self.out) };
            at += 1;
            if instruction.site != SAME_SITE {
                self.site = instruction.site;
            }
            let next = self.step(&body, base, instruction.op, &mut at);
            match next {
                Ok(Next::Go) => {}
                Ok(Next::Enter { body: inner, dot, asked }) => {
                    if self.frames.len() >= TEMPLATES_MAX {
                        let failure = Failure::from(Exceeded::Templates(TEMPLATES_MAX));
                        return Err(self.unwind(&body, failure.0));
                    }
                    if matches!(asked, Asked::Function(_)) {
                        let limit = self.context.budget.limits().nesting;
                        if self.outer_outs.len() >= limit {
                            let failure = Failure::from(Exceeded::Nesting(limit));
                            return Err(self.unwind(&body, failure.0));
                        }
                        self.outer_outs.push(std::mem::take(&mut self.out));
                    }
                    let outer = std::mem::replace(&mut body, inner);
                    self.frames.push(Frame { body: outer, at, base, site: self.site, asked });
                    (at, base) = (0, self.slots.len());
                    self.enter(&body, base, dot);
                }
                Ok(Next::Leave) => {
                    let Some(frame) = self.frames.pop() else { return Ok(self.out) };
                    self.slots.truncate(base);
                    body = frame.body;
                    (at, base) = (frame.at, frame.base);
                    self.site = frame.site;
                    if let Asked::Function(waiting) = frame.asked
                        && let Err(failure) = self.finish(*waiting)
                    {
                        return Err(self.unwind(&body, failure.0));
                    }
                }
                Err(failure) => return Err(self.unwind(&body, failure.0)),
            }
        }
    }

    fn enter(&mut self, body: &Body, base: usize, dot: Operand) {
        self.slots.resize_with(base + body.slots.len(), || None);
        if let Some(slot) = self.slots.get_mut(base + usize::from(ROOT)) {
            *slot = Some(dot.clone());
        }
        if let Some(slot) = self.slots.get_mut(base + usize::from(DOT)) {
            *slot = Some(dot);
        }
    }

    /// Hands what a template wrote to the function that asked for it.
    fn finish(&mut self, waiting: Waiting) -> Result<(), Failure> {
        let outer = self.outer_outs.pop().unwrap_or_default();
        let written = std::mem::replace(&mut self.out, outer);
        self.overlay = waiting.overlay;
        if let Some(name) = waiting.counted
            && let Some(count) = self.context.nested.get_mut(&name)
        {
            *count = count.saturating_sub(1);
        }
        let text = Text::from((waiting.finish)(written));
        self.context.budget.text(text.len())?;
        self.stack.push(Operand::held(Value::Text(text), waiting.function.boxed));
        Ok(())
    }

    /// The error with all the places that led to it.
    fn unwind(&mut self, body: &Body, error: TemplateError) -> TemplateError {
        let place = |body: &Body, site: u32, error: TemplateError| {
            let site = usize::try_from(site).ok().and_then(|site| body.sites.get(site));
            let Some(site) = site else { return error };
            let (location, context) = parse::shown(body, *site);
            error.within(Layer::Place { location, template: body.name.to_string(), context })
        };
        let mut error = place(body, self.site, error);
        while let Some(frame) = self.frames.pop() {
            if let Asked::Function(waiting) = frame.asked {
                if let Some(words) = waiting.words {
                    error = error.within(Layer::Words(words));
                }
                error = error.within(Layer::Calling(waiting.function.name.to_owned()));
                error = place(&frame.body, waiting.call.site, error);
            }
        }
        error
    }

    fn step(&mut self, body: &Body, base: usize, op: Op, at: &mut usize) -> Result<Next, Failure> {
        self.work(1)?;
        match op {
            Op::At => {}
            Op::Text { start, end } => {
                let text = body.file.text.get(start as usize..end as usize).unwrap_or_default();
                self.write(text)?;
            }
            Op::Literal(literal) => {
                let literal = body.literals.get(literal as usize);
                self.stack.push(literal.map_or(Operand::NOTHING, super::super::code::Literal::operand));
            }
            Op::Nil { call, argument } => {
                let call = call_site(body, call);
                self.stack.push(call.parameter(argument).nil().unwrap_or(Operand::NOTHING));
            }
            Op::Load(slot) => {
                let value = self.slots.get(base + usize::from(slot)).and_then(Option::as_ref);
                self.stack.push(value.cloned().unwrap_or(Operand::NOTHING));
            }
            Op::LoadMaybe { slot, name } => {
                let place = self.declared(body, base, slot, name)?;
                let value = self.slots.get(place).and_then(Option::as_ref);
                self.stack.push(value.cloned().unwrap_or(Operand::NOTHING));
            }
            Op::Copy(slot) => {
                let value = self.stack.last().cloned();
                if let Some(place) = self.slots.get_mut(base + usize::from(slot)) {
                    *place = value;
                }
            }
            Op::CopyMaybe { slot, name } => {
                let place = self.declared(body, base, slot, name)?;
                let value = self.stack.last().cloned();
                if let Some(place) = self.slots.get_mut(place) {
                    *place = value;
                }
            }
            Op::Field(name) => {
                let receiver = self.pop();
                let field = self.field(&receiver, name_of(body, name))?;
                self.stack.push(field);
            }
            Op::Method(call) => {
                let call = call_site(body, call);
                if !self.begin_method(body, call)? {
                    *at = call.after as usize;
                }
            }
            Op::Bind { argument } => {
                let parameter = self.method_parameter(argument);
                self.check(parameter)?;
            }
            Op::BindLiteral { literal, argument } => {
                let parameter = self.method_parameter(argument);
                if let Some(literal) = body.literals.get(literal as usize) {
                    let operand = parse::operand_of(literal, parameter, &|| self.shown(body).1)?;
                    self.stack.push(operand);
                }
            }
            Op::CallMethod(call) => {
                let call = call_site(body, call);
                if let Some(method) = self.methods.pop() {
                    return self.call(call, method.function, Some(&method.receiver));
                }
            }
            Op::Check { call, argument } => self.check(call_site(body, call).parameter(argument))?,
            Op::Call(call) => {
                let call = call_site(body, call);
                if let Some(function) = call.function {
                    return self.call(call, function, None);
                }
            }
            Op::ShortCircuit { when, target } => {
                if self.stack.last().is_some_and(|top| top.value.is_true()) == when {
                    *at = target as usize;
                } else {
                    self.stack.pop();
                }
            }
            Op::Nip => {
                let top = self.pop();
                self.stack.pop();
                self.stack.push(top);
            }
            Op::Pop => drop(self.stack.pop()),
            Op::Unbox => {
                if let Some(top) = self.stack.last_mut() {
                    top.boxed = false;
                }
            }
            Op::Print => {
                let top = self.pop();
                self.print(body, &top)?;
            }
            Op::JumpIfFalse(target) => {
                if !self.pop().value.is_true() {
                    *at = target as usize;
                }
            }
            Op::With { slot, target } => {
                let top = self.pop();
                if top.value.is_true() {
                    if let Some(place) = self.slots.get_mut(base + usize::from(slot)) {
                        *place = Some(Operand { boxed: false, ..top });
                    }
                } else {
                    *at = target as usize;
                }
            }
            Op::Jump(target) => *at = target as usize,
            Op::RangeBegin(range) => {
                if let Some(range) = body.ranges.get(range as usize) {
                    let over = self.pop().value;
                    // Members of a map and bytes are copied, so that they stay as they are at the beginning.
                    match over.underlying() {
                        Value::Map(map) => self.context.budget.items(map.len().saturating_mul(2))?,
                        Value::Bytes(Some(bytes)) => self.context.budget.items(bytes.len())?,
                        _ => {}
                    }
                    match Rounds::new(&over, range.second.is_some())? {
                        Some(rounds) => self.rounds.push(rounds),
                        None => *at = range.otherwise as usize,
                    }
                }
            }
            Op::RangeNext(range) => self.next_round(body, base, range, at)?,
            Op::RangePop => drop(self.rounds.pop()),
            Op::Lookup(name) => {
                let name = name_of(body, name);
                if self.lookup(name.as_bytes()).is_none() {
                    let name = super::super::quote::quote(name.as_bytes());
                    return Err(Failure::new(format!("template {name} not defined")));
                }
            }
            Op::Template(name) => {
                let dot = self.pop();
                if let Some(body) = self.lookup(name_of(body, name).as_bytes()) {
                    return Ok(Next::Enter { body, dot, asked: Asked::Action });
                }
            }
            Op::Fail(message) => {
                let message = body.messages.get(message as usize).cloned().unwrap_or_default();
                return Err(Failure::new(message));
            }
            Op::Return => return Ok(Next::Leave),
        }
        Ok(Next::Go)
    }

    /// Pays for steps, and asks the caller now and then.
    fn work(&mut self, steps: usize) -> Result<(), Failure> {
        self.context.budget.steps(steps)?;
        if self.context.budget.is_check_due() {
            self.context.check()?;
        }
        Ok(())
    }

    fn pop(&mut self) -> Operand {
        self.stack.pop().unwrap_or(Operand::NOTHING)
    }

    fn shown(&self, body: &Body) -> (String, String) {
        let site = usize::try_from(self.site).ok().and_then(|site| body.sites.get(site));
        site.map(|site| parse::shown(body, *site)).unwrap_or_default()
    }

    fn lookup(&self, name: &[u8]) -> Option<Arc<Body>> {
        self.overlay
            .as_ref()
            .and_then(|overlay| overlay.get(name))
            .or_else(|| self.templates.get(name))
            .cloned()
    }

    /// The place of a variable whose declaration may have been passed over: its own, or that of the one it hides.
    fn declared(&self, body: &Body, base: usize, slot: u16, name: u32) -> Result<usize, Failure> {
        let mut present = Some(slot);
        while let Some(slot) = present {
            let place = base + usize::from(slot);
            if self.slots.get(place).is_some_and(Option::is_some) {
                return Ok(place);
            }
            present = body.slots.get(usize::from(slot)).and_then(|slot| slot.hides);
        }
        Err(Failure::new(format!("undefined variable: {}", name_of(body, name))))
    }

    fn write(&mut self, text: &[u8]) -> Result<(), Failure> {
        self.context.budget.grown(self.out.len() + text.len(), text.len())?;
        self.out.extend_from_slice(text);
        Ok(())
    }

    fn print(&mut self, body: &Body, printed: &Operand) -> Result<(), Failure> {
        let value = &printed.value;
        match value {
            Value::Text(text) => return self.write(text.as_bytes()),
            Value::Nil => return self.write(b"<no value>"),
            Value::Object(object) if object.kind() == crate::template::value::Kind::Func => {
                let (_, shown) = self.shown(body);
                return Err(Failure::new(format!("can't print {shown} of type {}", value.type_name())));
            }
            Value::Object(object) if printed.addressed => {
                if let Some(text) = object.print_addressed() {
                    return self.write(text.as_bytes());
                }
            }
            _ => {}
        }
        let before = self.out.len();
        let price = Function::price_of("print");
        let limit = before.saturating_add(self.context.budget.text_room(price));
        let limit = limit.min(self.context.budget.limits().text_bytes);
        let printed = fmt::print_into(&mut self.out, value, limit);
        let now = self.out.len();
        self.work(price.after(now - before))?;
        printed.map_err(|exceeded| self.context.budget.behind(exceeded))?;
        Ok(self.context.budget.grown(now, now - before)?)
    }

    // Calls.

    /// Checks the top for a parameter.
    fn check(&mut self, parameter: Type) -> Result<(), Failure> {
        match self.stack.last_mut() {
            Some(top) => Ok(validate(top, parameter)?),
            None => Ok(()),
        }
    }

    fn method_parameter(&self, argument: u16) -> Type {
        self.methods.last().map_or(Type::Any, |method| method.function.parameter(usize::from(argument)))
    }

    /// Finds the method for a call with arguments; false when there is nothing to find it in.
    fn begin_method(&mut self, body: &Body, call: CallSite) -> Result<bool, Failure> {
        let receiver = self.pop();
        let name = name_of(body, call.name);
        if receiver.is_nothing() && self.templates.missing_key != MissingKey::Error {
            if call.piped {
                self.pop();
            }
            self.stack.push(Operand::NOTHING);
            return Ok(false);
        }
        let Some(function) = Self::method(&receiver, name)? else {
            // Without a method, a field with arguments is a mistake of one kind or another.
            return Err(Self::no_method(&receiver, name));
        };
        let count = usize::from(call.count);
        if let Some(message) = function.wrong_count(function.name, count, call.piped) {
            return Err(Failure::new(message));
        }
        self.methods.push(Method { function, receiver: receiver.value });
        Ok(true)
    }

    /// Calls a method without arguments.
    pub(super) fn call_plain(
        &mut self,
        function: &'static Function,
        receiver: &Value,
    ) -> Result<Operand, Failure> {
        if let Some(message) = function.wrong_count(function.name, 0, false) {
            return Err(Failure::new(message));
        }
        let text_max = self.context.budget.text_room(function.price);
        let mut call = Call { operands: &mut [], receiver: Some(receiver), context: self.context, text_max };
        answer(function, &mut call)
            .and_then(|answer| self.paid(function, answer))
            .map_err(|failure| calling(function, self.behind(failure)))
    }

    fn call(
        &mut self,
        site: CallSite,
        function: &'static Function,
        receiver: Option<&Value>,
    ) -> Result<Next, Failure> {
        let count = usize::from(site.count) + usize::from(site.piped);
        let base = self.stack.len().saturating_sub(count);
        let bytes: usize =
            self.stack.iter().skip(base).filter_map(|operand| operand.value.as_text()).map(Text::len).sum();
        self.work(function.price.before(bytes))?;
        let operands = self.stack.get_mut(base..).unwrap_or_default();
        if site.piped {
            // The value from the pipeline was there first, and is the last argument.
            operands.rotate_left(1);
            if let Some(last) = operands.last_mut() {
                validate(last, function.parameter(usize::from(site.count)))?;
            }
        }
        let text_max = self.context.budget.text_room(function.price);
        let mut call = Call { operands, receiver, context: self.context, text_max };
        if let Run::Template(render) = function.run {
            let rendering = render(&mut call).map_err(|failure| self.calling(site, function, failure))?;
            self.stack.truncate(base);
            return self
                .render(site, function, rendering)
                .map_err(|failure| self.calling(site, function, failure));
        }
        match answer(function, &mut call).and_then(|answer| self.paid(function, answer)) {
            Ok(answer) => {
                self.stack.truncate(base);
                self.stack.push(answer);
                Ok(Next::Go)
            }
            Err(failure) => Err(self.calling(site, function, failure)),
        }
    }

    /// Pays for the text that a function made.
    fn paid(&mut self, function: &'static Function, answer: Operand) -> Result<Operand, Failure> {
        if let Some(text) = answer.value.as_text() {
            self.work(function.price.after(text.len()))?;
        }
        Ok(answer)
    }

    /// The failure of a function, at the part of the text that calls it.
    fn calling(&mut self, site: CallSite, function: &'static Function, failure: Failure) -> Failure {
        if !matches!(function.run, Run::Unfit(_)) {
            self.site = site.site;
        }
        calling(function, self.behind(failure))
    }

    /// The failure with the limit that it comes from, where a text could not be as long as texts may be.
    fn behind(&self, failure: Failure) -> Failure {
        match failure.exceeded() {
            Some(exceeded) => self.context.budget.behind(exceeded).into(),
            None => failure,
        }
    }

    fn render(
        &mut self,
        call: CallSite,
        function: &'static Function,
        rendering: Rendering,
    ) -> Result<Next, Failure> {
        let overlay = self.overlay.clone();
        let mut counted = None;
        let body = match rendering.template {
            Source::Named(name) => {
                if let Some(limit) = rendering.nested_max {
                    let count = self.context.nested.entry(name.clone()).or_default();
                    if *count > limit {
                        return Err(Failure::new(format!(
                            "rendering template has a nested reference name: {name}: unable to execute template"
                        )));
                    }
                    *count += 1;
                    counted = Some(name.clone());
                }
                match self.lookup(name.as_bytes()) {
                    Some(body) => body,
                    None => return Err(Failure(no_template(name.as_bytes(), self.templates))),
                }
            }
            Source::Parsed(parsed) => {
                let Some(main) = parsed.main() else { return Err(Failure::new("an empty template")) };
                let main = Arc::clone(main);
                self.overlay = Some(Rc::new(Overlay::new(&parsed, self.templates, overlay.clone())));
                main
            }
        };
        let waiting =
            Waiting { call, function, words: rendering.words, finish: rendering.finish, counted, overlay };
        let dot = Operand::plain(rendering.dot);
        Ok(Next::Enter { body, dot, asked: Asked::Function(Box::new(waiting)) })
    }

    fn next_round(&mut self, body: &Body, base: usize, range: u32, at: &mut usize) -> Result<(), Failure> {
        let Some(range) = body.ranges.get(range as usize) else { return Ok(()) };
        let Some((index, item)) = self.rounds.last_mut().and_then(Rounds::next) else {
            self.rounds.pop();
            *at = range.end as usize;
            return Ok(());
        };
        for slot in range.forgets.0..range.forgets.1 {
            let maybe = body.slots.get(usize::from(slot)).is_some_and(|slot| slot.maybe);
            if let Some(place) = self.slots.get_mut(base + usize::from(slot)).filter(|_| maybe) {
                *place = None;
            }
        }
        let variables = match (range.first, range.second) {
            (Some(first), Some(second)) => [Some((first, index)), Some((second, item.clone()))],
            (Some(only), None) => [Some((only, item.clone())), None],
            _ => [None, None],
        };
        for (target, value) in variables.into_iter().flatten() {
            let place = self.declared(body, base, target.slot, target.name)?;
            if let Some(place) = self.slots.get_mut(place) {
                *place = Some(value);
            }
        }
        if let Some(place) = self.slots.get_mut(base + usize::from(range.dot)) {
            *place = Some(item);
        }
        Ok(())
    }
}

fn call_site(body: &Body, call: u32) -> CallSite {
    body.calls.get(call as usize).copied().unwrap_or(CallSite {
        function: None,
        count: 0,
        piped: false,
        site: SAME_SITE,
        name: 0,
        after: 0,
    })
}

fn name_of(body: &Body, name: u32) -> &Text {
    static EMPTY: Text = Text::EMPTY;
    body.names.get(name as usize).unwrap_or(&EMPTY)
}

fn calling(function: &'static Function, failure: Failure) -> Failure {
    match function.run {
        // Go complains about the function before it calls it.
        Run::Unfit(_) => failure,
        _ => Failure(failure.0.within(Layer::Calling(function.name.to_owned()))),
    }
}

fn answer(function: &'static Function, call: &mut Call<'_, '_>) -> Result<Operand, Failure> {
    match function.run {
        Run::Value(run) => Ok(Operand::held(run(call)?, function.boxed)),
        Run::Operand(run) => run(call),
        Run::Unfit(text) => Err(Failure::new(text)),
        Run::Template(_) | Run::Logic(_) => Err(Failure::new("cannot be called here")),
    }
}

/// Checks that a value can pass for a parameter, and gives nil the parameter's type.
fn validate(operand: &mut Operand, parameter: Type) -> Result<(), String> {
    if operand.is_nothing() {
        *operand = parameter.nil().ok_or_else(|| format!("invalid value; expected {}", parameter.name()))?;
        return Ok(());
    }
    if parameter.takes(&operand.value) {
        return Ok(());
    }
    // What is in a box is taken out first, unless there is nothing in it.
    let found = if operand.value.is_nil() { "interface {}" } else { operand.value.type_name() };
    Err(format!("wrong type for value; expected {}; got {found}", parameter.name()))
}
