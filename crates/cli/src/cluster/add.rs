//! `cluster add`: an account inside a cluster, and the Secret that tells the installation about it (CLI-810 to
//! CLI-812).

use std::collections::BTreeMap;

use serde_json::Value;
use tiphys_api::cluster::{AwsAuthConfig, Cluster, ClusterConfig, ExecProviderConfig, TlsClientConfig};
use tiphys_api::names::IN_CLUSTER_SERVER;
use tiphys_api::secret::Secret;
use tiphys_api::settings::ClientLimits;
use tiphys_cluster::{Connection, Discovery, KubeContext, Target, Writer, error_chain};
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::Gvk;
use tiphys_service::cluster::{Create, access};

use super::{Direct, calls, kubeconfig, namespaces, pairs, remote};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::session::{Ended, OK, Session};
use crate::table::Table;
use crate::terminal::Answer;

/// Where the account is made.
pub(super) const SYSTEM_NAMESPACE: &str = "kube-system";

/// Flags of the command alone.
pub(super) const FLAGS: &[Flag] = &[
    flag("upsert", Kind::Bool, "false", "Change a cluster that exists"),
    flag("yes", Kind::Bool, "false", "Do not ask").or('y'),
];

/// Flags that describe the cluster. Their `--namespace` takes the place of the one that other commands have: the
/// installation is found by the context (CLI-140).
pub(crate) const DESCRIBED: &[Flag] = &[
    flag("name", Kind::Text, "", "Name of the cluster; that of the context by default"),
    flag("in-cluster", Kind::Bool, "false", "The cluster is the one that the installation runs in"),
    flag("cluster-endpoint", Kind::Text, "", "Where the server is: kubeconfig, kube-public or internal"),
    flag("namespace", Kind::Texts, "", "Namespace that is managed; all by default"),
    flag("cluster-resources", Kind::Bool, "false", "Manage cluster-scoped resources with namespaces too"),
    flag("project", Kind::Text, "", "Project of the cluster"),
    flag("shard", Kind::Int, "-1", "Shard of the cluster; -1 leaves it to the controller"),
    flag("label", Kind::Texts, "", "Label key=value"),
    flag("annotation", Kind::Texts, "", "Annotation key=value"),
    flag("service-account", Kind::Text, "", "Account that exists, instead of a new one"),
    flag("system-namespace", Kind::Text, SYSTEM_NAMESPACE, "Namespace of the account"),
    flag("proxy-url", Kind::Text, "", "Proxy to the cluster"),
    flag("server-proxy-url", Kind::Text, "", "Proxy that the installation uses; empty for none"),
    flag("aws-cluster-name", Kind::Text, "", "Name of the EKS cluster"),
    flag("aws-role-arn", Kind::Text, "", "AWS role"),
    flag("aws-profile", Kind::Text, "", "AWS profile"),
    flag("exec-command", Kind::Text, "", "Program that gives credentials"),
    flag("exec-command-args", Kind::Texts, "", "Argument of the program"),
    flag("exec-command-env", Kind::Csv, "", "Variables of the program: key=value,…"),
    flag("exec-command-api-version", Kind::Text, "", "API version of what the program answers"),
    flag("exec-command-install-hint", Kind::Text, "", "What to tell people without the program"),
    flag("disable-compression", Kind::Bool, "false", "Ask for uncompressed answers"),
];

/// Runs the command.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let Some(context) = context(session)? else { return Ok(Ended::Code(1)) };
    let described = Described::read(flags)?;
    if described.needs_account()
        && flags.text("service-account").is_empty()
        && !consents(session, &context.name).await
    {
        return Ok(Ended::Code(1));
    }
    let writer = writer(session, &context.name).await?;
    // What is wrong with the description is said before anything is made in the cluster.
    let endpoint = endpoint(flags, &context, &writer).await?;
    let core = session.connect().await?;
    let direct = if core.server().is_some() { None } else { Some(Direct::begin(&core).await?) };
    if let Some(server) = core.server() {
        let url = endpoint.server.trim_end_matches('/');
        remote::check_create(server, (url, flags.text("project")), flags.is_on("upsert")).await?;
    }
    let token = if described.needs_account() { Some(token(flags, &writer).await?) } else { None };
    let cluster = described.cluster(flags, &context, endpoint, token);
    let server = cluster.server.clone();
    let create = Create { cluster, upsert: flags.is_on("upsert") };
    match direct {
        Some(Direct { store, world, mut secrets }) => {
            calls(&store, &world).create(&mut secrets, &create, &core.plugin_policy(&world)).await?;
        }
        None => remote::create(core.by_server()?, &create).await?,
    }
    session.terminal.line(&format!("Cluster '{server}' added"));
    Ok(OK)
}

/// The cluster as flags and context describe it, with this token; nothing is made anywhere (CLI-920). `None` when no
/// context is named, which is said.
pub(crate) async fn described(
    session: &Session<'_>,
    token: impl AsyncFnOnce(&Writer) -> Result<Secret<String>, Failure>,
) -> Result<Option<Cluster>, Failure> {
    let flags = session.flags;
    let Some(context) = context(session)? else { return Ok(None) };
    let described = Described::read(flags)?;
    let writer = writer(session, &context.name).await?;
    let endpoint = endpoint(flags, &context, &writer).await?;
    let token = if described.needs_account() { Some(token(&writer).await?) } else { None };
    Ok(Some(described.cluster(flags, &context, endpoint, token)))
}

/// The context that is named; where none is, those that there are are shown (CLI-811).
fn context(session: &Session<'_>) -> Result<Option<KubeContext>, Failure> {
    let flags = session.flags;
    let found = tiphys_cluster::contexts(kubeconfig(session))
        .map_err(|error| Failure::generic(error_chain(&error)))?;
    let name = session.operand(0);
    if name.is_empty() {
        session.terminal.log(session.style, "error", "Choose a context name from:");
        session.terminal.print(&table(&found));
        return Ok(None);
    }
    if flags.is_on("in-cluster") && flags.is_set("cluster-endpoint") {
        return Err(Failure::fatal("Can only use one of --in-cluster or --cluster-endpoint"));
    }
    let context = found
        .into_iter()
        .find(|context| context.name == name)
        .ok_or_else(|| Failure::generic(format!("context {name} does not exist in kubeconfig")))?;
    Ok(Some(context))
}

/// The way to the cluster of a context.
async fn writer(session: &Session<'_>, context: &str) -> Result<Writer, Failure> {
    let limits = ClientLimits::of(&session.terminal.env);
    let connection = Connection::from_kubeconfig(kubeconfig(session), Some(context), limits)
        .await
        .map_err(|error| Failure::generic(error_chain(&error)))?;
    Ok(Writer::new(connection.clone(), Discovery::new(connection)))
}

/// The contexts of a kubeconfig (CLI-811).
fn table(found: &[KubeContext]) -> String {
    let mut table = Table::new(&["CURRENT", "NAME", "CLUSTER", "SERVER"]);
    for context in found {
        let current = if context.is_current { "*" } else { "" };
        table.row(vec![
            current.to_owned(),
            context.name.clone(),
            context.cluster.clone(),
            context.server.clone(),
        ]);
    }
    table.print()
}

/// Whether somebody at a terminal says yes; elsewhere nobody is asked (CLI-812).
async fn consents(session: &Session<'_>, context: &str) -> bool {
    if session.flags.is_on("yes") || !session.terminal.stdout_is_tty {
        return true;
    }
    let level = if session.flags.texts("namespace").is_empty() { "cluster" } else { "namespace" };
    let question = format!(
        "WARNING: This will create a service account `{}` on the cluster referenced by context `{context}` with full \
         {level} level privileges. Do you want to continue [y/N]? ",
        access::ACCOUNT
    );
    matches!(session.terminal.ask(&question, false).await, Some(Answer::Yes))
}

/// Makes the account, or takes the one that is named, and reads its token.
async fn token(flags: &Parsed, writer: &Writer) -> Result<Secret<String>, Failure> {
    let (namespace, named) = (flags.text("system-namespace"), flags.text("service-account"));
    if !named.is_empty() {
        return token_of(writer, namespace, named).await;
    }
    access::install(writer, namespace, &namespaces(flags.texts("namespace"))).await?;
    Ok(access::token(writer, namespace, access::ACCOUNT).await?.value)
}

/// The token of an account that exists.
pub(crate) async fn token_of(
    writer: &Writer,
    namespace: &str,
    account: &str,
) -> Result<Secret<String>, Failure> {
    let target = Target::new(Gvk::new("", "v1", "ServiceAccount"), namespace, account);
    if writer.get(&target).await?.is_none() {
        return Err(Failure::generic(format!(
            "serviceaccounts \"{account}\" not found in namespace {namespace}"
        )));
    }
    Ok(access::token(writer, namespace, account).await?.value)
}

/// Server and authorities of a cluster.
struct Endpoint {
    server: String,
    ca_data: String,
}

/// Where the installation reaches the cluster (CLI-810).
async fn endpoint(flags: &Parsed, context: &KubeContext, writer: &Writer) -> Result<Endpoint, Failure> {
    let of_context = || Endpoint { server: context.server.clone(), ca_data: context.ca_data.clone() };
    let local = || Endpoint { server: IN_CLUSTER_SERVER.to_owned(), ca_data: String::new() };
    match flags.text("cluster-endpoint") {
        _ if flags.is_on("in-cluster") => Ok(local()),
        "" | "kubeconfig" => Ok(of_context()),
        "internal" => Ok(local()),
        "kube-public" => {
            let target = Target::new(Gvk::new("", "v1", "ConfigMap"), "kube-public", "cluster-info");
            let found = writer.get(&target).await?;
            let text =
                found.and_then(|object| tiphys_installation::objects::texts(&object).remove("kubeconfig"));
            let document = text.map(|text| yaml::parse(&text, Dialect::Sigs, &Limits::default())).transpose();
            let document = document.map_err(|error| {
                Failure::generic(format!(
                    "the kubeconfig in ConfigMap cluster-info in namespace kube-public cannot be read: {error}"
                ))
            })?;
            let document = document.flatten();
            let member = |name: &str| {
                let of = document.as_ref().and_then(|document| document.pointer("/clusters/0/cluster"));
                of.and_then(|cluster| cluster.get(name))
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let server = member("server");
            if server.is_empty() {
                return Err(Failure::generic(
                    "the ConfigMap cluster-info in namespace kube-public does not say where the server is",
                ));
            }
            Ok(Endpoint { server, ca_data: member("certificate-authority-data") })
        }
        other => Err(Failure::generic(format!(
            "unknown cluster endpoint '{other}': must be kubeconfig, kube-public or internal"
        ))),
    }
}

/// What flags say about the cluster, checked.
struct Described {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    aws: Option<AwsAuthConfig>,
    exec: Option<ExecProviderConfig>,
}

impl Described {
    fn read(flags: &Parsed) -> Result<Self, Failure> {
        let text = |name: &str| flags.text(name).to_owned();
        let aws = (!flags.text("aws-cluster-name").is_empty()).then(|| AwsAuthConfig {
            cluster_name: text("aws-cluster-name"),
            role_arn: text("aws-role-arn"),
            profile: text("aws-profile"),
        });
        let env = pairs(flags.texts("exec-command-env"), "environment variable")?;
        let exec = (!flags.text("exec-command").is_empty()).then(|| ExecProviderConfig {
            command: text("exec-command"),
            args: flags.texts("exec-command-args").to_vec(),
            env: env.into_iter().map(|(name, value)| (name, Secret::new(value))).collect(),
            api_version: text("exec-command-api-version"),
            install_hint: text("exec-command-install-hint"),
            ..ExecProviderConfig::default()
        });
        Ok(Self {
            labels: pairs(flags.texts("label"), "label")?,
            annotations: pairs(flags.texts("annotation"), "annotation")?,
            aws,
            exec,
        })
    }

    /// Whether the installation logs in as an account of the cluster.
    fn needs_account(&self) -> bool {
        self.aws.is_none() && self.exec.is_none()
    }

    fn cluster(
        self,
        flags: &Parsed,
        context: &KubeContext,
        endpoint: Endpoint,
        token: Option<Secret<String>>,
    ) -> Cluster {
        let proxy = if flags.is_set("server-proxy-url") {
            flags.text("server-proxy-url")
        } else if flags.is_set("proxy-url") {
            flags.text("proxy-url")
        } else {
            &context.proxy_url
        };
        let config = ClusterConfig {
            bearer_token: token.unwrap_or_default(),
            tls_client_config: TlsClientConfig {
                insecure: context.insecure,
                server_name: context.server_name.clone(),
                ca_data: endpoint.ca_data,
                ..TlsClientConfig::default()
            },
            aws_auth_config: self.aws,
            exec_provider_config: self.exec,
            disable_compression: flags.is_on("disable-compression"),
            proxy_url: proxy.to_owned(),
            ..ClusterConfig::default()
        };
        let name = flags.text("name");
        Cluster {
            name: if name.is_empty() { context.name.clone() } else { name.to_owned() },
            server: endpoint.server.trim_end_matches('/').to_owned(),
            namespaces: namespaces(flags.texts("namespace")),
            cluster_resources: flags.is_on("cluster-resources"),
            project: flags.text("project").to_owned(),
            shard: Some(flags.int("shard")).filter(|shard| *shard >= 0),
            labels: self.labels,
            annotations: self.annotations,
            config: config.to_json(),
            ..Cluster::default()
        }
    }
}
