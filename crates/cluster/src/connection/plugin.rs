//! Credential plugins of cluster Secrets: a program that prints a token or a client certificate (REP-104..106).
//!
//! `argocd-k8s-auth` is no program here: [`tiphys_cloud`] answers in this process. Any other runs through
//! [`tiphys_exec`] with a deadline, limits and a clean environment, only if the operator allows it, and never while a
//! thread waits. Its arguments, its environment and what it prints may be secrets: no error repeats any of them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::cluster::{ClusterConfig, ExecProviderConfig};
use tiphys_exec::{ExecError, Invocation, Limits};
use tiphys_go::yaml;
use tokio::sync::Mutex;
use tokio::time::Instant;

use tiphys_cloud::{CloudError, CloudToken, Environment};

/// Time until a plugin is asked to end.
const DEADLINE: Duration = Duration::from_secs(15);
/// Time after that until it is killed.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes of its answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long a failure is an answer: not everybody who needs a credential runs a failing plugin again.
const FAILURE_LASTS: Duration = Duration::from_secs(10);
/// How long before its end a credential is not used any more.
const EARLY: SignedDuration = SignedDuration::from_secs(10);
/// Most memory, processor time, file size and files of a plugin.
const LIMITS: Limits = Limits {
    memory_bytes: 1 << 30,
    address_bytes: None,
    cpu: Duration::from_secs(30),
    file_bytes: 16 << 20,
    open_files: 256,
};

/// The well-known plugins, which are allowed unless the operator says otherwise.
const WELL_KNOWN: [&str; 8] = [
    "aws",
    "aws-iam-authenticator",
    "doctl",
    "gcloud",
    "gke-gcloud-auth-plugin",
    "kubectl-oidc_login",
    "kubelogin",
    "oci",
];
/// Variables of ours that plugins need: where things are, the identity of our pod with cloud providers, proxies.
const PASSED_ON: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];
const PASSED_ON_PREFIXES: [&str; 4] = ["AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_"];
/// Variables that make a program do something else than it is there for.
const REFUSED: [&str; 8] =
    ["PATH", "IFS", "ENV", "BASH_ENV", "NODE_OPTIONS", "RUBYOPT", "GCONV_PATH", "KUBERNETES_EXEC_INFO"];
const REFUSED_PREFIXES: [&str; 4] = ["LD_", "DYLD_", "PYTHON", "PERL5"];

/// Which plugins may run, and with what of our environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginPolicy {
    /// Names, which are looked for in our `PATH`, and absolute paths; `None` means the well-known ones.
    pub programs: Option<Vec<String>>,
    /// Our environment.
    pub environment: BTreeMap<String, String>,
}

impl PluginPolicy {
    /// The file that a command means, if it is allowed.
    fn program(&self, command: &str) -> Result<PathBuf, PluginError> {
        let is_listed = |name: &str| match &self.programs {
            Some(programs) => programs.iter().any(|listed| listed == name),
            None => WELL_KNOWN.contains(&name),
        };
        let path = Path::new(command);
        let search = self.environment.get("PATH").map_or("/usr/local/bin:/usr/bin:/bin", String::as_str);
        let folders = || search.split(':').map(Path::new).filter(|folder| folder.is_absolute());
        if command.contains('/') {
            // A path is as good as the name when the name leads to its folder; others are allowed one by one.
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let by_name = path.parent().is_some_and(|parent| folders().any(|folder| folder == parent));
            let allowed = path.is_absolute() && (is_listed(command) || (by_name && is_listed(name)));
            return if allowed { Ok(path.to_owned()) } else { Err(PluginError::NotAllowed) };
        }
        if !is_listed(command) {
            return Err(PluginError::NotAllowed);
        }
        folders()
            .map(|folder| folder.join(command))
            .find(|file| file.is_file())
            .ok_or(PluginError::NotInstalled)
    }

    /// The environment of a plugin: what is passed on of ours, and the Secret's own.
    fn environment_of(&self, exec: &ExecProviderConfig) -> Result<Vec<(OsString, OsString)>, PluginError> {
        let refused = |name: &str| {
            REFUSED.contains(&name) || REFUSED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        if exec.env.keys().any(|name| refused(name) || name.contains(['=', '\0'])) {
            return Err(PluginError::Variable);
        }
        let passed = |name: &str| {
            PASSED_ON.contains(&name) || PASSED_ON_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        let ours = self.environment.iter().filter(|(name, _)| passed(name));
        let ours = ours.map(|(name, value)| (name.as_str(), value.as_str()));
        let theirs = exec.env.iter().map(|(name, value)| (name.as_str(), value.expose().as_str()));
        let all: BTreeMap<&str, &str> = ours.chain(theirs).collect();
        Ok(all.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// Why there is no credential. The texts are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PluginError {
    #[error(
        "the credential plugin of the cluster Secret is not one that the operator allows; \
         list its name or path in controller.cluster.exec.programs"
    )]
    NotAllowed,
    #[error("the credential plugin of the cluster Secret is not installed beside the controller")]
    NotInstalled,
    #[error("an environment variable of the credential plugin is not allowed")]
    Variable,
    #[error("the credential plugin of the cluster Secret does not start")]
    Start,
    #[error("the credential plugin of the cluster Secret took longer than {} s", DEADLINE.as_secs())]
    Slow,
    #[error("the credential plugin of the cluster Secret failed")]
    Failed,
    #[error("the credential plugin of the cluster Secret printed no credential")]
    Answer,
    /// The built-in login said why.
    #[error(transparent)]
    Cloud(#[from] CloudError),
}

/// A client certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// What a plugin gave.
#[derive(Clone)]
pub(super) struct Credential {
    /// The value of `Authorization`.
    pub(super) authorization: Option<HeaderValue>,
    pub(super) identity: Option<Identity>,
    ends: Option<Timestamp>,
}

#[derive(Default)]
enum Known {
    #[default]
    Nothing,
    Credential(Credential),
    Failure(PluginError, Instant),
}

/// A plugin with the credential it gave last.
pub(super) struct Plugin {
    exec: ExecProviderConfig,
    policy: PluginPolicy,
    info: String,
    deadline: Duration,
    known: Arc<Mutex<Known>>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").finish_non_exhaustive()
    }
}

impl Plugin {
    pub(super) fn new(
        exec: ExecProviderConfig,
        server: &str,
        config: &ClusterConfig,
        policy: PluginPolicy,
    ) -> Self {
        let info = info(&exec, server, config).to_string();
        Self { exec, policy, info, deadline: DEADLINE, known: Arc::default() }
    }

    /// The credential to use now. The plugin runs when there is none; whoever asks meanwhile waits for the same run,
    /// which goes on when the one who asked first does not wait any more.
    pub(super) async fn credential(&self) -> Result<Credential, PluginError> {
        let mut known = Arc::clone(&self.known).lock_owned().await;
        match &*known {
            Known::Credential(credential) if credential.is_good(Timestamp::now()) => {
                return Ok(credential.clone());
            }
            Known::Failure(error, since) if since.elapsed() < FAILURE_LASTS => return Err(*error),
            _ => {}
        }
        let way = self.way();
        let run = tokio::spawn(async move {
            let found = match way {
                Ok(Way::Program(invocation)) => run(*invocation).await,
                Ok(Way::BuiltIn { arguments, environment, deadline }) => {
                    let answer = tiphys_cloud::answer(&arguments, &environment);
                    let answer = tokio::time::timeout(deadline, answer).await;
                    answer.map_err(|_elapsed| PluginError::Slow).and_then(|found| Credential::of(&found?))
                }
                Err(error) => Err(error),
            };
            *known = match &found {
                Ok(credential) => Known::Credential(credential.clone()),
                Err(error) => Known::Failure(*error, Instant::now()),
            };
            found
        });
        run.await.unwrap_or(Err(PluginError::Failed))
    }

    /// The server does not take the credential: the next one is asked for anew.
    pub(super) async fn forget(&self) {
        let mut known = self.known.lock().await;
        if matches!(*known, Known::Credential(_)) {
            *known = Known::Nothing;
        }
    }

    /// How the credential is had.
    fn way(&self) -> Result<Way, PluginError> {
        if self.exec.command == tiphys_cloud::PROGRAM {
            let environment = Environment::of_plugin(&self.policy.environment, &self.exec.env);
            return Ok(Way::BuiltIn {
                arguments: self.exec.args.clone(),
                environment: environment.ok_or(PluginError::Variable)?,
                deadline: self.deadline,
            });
        }
        let mut environment = self.policy.environment_of(&self.exec)?;
        environment.push(("KUBERNETES_EXEC_INFO".into(), self.info.clone().into()));
        let invocation = Invocation {
            program: self.policy.program(&self.exec.command)?,
            arguments: self.exec.args.iter().map(OsString::from).collect(),
            environment,
            directory: "/".into(),
            deadline: self.deadline,
            grace: GRACE,
            stdout_bytes_max: ANSWER_BYTES_MAX,
            limits: LIMITS,
        };
        Ok(Way::Program(Box::new(invocation)))
    }
}

/// How a credential is had.
enum Way {
    Program(Box<Invocation>),
    /// In this process (REP-106).
    BuiltIn {
        arguments: Vec<String>,
        environment: Environment,
        deadline: Duration,
    },
}

impl Credential {
    fn of(token: &CloudToken) -> Result<Self, PluginError> {
        let authorization = Some(bearer(token.token.expose())?);
        Ok(Self { authorization, identity: None, ends: Some(token.ends) })
    }

    fn is_good(&self, now: Timestamp) -> bool {
        self.ends.is_none_or(|ends| ends.saturating_sub(EARLY).is_ok_and(|last| now < last))
    }
}

async fn run(invocation: Invocation) -> Result<Credential, PluginError> {
    match tiphys_exec::run(invocation).await {
        Ok(output) if output.code == Some(0) => read(&output.stdout),
        Ok(_) => Err(PluginError::Failed),
        Err(ExecError::Timeout { .. } | ExecError::FatalTimeout { .. }) => Err(PluginError::Slow),
        Err(ExecError::Start(_) | ExecError::Limit(_)) => Err(PluginError::Start),
        Err(_) => Err(PluginError::Answer),
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    token: String,
    client_certificate_data: String,
    client_key_data: String,
    expiration_timestamp: Option<Timestamp>,
}

/// Reads an `ExecCredential`: JSON, or YAML as some plugins print it.
fn read(output: &[u8]) -> Result<Credential, PluginError> {
    let document = serde_json::from_slice::<Value>(output).ok().or_else(|| {
        let text = std::str::from_utf8(output).ok()?;
        yaml::parse(text, yaml::Dialect::Sigs, &yaml::Limits::default()).ok()?
    });
    let document = document.ok_or(PluginError::Answer)?;
    let status = document.get("status").cloned().ok_or(PluginError::Answer)?;
    let status: Status = serde_json::from_value(status).map_err(|_secret| PluginError::Answer)?;
    let authorization = (!status.token.is_empty()).then(|| bearer(&status.token)).transpose()?;
    let has_identity = !status.client_certificate_data.is_empty() && !status.client_key_data.is_empty();
    let identity = has_identity
        .then_some(Identity { certificate: status.client_certificate_data, key: status.client_key_data });
    if authorization.is_none() && identity.is_none() {
        return Err(PluginError::Answer);
    }
    Ok(Credential { authorization, identity, ends: status.expiration_timestamp })
}

fn bearer(token: &str) -> Result<HeaderValue, PluginError> {
    let mut value =
        HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(|_secret| PluginError::Answer)?;
    value.set_sensitive(true);
    Ok(value)
}

/// What the plugin is told about the cluster.
fn info(exec: &ExecProviderConfig, server: &str, config: &ClusterConfig) -> Value {
    let mut spec = serde_json::Map::from_iter([("interactive".to_owned(), Value::Bool(false))]);
    if exec.provide_cluster_info {
        let tls = &config.tls_client_config;
        let cluster = json!({
            "server": server, "insecure-skip-tls-verify": tls.insecure, "tls-server-name": tls.server_name,
            "certificate-authority-data": tls.ca_data, "proxy-url": config.proxy_url, "config": exec.config,
        });
        spec.insert("cluster".to_owned(), cluster);
    }
    json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec})
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A plugin that is a script, in a folder that is our `PATH`.
    fn plugin(script: &str, exec: Value) -> (tempfile::TempDir, Plugin) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("aws");
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().to_str().unwrap().to_owned();
        let environment = [("PATH", path.as_str()), ("AWS_REGION", "eu"), ("OUR_PASSWORD", "hunter2")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let policy = PluginPolicy { programs: None, environment };
        let exec = serde_json::from_value(exec).unwrap();
        (folder, Plugin::new(exec, "https://c", &ClusterConfig::default(), policy))
    }

    async fn error(plugin: &Plugin) -> PluginError {
        plugin.credential().await.err().unwrap()
    }

    #[tokio::test]
    async fn rep_105_a_plugin_gives_a_token_and_sees_a_clean_environment() {
        let script =
            r#"printf '{"status":{"token":"%s-%s-%s-%s"}}' "$1" "$OWN" "$AWS_REGION" "$OUR_PASSWORD""#;
        let (_folder, plugin) =
            plugin(script, json!({"command": "aws", "args": ["arg"], "env": {"OWN": "own"}}));
        let found = plugin.credential().await.unwrap().authorization.unwrap();
        assert_eq!(found.to_str().unwrap(), "Bearer arg-own-eu-");
        assert!(found.is_sensitive());
    }

    /// No program is needed for what `argocd-k8s-auth` answers, and no list has to name it (REP-106).
    #[tokio::test]
    async fn rep_106_the_login_of_argo_cd_is_built_in() {
        let exec = json!({"command": "argocd-k8s-auth", "args": ["aws", "--cluster-name", "c"],
            "env": {"AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s"}});
        let policy = PluginPolicy { programs: Some(Vec::new()), environment: BTreeMap::new() };
        let with = |exec: &Value| {
            let exec = serde_json::from_value(exec.clone()).unwrap();
            Plugin::new(exec, "https://c", &ClusterConfig::default(), policy.clone())
        };
        let found = with(&exec).credential().await.unwrap();
        assert!(found.authorization.unwrap().to_str().unwrap().starts_with("Bearer k8s-aws-v1."));
        assert!(found.ends.is_some());
        let mut elsewhere = exec;
        elsewhere["env"]["AWS_ENDPOINT_URL_STS"] = json!("https://evil.example");
        assert_eq!(error(&with(&elsewhere)).await, PluginError::Variable);
    }

    /// Arguments, environment and output of a plugin are in no error (SEC-38).
    #[tokio::test]
    async fn sec_38_errors_of_plugins_are_fixed_texts() {
        let exec = json!({"command": "aws", "args": ["hunter2"], "env": {"TOKEN": "hunter2"}});
        for (script, expected) in [
            ("echo hunter2 $TOKEN; echo $1 >&2; exit 1", PluginError::Failed),
            ("echo hunter2", PluginError::Answer),
            (r#"echo '{"status":{"token":7,"x":"hunter2"}}'"#, PluginError::Answer),
            (r#"echo '{"status":{}}'"#, PluginError::Answer),
        ] {
            let (_folder, plugin) = plugin(script, exec.clone());
            let found = error(&plugin).await;
            assert_eq!(found, expected, "{script}");
            assert!(!format!("{found} {found:?}").contains("hunter2"));
        }
    }

    /// A plugin that sleeps holds no thread, ends at its deadline, and is not run again at once (SEC-10).
    #[tokio::test]
    async fn sec_10_a_sleeping_plugin_ends_and_holds_no_thread() {
        let sleeping = || plugin("echo x >> $0.runs; exec /bin/sleep 600", json!({"command": "aws"}));
        let (folder, plugin) = sleeping();
        let runs = folder.path().join("aws.runs");
        // There is one thread: whoever held it until the plugin ended would not let us see that it runs.
        let it_runs = async {
            while !runs.exists() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            _ = plugin.credential() => panic!("it ended before anybody else had the thread"),
            () = it_runs => {}
        }

        let (folder, mut plugin) = sleeping();
        plugin.deadline = Duration::from_millis(50);
        let (first, other) = tokio::join!(plugin.credential(), plugin.credential());
        assert_eq!((first.err(), other.err()), (Some(PluginError::Slow), Some(PluginError::Slow)));
        // A busy machine may end it before it has written anything.
        let runs = std::fs::read_to_string(folder.path().join("aws.runs")).unwrap_or_default();
        assert!(runs.lines().count() <= 1, "{runs}");
    }

    /// Only what the operator allows runs: by name, or by path (SEC-10).
    #[test]
    fn sec_10_only_allowed_plugins_run() {
        let environment: BTreeMap<_, _> = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into();
        let policy = PluginPolicy { programs: None, environment: environment.clone() };
        for command in ["sh", "/bin/sh", "/tmp/aws", "./aws", "../bin/aws", "", "/"] {
            assert_eq!(policy.program(command), Err(PluginError::NotAllowed), "{command}");
        }
        assert_eq!(policy.program("/usr/bin/aws"), Ok("/usr/bin/aws".into()));
        let programs = ["sh", "/opt/login", "./login"].map(str::to_owned);
        let own = PluginPolicy { programs: Some(programs.into()), environment };
        assert!(own.program("sh").is_ok());
        assert_eq!(own.program("/opt/login"), Ok("/opt/login".into()));
        for command in ["aws", "./login"] {
            assert_eq!(own.program(command), Err(PluginError::NotAllowed), "{command}");
        }
        for name in ["LD_PRELOAD", "PATH", "PYTHONPATH", "BASH_ENV"] {
            let exec = serde_json::from_value(json!({"command": "aws", "env": {name: "x"}})).unwrap();
            assert_eq!(policy.environment_of(&exec), Err(PluginError::Variable), "{name}");
        }
    }

    #[test]
    fn rep_105_credentials_end() {
        let found =
            read(br#"{"status":{"token":"t","expirationTimestamp":"2026-01-01T00:01:00Z"}}"#).unwrap();
        assert!(found.is_good("2026-01-01T00:00:49Z".parse().unwrap()));
        assert!(!found.is_good("2026-01-01T00:00:50Z".parse().unwrap()));
        let yaml =
            read(b"kind: ExecCredential\nstatus:\n  clientCertificateData: c\n  clientKeyData: k\n").unwrap();
        assert!(yaml.authorization.is_none() && yaml.identity.is_some());
    }
}
