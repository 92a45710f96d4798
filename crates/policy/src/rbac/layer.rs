//! Compiled rules and role links, looked up by name and by the beginning of objects.
//!
//! A [`Layer`] is the policy of the installation, or what one project adds to it. A [`View`] is what one request is
//! judged by: the base alone, or with a project's layer above it (API-84). Names of both are numbers; those that the
//! base does not know follow on its own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_go::steps::{Steps, TooManySteps};

use super::lines::{Place, PolicyError, PolicyProblem, PolicyRule, Statement, read};
use super::pattern::{MatchMode, NoPattern, Pattern, Patterns, Word, object_key};

/// Links from a member to a role that are followed (API-80).
const LINKS_MAX: usize = 10;
/// Roles of one subject that are compared one by one before they are put into a set.
const FEW_ROLES: usize = 24;

/// A subject or role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NameId(u32);

/// A rule of a subject.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) resource: Arc<Pattern>,
    pub(super) action: Arc<Pattern>,
    pub(super) object: Arc<Pattern>,
}

impl Rule {
    fn asks(&self, resource: &Word<'_>, action: &Word<'_>, steps: &mut Steps) -> Result<bool, TooManySteps> {
        Ok(self.resource.matches_resource(resource, steps)? && self.action.matches_action(action, steps)?)
    }
}

/// Rules by what their objects begin with.
#[derive(Clone, Debug, Default)]
struct Rules {
    keyed: HashMap<SmolStr, Vec<Rule>>,
    /// Rules whose objects may begin with anything.
    others: Vec<Rule>,
}

impl Rules {
    fn add(&mut self, rule: Rule) {
        match rule.object.key() {
            Some(key) => self.keyed.entry(key.clone()).or_default().push(rule),
            None => self.others.push(rule),
        }
    }

    /// Rules that may be about objects with this key.
    fn with_key(&self, key: &str) -> impl Iterator<Item = &Rule> {
        self.keyed.get(key).into_iter().flatten().chain(&self.others)
    }
}

/// What is said about one name.
#[derive(Clone, Debug, Default)]
struct Node {
    /// Roles it is a member of.
    roles: Vec<NameId>,
    allows: Rules,
    denies: Rules,
}

/// Compiled statements.
#[derive(Clone, Debug, Default)]
pub(super) struct Layer {
    /// The number of the first name of this layer.
    first: u32,
    names: HashMap<SmolStr, NameId>,
    own: Vec<Node>,
    /// What this layer says about names of the layer below.
    foreign: HashMap<NameId, Node>,
}

/// How a layer is made.
#[derive(Debug)]
pub(super) struct LayerBuilder<'b> {
    base: Option<&'b Layer>,
    layer: Layer,
    patterns: Patterns,
}

/// What became of a statement.
#[derive(Clone, Debug)]
pub(super) enum Compiled {
    /// The rule is in force.
    Rule(Rule),
    /// The link is in force.
    Link,
    /// One of its patterns does not compile, so that it never applies.
    Never(&'static str),
    /// Its effect is no effect.
    Inert,
}

impl<'b> LayerBuilder<'b> {
    /// A layer above another, or the first one.
    pub(super) fn above(base: Option<&'b Layer>) -> Self {
        let first = base.map_or(0, |base| base.first + u32::try_from(base.own.len()).unwrap_or(u32::MAX));
        Self { base, layer: Layer { first, ..Layer::default() }, patterns: Patterns::default() }
    }

    /// Adds all lines of a text.
    ///
    /// # Errors
    /// The first line that cannot be read, or has a pattern beyond a bound.
    pub(super) fn add_text(
        &mut self,
        origin: &str,
        text: &str,
        mode: MatchMode,
        mut seen: impl FnMut(Place, &Statement, Compiled),
    ) -> Result<(), PolicyError> {
        for line in read(origin, text) {
            let line = line?;
            let place = Place { origin: origin.into(), line: line.number };
            let compiled = match &line.statement {
                Statement::Rule(rule) => self
                    .add_rule(rule, mode)
                    .map_err(|problem| PolicyError { place: place.clone(), problem })?,
                Statement::Link(link) => {
                    self.add_link(&link.member, &link.role);
                    Compiled::Link
                }
                Statement::Nothing => continue,
            };
            seen(place, &line.statement, compiled);
        }
        Ok(())
    }

    /// Adds a rule.
    pub(super) fn add_rule(&mut self, rule: &PolicyRule, mode: MatchMode) -> Result<Compiled, PolicyProblem> {
        let is_deny = match rule.effect.as_str() {
            "allow" => false,
            "deny" => true,
            _ => return Ok(Compiled::Inert),
        };
        let mut compiled = Vec::with_capacity(3);
        for (field, text) in
            [("resource", &rule.resource), ("action", &rule.action), ("object", &rule.object)]
        {
            match self.patterns.get(mode, text) {
                Ok(pattern) => compiled.push(pattern),
                Err(NoPattern::Never) => return Ok(Compiled::Never(field)),
                Err(NoPattern::TooLarge(problem)) => return Err(problem),
            }
        }
        let Ok([resource, action, object]) = <[Arc<Pattern>; 3]>::try_from(compiled) else {
            return Ok(Compiled::Inert);
        };
        let name = self.name(&rule.subject);
        let rule = Rule { resource, action, object };
        if let Some(node) = self.node(name) {
            let rules = if is_deny { &mut node.denies } else { &mut node.allows };
            rules.add(rule.clone());
        }
        Ok(Compiled::Rule(rule))
    }

    /// Adds a link.
    pub(super) fn add_link(&mut self, member: &SmolStr, role: &SmolStr) {
        let (member, role) = (self.name(member), self.name(role));
        if let Some(node) = self.node(member) {
            node.roles.push(role);
        }
    }

    pub(super) fn build(self) -> Layer {
        self.layer
    }

    fn name(&mut self, name: &SmolStr) -> NameId {
        if let Some(known) =
            self.base.and_then(|base| base.names.get(name)).or_else(|| self.layer.names.get(name))
        {
            return *known;
        }
        // A policy has too few lines for the numbers to run out.
        let id = NameId(self.layer.first + u32::try_from(self.layer.own.len()).unwrap_or(u32::MAX));
        self.layer.names.insert(name.clone(), id);
        self.layer.own.push(Node::default());
        id
    }

    fn node(&mut self, id: NameId) -> Option<&mut Node> {
        match id.0.checked_sub(self.layer.first) {
            Some(at) => self.layer.own.get_mut(usize::try_from(at).unwrap_or(usize::MAX)),
            None => Some(self.layer.foreign.entry(id).or_default()),
        }
    }
}

impl Layer {
    fn node(&self, id: NameId) -> Option<&Node> {
        match id.0.checked_sub(self.first) {
            Some(at) => self.own.get(usize::try_from(at).unwrap_or(usize::MAX)),
            None => self.foreign.get(&id),
        }
    }
}

/// A request as rules are asked about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question<'a> {
    pub(super) resource: Word<'a>,
    pub(super) action: Word<'a>,
    pub(super) object: &'a str,
}

/// The objects that one subject may and may not do one thing with, among those that begin alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection<'r> {
    allows: Vec<&'r Pattern>,
    denies: Vec<&'r Pattern>,
}

impl Selection<'_> {
    /// Whether nothing is allowed, whatever the object.
    pub(super) fn is_empty(&self) -> bool {
        self.allows.is_empty()
    }

    pub(super) fn allows(&self, object: &str, steps: &mut Steps) -> Result<bool, TooManySteps> {
        for pattern in &self.denies {
            if pattern.is_match(object, steps)? {
                return Ok(false);
            }
        }
        for pattern in &self.allows {
            if pattern.is_match(object, steps)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What one request is judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'r> {
    pub(super) base: &'r Layer,
    pub(super) above: Option<&'r Layer>,
}

impl<'r> View<'r> {
    pub(super) fn id(&self, name: &str) -> Option<NameId> {
        let above = || self.above.and_then(|layer| layer.names.get(name));
        self.base.names.get(name).or_else(above).copied()
    }

    fn nodes(&self, id: NameId) -> impl Iterator<Item = &'r Node> {
        self.base.node(id).into_iter().chain(self.above.and_then(|layer| layer.node(id)))
    }

    /// Whether a name is the first field of a `g` line (API-93).
    pub(super) fn is_member(&self, id: NameId) -> bool {
        self.nodes(id).any(|node| !node.roles.is_empty())
    }

    /// Whether a subject may: some rule of its roles allows it, and none denies it (API-80).
    pub(super) fn allows(
        &self,
        subject: NameId,
        question: &Question<'_>,
        steps: &mut Steps,
    ) -> Result<bool, TooManySteps> {
        let roles = self.roles(subject, steps)?;
        let key = object_key(question.object);
        let mut applies = |rules: &'r Rules| {
            for rule in rules.with_key(key) {
                if rule.asks(&question.resource, &question.action, steps)?
                    && rule.object.is_match(question.object, steps)?
                {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        for node in roles.iter().flat_map(|role| self.nodes(*role)) {
            if applies(&node.denies)? {
                return Ok(false);
            }
        }
        for node in roles.iter().flat_map(|role| self.nodes(*role)) {
            if applies(&node.allows)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same for all objects with a key, to be asked one by one.
    pub(super) fn select(
        &self,
        subject: NameId,
        resource: &Word<'_>,
        action: &Word<'_>,
        key: &str,
        steps: &mut Steps,
    ) -> Result<Selection<'r>, TooManySteps> {
        let mut selection = Selection::default();
        for node in self.roles(subject, steps)?.iter().flat_map(|role| self.nodes(*role)) {
            for (rules, patterns) in
                [(&node.denies, &mut selection.denies), (&node.allows, &mut selection.allows)]
            {
                for rule in rules.with_key(key) {
                    if rule.asks(resource, action, steps)? {
                        patterns.push(&*rule.object);
                    }
                }
            }
        }
        Ok(selection)
    }

    /// The subject and all its roles, at most [`LINKS_MAX`] links away. Cycles end where they began.
    fn roles(&self, subject: NameId, steps: &mut Steps) -> Result<Vec<NameId>, TooManySteps> {
        let mut found = Found { list: vec![subject], set: HashSet::new() };
        let mut from = 0;
        for _ in 0..LINKS_MAX {
            let reached = found.list.len();
            for at in from..reached {
                let Some(role) = found.list.get(at).copied() else { break };
                for next in self.nodes(role).flat_map(|node| &node.roles) {
                    steps.spend(1)?;
                    found.add(*next);
                }
            }
            if found.list.len() == reached {
                break;
            }
            from = reached;
        }
        Ok(found.list)
    }
}

/// Names in the order they were found, each once.
struct Found {
    list: Vec<NameId>,
    /// All of the list, once they are many.
    set: HashSet<NameId>,
}

impl Found {
    fn add(&mut self, id: NameId) {
        if self.list.len() < FEW_ROLES {
            if !self.list.contains(&id) {
                self.list.push(id);
            }
            return;
        }
        if self.set.is_empty() {
            self.set.extend(&self.list);
        }
        if self.set.insert(id) {
            self.list.push(id);
        }
    }
}
