//! The flags of every command, `ARGOCD_OPTS`, and how the server or the cluster is found (CLI-100..104, CLI-140).

use std::collections::BTreeMap;
use std::time::Duration;

use tiphys_cluster::KubeOverrides;

use crate::config_file::{self, Found};
use crate::failure::{Failure, Style};
use crate::flags::{Flag, Kind, Parsed, flag, split_csv};
use crate::forward;
use crate::server::Access;
use crate::terminal::Terminal;

/// Flags of every command (CLI-100).
pub(crate) const FLAGS: &[Flag] = &[
    flag("argocd-context", Kind::Text, "", "Name of the context to use instead of the current one"),
    flag("auth-token", Kind::Text, "", "Bearer token; set this or ARGOCD_AUTH_TOKEN"),
    flag("client-crt", Kind::Text, "", "Client certificate file"),
    flag("client-crt-key", Kind::Text, "", "Client certificate key file"),
    flag("config", Kind::Text, "", "Configuration file"),
    flag(
        "controller-name",
        Kind::Text,
        "argocd-application-controller",
        "Name of the application controller",
    ),
    flag("core", Kind::Bool, "false", "Talk to Kubernetes directly, without a server"),
    flag("grpc-web", Kind::Bool, "false", "Use gRPC-web"),
    flag("grpc-web-root-path", Kind::Text, "", "Use gRPC-web with a URL path prefix"),
    flag("header", Kind::Csv, "", "Additional header name:value of every request").or('H'),
    flag("http-retry-max", Kind::Int, "0", "Retries of HTTP requests"),
    flag("insecure", Kind::Bool, "false", "Skip verification of the server's certificate and host name"),
    flag("kube-context", Kind::Text, "", "Context of the kubeconfig"),
    flag("logformat", Kind::Text, "json", "Format of log records: json or text"),
    flag("loglevel", Kind::Text, "info", "Level of log records: debug, info, warn or error"),
    flag("plaintext", Kind::Bool, "false", "Do not use TLS"),
    flag("port-forward", Kind::Bool, "false", "Reach the server through a port-forward"),
    flag("port-forward-namespace", Kind::Text, "", "Namespace of the server for the port-forward"),
    flag("prompts-enabled", Kind::Bool, "false", "Ask before changes that lose data"),
    flag("redis-compress", Kind::Text, "gzip", "Accepted for old scripts"),
    flag("redis-haproxy-name", Kind::Text, "argocd-redis-ha-haproxy", "Accepted for old scripts"),
    flag("redis-name", Kind::Text, "argocd-redis", "Accepted for old scripts"),
    flag("repo-server-name", Kind::Text, "argocd-repo-server", "Accepted for old scripts"),
    flag("server", Kind::Text, "", "Address of the server; set this or ARGOCD_SERVER"),
    flag("server-crt", Kind::Text, "", "File with trusted roots for the server"),
    flag("server-name", Kind::Text, "argocd-server", "Name of the server for the port-forward"),
];

/// Flags that say how to reach Kubernetes (CLI-101), as in `kubectl`. A command that has one of the same name means its
/// own.
pub(crate) const KUBERNETES_FLAGS: &[Flag] = &[
    flag("as", Kind::Text, "", "User of Kubernetes that requests are made as"),
    flag("as-group", Kind::Texts, "", "Group of Kubernetes that requests are made as"),
    flag("as-uid", Kind::Text, "", "Id of the user of Kubernetes that requests are made as"),
    flag("certificate-authority", Kind::Text, "", "File with the authorities that vouch for Kubernetes"),
    flag("client-certificate", Kind::Text, "", "File with a client certificate for Kubernetes"),
    flag("client-key", Kind::Text, "", "File with the key of the client certificate for Kubernetes"),
    flag("cluster", Kind::Text, "", "Cluster of the kubeconfig"),
    flag("context", Kind::Text, "", "Context of the kubeconfig, as --kube-context"),
    flag(
        "disable-compression",
        Kind::Bool,
        "false",
        "Ask Kubernetes for uncompressed answers, as is always done",
    ),
    flag("insecure-skip-tls-verify", Kind::Bool, "false", "Do not verify the certificate of Kubernetes"),
    flag("kubeconfig", Kind::Text, "", "Path of the kubeconfig"),
    flag("password", Kind::Text, "", "Password for Kubernetes"),
    flag("proxy-url", Kind::Text, "", "Proxy to Kubernetes"),
    flag("request-timeout", Kind::Text, "0", "Time for a request to Kubernetes: 30s, 2m; 0 for none"),
    flag("tls-server-name", Kind::Text, "", "Name in the certificate of Kubernetes"),
    flag("token", Kind::Text, "", "Bearer token for Kubernetes"),
    flag("user", Kind::Text, "", "User of the kubeconfig"),
    flag("username", Kind::Text, "", "User name for Kubernetes"),
];

/// Whether a flag of a command takes the place of one of Kubernetes.
fn is_taken(tables: &[&[Flag]], name: &str) -> bool {
    tables.iter().any(|table| table.iter().any(|flag| flag.long == name))
}

/// The flags of Kubernetes that a command with these tables means otherwise.
pub(crate) fn taken(tables: &[&'static [Flag]]) -> Vec<&'static str> {
    let all = KUBERNETES_FLAGS.iter().chain(NAMESPACE_FLAGS).map(|flag| flag.long);
    all.filter(|name| is_taken(tables, name)).collect()
}

/// How Kubernetes is reached, as the flags that are not `taken` say.
pub(crate) fn overrides(parsed: &Parsed, taken: &[&str]) -> KubeOverrides {
    let text = |name: &str| if taken.contains(&name) { String::new() } else { parsed.text(name).to_owned() };
    let is_given = |name: &str| !taken.contains(&name) && parsed.is_set(name);
    KubeOverrides {
        cluster: text("cluster"),
        user: text("user"),
        username: text("username"),
        password: text("password").into(),
        token: text("token").into(),
        client_certificate: text("client-certificate"),
        client_key: text("client-key"),
        impersonate: text("as"),
        impersonate_groups: if is_given("as-group") { parsed.texts("as-group").to_vec() } else { Vec::new() },
        impersonate_uid: text("as-uid"),
        certificate_authority: text("certificate-authority"),
        insecure_skip_tls_verify: is_given("insecure-skip-tls-verify")
            .then(|| parsed.is_on("insecure-skip-tls-verify")),
        tls_server_name: text("tls-server-name"),
        proxy_url: text("proxy-url"),
    }
}

/// The time that `--request-timeout` gives a request; `None` is no limit. A number without a unit counts seconds.
pub(crate) fn request_timeout(text: &str) -> Result<Option<Duration>, Failure> {
    let bad = || {
        Failure::generic(format!(
            "invalid timeout value {text:?}: a number with a unit as 1s, 2m or 3h, or 0"
        ))
    };
    let time = if let Ok(seconds) = text.parse::<u64>() {
        Duration::from_secs(seconds)
    } else {
        let time = tiphys_go::duration::parse(text).map_err(|_error| bad())?;
        Duration::try_from(time).map_err(|_error| bad())?
    };
    Ok(Some(time).filter(|time| !time.is_zero()))
}

/// The one of them that a command with another `--namespace` does not have.
pub(crate) const NAMESPACE_FLAGS: &[Flag] =
    &[flag("namespace", Kind::Text, "", "Namespace of the settings").or('n')];

/// Flags that may stand before the name of a command.
pub(crate) const WORD_TABLES: &[&[Flag]] = &[FLAGS, KUBERNETES_FLAGS, NAMESPACE_FLAGS];

/// Flags that `ARGOCD_OPTS` may give.
const FROM_OPTIONS: [&str; 18] = [
    "config",
    "server",
    "plaintext",
    "insecure",
    "server-crt",
    "client-crt",
    "client-crt-key",
    "auth-token",
    "grpc-web",
    "grpc-web-root-path",
    "logformat",
    "loglevel",
    "header",
    "port-forward",
    "port-forward-namespace",
    "http-retry-max",
    "core",
    "prompts-enabled",
];

/// Where requests go.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// To Kubernetes.
    Core,
    /// To a server, by a context or without one.
    Server(Box<Access>, Option<Box<Found>>),
    /// Nowhere: there is no address.
    Unspecified,
}

/// Reads `ARGOCD_OPTS` (CLI-102).
pub(crate) fn parse_options(text: &str) -> Result<BTreeMap<String, String>, Failure> {
    let words = tiphys_go::shlex::split_shellquote(text)
        .map_err(|error| Failure::fatal(format!("ARGOCD_OPTS invalid: {error}")))?;
    let mut options = BTreeMap::new();
    let mut joined = BTreeMap::new();
    let mut key: Option<String> = None;
    for word in words {
        if let Some(name) = word.strip_prefix("--") {
            if let Some(bare) = key.take() {
                options.insert(bare, "true".to_owned());
            }
            match name.split_once('=') {
                Some((name, value)) => {
                    joined.insert(name.to_owned(), value.to_owned());
                }
                None => key = Some(name.to_owned()),
            }
        } else if let Some(name) = key.take() {
            options.insert(name, word);
        } else {
            return Err(Failure::fatal(format!("ARGOCD_OPTS invalid at '{word}'")));
        }
    }
    if let Some(bare) = key {
        options.insert(bare, "true".to_owned());
    }
    for (name, value) in joined {
        options.entry(name).or_insert(value);
    }
    Ok(options)
}

/// Fills flags that were not given from `ARGOCD_OPTS`, then from their variables (CLI-103).
pub(crate) fn supply(parsed: &mut Parsed, terminal: &Terminal) -> Result<(), Failure> {
    let options = parse_options(terminal.variable("ARGOCD_OPTS"))?;
    for name in FROM_OPTIONS {
        if let Some(value) = options.get(name) {
            let values = if name == "header" { split_csv(value) } else { vec![value.clone()] };
            parsed.supply(name, values);
        }
    }
    for (name, variable) in [("server", "ARGOCD_SERVER"), ("auth-token", "ARGOCD_AUTH_TOKEN")] {
        let value = terminal.variable(variable);
        if !value.is_empty() {
            parsed.supply(name, vec![value.to_owned()]);
        }
    }
    let format = parsed.text("logformat");
    if !matches!(format, "json" | "text") {
        return Err(Failure::fatal(format!("Unknown log format '{format}'")));
    }
    Ok(())
}

/// How failures are shown (CLI-7, CLI-1101).
pub(crate) fn style(parsed: &Parsed, terminal: &Terminal) -> Style {
    if parsed.text("logformat") == "text" {
        Style::Text
    } else if terminal.program == "tiphys" && terminal.stderr_is_tty && !parsed.is_set("logformat") {
        Style::Human
    } else {
        Style::Json
    }
}

/// Finds where requests go (CLI-103, CLI-104, CLI-140).
pub(crate) fn route(parsed: &Parsed, terminal: &Terminal) -> Result<Route, Failure> {
    if parsed.is_on("core") {
        return Ok(Route::Core);
    }
    if parsed.text("client-crt").is_empty() != parsed.text("client-crt-key").is_empty() {
        return Err(Failure::fatal("--client-crt and --client-crt-key must always be specified together"));
    }
    let configured = config_file::read(parsed.text("config"), terminal)?
        .map(|config| config.find(parsed.text("argocd-context")))
        .transpose()?
        .flatten();
    // What is reached so has a name, and no address.
    let server = if forward::is_wanted(parsed) { forward::SERVER } else { parsed.text("server") };
    match &configured {
        Some(found) if server.is_empty() && found.server.core => return Ok(Route::Core),
        Some(found) if !server.is_empty() || !found.server.server.is_empty() => {}
        None if !server.is_empty() => {}
        _ => return Ok(Route::Unspecified),
    }
    let access = Access::of(parsed, server, configured.as_ref())?.heeding(terminal);
    Ok(Route::Server(Box::new(access), configured.map(Box::new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_101_flags_of_kubernetes_are_read_unless_a_command_means_its_own() {
        const OWN: &[Flag] = &[flag("password", Kind::Text, "", ""), flag("namespace", Kind::Texts, "", "")];
        let args = ["--password", "p", "--as", "jane", "--as-group", "a", "--as-group", "b", "--token=t"];
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let parsed = crate::flags::parse(&args, &[OWN, KUBERNETES_FLAGS]).unwrap();
        assert_eq!(taken(&[OWN]), ["password", "namespace"]);
        let found = overrides(&parsed, &taken(&[OWN]));
        assert_eq!((found.impersonate.as_str(), found.impersonate_groups.len()), ("jane", 2));
        assert!(found.password.expose().is_empty() && found.token.expose() == "t");
        assert_eq!(found.insecure_skip_tls_verify, None);
        for (text, time) in [("0", None), ("30", Some(30)), ("2m", Some(120)), ("0s", None)] {
            assert_eq!(request_timeout(text).unwrap(), time.map(Duration::from_secs), "{text}");
        }
        assert_eq!(request_timeout("soon").unwrap_err().code, 20);
        assert_eq!(request_timeout("-1s").unwrap_err().code, 20);
    }

    #[test]
    fn cli_102_options_are_words_of_a_shell() {
        let options =
            parse_options("--grpc-web --header \"x-a: 1\" --core=false --server a --server b").unwrap();
        assert_eq!(options["grpc-web"], "true");
        assert_eq!(options["header"], "x-a: 1");
        assert_eq!(options["core"], "false");
        assert_eq!(options["server"], "b");
        assert_eq!(parse_options("--server=a --server b").unwrap()["server"], "b");
        let failure = parse_options("--core true stray").unwrap_err();
        assert_eq!((failure.message.as_str(), failure.code), ("ARGOCD_OPTS invalid at 'stray'", 1));
    }
}
