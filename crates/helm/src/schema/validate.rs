//! A value against a schema.
//!
//! Failures are told in the order of the library where that has one; members are looked at in the order of their
//! names, where the library takes them as its maps give them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use tiphys_go::live;
use tiphys_go::regexp::{Regexp, compile_steps};
use tiphys_go::steps::Steps;

use super::decimal::Decimal;
use super::draft::Draft;
use super::failure::{Failure, Kind, count, display, number, quote, quote_all};
use super::node::{Additional, Items, NeededWith, Node, Types};
use super::{DEPTH_MAX, STEPS_MAX, Schema, SchemaError};

/// Steps between two questions whether the check is still wanted.
const ASKED_STEPS: u64 = 10_000;

/// Checks a value, as long as the caller wants it.
pub(super) fn validate(
    schema: &Schema,
    value: &Value,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(), SchemaError> {
    let steps = Steps::new(STEPS_MAX);
    let (path, scopes) = (Vec::new(), Vec::new());
    let mut run = Run { schema, steps, asks_at: ASKED_STEPS, is_cancelled, path, scopes, values: 0 };
    match run.start(schema.root, value) {
        Ok(()) => Ok(()),
        Err(Stop::Failure(failure)) => Err(SchemaError::Mismatch(failure.text())),
        Err(Stop::Exceeded(what)) => Err(SchemaError::Exceeded(what)),
        Err(Stop::Cancelled) => Err(SchemaError::Cancelled),
    }
}

/// Why a check ends without success.
enum Stop {
    Failure(Failure),
    Exceeded(&'static str),
    Cancelled,
}

/// Members and items that no schema has looked at yet.
#[derive(Clone, Debug, Default)]
struct Unevaluated {
    members: BTreeSet<String>,
    items: BTreeSet<usize>,
}

impl Unevaluated {
    fn of(value: &Value, node: &Node, needed: bool) -> Self {
        let mut left = Self::default();
        match value {
            Value::Object(members)
                if !node.evaluates_all_members() && (needed || node.object.unevaluated.is_some()) =>
            {
                left.members = members.keys().cloned().collect();
            }
            Value::Array(items) if needed || node.array.unevaluated.is_some() => {
                if let Err(first) = node.evaluates_items() {
                    left.items = (first..items.len()).collect();
                }
            }
            _ => {}
        }
        left
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty() && self.items.is_empty()
    }

    /// What another schema for the same value has looked at is looked at here too.
    fn merge(&mut self, other: &Self) {
        self.members.retain(|name| other.members.contains(name));
        self.items.retain(|at| other.items.contains(at));
    }
}

/// A schema that is being asked.
struct Scope {
    node: usize,
    /// Number of the value it is asked about.
    value: u64,
}

struct Run<'s> {
    schema: &'s Schema,
    steps: Steps,
    /// The caller is asked again when so many steps were taken.
    asks_at: u64,
    is_cancelled: &'s dyn Fn() -> bool,
    path: Vec<String>,
    scopes: Vec<Scope>,
    /// Values looked at so far, which numbers them.
    values: u64,
}

/// One schema and one value.
struct Ask<'v> {
    value: &'v Value,
    /// Whether only the answer counts, not the reason.
    quiet: bool,
    left: Unevaluated,
    failures: Vec<Failure>,
}

impl<'s> Run<'s> {
    fn start(&mut self, root: usize, value: &Value) -> Result<(), Stop> {
        let node = self.node(root)?;
        let left = Unevaluated::of(value, node, false);
        self.check(root, value, left, false, 0).map(|_| ())
    }

    fn node(&self, number: usize) -> Result<&'s Node, Stop> {
        self.schema.nodes.get(number).ok_or(Stop::Exceeded("a part of it is missing"))
    }

    fn fail(&self, quiet: bool, kind: impl FnOnce() -> Kind) -> Failure {
        if quiet {
            Failure::default()
        } else {
            Failure { at: self.path.clone(), kind: kind(), causes: Vec::new() }
        }
    }

    fn text(&self, ask: &Ask<'_>, text: impl FnOnce() -> String) -> Failure {
        self.fail(ask.quiet, || Kind::Text(text()))
    }

    /// Asks a schema about a value; the answer is what it leaves unevaluated.
    fn check(
        &mut self,
        number: usize,
        value: &Value,
        left: Unevaluated,
        quiet: bool,
        value_number: u64,
    ) -> Result<Unevaluated, Stop> {
        self.pay(1)?;
        if self.scopes.len() >= DEPTH_MAX {
            return Err(Stop::Exceeded("schemas are nested too deeply"));
        }
        let cycle = self
            .scopes
            .iter()
            .rev()
            .take_while(|scope| scope.value == value_number)
            .any(|scope| scope.node == number);
        self.scopes.push(Scope { node: number, value: value_number });
        let answer = self.answer(number, Ask { value, quiet, left, failures: Vec::new() }, cycle);
        self.scopes.pop();
        answer
    }

    fn answer(&mut self, number: usize, mut ask: Ask<'_>, cycle: bool) -> Result<Unevaluated, Stop> {
        let node = self.node(number)?;
        match node.truth {
            Some(true) => return Ok(ask.left),
            Some(false) => return Err(Stop::Failure(self.text(&ask, || "false schema".to_owned()))),
            None => {}
        }
        if cycle {
            let what = || format!("references resolve to {:?} causing reference cycle", node.location);
            return Err(Stop::Failure(self.text(&ask, what)));
        }
        self.check_whole(node, &ask)?;
        if let Some(target) = node.reference {
            let outcome = self.follow(target, &mut ask)?;
            if node.draft < Draft::D2019 {
                return outcome.map_or(Ok(ask.left), |failure| Err(Stop::Failure(failure)));
            }
            ask.failures.extend(outcome);
        }
        match ask.value {
            Value::Object(members) => self.check_object(node, members, &mut ask)?,
            Value::Array(items) => self.check_array(node, items, &mut ask)?,
            Value::String(text) => self.check_text(node, text, &mut ask)?,
            Value::Number(found) => self.check_number(node, Decimal::new(found), &mut ask),
            Value::Null | Value::Bool(_) => {}
        }
        if ask.failures.is_empty() || !ask.quiet {
            if node.draft >= Draft::D2019 {
                self.check_references(node, &mut ask)?;
            }
            self.check_conditions(node, &mut ask)?;
            if node.draft >= Draft::D2019 {
                self.check_unevaluated(node, &mut ask)?;
            }
        }
        match ask.failures.len() {
            0 => Ok(ask.left),
            1 => Err(Stop::Failure(ask.failures.pop().unwrap_or_default())),
            _ => {
                let mut failure = self.fail(ask.quiet, || Kind::Group);
                failure.causes = ask.failures;
                Err(Stop::Failure(failure))
            }
        }
    }

    /// Rules that end the check when they are broken.
    fn check_whole(&mut self, node: &Node, ask: &Ask<'_>) -> Result<(), Stop> {
        let value = ask.value;
        let kind = Types::of(value);
        if let Some(types) = node.types {
            let is_integer = || value.as_number().is_some_and(|number| Decimal::new(number).is_integer());
            if !(types.has(kind) || types.has("integer") && is_integer()) {
                let what = || format!("got {kind}, want {}", types.names().join(" or "));
                return Err(Stop::Failure(self.text(ask, what)));
            }
        }
        if let Some(wanted) = &node.constant
            && !self.equals(value, wanted)?
        {
            let what = || {
                let is_simple = !wanted.is_array() && !wanted.is_object();
                if is_simple {
                    format!("value must be {}", display(wanted))
                } else {
                    "'const' failed".to_owned()
                }
            };
            return Err(Stop::Failure(self.text(ask, what)));
        }
        if let Some(variants) = &node.variants {
            let mut found = false;
            for variant in variants {
                found = found || self.equals(value, variant)?;
            }
            if !found {
                return Err(Stop::Failure(self.text(ask, || variants_text(variants))));
            }
        }
        if let (Some((name, check)), Some(text)) = (&node.format, value.as_str()) {
            self.spend_format(name, text)?;
            if let Err(reason) = check(text) {
                let what = || format!("{} is not valid {name}: {reason}", quote(text));
                return Err(Stop::Failure(self.text(ask, what)));
            }
        }
        Ok(())
    }

    fn equals(&mut self, one: &Value, other: &Value) -> Result<bool, Stop> {
        self.pay(1)?;
        Ok(match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                Decimal::new(one).compare(Decimal::new(other)).is_eq()
            }
            (Value::Array(one), Value::Array(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for (one, other) in one.iter().zip(other) {
                    if !self.equals(one, other)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Object(one), Value::Object(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for (name, member) in one {
                    match other.get(name) {
                        Some(other) if self.equals(member, other)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (one, other) => one == other,
        })
    }

    /// Asks another schema about the same value.
    fn same(&mut self, number: usize, ask: &mut Ask<'_>, quiet: bool) -> Result<Option<Failure>, Stop> {
        let left = Unevaluated::of(ask.value, self.node(number)?, !ask.left.is_empty());
        let value_number = self.scopes.last().map_or(0, |scope| scope.value);
        match self.check(number, ask.value, left, ask.quiet || quiet, value_number) {
            Ok(left) => {
                ask.left.merge(&left);
                Ok(None)
            }
            Err(Stop::Failure(failure)) => Ok(Some(failure)),
            Err(stop) => Err(stop),
        }
    }

    /// Asks a schema about a member or item.
    fn inner(
        &mut self,
        number: usize,
        value: &Value,
        step: String,
        quiet: bool,
    ) -> Result<Option<Failure>, Stop> {
        let left = Unevaluated::of(value, self.node(number)?, false);
        self.values += 1;
        let value_number = self.values;
        self.path.push(step);
        let answer = self.check(number, value, left, quiet, value_number);
        self.path.pop();
        match answer {
            Ok(_) => Ok(None),
            Err(Stop::Failure(failure)) => Ok(Some(failure)),
            Err(stop) => Err(stop),
        }
    }

    /// Asks the schema that a reference leads to.
    fn follow(&mut self, target: usize, ask: &mut Ask<'_>) -> Result<Option<Failure>, Stop> {
        let Some(failure) = self.same(target, ask, false)? else { return Ok(None) };
        let mut reference = self.fail(ask.quiet, || Kind::Reference);
        reference.causes = match failure.kind {
            Kind::Group => failure.causes,
            _ => vec![failure],
        };
        Ok(Some(reference))
    }

    fn check_object(
        &mut self,
        node: &Node,
        members: &Map<String, Value>,
        ask: &mut Ask<'_>,
    ) -> Result<(), Stop> {
        let rules = &node.object;
        let size = i64::try_from(members.len()).unwrap_or(i64::MAX);
        let limits =
            [("minProperties", rules.members_min, true), ("maxProperties", rules.members_max, false)];
        self.check_limits(limits, size, ask);
        self.check_required(&rules.required, members, ask, |missing| match missing {
            [one] => format!("missing property {}", quote(one)),
            all => format!("missing properties {}", quote_all(all.iter().copied())),
        });
        if ask.quiet && !ask.failures.is_empty() {
            return Ok(());
        }
        for (name, needed) in rules.needed_with.iter().filter(|(name, _)| members.contains_key(*name)) {
            match needed {
                NeededWith::Members(names) => {
                    self.check_required(names, members, ask, |missing| needed_with(missing, name));
                }
                NeededWith::Schema(schema) => {
                    let failure = self.same(*schema, ask, false)?;
                    ask.failures.extend(failure);
                }
            }
        }
        self.check_members(node, members, ask)?;
        if node.draft >= Draft::D6
            && let Some(schema) = rules.names
        {
            for name in members.keys() {
                self.check_name(schema, name, ask)?;
            }
        }
        if node.draft < Draft::D7 {
            return Ok(());
        }
        for (_, schema) in rules.schemas_with.iter().filter(|(name, _)| members.contains_key(*name)) {
            let failure = self.same(*schema, ask, false)?;
            ask.failures.extend(failure);
        }
        for (name, names) in rules.required_with.iter().filter(|(name, _)| members.contains_key(*name)) {
            self.check_required(names, members, ask, |missing| needed_with(missing, name));
        }
        Ok(())
    }

    fn check_required(
        &self,
        names: &[String],
        members: &Map<String, Value>,
        ask: &mut Ask<'_>,
        text: impl FnOnce(&[&str]) -> String,
    ) {
        let missing: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| !members.contains_key(*name)).collect();
        if !missing.is_empty() {
            let failure = self.text(ask, || text(&missing));
            ask.failures.push(failure);
        }
    }

    fn check_members(
        &mut self,
        node: &Node,
        members: &Map<String, Value>,
        ask: &mut Ask<'_>,
    ) -> Result<(), Stop> {
        let rules = &node.object;
        let mut additional: Vec<&str> = Vec::new();
        for (name, member) in members {
            if ask.quiet && !ask.failures.is_empty() {
                return Ok(());
            }
            let mut evaluated = false;
            if let Some(schema) = rules.members.get(name) {
                evaluated = true;
                let failure = self.inner(*schema, member, name.clone(), ask.quiet)?;
                ask.failures.extend(failure);
            }
            for (pattern, schema) in &rules.patterns {
                self.spend_search(pattern, name)?;
                if pattern.is_match(name) {
                    evaluated = true;
                    let failure = self.inner(*schema, member, name.clone(), ask.quiet)?;
                    ask.failures.extend(failure);
                }
            }
            if !evaluated && let Some(rule) = rules.additional {
                evaluated = true;
                match rule {
                    Additional::Allowed(true) => {}
                    Additional::Allowed(false) => additional.push(name),
                    Additional::Schema(schema) => {
                        let failure = self.inner(schema, member, name.clone(), ask.quiet)?;
                        ask.failures.extend(failure);
                    }
                }
            }
            if evaluated {
                ask.left.members.remove(name);
            }
        }
        if !additional.is_empty() {
            let what =
                || format!("additional properties {} not allowed", quote_all(additional.iter().copied()));
            let failure = self.text(ask, what);
            ask.failures.push(failure);
        }
        Ok(())
    }

    /// Takes steps, and asks now and then whether the check is still wanted.
    fn pay(&mut self, steps: usize) -> Result<(), Stop> {
        let paid = self.steps.spend(steps);
        paid.map_err(|_exceeded| Stop::Exceeded("checking the values takes too many steps"))?;
        if self.steps.used() < self.asks_at {
            return Ok(());
        }
        self.asks_at = self.steps.used().saturating_add(ASKED_STEPS);
        if (self.is_cancelled)() { Err(Stop::Cancelled) } else { Ok(()) }
    }

    /// Pays for one search of an expression by its weight, as templates do (B8).
    fn spend_search(&mut self, regexp: &Regexp, text: &str) -> Result<(), Stop> {
        live::check().map_err(|_exceeded| Stop::Exceeded("checking the values holds too much memory"))?;
        self.pay(regexp.search_steps(text.len()).saturating_add(1))
    }

    /// Pays for the check of a format: where the text is an expression, that is compiled.
    fn spend_format(&mut self, name: &str, text: &str) -> Result<(), Stop> {
        self.pay(if name == "regex" { compile_steps(text) } else { text.len() / 16 + 1 })
    }

    fn check_name(&mut self, schema: usize, name: &str, ask: &mut Ask<'_>) -> Result<(), Stop> {
        let value = Value::from(name);
        // A name is a value of its own; where it stands is told for the object.
        let path = std::mem::take(&mut self.path);
        let left = Unevaluated::of(&value, self.node(schema)?, false);
        self.values += 1;
        let value_number = self.values;
        let answer = self.check(schema, &value, left, ask.quiet, value_number);
        self.path = path;
        match answer {
            Ok(_) => Ok(()),
            Err(Stop::Failure(inner)) => {
                let mut failure = self.text(ask, || format!("invalid propertyName {}", quote(name)));
                failure.causes = match inner.kind {
                    Kind::Group => inner.causes,
                    _ => vec![inner],
                };
                ask.failures.push(failure);
                Ok(())
            }
            Err(stop) => Err(stop),
        }
    }

    fn check_limits(&self, limits: [(&str, Option<i64>, bool); 2], size: i64, ask: &mut Ask<'_>) {
        for (name, limit, is_lower) in limits {
            let Some(limit) = limit else { continue };
            if (is_lower && size < limit) || (!is_lower && size > limit) {
                let what = || format!("{name}: got {}, want {}", count(size), count(limit));
                let failure = self.text(ask, what);
                ask.failures.push(failure);
            }
        }
    }

    fn check_array(&mut self, node: &Node, items: &[Value], ask: &mut Ask<'_>) -> Result<(), Stop> {
        let rules = &node.array;
        let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
        self.check_limits(
            [("minItems", rules.items_min, true), ("maxItems", rules.items_max, false)],
            size,
            ask,
        );
        if rules.unique
            && let Some((one, other)) = self.duplicates(items)?
        {
            let failure = self.text(ask, || format!("items at {one} and {other} are equal"));
            ask.failures.push(failure);
        }
        let (each, rest): (&[usize], Option<Additional>) = if node.draft >= Draft::D2020 {
            (&rules.prefix, rules.rest.map(Additional::Schema))
        } else {
            match &rules.items {
                Some(Items::All(schema)) => (&[], Some(Additional::Schema(*schema))),
                Some(Items::Each(schemas)) => (schemas, rules.additional),
                None => (&[], rules.additional),
            }
        };
        for (at, (item, schema)) in items.iter().zip(each).enumerate() {
            let failure = self.inner(*schema, item, at.to_string(), ask.quiet)?;
            ask.failures.extend(failure);
        }
        let evaluated = each.len().min(items.len());
        match rest {
            Some(Additional::Allowed(false)) if evaluated < items.len() => {
                let more = i64::try_from(items.len() - evaluated).unwrap_or(i64::MAX);
                let failure =
                    self.text(ask, || format!("last {} additionalItem(s) not allowed", count(more)));
                ask.failures.push(failure);
            }
            Some(Additional::Schema(schema)) => {
                for (at, item) in items.iter().enumerate().skip(evaluated) {
                    let failure = self.inner(schema, item, at.to_string(), ask.quiet)?;
                    ask.failures.extend(failure);
                }
            }
            Some(Additional::Allowed(_)) | None => {}
        }
        self.check_contains(node, items, ask)
    }

    fn duplicates(&mut self, items: &[Value]) -> Result<Option<(usize, usize)>, Stop> {
        for (at, item) in items.iter().enumerate() {
            for (before, other) in items.iter().enumerate().take(at) {
                if self.equals(item, other)? {
                    return Ok(Some((before, at)));
                }
            }
        }
        Ok(None)
    }

    fn check_contains(&mut self, node: &Node, items: &[Value], ask: &mut Ask<'_>) -> Result<(), Stop> {
        let rules = &node.array;
        let Some(schema) = rules.contains else { return Ok(()) };
        let mut causes = Vec::new();
        let mut matched: Vec<String> = Vec::new();
        for (at, item) in items.iter().enumerate() {
            if let Some(failure) = self.inner(schema, item, at.to_string(), ask.quiet)? {
                causes.push(failure);
                continue;
            }
            matched.push(at.to_string());
            if node.draft >= Draft::D2020 {
                ask.left.items.remove(&at);
            }
        }
        let found = i64::try_from(matched.len()).unwrap_or(i64::MAX);
        let places = matched.join(" ");
        let failure = match rules.contains_min {
            Some(least) if found < least => {
                let what = || match found {
                    0 => format!(
                        "min {} items required to match contains schema, but none matched",
                        count(least)
                    ),
                    _ => format!(
                        "min {} items required to match contains schema, but matched {} items at {places}",
                        count(least),
                        count(found)
                    ),
                };
                Some(self.text(ask, what))
            }
            None if matched.is_empty() => {
                Some(self.text(ask, || "no items match contains schema".to_owned()))
            }
            _ => None,
        };
        if let Some(mut failure) = failure {
            failure.causes = causes;
            ask.failures.push(failure);
        }
        if let Some(most) = rules.contains_max.filter(|most| found > *most) {
            let what = || {
                format!(
                    "max {} items required to match contains schema, but matched {} items at {places}",
                    count(most),
                    count(found)
                )
            };
            let failure = self.text(ask, what);
            ask.failures.push(failure);
        }
        Ok(())
    }

    fn check_text(&mut self, node: &Node, text: &str, ask: &mut Ask<'_>) -> Result<(), Stop> {
        let rules = &node.text;
        if rules.length_min.is_some() || rules.length_max.is_some() {
            let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
            let limits = [("minLength", rules.length_min, true), ("maxLength", rules.length_max, false)];
            self.check_limits(limits, length, ask);
        }
        if let Some((pattern, regexp)) = &rules.pattern {
            self.spend_search(regexp, text)?;
            if !regexp.is_match(text) {
                let what = || format!("{} does not match pattern {}", quote(text), quote(pattern));
                let failure = self.text(ask, what);
                ask.failures.push(failure);
            }
        }
        Ok(())
    }

    fn check_number(&self, node: &Node, found: Decimal, ask: &mut Ask<'_>) {
        let rules = &node.number;
        let checks = [
            ("minimum", rules.minimum, rules.minimum.is_some_and(|limit| found.compare(limit).is_lt())),
            ("maximum", rules.maximum, rules.maximum.is_some_and(|limit| found.compare(limit).is_gt())),
            ("exclusiveMinimum", rules.above, rules.above.is_some_and(|limit| found.compare(limit).is_le())),
            ("exclusiveMaximum", rules.below, rules.below.is_some_and(|limit| found.compare(limit).is_ge())),
            ("multipleOf", rules.multiple_of, rules.multiple_of.is_some_and(|of| !found.is_multiple_of(of))),
        ];
        for (name, limit, _) in checks.into_iter().filter(|(_, _, broken)| *broken) {
            let want = limit.map_or(0.0, Decimal::float);
            let failure =
                self.text(ask, || format!("{name}: got {}, want {}", number(found.float()), number(want)));
            ask.failures.push(failure);
        }
    }

    fn check_references(&mut self, node: &Node, ask: &mut Ask<'_>) -> Result<(), Stop> {
        if let Some(target) = node.recursive_reference {
            let target = if self.node(target)?.recursive_anchor { self.outermost(target)? } else { target };
            let failure = self.follow(target, ask)?;
            ask.failures.extend(failure);
        }
        if let Some((target, name)) = &node.dynamic_reference {
            let target = match name {
                Some(name) if self.node(*target)?.dynamic_anchor.as_ref() == Some(name) => {
                    self.outermost_named(name, *target)?
                }
                _ => *target,
            };
            let failure = self.follow(target, ask)?;
            ask.failures.extend(failure);
        }
        Ok(())
    }

    /// The outermost schema on the way here whose resource has a recursive anchor.
    fn outermost(&self, fallback: usize) -> Result<usize, Stop> {
        for scope in &self.scopes {
            if self.node(self.node(scope.node)?.resource)?.recursive_anchor {
                return Ok(scope.node);
            }
        }
        Ok(fallback)
    }

    /// The schema of a name in the outermost resource on the way here that has one.
    fn outermost_named(&self, name: &str, fallback: usize) -> Result<usize, Stop> {
        for scope in &self.scopes {
            let resource = self.node(self.node(scope.node)?.resource)?;
            if let Some(found) = resource.dynamic_anchors.get(name) {
                return Ok(*found);
            }
        }
        Ok(fallback)
    }

    fn check_conditions(&mut self, node: &Node, ask: &mut Ask<'_>) -> Result<(), Stop> {
        if let Some(schema) = node.not
            && self.same(schema, ask, true)?.is_none()
        {
            let failure = self.text(ask, || "'not' failed".to_owned());
            ask.failures.push(failure);
        }
        let mut causes = Vec::new();
        for schema in &node.all_of {
            causes.extend(self.same(*schema, ask, false)?);
            if ask.quiet && !causes.is_empty() {
                break;
            }
        }
        if !causes.is_empty() {
            let mut failure = self.text(ask, || "'allOf' failed".to_owned());
            failure.causes = causes;
            ask.failures.push(failure);
        }
        self.check_any(node, ask)?;
        self.check_one(node, ask)?;
        if let Some((condition, then, otherwise)) = node.condition {
            let holds = self.same(condition, ask, true)?.is_none();
            if let Some(schema) = if holds { then } else { otherwise } {
                let failure = self.same(schema, ask, false)?;
                ask.failures.extend(failure);
            }
        }
        Ok(())
    }

    fn check_any(&mut self, node: &Node, ask: &mut Ask<'_>) -> Result<(), Stop> {
        let mut causes = Vec::new();
        let mut matched = node.any_of.is_empty();
        for schema in &node.any_of {
            if let Some(failure) = self.same(*schema, ask, false)? {
                causes.push(failure);
                continue;
            }
            matched = true;
            if ask.left.is_empty() {
                break;
            }
        }
        if !matched {
            let mut failure = self.text(ask, || "'anyOf' failed".to_owned());
            failure.causes = causes;
            ask.failures.push(failure);
        }
        Ok(())
    }

    fn check_one(&mut self, node: &Node, ask: &mut Ask<'_>) -> Result<(), Stop> {
        let mut causes = Vec::new();
        let mut matched = None;
        for (at, schema) in node.one_of.iter().enumerate() {
            match (self.same(*schema, ask, matched.is_some())?, matched) {
                (Some(failure), None) => causes.push(failure),
                (Some(_), Some(_)) => {}
                (None, None) => matched = Some(at),
                (None, Some(first)) => {
                    let what = || format!("'oneOf' failed, subschemas {first}, {at} matched");
                    let failure = self.text(ask, what);
                    ask.failures.push(failure);
                    break;
                }
            }
        }
        if matched.is_none() && !node.one_of.is_empty() {
            let mut failure = self.text(ask, || "'oneOf' failed, none matched".to_owned());
            failure.causes = causes;
            ask.failures.push(failure);
        }
        Ok(())
    }

    fn check_unevaluated(&mut self, node: &Node, ask: &mut Ask<'_>) -> Result<(), Stop> {
        if let (Value::Object(members), Some(schema)) = (ask.value, node.object.unevaluated) {
            for name in std::mem::take(&mut ask.left.members) {
                if let Some(member) = members.get(&name) {
                    let failure = self.inner(schema, member, name, ask.quiet)?;
                    ask.failures.extend(failure);
                }
            }
        }
        if let (Value::Array(items), Some(schema)) = (ask.value, node.array.unevaluated) {
            for at in std::mem::take(&mut ask.left.items) {
                if let Some(item) = items.get(at) {
                    let failure = self.inner(schema, item, at.to_string(), ask.quiet)?;
                    ask.failures.extend(failure);
                }
            }
        }
        Ok(())
    }
}

fn needed_with(missing: &[&str], name: &str) -> String {
    format!("properties {} required, if {} exists", quote_all(missing.iter().copied()), quote(name))
}

fn variants_text(variants: &[Value]) -> String {
    if variants.iter().any(|variant| variant.is_array() || variant.is_object()) {
        return "'enum' failed".to_owned();
    }
    let shown: Vec<String> = variants.iter().map(display).collect();
    match shown.as_slice() {
        [one] => format!("value must be {one}"),
        all => format!("value must be one of {}", all.join(", ")),
    }
}
