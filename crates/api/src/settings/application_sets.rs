//! Parameters of the `ApplicationSet` controller (ASET-310, ASET-314).

use std::collections::BTreeMap;
use std::time::Duration;

use super::reader::Reader;
use super::split_list;
use crate::applicationset::Policy;

/// Where all its variables begin.
const VARIABLE: &str = "ARGOCD_APPLICATIONSET_CONTROLLER_";
/// Longest distance of two looks that may be set.
const REQUEUE_MAX: Duration = Duration::from_hours(8760);
/// What stops everything where namespaces of others are served (ASET-290).
const SCM_NEEDS_LIST: &str = "When enabling applicationset in any namespace using applicationset-namespaces, you \
                              must either set --enable-scm-providers=false or specify --allowed-scm-providers";

/// What a generator is that this version does not know (ASET-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownGenerators {
    /// It contributes nothing, as the reference has it.
    #[default]
    Ignore,
    /// It fails the generation.
    Error,
}

/// What becomes of a deletion whose step takes too long (ASET-251).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepTimeout {
    /// It waits on.
    #[default]
    Wait,
    /// The stuck Application counts as gone after this time.
    ProceedAfter(Duration),
}

/// What the deletion of a set does whose order is not valid (ASET-253).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InvalidDeletionOrder {
    /// Everything goes at once.
    #[default]
    Fallback,
    /// Nothing goes until the order is right.
    Block,
}

/// Which resources without a project a set of a project may read (ASET-278).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GlobalResources {
    /// Those that the lists of its project permit.
    #[default]
    Permitted,
    /// None.
    None,
}

/// Parameters of the `ApplicationSet` controller, with their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationSets {
    /// `applicationsetcontroller.policy`; what may happen to generated Applications.
    pub policy: Policy,
    /// Whether a set may choose another policy (ASET-130).
    pub policy_override: bool,
    /// Globs or `/regexes/` of further namespaces whose sets are processed.
    pub namespaces: Vec<String>,
    /// Whether roll-outs go step by step.
    pub progressive_syncs: bool,
    /// Whether file patterns are doublestar globs instead of git pathspecs.
    pub new_git_file_globbing: bool,
    /// Whether submodules are fetched.
    pub git_submodules: bool,
    /// Whether directories whose names begin with a full stop are looked at.
    pub hidden_directories: bool,
    /// Whether SCM and pull request generators may be used.
    pub scm_providers: bool,
    /// Addresses they may name; empty permits all.
    pub allowed_scm_providers: Vec<String>,
    /// File with certificates for SCM providers.
    pub scm_root_ca_path: String,
    /// Proxy for SCM providers.
    pub scm_proxy_url: String,
    /// Hosts without that proxy.
    pub scm_no_proxy: String,
    /// How often git and decisions are looked at again, 3 m.
    pub requeue_after: Duration,
    /// Sets at once, 10.
    pub concurrent_reconciliations: usize,
    /// Applications of one set at once, 1.
    pub concurrent_application_updates: usize,
    /// Deliveries of webhooks at once, 50.
    pub webhook_parallelism: usize,
    /// Annotations that keep their live value everywhere.
    pub preserved_annotations: Vec<String>,
    /// Labels that keep their live value everywhere.
    pub preserved_labels: Vec<String>,
    /// Entries of `status.resources`; `None` for no limit.
    pub status_resources_max: Option<usize>,
    /// Whether requests to GitHub are counted.
    pub github_api_metrics: bool,
    /// Whether nothing is written.
    pub dry_run: bool,
    /// What a generator is that is not known.
    pub unknown_generators: UnknownGenerators,
    /// Whether filters of SCM providers work as documented instead of as the reference does (ASET-57).
    pub scm_filters_documented: bool,
    /// How long an Application may take to go before it counts as stuck, 2 m.
    pub deletion_stuck_after: Duration,
    /// What then becomes of the deletion.
    pub deletion_step_timeout: StepTimeout,
    /// What an invalid order means for a deletion.
    pub deletion_invalid_order: InvalidDeletionOrder,
    /// Whether stale Applications go in the order of a deletion too.
    pub deletion_order_on_prune: bool,
    /// Labels of sets that become metrics.
    pub metrics_labels: Vec<String>,
    /// Which resources without a project sets of a project may read.
    pub global_resources: GlobalResources,
    /// Whether sets without a project need the rights and namespaces for it (ASET-281, ASET-282).
    pub unscoped_restricted: bool,
    /// Globs or `/regexes/` of further namespaces that accept sets without a project.
    pub unscoped_namespaces: Vec<String>,
    /// Steps that generators and templates of one set may take together during a reconcile, 200,000,000: about eight
    /// seconds.
    pub template_steps: u64,
    /// Bytes that the generation of one set may hold, 160 MiB: some twenty thousand Applications.
    pub generation_bytes: usize,
    /// Why no set is processed at all.
    pub refusal: Option<String>,
}

impl ApplicationSets {
    pub(super) fn read(reader: &mut Reader<'_>, cm: &BTreeMap<String, String>) -> Self {
        let mut keys = Keys(reader);
        let mut refusals = Vec::new();
        let policy = match keys.text("policy", "POLICY") {
            "" => None,
            text => {
                if let Some(policy) = Policy::parse(text) {
                    Some(policy)
                } else {
                    refusals.push(format!(
                        "applicationsetcontroller.policy: {text:?} is none of create-only, create-update, \
                     create-delete, sync"
                    ));
                    None
                }
            }
        };
        // Deviation (ASET-130): the default follows the policy in force, wherever it was set.
        let policy_override = keys.flag("enable.policy.override", policy.is_none());
        let namespaces = keys.list("namespaces");
        let scm_providers = keys.flag("enable.scm.providers", true);
        if !keys.flag_as("enable.tokenref.strict.mode", "TOKENREF_STRICT_MODE", true) {
            // Deviation (ASET-59): without the label any Secret of the namespace could be sent to any address.
            keys.0.warn(
                "applicationsetcontroller.enable.tokenref.strict.mode: \"false\" has no effect: Secrets with tokens \
                 need the label argocd.argoproj.io/secret-type: scm-creds"
                    .to_owned(),
            );
        }
        let allowed_scm_providers = keys.list("allowed.scm.providers");
        if !namespaces.is_empty() && scm_providers && allowed_scm_providers.is_empty() {
            refusals.push(SCM_NEEDS_LIST.to_owned());
        }
        let resources_max = keys.number("status.max.resources.count", "MAX_RESOURCES_STATUS_COUNT", 5_000);
        let cm_text = |key: &str| cm.get(key).map_or("", String::as_str);
        let global_resources = match cm_text("applicationset.project.globalResources") {
            "none" => GlobalResources::None,
            "" | "permitted" => GlobalResources::Permitted,
            other => {
                keys.0.warn(format!(
                    "applicationset.project.globalResources: {other:?} is unknown, \"permitted\" is used"
                ));
                GlobalResources::Permitted
            }
        };
        Self {
            policy: policy.unwrap_or_default(),
            policy_override,
            namespaces,
            progressive_syncs: keys.flag("enable.progressive.syncs", false),
            new_git_file_globbing: keys.flag("enable.new.git.file.globbing", false),
            git_submodules: keys.0.flag(
                "applicationsetcontroller.enable.git.submodule",
                "ARGOCD_GIT_MODULES_ENABLED",
                true,
            ),
            hidden_directories: keys.0.flag(
                "reposerver.include.hidden.directories",
                "ARGOCD_REPO_SERVER_INCLUDE_HIDDEN_DIRECTORIES",
                false,
            ),
            scm_providers,
            allowed_scm_providers,
            scm_root_ca_path: keys.text("scm.root.ca.path", "SCM_ROOT_CA_PATH").to_owned(),
            scm_proxy_url: keys.text("scm.proxy.url", "SCM_PROXY_URL").to_owned(),
            scm_no_proxy: keys.text("scm.no.proxy", "SCM_NO_PROXY").to_owned(),
            requeue_after: keys.requeue_after(),
            concurrent_reconciliations: keys.count(
                "concurrent.reconciliations.max",
                "CONCURRENT_RECONCILIATIONS",
                10,
                i64::from(i32::MAX),
            ),
            concurrent_application_updates: keys.count(
                "concurrent.application.updates",
                "CONCURRENT_APPLICATION_UPDATES",
                1,
                200,
            ),
            webhook_parallelism: keys.count(
                "webhook.parallelism.limit",
                "WEBHOOK_PARALLELISM_LIMIT",
                50,
                1_000,
            ),
            preserved_annotations: keys.list("global.preserved.annotations"),
            preserved_labels: keys.list("global.preserved.labels"),
            status_resources_max: usize::try_from(resources_max).ok().filter(|max| *max > 0),
            github_api_metrics: keys.flag("enable.github.api.metrics", false),
            dry_run: keys.flag_as("dryrun", "DRY_RUN", false),
            unknown_generators: keys.choice(
                "unknown.generators",
                &[("ignore", UnknownGenerators::Ignore), ("error", UnknownGenerators::Error)],
            ),
            scm_filters_documented: keys
                .choice("scm.filters.mode", &[("argocd", false), ("documented", true)]),
            deletion_stuck_after: keys.duration("deletion.stuck.after", Duration::from_mins(2)),
            deletion_step_timeout: keys.step_timeout(),
            deletion_invalid_order: keys.choice(
                "deletion.invalid.order",
                &[("fallback", InvalidDeletionOrder::Fallback), ("block", InvalidDeletionOrder::Block)],
            ),
            deletion_order_on_prune: keys.flag("deletion.order.on.prune", false),
            metrics_labels: split_list(
                keys.text("metrics.applicationset.labels", "METRICS_APPLICATIONSET_LABELS"),
            ),
            global_resources,
            unscoped_restricted: !matches!(cm_text("applicationset.unscoped.policy"), "" | "allow"),
            unscoped_namespaces: split_list(cm_text("applicationset.unscoped.namespaces")),
            template_steps: keys.steps("template.steps", 200_000_000),
            generation_bytes: keys.mebibytes("generation.memory.mb", 160),
            refusal: (!refusals.is_empty()).then(|| refusals.join("; ")),
        }
    }

    /// The policy for a set that asks for one (ASET-130). What it asks for and does not exist is the installation's.
    pub fn policy_for(&self, asked: Option<&str>) -> Policy {
        asked.filter(|_| self.policy_override).and_then(Policy::parse).unwrap_or(self.policy)
    }
}

impl Default for ApplicationSets {
    fn default() -> Self {
        let none = BTreeMap::new();
        Self::read(&mut Reader::new(&none, &none), &none)
    }
}

/// The keys that begin with `applicationsetcontroller.`.
struct Keys<'r, 'a>(&'r mut Reader<'a>);

impl<'a> Keys<'_, 'a> {
    fn key(name: &str) -> String {
        format!("applicationsetcontroller.{name}")
    }

    fn variable(suffix: &str) -> String {
        format!("{VARIABLE}{suffix}")
    }

    /// The variable of a key, where it is spelled alike.
    fn own(name: &str) -> String {
        Self::variable(&name.replace('.', "_").to_ascii_uppercase())
    }

    fn text(&self, name: &str, suffix: &str) -> &'a str {
        self.0.text(&Self::key(name), &Self::variable(suffix)).unwrap_or("")
    }

    fn list(&self, name: &str) -> Vec<String> {
        split_list(self.0.text(&Self::key(name), &Self::own(name)).unwrap_or(""))
    }

    fn flag(&mut self, name: &str, default: bool) -> bool {
        self.0.flag(&Self::key(name), &Self::own(name), default)
    }

    fn flag_as(&mut self, name: &str, suffix: &str, default: bool) -> bool {
        self.0.flag(&Self::key(name), &Self::variable(suffix), default)
    }

    fn number(&mut self, name: &str, suffix: &str, default: i64) -> i64 {
        self.0.number(&Self::key(name), &Self::variable(suffix), default, 0..=i64::from(i32::MAX))
    }

    fn count(&mut self, name: &str, suffix: &str, default: i64, most: i64) -> usize {
        let number = self.0.number(&Self::key(name), &Self::variable(suffix), default, 1..=most);
        usize::try_from(number).unwrap_or(1)
    }

    fn steps(&mut self, name: &str, default: i64) -> u64 {
        let steps =
            self.0.number(&Self::key(name), &Self::own(name), default, 1_000_000..=i64::from(i32::MAX));
        u64::try_from(steps).unwrap_or_default()
    }

    fn mebibytes(&mut self, name: &str, default: i64) -> usize {
        let number = self.0.number(&Self::key(name), &Self::own(name), default, 16..=65_536);
        usize::try_from(number).unwrap_or_default() << 20
    }

    fn duration(&mut self, name: &str, default: Duration) -> Duration {
        self.0.duration(&Self::key(name), &Self::own(name), default)
    }

    fn choice<T: Copy + Default>(&mut self, name: &str, words: &[(&str, T)]) -> T {
        let key = Self::key(name);
        let Some(text) = self.0.text(&key, &Self::own(name)) else { return T::default() };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            *value
        } else {
            let default = words.first().map_or("", |(word, _)| word);
            self.0.warn(format!("{key}: {text:?} is unknown, {default:?} is used"));
            T::default()
        }
    }

    fn requeue_after(&mut self) -> Duration {
        let default = Duration::from_mins(3);
        let found = self.duration("requeue.after", default);
        if (Duration::from_secs(1)..=REQUEUE_MAX).contains(&found) {
            return found;
        }
        self.0
            .warn(format!("{}: {found:?} is out of range, {default:?} is used", Self::key("requeue.after")));
        default
    }

    fn step_timeout(&mut self) -> StepTimeout {
        let after = self.duration("deletion.step.timeout", Duration::ZERO);
        let words = [("wait", false), ("proceed", true)];
        let proceeds = self.choice("deletion.step.timeout.action", &words);
        if proceeds && !after.is_zero() { StepTimeout::ProceedAfter(after) } else { StepTimeout::Wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Settings, SettingsData};

    fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn read(params: &[(&str, &str)], env: &[(&str, &str)], cm: &[(&str, &str)]) -> Settings {
        let (cm, params, env) = (map(cm), map(params), map(env));
        Settings::new(SettingsData { cm, params, env, ..SettingsData::default() })
    }

    #[test]
    fn aset_310_defaults_are_those_of_the_reference() {
        let settings = read(&[], &[], &[]);
        let sets = settings.application_sets();
        assert_eq!(sets, &ApplicationSets::default());
        assert_eq!((sets.policy, sets.policy_override), (Policy::Sync, true));
        assert_eq!((sets.scm_providers, sets.progressive_syncs), (true, false));
        assert_eq!(sets.requeue_after, Duration::from_mins(3));
        assert_eq!(sets.status_resources_max, Some(5_000));
        assert_eq!(sets.refusal, None);
        assert!(!settings.warnings().iter().any(|text| text.contains("applicationset")));
    }

    #[test]
    fn aset_130_overrides_follow_the_policy_in_force() {
        let params = [("applicationsetcontroller.policy", "create-only")];
        let settings = read(&params, &[], &[]);
        let sets = settings.application_sets();
        assert_eq!((sets.policy, sets.policy_override), (Policy::CreateOnly, false));
        assert_eq!(sets.policy_for(Some("sync")), Policy::CreateOnly);
        let env = [("ARGOCD_APPLICATIONSET_CONTROLLER_ENABLE_POLICY_OVERRIDE", "true")];
        let settings = read(&params, &env, &[]);
        assert_eq!(settings.application_sets().policy_for(Some("create-update")), Policy::CreateUpdate);
        assert_eq!(settings.application_sets().policy_for(Some("odd")), Policy::CreateOnly);
        let settings = read(&[("applicationsetcontroller.policy", "all")], &[], &[]);
        assert!(settings.application_sets().refusal.as_ref().unwrap().contains("\"all\""));
    }

    #[test]
    fn aset_290_namespaces_of_others_need_a_list_of_providers() {
        let namespaces = ("applicationsetcontroller.namespaces", "team-*");
        let refusal = |more: &[(&str, &str)]| {
            let params: Vec<_> = more.iter().copied().chain([namespaces]).collect();
            read(&params, &[], &[]).application_sets().refusal.clone()
        };
        assert_eq!(refusal(&[]).as_deref(), Some(SCM_NEEDS_LIST));
        assert_eq!(refusal(&[("applicationsetcontroller.enable.scm.providers", "false")]), None);
        assert_eq!(refusal(&[("applicationsetcontroller.allowed.scm.providers", "https://h")]), None);
    }

    #[test]
    fn aset_59_unlabelled_tokens_cannot_be_switched_on() {
        let warnings = |params: &[(&str, &str)], env: &[(&str, &str)]| {
            let settings = read(params, env, &[]);
            settings.warnings().iter().filter(|text| text.contains("scm-creds")).count()
        };
        let key = "applicationsetcontroller.enable.tokenref.strict.mode";
        assert_eq!(warnings(&[], &[]) + warnings(&[(key, "true")], &[]), 0);
        assert_eq!(warnings(&[(key, "false")], &[]), 1);
        assert_eq!(warnings(&[], &[("ARGOCD_APPLICATIONSET_CONTROLLER_TOKENREF_STRICT_MODE", "false")]), 1);
    }

    #[test]
    fn aset_314_unknown_values_are_reported_and_the_strict_keys_are_strict() {
        let settings = read(
            &[
                ("applicationsetcontroller.unknown.generators", "maybe"),
                ("applicationsetcontroller.requeue.after", "0s"),
                ("applicationsetcontroller.deletion.step.timeout", "5m"),
                ("applicationsetcontroller.deletion.step.timeout.action", "proceed"),
                ("applicationsetcontroller.status.max.resources.count", "0"),
            ],
            &[],
            &[("applicationset.unscoped.policy", "odd"), ("applicationset.project.globalResources", "odd")],
        );
        let sets = settings.application_sets();
        assert_eq!(sets.unknown_generators, UnknownGenerators::Ignore);
        assert!(sets.unscoped_restricted);
        assert_eq!(sets.deletion_step_timeout, StepTimeout::ProceedAfter(Duration::from_mins(5)));
        assert_eq!(sets.status_resources_max, None);
        let told: Vec<_> = settings.warnings().iter().filter(|text| text.contains("is used")).collect();
        assert_eq!(told.len(), 3, "{told:?}");
    }
}
