//! What the API answers about a set before it stores it (ASET-253, ASET-279..282, ASET-300, ASET-301).

use tiphys_api::settings::Settings;
use tiphys_api::{AppProject, ApplicationSet};
use tiphys_policy::project::{namespace_enabled, namespace_permitted};
use tiphys_policy::rbac::{Caller, Request, application_set_object};

use crate::deletion::Order;
use crate::generator;
use crate::references;
use crate::scope::{namespace_of, namespace_refusal};

/// Resource of sets in policies.
const RESOURCE: &str = "applicationsets";

/// Class of a refusal, by the names of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The set is wrong.
    InvalidArgument,
    /// It does not exist.
    NotFound,
    /// The caller may not.
    PermissionDenied,
    /// The reference has no class for it.
    Unknown,
}

impl Code {
    /// The name of gRPC.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "InvalidArgument",
            Self::NotFound => "NotFound",
            Self::PermissionDenied => "PermissionDenied",
            Self::Unknown => "Unknown",
        }
    }
}

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Class.
    pub code: Code,
    /// Text for people.
    pub message: String,
}

impl Refusal {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// What somebody wants to do with a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Look at it.
    Get,
    /// Create it.
    Create,
    /// Create it, or replace one that is there.
    Update,
    /// Delete it.
    Delete,
}

impl Verb {
    /// Reads the word of policies.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "get" => Some(Self::Get),
            "create" => Some(Self::Create),
            "update" => Some(Self::Update),
            "delete" => Some(Self::Delete),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// What the API knows.
#[derive(Clone, Copy)]
pub struct ApiFacts<'a> {
    /// Settings.
    pub settings: &'a Settings,
    /// Effective projects by name.
    pub project: &'a dyn Fn(&str) -> Option<&'a AppProject>,
    /// Namespace Tiphys runs in.
    pub control_plane_namespace: &'a str,
}

/// Whether a set may be stored, whoever asks (ASET-59, ASET-253, ASET-280, ASET-300).
///
/// # Errors
/// What is wrong with it.
pub fn validate(set: &ApplicationSet, facts: &ApiFacts<'_>) -> Result<(), Refusal> {
    check_form(set)?;
    check_namespace(set, facts)?;
    check_references(set, facts)?;
    check_projects(set, facts)
}

/// Refuses Secrets, `ConfigMaps` and addresses that no generator of this set will ever use.
fn check_references(set: &ApplicationSet, facts: &ApiFacts<'_>) -> Result<(), Refusal> {
    let settings = facts.settings.application_sets();
    references::check_set(set, settings, facts.control_plane_namespace)
        .map_err(|why| Refusal::new(Code::InvalidArgument, why))
}

fn check_form(set: &ApplicationSet) -> Result<(), Refusal> {
    let invalid = |why: &str| Refusal::new(Code::Unknown, format!("error validating ApplicationSets: {why}"));
    let is_templated = |project: &str| project.contains("{{");
    let mut projects = std::iter::once(set.template_project()).chain(set.generator_projects());
    if set.spec.project.is_empty() && projects.any(is_templated) {
        return Err(invalid(
            "the Argo CD API does not currently support creating ApplicationSets with templated `project` fields",
        ));
    }
    if let Some(text) = generator::unrecognized(set) {
        return Err(invalid(&text));
    }
    match Order::of(set.spec.strategy.as_ref()) {
        Ok(_) => Ok(()),
        Err(error) => Err(Refusal::new(Code::InvalidArgument, error.to_string())),
    }
}

fn check_namespace(set: &ApplicationSet, facts: &ApiFacts<'_>) -> Result<(), Refusal> {
    let namespace = namespace_of(set, facts.control_plane_namespace);
    if namespace_enabled(facts.settings, namespace, facts.control_plane_namespace) {
        return Ok(());
    }
    Err(Refusal::new(Code::PermissionDenied, format!("namespace '{namespace}' is not permitted")))
}

fn check_projects(set: &ApplicationSet, facts: &ApiFacts<'_>) -> Result<(), Refusal> {
    let invalid = |text: String| Refusal::new(Code::InvalidArgument, text);
    let missing =
        |name: &str| invalid(format!("ApplicationSet references project {name} which does not exist"));
    let (own, of_template) = (set.spec.project.as_str(), set.template_project());
    if own.is_empty() {
        let mut named = std::iter::once(of_template).chain(set.generator_projects());
        return named.try_for_each(|name| (facts.project)(name).map(drop).ok_or_else(|| missing(name)));
    }
    let project = (facts.project)(own).ok_or_else(|| missing(own))?;
    let namespace = namespace_of(set, facts.control_plane_namespace);
    if !namespace_permitted(project, "", namespace, facts.control_plane_namespace).permitted {
        return Err(invalid(namespace_refusal(namespace, own)));
    }
    if of_template.is_empty() || of_template == own || of_template.contains("{{") {
        return Ok(());
    }
    Err(invalid(format!("template project '{of_template}' does not match ApplicationSet project '{own}'")))
}

/// Whether a caller may do something with a set. `submitted` is what the call carries, `existing` what is stored.
///
/// # Errors
/// Why not: what is wrong with the set, or what the caller lacks.
pub fn permit(
    verb: Verb,
    caller: &Caller<'_>,
    submitted: Option<&ApplicationSet>,
    existing: Option<&ApplicationSet>,
    facts: &ApiFacts<'_>,
) -> Result<(), Refusal> {
    let absent = || Refusal::new(Code::NotFound, "the ApplicationSet does not exist");
    match verb {
        Verb::Get | Verb::Delete => {
            let set = existing.or(submitted).ok_or_else(absent)?;
            check_namespace(set, facts)?;
            may(caller, verb, set, facts)
        }
        Verb::Create | Verb::Update => {
            let set = submitted.or(existing).ok_or_else(absent)?;
            check_form(set)?;
            check_namespace(set, facts)?;
            may(caller, Verb::Create, set, facts)?;
            may_name_projects(caller, set, facts)?;
            let changed = existing.filter(|stored| differs(stored, set));
            let unscoped_verb = if existing.is_some() { Verb::Update } else { Verb::Create };
            if set.spec.project.is_empty()
                && let Some(message) = caller.may_be_unscoped(unscoped_verb.as_str()).message
            {
                return Err(Refusal::new(Code::PermissionDenied, message));
            }
            check_references(set, facts)?;
            check_projects(set, facts)?;
            match changed {
                None => Ok(()),
                Some(_) if verb == Verb::Create => Err(Refusal::new(
                    Code::InvalidArgument,
                    "existing ApplicationSet spec is different, use upsert flag to force update",
                )),
                Some(stored) => may_replace(caller, stored, set, facts),
            }
        }
    }
}

/// Replacing needs the right on the new object, and where the project changes on the old one too (ASET-280, ASET-301).
fn may_replace(
    caller: &Caller<'_>,
    stored: &ApplicationSet,
    set: &ApplicationSet,
    facts: &ApiFacts<'_>,
) -> Result<(), Refusal> {
    may(caller, Verb::Update, set, facts)?;
    if stored.rbac_project() != set.rbac_project() {
        may(caller, Verb::Create, set, facts)?;
        may(caller, Verb::Update, stored, facts)?;
    }
    Ok(())
}

/// The template of a generator may name another project than that of the set (ASET-26): the right to make such sets
/// there is needed, too. In a set with `spec.project` nothing is made in another project (ASET-277).
fn may_name_projects(caller: &Caller<'_>, set: &ApplicationSet, facts: &ApiFacts<'_>) -> Result<(), Refusal> {
    if !set.spec.project.is_empty() {
        return Ok(());
    }
    let mut others = set.generator_projects().filter(|project| *project != set.rbac_project());
    others.try_for_each(|project| {
        let mut there = set.clone();
        project.clone_into(&mut there.spec.project);
        may(caller, Verb::Create, &there, facts)
    })
}

fn may(caller: &Caller<'_>, verb: Verb, set: &ApplicationSet, facts: &ApiFacts<'_>) -> Result<(), Refusal> {
    let object = application_set_object(set, facts.control_plane_namespace);
    let request = Request { resource: RESOURCE, action: verb.as_str(), object: &object };
    match caller.check(&request).message {
        None => Ok(()),
        Some(message) => Err(Refusal::new(Code::PermissionDenied, message)),
    }
}

/// Whether storing a set would change one (ASET-301).
pub fn differs(stored: &ApplicationSet, submitted: &ApplicationSet) -> bool {
    let (a, b) = (&stored.metadata, &submitted.metadata);
    stored.spec != submitted.spec
        || a.labels != b.labels
        || a.annotations != b.annotations
        || a.finalizers != b.finalizers
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use tiphys_api::settings::SettingsData;
    use tiphys_policy::rbac::{Rbac, RbacConfig, RbacOptions};

    use super::*;

    fn set(project: &str, template_project: &str) -> ApplicationSet {
        let spec = json!({"project": project, "generators": [{"list": {}}],
            "template": {"metadata": {"name": "x"}, "spec": {"project": template_project}}});
        serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap()
    }

    struct Api {
        policy: &'static str,
        settings: Settings,
        projects: BTreeMap<&'static str, AppProject>,
    }

    impl Api {
        fn new(policy: &'static str) -> Self {
            let project = |name: &'static str, spec: Value| {
                let project = json!({"metadata": {"name": name}, "spec": spec});
                (name, serde_json::from_value(project).unwrap())
            };
            let projects =
                [project("red", json!({"sourceNamespaces": ["team"]})), project("blue", json!({}))];
            Self { policy, settings: Settings::default(), projects: projects.into() }
        }

        fn restricted(policy: &'static str) -> Self {
            let cm = [("applicationset.unscoped.policy".to_owned(), "restrict".to_owned())].into();
            Self {
                settings: Settings::new(SettingsData { cm, ..SettingsData::default() }),
                ..Self::new(policy)
            }
        }

        fn with_facts<T>(&self, ask: impl FnOnce(&ApiFacts<'_>) -> T) -> T {
            let project = |name: &str| self.projects.get(name);
            ask(&ApiFacts { settings: &self.settings, project: &project, control_plane_namespace: "argocd" })
        }

        fn validate(&self, set: &ApplicationSet) -> Result<(), String> {
            self.with_facts(|facts| validate(set, facts))
                .map_err(|refusal| format!("{}: {refusal}", refusal.code.as_str()))
        }

        fn ask(
            &self,
            verb: Verb,
            submitted: Option<&ApplicationSet>,
            existing: Option<&ApplicationSet>,
        ) -> Result<(), Code> {
            let rbac = Rbac::compile(&RbacConfig::of_text("", self.policy).unwrap()).unwrap();
            let rbac = rbac.with_options(RbacOptions::from_settings(&self.settings));
            let claims = json!({"sub": "kim"});
            let caller = rbac.caller(claims.as_object());
            self.with_facts(|facts| permit(verb, &caller, submitted, existing, facts))
                .map_err(|refusal| refusal.code)
        }
    }

    #[test]
    fn aset_300_what_is_wrong_with_a_set() {
        let api = Api::new("");
        assert_eq!(api.validate(&set("", "red")), Ok(()));
        assert_eq!(
            api.validate(&set("", "{{x}}")).unwrap_err(),
            "Unknown: error validating ApplicationSets: the Argo CD API does not currently support creating ApplicationSets with templated `project` fields"
        );
        let mut unknown = set("", "red");
        unknown.spec.generators = vec![serde_json::Map::new()];
        assert_eq!(
            api.validate(&unknown).unwrap_err(),
            "Unknown: error validating ApplicationSets: ApplicationSet s contains unrecognized generators"
        );
        assert_eq!(
            api.validate(&set("", "green")).unwrap_err(),
            "InvalidArgument: ApplicationSet references project green which does not exist"
        );
        let mut elsewhere = set("", "red");
        elsewhere.metadata.namespace = "elsewhere".to_owned();
        assert_eq!(
            api.validate(&elsewhere).unwrap_err(),
            "PermissionDenied: namespace 'elsewhere' is not permitted"
        );
        let mut odd = set("", "red");
        odd.spec.strategy = serde_json::from_value(json!({"deletionOrder": "Reverse"})).unwrap();
        assert!(
            api.validate(&odd).unwrap_err().starts_with("InvalidArgument: deletionOrder Reverse requires")
        );
    }

    #[test]
    fn aset_280_scoped_sets() {
        let mut api = Api::new("");
        for (project, template) in [("red", ""), ("red", "red"), ("red", "{{x}}")] {
            assert_eq!(api.validate(&set(project, template)), Ok(()));
        }
        assert!(api.validate(&set("red", "blue")).unwrap_err().starts_with("InvalidArgument: "));
        assert_eq!(
            api.validate(&set("green", "")).unwrap_err(),
            "InvalidArgument: ApplicationSet references project green which does not exist"
        );
        let params = [("application.namespaces".to_owned(), "*".to_owned())].into();
        api.settings = Settings::new(SettingsData { params, ..SettingsData::default() });
        let mut placed = set("red", "");
        placed.metadata.namespace = "team".to_owned();
        assert_eq!(api.validate(&placed), Ok(()));
        placed.metadata.namespace = "other".to_owned();
        assert_eq!(
            api.validate(&placed).unwrap_err(),
            "InvalidArgument: namespace other is not permitted to use project red"
        );
    }

    #[test]
    fn aset_279_rights_are_asked_for_the_scoping_project() {
        let api = Api::new(
            "p, kim, applicationsets, create, red/*, allow\np, kim, applicationsets, get, red/s, allow",
        );
        assert_eq!(api.ask(Verb::Create, Some(&set("red", "")), None), Ok(()));
        assert_eq!(api.ask(Verb::Create, Some(&set("", "red")), None), Ok(()));
        assert_eq!(api.ask(Verb::Create, Some(&set("blue", "")), None), Err(Code::PermissionDenied));
        assert_eq!(api.ask(Verb::Create, Some(&set("red", "blue")), None), Err(Code::InvalidArgument));
        assert_eq!(api.ask(Verb::Get, None, Some(&set("red", "x"))), Ok(()));
        assert_eq!(api.ask(Verb::Delete, None, Some(&set("red", ""))), Err(Code::PermissionDenied));
        assert_eq!(api.ask(Verb::Get, None, None), Err(Code::NotFound));
    }

    #[test]
    fn aset_301_what_exists_is_replaced_with_the_right_to() {
        let create = Api::new("p, kim, applicationsets, create, */*, allow");
        let stored = set("red", "");
        let mut changed = set("red", "");
        changed.spec.go_template = true;
        assert_eq!(create.ask(Verb::Create, Some(&stored), Some(&stored)), Ok(()));
        assert_eq!(create.ask(Verb::Create, Some(&changed), Some(&stored)), Err(Code::InvalidArgument));
        assert_eq!(create.ask(Verb::Update, Some(&changed), Some(&stored)), Err(Code::PermissionDenied));
        assert_eq!(create.ask(Verb::Update, Some(&stored), Some(&stored)), Ok(()));
        let both = Api::new("p, kim, applicationsets, *, red/*, allow");
        assert_eq!(both.ask(Verb::Update, Some(&changed), Some(&stored)), Ok(()));
        let update_only = Api::new("p, kim, applicationsets, update, red/*, allow");
        assert_eq!(update_only.ask(Verb::Update, Some(&changed), Some(&stored)), Err(Code::PermissionDenied));
    }

    #[test]
    fn aset_280_moving_a_set_needs_rights_in_both_projects() {
        let (stored, moved) = (set("red", ""), set("blue", ""));
        for (policy, expected) in [
            ("p, kim, applicationsets, *, */*, allow", Ok(())),
            ("p, kim, applicationsets, *, blue/*, allow", Err(Code::PermissionDenied)),
            (
                "p, kim, applicationsets, *, blue/*, allow\np, kim, applicationsets, update, red/*, allow",
                Ok(()),
            ),
            (
                "p, kim, applicationsets, create, blue/*, allow\np, kim, applicationsets, update, red/*, allow",
                Err(Code::PermissionDenied),
            ),
        ] {
            assert_eq!(Api::new(policy).ask(Verb::Update, Some(&moved), Some(&stored)), expected, "{policy}");
        }
    }

    #[test]
    fn aset_281_sets_without_a_project_may_need_a_right_of_their_own() {
        let rule = "p, kim, applicationsets, *, red/*, allow";
        let scoped = set("red", "");
        let unscoped = set("", "red");
        assert_eq!(Api::new(rule).ask(Verb::Create, Some(&unscoped), None), Ok(()));
        let api = Api::restricted(rule);
        assert_eq!(api.ask(Verb::Create, Some(&unscoped), None), Err(Code::PermissionDenied));
        assert_eq!(api.ask(Verb::Create, Some(&scoped), None), Ok(()));
        assert_eq!(
            api.ask(Verb::Update, Some(&unscoped), Some(&scoped)),
            Err(Code::PermissionDenied),
            "removing the project"
        );
        assert_eq!(api.ask(Verb::Update, Some(&scoped), Some(&unscoped)), Ok(()));
        let unscoped_right = Api::restricted(
            "p, kim, applicationsets, *, red/*, allow\np, kim, applicationsets, unscoped, *, allow",
        );
        assert_eq!(unscoped_right.ask(Verb::Create, Some(&unscoped), None), Ok(()));
        let everywhere = Api::restricted("p, kim, applicationsets, *, */*, allow");
        assert_eq!(everywhere.ask(Verb::Create, Some(&unscoped), None), Ok(()));
    }

    fn naming(project: &str, generator: &Value) -> ApplicationSet {
        let mut set = set(project, "red");
        set.spec.generators = vec![generator.as_object().unwrap().clone()];
        set
    }

    #[test]
    fn sec_sets_naming_secrets_of_the_installation_are_refused() {
        let api = Api::new("p, kim, applicationsets, *, red/*, allow");
        let own = json!({"secretName": "argocd-secret", "key": "server.secretkey"});
        let github = json!({"github": {"organization": "o", "api": "https://evil", "tokenRef": own}});
        let cases = [
            json!({"scmProvider": github}),
            json!({"pullRequest": {"github": {"owner": "o", "repo": "r", "tokenRef": own}}}),
            json!({"scmProvider": {"bitbucketServer": {"project": "p", "api": "https://evil",
                "basicAuth": {"username": "u", "passwordRef": own}}}}),
            json!({"scmProvider": {"azureDevOps": {"organization": "o", "teamProject": "p", "accessTokenRef": own}}}),
            json!({"scmProvider": {"github": {"organization": "o", "appSecretName": "argocd-secret"}}}),
            json!({"plugin": {"configMapRef": {"name": "argocd-cm"}}}),
            json!({"clusterDecisionResource": {"configMapRef": "argocd-rbac-cm", "name": "n"}}),
            json!({"scmProvider": {"gitlab": {"group": "g", "caRef": {"configMapName": "argocd-cm", "key": "k"}}}}),
            json!({"matrix": {"generators": [{"list": {}}, {"scmProvider": github}]}}),
            json!({"merge": {"mergeKeys": ["a"], "generators": [{"list": {}},
                {"matrix": {"generators": [{"list": {}}, {"scmProvider": github}]}}]}}),
        ];
        for generator in cases {
            for project in ["", "red"] {
                let set = naming(project, &generator);
                let refusal = api.validate(&set).unwrap_err();
                assert!(refusal.starts_with("InvalidArgument: "), "{generator}: {refusal}");
                for verb in [Verb::Create, Verb::Update] {
                    assert_eq!(api.ask(verb, Some(&set), None), Err(Code::InvalidArgument), "{generator}");
                }
            }
        }
    }

    #[test]
    fn sec_projects_of_generator_templates_need_rights() {
        let template = |project: &str| {
            naming(
                "",
                &json!({"list": {"elements": [{}], "template": {"metadata": {},
                    "spec": {"project": project, "destination": {}}}}}),
            )
        };
        let red = Api::new("p, kim, applicationsets, *, red/*, allow");
        for (project, expected) in [
            ("", Ok(())),
            ("red", Ok(())),
            ("blue", Err(Code::PermissionDenied)),
            ("{{ project }}", Err(Code::Unknown)),
            ("none", Err(Code::PermissionDenied)),
        ] {
            assert_eq!(red.ask(Verb::Create, Some(&template(project)), None), expected, "{project}");
            assert_eq!(red.ask(Verb::Update, Some(&template(project)), None), expected, "{project}");
        }
        let both = Api::new("p, kim, applicationsets, *, */*, allow");
        assert_eq!(both.ask(Verb::Create, Some(&template("blue")), None), Ok(()));
        assert_eq!(both.ask(Verb::Create, Some(&template("none")), None), Err(Code::InvalidArgument));
    }
}
