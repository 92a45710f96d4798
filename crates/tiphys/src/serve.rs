//! `tiphys serve`: chosen roles in one process, with the ports and the flags of the components of Argo CD that they stand
//! for (CLI-1011, CTL-127).
//!
//! Flags of this program are read first. What is left belongs to a component: to the one that its prefix names
//! (`--controller.status-processors`), else to all chosen ones that have such a flag.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

use clap::{ArgAction, CommandFactory as _, Parser};
use tiphys_control::metrics::Group;
use tiphys_process::runtime::fail;

use crate::components::{self, flags};
use crate::run::{self, MetricsPort, Roles, Run};
use flags::{CONTROLLER, Known, REPO, SERVER, SETS, Told};

/// What a process can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Controller,
    Api,
    Repo,
    Sets,
    Commit,
}

/// Words for roles, which are prefixes of flags, too.
const WORDS: [(&str, Role); 7] = [
    ("controller", Role::Controller),
    ("api", Role::Api),
    ("server", Role::Api),
    ("repo", Role::Repo),
    ("appset", Role::Sets),
    ("commit", Role::Commit),
    ("commitserver", Role::Commit),
];
/// The role that nobody plays yet.
const NOTIFICATIONS: &str = "notifications";
/// All roles, as the flag has them.
const ALL: &str = "controller,api,repo,appset,commit";

impl Role {
    fn named(word: &str) -> Option<Self> {
        WORDS.iter().find(|(known, _)| *known == word).map(|(_, role)| *role)
    }

    fn flags(self) -> &'static [Known] {
        match self {
            Self::Controller => CONTROLLER,
            Self::Api => SERVER,
            Self::Repo => REPO,
            Self::Sets => SETS,
            Self::Commit => &[],
        }
    }

    /// The port of its metrics, as Argo CD has it. That of sets is the API's there, and theirs are with the controller's.
    fn metrics_port(self) -> Option<u16> {
        match self {
            Self::Controller => Some(8082),
            Self::Api => Some(8083),
            Self::Repo => Some(8084),
            Self::Commit => Some(8087),
            Self::Sets => None,
        }
    }
}

/// Run chosen roles, as pods do. Flags of Argo CD's components are taken, too, with the name of a role and a full stop
/// before them where several have one of that name (`--api.metrics-port`).
#[derive(Parser, Debug)]
#[command(name = "tiphys serve", disable_version_flag = true)]
struct Serve {
    #[command(flatten)]
    run: Run,
    /// Roles, separated by commas: controller, api, repo, appset and commit; all but api need the controller
    #[arg(long, default_value = ALL, value_delimiter = ',')]
    roles: Vec<String>,
    /// Port of the controller's metrics and health endpoints; those of the others are `--api.metrics-port` (8083),
    /// `--repo.metrics-port` (8084) and `--commit.metrics-port` (8087), and 0 opens none
    #[arg(long, default_value_t = 8082)]
    metrics_port: u16,
    /// Do not start with a flag that nobody knows
    #[arg(long)]
    strict: bool,
}

/// Words sorted by whom they are for.
#[derive(Debug, Default)]
struct Sorted {
    own: Vec<OsString>,
    told: BTreeMap<Role, Told>,
    /// Flags without effect, and why.
    inert: Vec<(String, String)>,
    unknown: Vec<String>,
}

/// `tiphys serve`.
pub(crate) fn serve(args: &[OsString]) -> ExitCode {
    let mut sorted = sort(args);
    let serve = match tiphys_process::arguments::parse::<Serve>("tiphys serve", &sorted.own) {
        Ok(serve) => serve,
        Err(code) => return code,
    };
    let roles = match chosen(&serve.roles) {
        Ok(roles) => roles,
        Err(text) => return fail(&text, 2),
    };
    if serve.strict && !sorted.unknown.is_empty() {
        return fail(&format!("unknown flags: {}", sorted.unknown.join(", ")), 2);
    }
    let mut environment = run::environment(&serve.run);
    for (role, told) in &sorted.told {
        if roles.contains(role) {
            environment.extend(told.variables.clone());
            sorted.inert.extend(told.inert.clone());
        } else {
            let all = told.variables.keys().cloned().chain(told.inert.iter().map(|(flag, _)| flag.clone()));
            sorted.inert.extend(all.map(|what| (what, format!("the role {role:?} is not one of --roles"))));
        }
    }
    if !roles.contains(&Role::Commit) {
        environment.insert("ARGOCD_HYDRATOR_ENABLED".to_owned(), "false".to_owned());
    }
    let ports = match ports(&serve, &roles, &sorted.told) {
        Ok(ports) => ports,
        Err(text) => return fail(&text, 2),
    };
    let run = settled(serve.run, &sorted.told, &environment);
    run.begin_log();
    for flag in &sorted.unknown {
        tracing::warn!(flag, why = flags::UNKNOWN, "a flag has no effect");
    }
    for (flag, why) in &sorted.inert {
        tracing::warn!(flag, why, "a flag has no effect");
    }
    let set_webhooks = sorted.told.get(&Role::Sets).and_then(|told| told.webhook_port);
    let roles = Roles {
        metrics: ports,
        set_webhooks: set_webhooks.filter(|_| roles.contains(&Role::Sets)),
        has_api: roles.contains(&Role::Api),
        has_sets: roles.contains(&Role::Sets),
        only_looks: !roles.contains(&Role::Controller),
        is_component: false,
    };
    run::start_as(run, roles, environment)
}

/// The roles of a list of words.
fn chosen(words: &[String]) -> Result<BTreeSet<Role>, String> {
    let mut roles = BTreeSet::new();
    for word in words.iter().map(|word| word.trim()).filter(|word| !word.is_empty()) {
        if word == NOTIFICATIONS {
            return Err("this version sends no notifications; leave the role notifications out".to_owned());
        }
        let role = Role::named(word).ok_or_else(|| {
            format!("unknown role {word:?}; this version has the roles {}", ALL.replace(',', ", "))
        })?;
        roles.insert(role);
    }
    if !roles.contains(&Role::Controller) && roles != BTreeSet::from([Role::Api]) {
        return Err(
            "the roles repo, appset and commit run inside the controller; add the role controller".to_owned()
        );
    }
    Ok(roles)
}

/// Sorts words: those of this program, and flags of components.
fn sort(args: &[OsString]) -> Sorted {
    let command = Serve::command();
    let own = |name: &str| {
        command.get_arguments().find(|argument| {
            argument.get_long() == Some(name)
                || argument.get_short().is_some_and(|short| name.len() == 1 && name.starts_with(short))
        })
    };
    let mut sorted = Sorted::default();
    let mut rest = args.iter().peekable();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy();
        let Some(flag) =
            text.strip_prefix("--").or_else(|| text.strip_prefix('-')).filter(|flag| !flag.is_empty())
        else {
            sorted.own.push(word.clone());
            continue;
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        // `-nteam`: a short flag with its value.
        let has_value = !text.starts_with("--") && flag.get(..1).is_some_and(|short| own(short).is_some());
        if ["h", "help"].contains(&name) || (has_value && own(name).is_none()) {
            sorted.own.push(word.clone());
        } else if let Some(argument) = own(name) {
            let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
            match value.as_deref() {
                // Go's way to say so.
                Some("true" | "1") if is_switch => sorted.own.push(format!("--{name}").into()),
                Some("false" | "0") if is_switch => {}
                Some(_) => sorted.own.push(word.clone()),
                None => {
                    sorted.own.push(word.clone());
                    let next = rest.next_if(|_| !is_switch);
                    sorted.own.extend(next.cloned());
                }
            }
        } else {
            let value = value.or_else(|| {
                let next = rest.next_if(|next| flags::is_value(&next.to_string_lossy()));
                next.map(|next| next.to_string_lossy().into_owned())
            });
            sorted.of_component(name, value);
        }
    }
    sorted
}

impl Sorted {
    /// Takes a flag of a component.
    fn of_component(&mut self, name: &str, value: Option<String>) {
        if let Some((role, plain)) =
            name.split_once('.').and_then(|(word, rest)| Some((Role::named(word)?, rest)))
        {
            let told = self.told.entry(role).or_default();
            // One process has one of these.
            if ["kubeconfig", "context", "namespace", "n"].contains(&plain) {
                self.inert.push((format!("--{name}"), format!("give it as `--{plain}`, for all roles")));
            } else if plain == "port" && role != Role::Api {
                let why = "nothing but metrics is answered on ports of this role".to_owned();
                self.inert.push((format!("--{name}"), why));
            } else if role == Role::Sets
                && ["metrics-port", "metrics-addr", "metrics-address"].contains(&plain)
            {
                self.inert.push((format!("--{name}"), METRICS_OF_SETS.to_owned()));
            } else if flags::knows(role.flags(), plain) || COMMON.contains(&plain) {
                flags::take(told, (plain, value), role.flags());
            } else {
                self.unknown.push(format!("--{name}"));
            }
            return;
        }
        if name == "metrics-addr" {
            self.inert.push((format!("--{name}"), METRICS_OF_SETS.to_owned()));
            return;
        }
        let all = [Role::Controller, Role::Api, Role::Repo, Role::Sets, Role::Commit];
        let of: Vec<Role> = all.into_iter().filter(|role| flags::knows(role.flags(), name)).collect();
        if of.is_empty() {
            self.unknown.push(format!("--{name}"));
            return;
        }
        let mut reasons = Vec::new();
        let mut has_effect = false;
        for role in of {
            let told = self.told.entry(role).or_default();
            let (before, inert) = (told.clone(), told.inert.len());
            flags::take(told, (name, value.clone()), role.flags());
            if told.inert.len() > inert {
                reasons.extend(told.inert.split_off(inert));
            }
            has_effect |= *told != before;
        }
        // What means something to one of them is no news of the others.
        if !has_effect {
            self.inert.extend(reasons.into_iter().next());
        }
    }
}

/// Why sets have no port of metrics.
const METRICS_OF_SETS: &str = "metrics of sets are with those of the controller";
/// Flags that every component has.
const COMMON: [&str; 7] =
    ["metrics-port", "metrics-address", "metrics-addr", "logformat", "loglevel", "port", "address"];

/// The ports of metrics, each with the families of its component; what no chosen role has a port for is the controller's.
fn ports(
    serve: &Serve,
    roles: &BTreeSet<Role>,
    told: &BTreeMap<Role, Told>,
) -> Result<Vec<MetricsPort>, String> {
    let mut ports = Vec::new();
    for role in roles {
        let told = told.get(role);
        let given = told.and_then(|told| told.metrics_port);
        let of_controller = Some(serve.metrics_port).filter(|_| *role == Role::Controller);
        let Some(port) = given.or(of_controller).or(role.metrics_port()).filter(|port| *port != 0) else {
            continue;
        };
        let address = told.and_then(|told| told.metrics_address.as_deref());
        let address: Option<IpAddr> = match address {
            None | Some("") => None,
            Some(text) => {
                Some(text.parse().map_err(|_wrong| format!("--metrics-address: {text:?} is no address"))?)
            }
        };
        let groups = match role {
            Role::Controller => of_controllers(roles),
            Role::Api if !roles.contains(&Role::Controller) => vec![Group::Api, Group::Info, Group::Requests],
            Role::Api => vec![Group::Api, Group::Info],
            Role::Repo => vec![Group::Repository],
            Role::Commit => vec![Group::Commits],
            Role::Sets => continue,
        };
        ports.push(MetricsPort { address, port, groups });
    }
    Ok(ports)
}

fn of_controllers(roles: &BTreeSet<Role>) -> Vec<Group> {
    let others = [(Role::Api, Group::Info), (Role::Repo, Group::Repository), (Role::Commit, Group::Commits)];
    let own = [Group::Controller, Group::Requests].into_iter();
    own.chain(others.into_iter().filter(|(role, _)| !roles.contains(role)).map(|(_, group)| group)).collect()
}

/// What pods have where nothing else is said: every address, the namespace of the pod, and a log as the variables of the
/// components have it.
fn settled(run: Run, told: &BTreeMap<Role, Told>, environment: &BTreeMap<String, String>) -> Run {
    let of = |role: Role| told.get(&role);
    let api = of(Role::Api);
    let listen = environment.get("ARGOCD_SERVER_LISTEN_ADDRESS").map(String::as_str);
    let said = api.and_then(|told| told.address.as_deref()).or(listen).and_then(|text| text.parse().ok());
    let address = run.address.or(said).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let log = |own: &Option<String>, flag: fn(&Told) -> Option<&String>, variables: [&str; 2]| {
        let flags = [Role::Controller, Role::Api, Role::Sets, Role::Repo, Role::Commit];
        let of_flags = flags.into_iter().find_map(|role| of(role).and_then(flag));
        let of_variables = || variables.into_iter().find_map(|name| environment.get(name));
        own.clone().or_else(|| of_flags.cloned()).or_else(|| of_variables().cloned())
    };
    let level = log(
        &run.loglevel,
        |told| told.loglevel.as_ref(),
        ["ARGOCD_APPLICATION_CONTROLLER_LOGLEVEL", "ARGOCD_SERVER_LOG_LEVEL"],
    );
    let format = log(
        &run.logformat,
        |told| told.logformat.as_ref(),
        ["ARGOCD_APPLICATION_CONTROLLER_LOGFORMAT", "ARGOCD_SERVER_LOGFORMAT"],
    );
    let level = level.map_or("info", |level| components::level_of(&level));
    let format = if format.is_some_and(|format| format == "json") { "json" } else { "text" };
    Run {
        address: Some(address),
        namespace: run.namespace.or_else(|| Some(components::pod_namespace())),
        port: api.and_then(|told| told.port).unwrap_or(run.port),
        loglevel: Some(level.to_owned()),
        logformat: Some(format.to_owned()),
        ..run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(words: &str) -> Sorted {
        let words: Vec<OsString> =
            words.split(' ').filter(|word| !word.is_empty()).map(OsString::from).collect();
        sort(&words)
    }

    fn read(words: &str) -> (Serve, Sorted) {
        let sorted = sorted(words);
        let serve = tiphys_process::arguments::parse::<Serve>("tiphys serve", &sorted.own).unwrap();
        (serve, sorted)
    }

    fn of(words: &str) -> Vec<MetricsPort> {
        let (serve, sorted) = read(words);
        ports(&serve, &chosen(&serve.roles).unwrap(), &sorted.told).unwrap()
    }

    #[test]
    fn cli_1011_flags_go_to_the_component_that_has_them() {
        let sorted = sorted(
            "--roles controller,api --status-processors 5 --basehref=/cd -n team --insecure=true --enable-gzip false",
        );
        assert_eq!(sorted.own, ["--roles", "controller,api", "-n", "team", "--insecure"].map(OsString::from));
        let variables = |role: Role| sorted.told[&role].variables.clone();
        assert_eq!(variables(Role::Controller)["ARGOCD_APPLICATION_CONTROLLER_STATUS_PROCESSORS"], "5");
        assert_eq!(variables(Role::Api)["ARGOCD_SERVER_BASEHREF"], "/cd");
        assert_eq!(variables(Role::Api)["ARGOCD_SERVER_ENABLE_GZIP"], "false");
        assert!(sorted.unknown.is_empty() && sorted.inert.is_empty(), "{sorted:?}");
    }

    #[test]
    fn cli_1011_flags_of_this_program_stay_its_own() {
        let words = "-nteam -n=team --namespace other --kubeconfig=/k --read-only --strict --help";
        let sorted = sorted(words);
        let own: Vec<String> = sorted.own.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(own.join(" "), words);
        assert!(sorted.told.is_empty() && sorted.unknown.is_empty());
    }

    #[test]
    fn cli_1011_a_prefix_says_whose_a_flag_is() {
        let sorted = sorted(
            "--api.metrics-port 9083 --controller.status-processors=3 --appset.policy sync --repo.port 1",
        );
        assert_eq!(sorted.told[&Role::Api].metrics_port, Some(9083));
        assert_eq!(sorted.told[&Role::Controller].variables.len(), 1);
        assert_eq!(sorted.told[&Role::Sets].variables["ARGOCD_APPLICATIONSET_CONTROLLER_POLICY"], "sync");
        let [(flag, why)] = sorted.inert.as_slice() else { panic!("{sorted:?}") };
        assert!(flag == "--repo.port" && why.contains("nothing but metrics"), "{why}");
        assert!(sorted.own.is_empty() && sorted.unknown.is_empty());
    }

    #[test]
    fn cli_1011_a_flag_of_several_components_is_news_once_and_only_where_it_means_nothing() {
        // The API speaks these, the repository service has no port that could.
        let both = sorted("--tlsminversion 1.3");
        assert_eq!(both.told[&Role::Api].variables["ARGOCD_TLS_MIN_VERSION"], "1.3");
        assert_eq!(both.inert, []);
        let none = sorted("--redis argocd-redis:6379 --repo-server x:8081");
        let flags: Vec<&str> = none.inert.iter().map(|(flag, _)| flag.as_str()).collect();
        assert_eq!(flags, ["--redis", "--repo-server"]);
        assert!(none.told.values().all(|told| told.inert.is_empty()), "{none:?}");
        let unknown = sorted("--nosuch 5 --controller.nosuch --api.status-processors 3 --wq-bucket-size 3");
        assert_eq!(unknown.unknown, ["--nosuch", "--controller.nosuch", "--api.status-processors"]);
        assert_eq!(unknown.inert.len(), 1, "{unknown:?}");
    }

    #[test]
    fn cli_1011_roles_are_those_that_there_are() {
        let words = |list: &str| -> Vec<String> { list.split(',').map(str::to_owned).collect() };
        let all = chosen(&words(ALL)).unwrap();
        assert_eq!(all.len(), 5);
        assert_eq!(chosen(&words("controller,repo,server")).unwrap().len(), 3);
        assert_eq!(chosen(&words("api")).unwrap(), BTreeSet::from([Role::Api]));
        for (list, text) in [
            ("repo", "inside the controller"),
            ("api,appset", "inside the controller"),
            ("controller,notifications", "sends no notifications"),
            ("controller,ui", "unknown role \"ui\""),
        ] {
            assert!(chosen(&words(list)).unwrap_err().contains(text), "{list}");
        }
    }

    #[test]
    fn ctl_127_each_role_has_the_port_and_the_families_of_its_component() {
        let port = |port, groups: &[Group]| MetricsPort { address: None, port, groups: groups.to_vec() };
        assert_eq!(
            of(""),
            [
                port(8082, &[Group::Controller, Group::Requests]),
                port(8083, &[Group::Api, Group::Info]),
                port(8084, &[Group::Repository]),
                port(8087, &[Group::Commits]),
            ]
        );
        // What nobody else tells, the controller does.
        assert_eq!(
            of("--roles controller --metrics-port 9"),
            [port(9, &[Group::Controller, Group::Requests, Group::Info, Group::Repository, Group::Commits])]
        );
        assert_eq!(of("--roles api"), [port(8083, &[Group::Api, Group::Info, Group::Requests])]);
        let own = of(
            "--roles controller,api --metrics-port 0 --api.metrics-port 1 --api.metrics-address 127.0.0.1",
        );
        let groups = vec![Group::Api, Group::Info];
        assert_eq!(own, [MetricsPort { address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), port: 1, groups }]);
    }

    #[test]
    fn cli_1011_what_pods_have_is_the_default_and_variables_say_the_rest() {
        let settled_of = |words: &str, environment: &[(&str, &str)]| {
            let (serve, sorted) = read(words);
            let environment =
                environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            settled(serve.run, &sorted.told, &environment)
        };
        let run = settled_of("", &[]);
        assert_eq!(run.address, Some(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        assert_eq!(
            (run.port, run.loglevel.as_deref(), run.logformat.as_deref()),
            (8080, Some("info"), Some("text"))
        );
        let variables = [
            ("ARGOCD_SERVER_LISTEN_ADDRESS", "127.0.0.1"),
            ("ARGOCD_SERVER_LOG_LEVEL", "WARN"),
            ("ARGOCD_APPLICATION_CONTROLLER_LOGFORMAT", "json"),
        ];
        let run = settled_of("--api.port 9", &variables);
        assert_eq!(run.address, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        assert_eq!(
            (run.port, run.loglevel.as_deref(), run.logformat.as_deref()),
            (9, Some("warn"), Some("json"))
        );
        let run = settled_of("--address ::1 --loglevel debug --controller.loglevel error", &variables);
        assert_eq!(
            (run.address.map(|it| it.to_string()).as_deref(), run.loglevel.as_deref()),
            (Some("::1"), Some("debug"))
        );
    }
}
