//! Compiled rules and role links, looked up by name and by the beginning of objects.
//!
//! A [`Layer`] is the policy of the installation, or what one project adds to it. A [`View`] is what one request is
//! judged by: the base alone, or with a project's layer above it (API-84). Names of both are numbers; those that the
//! base does not know follow on its own.

mod reach;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_go::steps::{Steps, TooManySteps};

use self::reach::Reach;
use super::lines::{Place, PolicyError, PolicyProblem, PolicyRule, Statement, read};
use super::pattern::{MatchMode, NoPattern, Pattern, Patterns, Word, object_key};
use super::spelling;

/// Links from a member to a role that are followed (API-80).
const LINKS_MAX: usize = 10;
/// Roles of one subject that are compared one by one before they are put into a set.
const FEW_ROLES: usize = 24;

/// A subject or role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NameId(u32);

impl NameId {
    fn bit(self) -> u64 {
        1 << (self.0 % u64::BITS)
    }
}

/// What the objects of some rules of a layer begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct KeyId(u32);

/// A pattern of resources or actions, with the known ones that it matches at hand: most rules of a role are about
/// something else, and are passed over without a look at the pattern.
#[derive(Clone, Debug)]
struct WordPattern {
    known: u16,
    pattern: Arc<Pattern>,
}

impl WordPattern {
    fn matches(&self, word: &Word<'_>, steps: &mut Steps) -> Result<bool, TooManySteps> {
        match word.bit() {
            0 => self.pattern.is_match(word.text(), steps),
            bit => Ok(self.known & bit != 0),
        }
    }
}

/// A rule of a subject.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    resource: WordPattern,
    action: WordPattern,
    object: Arc<Pattern>,
}

impl Rule {
    /// The patterns of resources, actions and objects.
    pub(super) fn patterns(&self) -> [&Pattern; 3] {
        [&self.resource.pattern, &self.action.pattern, &self.object]
    }

    fn asks(&self, resource: &Word<'_>, action: &Word<'_>, steps: &mut Steps) -> Result<bool, TooManySteps> {
        Ok(self.resource.matches(resource, steps)? && self.action.matches(action, steps)?)
    }
}

/// Rules by what their objects begin with. The known words of all of them are at hand, because most subjects have no
/// rule about what is asked.
#[derive(Clone, Debug, Default)]
struct Rules {
    resources: u16,
    actions: u16,
    keyed: BTreeMap<KeyId, Vec<Rule>>,
    /// Rules whose objects may begin with anything.
    others: Vec<Rule>,
}

impl Rules {
    fn add(&mut self, key: Option<KeyId>, rule: Rule) {
        self.resources |= rule.resource.known;
        self.actions |= rule.action.known;
        match key {
            Some(key) => self.keyed.entry(key).or_default().push(rule),
            None => self.others.push(rule),
        }
    }

    /// Whether some rule may be about these words, as far as they are known.
    fn may_know(&self, resource: &Word<'_>, action: &Word<'_>) -> bool {
        resource.is_among(self.resources) && action.is_among(self.actions)
    }

    /// All rules, whatever objects they are about.
    fn all(&self) -> impl Iterator<Item = &Rule> {
        self.keyed.values().flatten().chain(&self.others)
    }

    /// Whether one of them is about what is asked.
    fn applies(
        &self,
        question: &Question<'_>,
        key: Option<KeyId>,
        steps: &mut Steps,
    ) -> Result<bool, TooManySteps> {
        if !self.may_know(&question.resource, &question.action) {
            return Ok(false);
        }
        for rule in self.with_key(key) {
            if rule.asks(&question.resource, &question.action, steps)?
                && rule.object.is_match(question.object, steps)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Rules that may be about objects with this key.
    fn with_key(&self, key: Option<KeyId>) -> impl Iterator<Item = &Rule> {
        let keyed = key.and_then(|key| self.keyed.get(&key));
        keyed.into_iter().flatten().chain(&self.others)
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
    keys: HashMap<SmolStr, KeyId>,
    own: Vec<Node>,
    /// What each of those stands for, in the lowest layer.
    reach: Vec<Option<Reach>>,
    /// What this layer says about names of the layer below.
    foreign: BTreeMap<NameId, Node>,
    /// For each of those the bit of its number modulo 64: a project knows few of the names that it is asked about.
    foreign_bits: u64,
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
        let text = &rule.object;
        let rule = Rule {
            resource: WordPattern { known: resource.known_resources(), pattern: resource },
            action: WordPattern { known: action.known_actions(), pattern: action },
            object,
        };
        if is_deny {
            self.deny_spellings(name, &rule, mode, text)?;
        }
        self.put(name, is_deny, rule.clone());
        Ok(Compiled::Rule(rule))
    }

    fn put(&mut self, name: NameId, is_deny: bool, rule: Rule) {
        let key = rule.object.key().cloned().map(|key| self.key(key));
        if let Some(node) = self.node(name) {
            let rules = if is_deny { &mut node.denies } else { &mut node.allows };
            rules.add(key, rule);
        }
    }

    /// Adds what a denial stands for besides what it says, where its objects are addresses.
    fn deny_spellings(
        &mut self,
        name: NameId,
        rule: &Rule,
        mode: MatchMode,
        text: &str,
    ) -> Result<(), PolicyProblem> {
        let known =
            rule.resource.known & spelling::ADDRESSED.iter().map(|one| one.bit()).fold(0, |a, b| a | b);
        if known == 0 {
            return Ok(());
        }
        for other in spelling::of_denial(mode, text) {
            match self.patterns.get(mode, &other) {
                Ok(object) => {
                    let resource = WordPattern { known, ..rule.resource.clone() };
                    self.put(name, true, Rule { resource, object, action: rule.action.clone() });
                }
                Err(NoPattern::Never) => {}
                Err(NoPattern::TooLarge(problem)) => return Err(problem),
            }
        }
        Ok(())
    }

    /// Adds a link.
    pub(super) fn add_link(&mut self, member: &SmolStr, role: &SmolStr) {
        let (member, role) = (self.name(member), self.name(role));
        if let Some(node) = self.node(member) {
            node.roles.push(role);
        }
    }

    pub(super) fn build(self) -> Layer {
        let mut layer = self.layer;
        if self.base.is_none() {
            layer.reach = (0..).zip(&layer.own).map(|(id, _)| Reach::of(NameId(id), &layer.own)).collect();
        }
        layer
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

    fn key(&mut self, key: SmolStr) -> KeyId {
        let next = KeyId(u32::try_from(self.layer.keys.len()).unwrap_or(u32::MAX));
        *self.layer.keys.entry(key).or_insert(next)
    }

    fn node(&mut self, id: NameId) -> Option<&mut Node> {
        if let Some(at) = id.0.checked_sub(self.layer.first) {
            return self.layer.own.get_mut(usize::try_from(at).unwrap_or(usize::MAX));
        }
        self.layer.foreign_bits |= id.bit();
        Some(self.layer.foreign.entry(id).or_default())
    }
}

impl Layer {
    pub(super) fn id(&self, name: &str) -> Option<NameId> {
        self.names.get(name).copied()
    }

    fn node(&self, id: NameId) -> Option<&Node> {
        match id.0.checked_sub(self.first) {
            Some(at) => self.own.get(usize::try_from(at).unwrap_or(usize::MAX)),
            None if self.foreign_bits & id.bit() == 0 => None,
            None => self.foreign.get(&id),
        }
    }

    fn reach(&self, id: NameId) -> Option<&Reach> {
        self.reach.get(usize::try_from(id.0).ok()?)?.as_ref()
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
        let any = |patterns: &[&Pattern], steps: &mut Steps| {
            for pattern in patterns {
                if pattern.is_match(object, steps)? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        Ok(any(&self.allows, steps)? && !any(&self.denies, steps)?)
    }
}

/// What requests about objects with one key are judged by.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'r> {
    base: &'r Layer,
    base_key: Option<KeyId>,
    above: Option<(&'r Layer, Option<KeyId>)>,
}

impl<'r> View<'r> {
    /// The base alone, for objects with a key.
    pub(super) fn of(base: &'r Layer, key: &str) -> Self {
        Self { base, base_key: base.keys.get(key).copied(), above: None }
    }

    /// The same with a layer above.
    pub(super) fn under(self, layer: &'r Layer, key: &str) -> Self {
        Self { above: Some((layer, layer.keys.get(key).copied())), ..self }
    }

    pub(super) fn id(&self, name: &str) -> Option<NameId> {
        self.base.id(name).or_else(|| self.id_above(name))
    }

    /// The same view for objects with another key.
    fn at(self, key: &str) -> Self {
        Self {
            base_key: self.base.keys.get(key).copied(),
            above: self.above.map(|(layer, _)| (layer, layer.keys.get(key).copied())),
            ..self
        }
    }

    /// The name among those that the base does not know.
    pub(super) fn id_above(&self, name: &str) -> Option<NameId> {
        self.above.and_then(|(layer, _)| layer.id(name))
    }

    fn nodes(&self, id: NameId) -> impl Iterator<Item = (&'r Node, Option<KeyId>)> {
        let above = self.above.and_then(|(layer, key)| Some((layer.node(id)?, key)));
        self.base.node(id).map(|node| (node, self.base_key)).into_iter().chain(above)
    }

    /// What a subject stands for, unless that is much or the layer above may say something about it.
    fn reach(&self, subject: NameId) -> Option<&'r Reach> {
        let reach = self.base.reach(subject)?;
        self.above.is_none_or(|(layer, _)| layer.foreign_bits & reach.bits == 0).then_some(reach)
    }

    /// Whether a name is the first field of a `g` line (API-93).
    pub(super) fn is_member(&self, id: NameId) -> bool {
        self.nodes(id).any(|(node, _)| !node.roles.is_empty())
    }

    /// Whether a subject may: some rule of its roles allows it, and none denies it (API-80).
    pub(super) fn allows(
        &self,
        subject: NameId,
        question: &Question<'_>,
        found: &mut Found<'r>,
        steps: &mut Steps,
    ) -> Result<bool, TooManySteps> {
        if self.reach(subject).is_some_and(|reach| !reach.may_allow(question)) {
            return Ok(false);
        }
        self.find(subject, found, steps)?;
        // Most subjects allow nothing of what is asked, so that nobody needs to know what they deny.
        let mut is_allowed = false;
        for (node, key) in &found.nodes {
            if node.allows.applies(question, *key, steps)? {
                is_allowed = true;
                break;
            }
        }
        for (node, key) in found.nodes.iter().filter(|_| is_allowed) {
            if node.denies.applies(question, *key, steps)? {
                return Ok(false);
            }
        }
        Ok(is_allowed)
    }

    /// Whether a rule of the subject or of its roles allows this of any object. What is denied does not count.
    pub(super) fn may_allow(
        &self,
        subject: NameId,
        (resource, action): (&Word<'_>, &Word<'_>),
        found: &mut Found<'r>,
        steps: &mut Steps,
    ) -> Result<bool, TooManySteps> {
        self.find(subject, found, steps)?;
        for (node, _) in &found.nodes {
            if !node.allows.may_know(resource, action) {
                continue;
            }
            for rule in node.allows.all() {
                if rule.asks(resource, action, steps)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a rule of a subject's roles denies one of these spellings of the object that was asked about.
    pub(super) fn denies_any(
        self,
        subject: NameId,
        question: &Question<'_>,
        spellings: &[String],
        found: &mut Found<'r>,
        steps: &mut Steps,
    ) -> Result<bool, TooManySteps> {
        for spelling in spellings {
            let question = Question { object: spelling, ..*question };
            self.at(object_key(spelling)).find(subject, found, steps)?;
            for (node, key) in &found.nodes {
                if node.denies.applies(&question, *key, steps)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The same for all objects with the key, to be asked one by one.
    pub(super) fn select(
        &self,
        subject: NameId,
        resource: &Word<'_>,
        action: &Word<'_>,
        found: &mut Found<'r>,
        steps: &mut Steps,
    ) -> Result<Selection<'r>, TooManySteps> {
        self.find(subject, found, steps)?;
        let mut selection = Selection::default();
        for (node, key) in &found.nodes {
            for (rules, patterns) in
                [(&node.denies, &mut selection.denies), (&node.allows, &mut selection.allows)]
            {
                for rule in rules.with_key(*key) {
                    if rule.asks(resource, action, steps)? {
                        patterns.push(&*rule.object);
                    }
                }
            }
        }
        Ok(selection)
    }

    /// Finds what is said about the subject and all its roles, at most [`LINKS_MAX`] links away. Cycles end where they
    /// began.
    fn find(&self, subject: NameId, found: &mut Found<'r>, steps: &mut Steps) -> Result<(), TooManySteps> {
        found.clear();
        if let Some(reach) = self.reach(subject) {
            steps.spend(reach.names.len())?;
            let nodes = reach.names.iter().filter_map(|name| self.base.node(*name));
            found.nodes.extend(nodes.map(|node| (node, self.base_key)));
            return Ok(());
        }
        found.add(subject);
        let mut from = 0;
        for links in 0..=LINKS_MAX {
            let reached = found.names.len();
            for at in from..reached {
                let Some(name) = found.names.get(at).copied() else { break };
                for (node, key) in self.nodes(name) {
                    found.nodes.push((node, key));
                    steps.spend(1)?;
                    for role in node.roles.iter().filter(|_| links < LINKS_MAX) {
                        steps.spend(1)?;
                        found.add(*role);
                    }
                }
            }
            if found.names.len() == reached {
                break;
            }
            from = reached;
        }
        Ok(())
    }
}

/// A subject with its roles, and what is said about them. One is used for many subjects, so that their lists are made
/// once.
#[derive(Debug, Default)]
pub(super) struct Found<'r> {
    /// Each once, in the order they were found.
    names: Vec<NameId>,
    /// All of them, once they are many.
    set: HashSet<NameId>,
    nodes: Vec<(&'r Node, Option<KeyId>)>,
}

impl Found<'_> {
    fn clear(&mut self) {
        self.names.clear();
        self.nodes.clear();
        if !self.set.is_empty() {
            self.set.clear();
        }
    }

    fn add(&mut self, name: NameId) {
        if self.names.len() < FEW_ROLES {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
            return;
        }
        if self.set.is_empty() {
            self.set.extend(&self.names);
        }
        if self.set.insert(name) {
            self.names.push(name);
        }
    }
}
