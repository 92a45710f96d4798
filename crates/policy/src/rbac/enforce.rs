//! The answer to one caller (API-92..99).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};
use smol_str::SmolStr;
use tiphys_api::{AppProject, Settings};
use tiphys_go::steps::{Steps, TooManySteps};

use super::check::Findings;
use super::layer::{Found, Layer, LayerBuilder, NameId, Question, Selection, View};
use super::lines::{Place, PolicyError};
use super::object::Located;
use super::pattern::{MatchMode, Word, object_key};
use super::project::ProjectPolicy;
use super::spelling;
use super::vocabulary::Resource;
use super::{RbacConfig, builtin};
use crate::Decision;

/// Steps of one answer. Twenty-five thousand lines of a kind, as many as fit into a `ConfigMap`, take a tenth of it for
/// each subject.
const STEPS_MAX: u64 = 5_000_000;
/// Bytes of a request's three words. Longer ones are refused: nothing that exists is named like that.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Beginnings of objects that a filter remembers what it found about.
const FILTER_KEYS_MAX: usize = 4_096;
/// Groups that no line of the installation's policy is about, and that are not compared with each other.
const FEW_GROUPS: usize = 64;
/// The account with all rights (API-100).
const ADMIN: &str = "admin";
/// Issuer of the tokens of local accounts and projects (API-35).
const OWN_ISSUER: &str = "argocd";

/// What somebody wants to do with what (API-80).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The word of a resource (API-102).
    pub resource: &'a str,
    /// The action, with its path.
    pub action: &'a str,
    /// The object's name in policies; empty where there is none.
    pub object: &'a str,
}

/// Settings of `argocd-cm` that decide about rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RbacOptions {
    /// Accounts and groups of identity providers cannot have the names of roles, of `admin` or of project tokens
    /// (API-94).
    pub reserve_role_names: bool,
    /// A rollback needs `rollback`, not `sync` (API-107).
    pub rollback_enforced: bool,
    /// `update` and `delete` of an application include its resources (API-105).
    pub fine_grained_inherited: bool,
    /// `ApplicationSets` outside projects need a right of their own (ASET-281).
    pub unscoped_restricted: bool,
}

impl RbacOptions {
    /// Reads them from the settings.
    pub fn from_settings(settings: &Settings) -> Self {
        Self {
            reserve_role_names: settings.rbac_reserves_role_names(),
            rollback_enforced: settings.rbac_enforces_rollback(),
            fine_grained_inherited: settings.rbac_inherits_fine_grained(),
            unscoped_restricted: settings.rbac_restricts_unscoped(),
        }
    }
}

/// A compiled policy with the projects it is asked about (API-84). Immutable but for its projects.
#[derive(Clone, Debug)]
pub struct Rbac {
    base: Arc<Layer>,
    mode: MatchMode,
    default_role: SmolStr,
    scopes: Vec<SmolStr>,
    options: RbacOptions,
    projects: HashMap<SmolStr, Arc<ProjectPolicy>>,
    warnings: Vec<String>,
}

impl Rbac {
    /// Compiles the policy of an installation, without projects.
    ///
    /// # Errors
    /// The first line that cannot be read or is beyond a bound; nothing of the policy is in force then (API-89).
    pub fn compile(config: &RbacConfig) -> Result<Self, PolicyError> {
        let mut builder = LayerBuilder::above(None);
        let mut findings = Findings::begin(config);
        if config.with_builtin {
            for rule in builtin::rules() {
                let place = Place { origin: "built-in policy".into(), line: 1 };
                builder.add_rule(&rule, MatchMode::Glob).map_err(|problem| PolicyError { place, problem })?;
            }
            for link in builtin::links() {
                builder.add_link(&link.member, &link.role);
            }
        }
        for (origin, text) in &config.policies {
            builder.add_text(origin, text, config.match_mode, |place, statement, compiled| {
                findings.look_at(&place, statement, &compiled);
            })?;
        }
        Ok(Self {
            base: Arc::new(builder.build()),
            mode: config.match_mode,
            default_role: config.default_role.clone(),
            scopes: config.scopes.clone(),
            options: RbacOptions::default(),
            projects: HashMap::new(),
            warnings: findings.end(config),
        })
    }

    /// A policy that allows nothing.
    pub(super) fn closed() -> Self {
        Self {
            base: Arc::new(LayerBuilder::above(None).build()),
            mode: MatchMode::Glob,
            default_role: SmolStr::default(),
            scopes: Vec::new(),
            options: RbacOptions::default(),
            projects: HashMap::new(),
            warnings: Vec::new(),
        }
    }

    /// The same with these options.
    #[must_use]
    pub fn with_options(self, options: RbacOptions) -> Self {
        Self { options, ..self }
    }

    /// The same with these projects besides those it has.
    #[must_use]
    pub fn with_projects<'p>(mut self, projects: impl IntoIterator<Item = &'p AppProject>) -> Self {
        for project in projects {
            self.set_project(project);
        }
        self
    }

    /// Takes a project that is new or has changed (API-97).
    pub fn set_project(&mut self, project: &AppProject) {
        let policy = ProjectPolicy::compile(&self.base, project, self.mode);
        self.projects.insert(project.name().into(), Arc::new(policy));
    }

    /// Forgets a project that is gone (API-97).
    pub fn remove_project(&mut self, name: &str) {
        self.projects.remove(name);
    }

    /// Why the roles of a project have no effect (API-96).
    pub fn project_problem(&self, name: &str) -> Option<&PolicyError> {
        self.projects.get(name)?.problem.as_ref()
    }

    /// What in the policy has no effect, in words for the log (API-82, API-108).
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The claims that hold groups (API-90).
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().map(SmolStr::as_str)
    }

    /// The options in force.
    pub(super) fn options(&self) -> RbacOptions {
        self.options
    }

    /// Who asks, by the verified claims of a token whose `sub` is the account's name; `None` for nobody (API-92, API-99).
    pub fn caller<'a>(&'a self, claims: Option<&'a Map<String, Value>>) -> Caller<'a> {
        let text = |name: &str| claims.and_then(|claims| claims.get(name)).and_then(Value::as_str);
        let federated = claims
            .and_then(|claims| claims.get("federated_claims")?.get("user_id")?.as_str())
            .unwrap_or_default();
        let identity = if federated.is_empty() { text("sub").unwrap_or_default() } else { federated };
        let reserved = |name: &str| self.options.reserve_role_names && is_reserved(name);
        let is_own = text("iss") == Some(OWN_ISSUER);
        let mut groups = Groups::default();
        for claim in self.scopes.iter().filter_map(|scope| claims?.get(scope.as_str())) {
            let texts = match claim {
                Value::Array(items) => items.as_slice(),
                one => std::slice::from_ref(one),
            };
            for group in texts.iter().filter_map(Value::as_str).filter(|group| !reserved(group)) {
                match self.base.id(group) {
                    Some(id) => groups.known.push(id),
                    None => groups.others.push(group),
                }
            }
        }
        groups.known.sort_unstable();
        groups.known.dedup();
        if groups.others.len() > FEW_GROUPS {
            groups.others.sort_unstable();
            groups.others.dedup();
        }
        let subject = (is_own || !reserved(identity)).then_some(identity);
        let issued_at = claims.and_then(|claims| claims.get("iat")).and_then(instant);
        Caller { rbac: self, identity, subject, groups, issued_at }
    }

    /// Whether a subject may, by its own name and without any project: what the command line asks (CLI-910).
    pub fn subject_may(&self, subject: &str, request: &Request<'_>) -> bool {
        let (mut found, mut steps) = (Found::default(), Steps::new(STEPS_MAX));
        let view = View::of(&self.base, object_key(request.object));
        let spellings = spelling::of_object(self.mode, request.resource, request.object);
        let mut allows = |name: &str| match (view.id(name), question(request)) {
            (Some(id), Some(question)) => {
                view.allows(id, &question, &mut found, &mut steps).unwrap_or(false)
                    && !view.denies_any(id, &question, &spellings, &mut found, &mut steps).unwrap_or(true)
            }
            _ => false,
        };
        !self.default_role.is_empty() && allows(&self.default_role) || allows(subject)
    }

    fn project(&self, name: &str) -> Option<Asked<'_>> {
        let (name, policy) = self.projects.get_key_value(name)?;
        Some(Asked { name, layer: policy.layer.as_ref() })
    }
}

/// Whether a name is the product's to give (API-94). A group `admin` would be admin through the built-in link too.
fn is_reserved(name: &str) -> bool {
    name.starts_with("role:") || name == ADMIN || token_project(name).is_some()
}

/// The project of `proj:<project>:<role>` (API-36).
fn token_project(subject: &str) -> Option<&str> {
    let mut parts = subject.split(':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some("proj"), Some(project), Some(_), None) => Some(project),
        _ => None,
    }
}

/// Whole seconds since the epoch.
fn instant(value: &Value) -> Option<Timestamp> {
    let seconds = value.as_i64().or_else(|| format!("{:.0}", value.as_f64()?.trunc()).parse().ok())?;
    Timestamp::from_second(seconds).ok()
}

/// A project that a request is about.
#[derive(Clone, Copy)]
struct Asked<'r> {
    name: &'r str,
    layer: Option<&'r Layer>,
}

/// The project that an object belongs to (API-95).
fn project_of<'a>(resource: &str, object: &'a str) -> Option<&'a str> {
    match Resource::parse(resource)? {
        Resource::Projects => Some(object),
        resource if resource.is_in_project() => object.split_once('/').map(|(project, _)| project),
        _ => None,
    }
}

/// The request as rules are asked; `None` when it is too long.
fn question<'a>(request: &Request<'a>) -> Option<Question<'a>> {
    let bytes = request.resource.len() + request.action.len() + request.object.len();
    (bytes <= REQUEST_BYTES_MAX).then(|| Question {
        resource: Word::resource(request.resource),
        action: Word::action(request.action),
        object: request.object,
    })
}

/// The groups of a caller.
#[derive(Clone, Debug, Default)]
struct Groups<'a> {
    /// Those that the policy of the installation knows, each once.
    known: Vec<NameId>,
    /// The others, which a project may know.
    others: Vec<&'a str>,
}

/// Somebody who asks (API-92).
#[derive(Clone, Debug)]
pub struct Caller<'a> {
    pub(super) rbac: &'a Rbac,
    /// The name in messages.
    identity: &'a str,
    /// The name in policies; `None` when it is not theirs to have.
    subject: Option<&'a str>,
    groups: Groups<'a>,
    issued_at: Option<Timestamp>,
}

impl<'a> Caller<'a> {
    /// Whether the caller may (API-92).
    pub fn may(&self, request: &Request<'_>) -> bool {
        let (mut found, mut steps) = (Found::default(), Steps::new(STEPS_MAX));
        let Some(question) = question(request) else { return false };
        let project = project_of(request.resource, request.object).and_then(|name| self.rbac.project(name));
        let spellings = spelling::of_object(self.rbac.mode, request.resource, request.object);
        let ask = |view: View<'a>, subject| {
            Ok(view.allows(subject, &question, &mut found, &mut steps)?
                && !view.denies_any(subject, &question, &spellings, &mut found, &mut steps)?)
        };
        self.any_voice(project, object_key(request.object), ask).unwrap_or(false)
    }

    /// Whether the caller may do this with any object there could be: what a caller without any such right sends is not
    /// worth reading. It is no permission.
    pub fn may_ever(&self, resource: &str, action: &str) -> bool {
        let (mut found, mut steps) = (Found::default(), Steps::new(STEPS_MAX));
        let words = (Word::resource(resource), Word::action(action));
        let mut ask =
            |view: View<'a>, subject| view.may_allow(subject, (&words.0, &words.1), &mut found, &mut steps);
        let mut in_project = |project: Option<Asked<'a>>| self.any_voice(project, "", &mut ask);
        match in_project(None) {
            Ok(false) => {}
            decided => return decided.unwrap_or(false),
        }
        let projects = self.rbac.projects.iter().filter(|(_, policy)| policy.layer.is_some());
        for (name, policy) in projects {
            match in_project(Some(Asked { name, layer: policy.layer.as_ref() })) {
                Ok(false) => {}
                decided => return decided.unwrap_or(false),
            }
        }
        false
    }

    /// Whether the caller may, with the text of the refusal (API-98).
    pub fn check(&self, request: &Request<'_>) -> Decision {
        Decision::when(self.may(request), || self.refusal(request))
    }

    /// Whether the caller may do this with what an address names, with the text of the refusal (REP-41, REP-112).
    pub fn check_located(&self, resource: Resource, action: &str, located: &Located<'_>) -> Decision {
        let objects = located.objects(|name| self.rbac.projects.contains_key(name));
        let refusal = objects
            .iter()
            .find_map(|object| self.check(&Request { resource: resource.as_str(), action, object }).message);
        Decision { permitted: refusal.is_none(), message: refusal }
    }

    /// Answers the same question about many objects.
    pub fn filter(&self, resource: &'a str, action: &'a str) -> Filter<'a> {
        Filter { caller: self.clone(), resource, action, known: RefCell::default() }
    }

    pub(super) fn refusal(&self, request: &Request<'_>) -> String {
        let Request { resource, action, object } = request;
        let mut text = format!("permission denied: {resource}, {action}, {object}");
        if !self.identity.is_empty() {
            text.push_str(", sub: ");
            text.push_str(self.identity);
        }
        if let Some(issued_at) = self.issued_at {
            text.push_str(", iat: ");
            text.push_str(&issued_at.to_string());
        }
        text
    }

    /// Asks each subject that may speak for the caller, in the order of API-92, until one says yes. Each speaks for
    /// itself: a `deny` silences only the subject it is about.
    fn any_voice(
        &self,
        project: Option<Asked<'a>>,
        key: &str,
        mut ask: impl FnMut(View<'a>, NameId) -> Result<bool, TooManySteps>,
    ) -> Result<bool, TooManySteps> {
        let base = View::of(&self.rbac.base, key);
        let above = project.and_then(|project| project.layer);
        let view = above.map_or(base, |layer| base.under(layer, key));
        let default = Some(&*self.rbac.default_role).filter(|role| !role.is_empty());
        let defaults = [Some(base), above.map(|_| view)];
        // Step 1, and the default role in steps 3 and 4. A token of another project does not even get that.
        let stranger = match (project, self.subject.and_then(token_project)) {
            (Some(project), Some(own)) => own != project.name,
            _ => false,
        };
        for view in defaults.into_iter().flatten().take(if stranger { 1 } else { 2 }) {
            if let Some(role) = default.and_then(|role| view.id(role))
                && ask(view, role)?
            {
                return Ok(true);
            }
        }
        if !stranger {
            if let Some(subject) = self.subject.and_then(|subject| view.id(subject))
                && ask(view, subject)?
            {
                return Ok(true);
            }
            // Step 3: a project's token has no groups where its project was found.
            let is_token =
                project.is_some() && self.subject.is_some_and(|name| token_project(name).is_some());
            if !is_token {
                let others = self.groups.others.iter().filter_map(|name| view.id_above(name));
                for group in self.groups.known.iter().copied().chain(others) {
                    if view.is_member(group) && ask(view, group)? {
                        return Ok(true);
                    }
                }
            }
        }
        base.id("").map_or(Ok(false), |everybody| ask(base, everybody))
    }
}

/// One question about many objects; what does not depend on the object is found out once.
#[derive(Debug)]
pub struct Filter<'a> {
    caller: Caller<'a>,
    resource: &'a str,
    action: &'a str,
    /// What each subject may, by the beginning of objects.
    known: RefCell<HashMap<SmolStr, Vec<Selection<'a>>>>,
}

impl<'a> Filter<'a> {
    /// Whether the caller may, as [`Caller::may`].
    pub fn may(&self, object: &str) -> bool {
        let request = Request { resource: self.resource, action: self.action, object };
        let key = object_key(object);
        let project = project_of(self.resource, object);
        // The key says which project it is, but for odd names of projects. Addresses have several spellings.
        if question(&request).is_none()
            || spelling::ADDRESSED.iter().any(|one| one.as_str() == self.resource)
            || project.is_some_and(|name| name != key.strip_suffix('/').unwrap_or(key))
        {
            return self.caller.may(&request);
        }
        let mut known = self.known.borrow_mut();
        if known.len() >= FILTER_KEYS_MAX && !known.contains_key(key) {
            known.clear();
        }
        if !known.contains_key(key) {
            match self.select(key, project) {
                Ok(selections) => known.insert(key.into(), selections),
                Err(TooManySteps { .. }) => return false,
            };
        }
        let mut steps = Steps::new(STEPS_MAX);
        let selections = known.get(key).map_or(&[][..], Vec::as_slice);
        selections.iter().any(|selection| selection.allows(object, &mut steps).unwrap_or(false))
    }

    fn select(&self, key: &str, project: Option<&str>) -> Result<Vec<Selection<'a>>, TooManySteps> {
        let (mut found, mut steps) = (Found::default(), Steps::new(STEPS_MAX));
        let (resource, action) = (Word::resource(self.resource), Word::action(self.action));
        let mut selections = Vec::new();
        let project = project.and_then(|name| self.caller.rbac.project(name));
        self.caller.any_voice(project, key, |view, subject| {
            let selection = view.select(subject, &resource, &action, &mut found, &mut steps)?;
            if !selection.is_empty() {
                selections.push(selection);
            }
            Ok(false)
        })?;
        Ok(selections)
    }
}
