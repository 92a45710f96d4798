//! `tiphys dex`, and this program under the name `argocd-dex`: makes the configuration of a Dex beside the API server, and
//! runs it (API-74, API-75, API-78, CLI-1).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use tiphys_api::Settings;
use tiphys_api::names::{PART_OF, PART_OF_LABEL, SECRET};
use tiphys_api::secret::Secret;
use tiphys_api::settings::SettingsData;
use tiphys_cluster::{Discovery, Writer};
use tiphys_exec::{Invocation, Limits};
use tiphys_installation::objects;
use tiphys_policy::permit::Own;
use tiphys_process::runtime::{fail, init_log};
use tiphys_server::sso::{DexOptions, dex_config, referred_secrets};
use tiphys_service::Store;
use tokio::signal::unix::{SignalKind, signal};

/// The name.
pub(crate) const NAME: &str = "argocd-dex";
/// The `ConfigMap` with `dex.config`.
const MAP: &str = "argocd-cm";
/// Where the certificate and key of Dex are in a pod.
const TLS: (&str, &str) = ("/tls/tls.crt", "/tls/tls.key");
/// Names in a certificate that is made where there is none.
const NAMES: [&str; 3] = ["localhost", "dex-server", "argocd-dex-server"];
/// Time between two looks at the settings, and before a Dex that ended is started again.
const INTERVAL: Duration = Duration::from_secs(5);

/// The Dex that signs people in beside the API server.
#[derive(Parser, Debug)]
#[command(name = "tiphys dex", disable_version_flag = true)]
struct Dex {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Write the configuration of Dex, made from argocd-cm and argocd-secret
    Gendexcfg {
        #[command(flatten)]
        common: Common,
        /// File to write; it gets secrets. Without it they are printed
        #[arg(short, long)]
        out: Option<PathBuf>,
    },
    /// Run the program `dex`, and start it again when its configuration changes
    Rundex {
        #[command(flatten)]
        common: Common,
        /// The program
        #[arg(long, default_value = "dex")]
        program: PathBuf,
    },
}

#[derive(Args, Debug)]
struct Common {
    /// Kubeconfig file; without it `KUBECONFIG`, then the usual place, then the pod's account
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
    /// Namespace with the settings; without it that of the context or of the pod
    #[arg(short, long)]
    namespace: Option<String>,
    /// Serve plain text; also with `ARGOCD_DEX_SERVER_DISABLE_TLS=true`
    #[arg(long)]
    disable_tls: bool,
    /// Format of the log: json or text
    #[arg(long, default_value = "text", value_parser = ["json", "text"])]
    logformat: String,
    /// Level of the log
    #[arg(long, default_value = "info", value_parser = ["debug", "info", "warn", "error"])]
    loglevel: String,
}

/// Runs a verb.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let dex = match tiphys_process::arguments::parse::<Dex>("tiphys dex", arguments) {
        Ok(dex) => dex,
        Err(code) => return code,
    };
    let common = match &dex.verb {
        Verb::Gendexcfg { common, .. } | Verb::Rundex { common, .. } => common,
    };
    init_log(&common.loglevel, &common.logformat);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the runtime does not start: {error}"), 20),
    };
    let done = runtime.block_on(async {
        match &dex.verb {
            Verb::Gendexcfg { common, out } => generate(common, out.as_deref()).await,
            Verb::Rundex { common, program } => keep_running(common, program).await,
        }
    });
    match done {
        Ok(text) => crate::print(&text),
        Err(error) => fail(&tiphys_cluster::error_chain(error.as_ref()), 20),
    }
}

/// The way to the settings, and what Dex is told besides.
struct Source {
    store: Store,
    options: DexOptions,
}

impl Source {
    async fn open(common: &Common, tls: Option<(String, String)>) -> anyhow::Result<Self> {
        let flags = (common.kubeconfig.as_deref(), common.context.as_deref());
        let connection = crate::run::connect(flags, &crate::environment()).await?;
        let namespace = common.namespace.clone().unwrap_or_else(|| connection.default_namespace().to_owned());
        let writer = Writer::new(connection.clone(), Discovery::new(connection));
        let options = DexOptions { tls, level: common.loglevel.clone(), format: common.logformat.clone() };
        Ok(Self { store: Store::new(writer, &namespace), options })
    }

    /// The configuration as the settings are now; `None` where they have no Dex.
    async fn configuration(&self) -> anyhow::Result<Option<String>> {
        let map = self.store.get(Own::Settings, MAP).await.context("cannot read argocd-cm")?;
        let secret = self.store.get(Own::Secret, SECRET).await.context("cannot read argocd-secret")?;
        // Those that are not there are no reason to stop a Dex that runs.
        let cm = objects::texts(&*map.context("there is no ConfigMap argocd-cm")?);
        let own = objects::decoded(&*secret.context("there is no Secret argocd-secret")?);
        let settings = Settings::new(SettingsData { cm, secret: own, ..SettingsData::default() });
        let others = self.others(referred_secrets(&settings)).await?;
        let look_up = |secret: Option<&str>, key: &str| match secret {
            Some(name) => others.get(name)?.get(key).map(|text| Secret::new(text.clone())),
            None => settings.secret(key),
        };
        let mut warnings = Vec::new();
        let made = dex_config(&settings, &look_up, &self.options, &mut warnings)?;
        for warning in warnings {
            tracing::warn!(warning, "dex.config");
        }
        Ok(made)
    }

    /// Secrets that may be referred to.
    async fn others(
        &self,
        names: BTreeSet<String>,
    ) -> anyhow::Result<BTreeMap<String, BTreeMap<String, String>>> {
        let mut found = BTreeMap::new();
        for name in names {
            let read = self.store.get(Own::Secret, &name).await;
            let object = read.with_context(|| format!("cannot read the Secret {name}"))?;
            if let Some(object) = object.filter(|object| object.label(PART_OF_LABEL) == Some(PART_OF)) {
                found.insert(name, objects::decoded(&object));
            }
        }
        Ok(found)
    }
}

fn is_plain(common: &Common) -> bool {
    let is_set = |value: OsString| matches!(value.to_str(), Some("1" | "t" | "true"));
    common.disable_tls || std::env::var_os("ARGOCD_DEX_SERVER_DISABLE_TLS").is_some_and(is_set)
}

/// The certificate of Dex: that of the pod, else one that is made, which nobody vouches for.
fn certificate(common: &Common, folder: &Path) -> anyhow::Result<Option<(String, String)>> {
    if is_plain(common) {
        return Ok(None);
    }
    if [TLS.0, TLS.1].iter().all(|path| Path::new(path).is_file()) {
        return Ok(Some((TLS.0.to_owned(), TLS.1.to_owned())));
    }
    let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned).to_vec())
        .context("no certificate can be made")?;
    let files = [("tls.crt", made.cert.pem()), ("tls.key", made.signing_key.serialize_pem())];
    let mut paths = Vec::new();
    for (name, text) in files {
        let path = folder.join(name);
        write(&path, &text)?;
        paths.push(path.to_string_lossy().into_owned());
    }
    let mut paths = paths.into_iter();
    Ok(paths.next().zip(paths.next()))
}

/// Writes a file that nobody else reads.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let open = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = open.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))
}

async fn generate(common: &Common, out: Option<&Path>) -> anyhow::Result<String> {
    let tls = (!is_plain(common)).then(|| (TLS.0.to_owned(), TLS.1.to_owned()));
    let made = Source::open(common, tls).await?.configuration().await?;
    let text = made.context("dex.config of argocd-cm is empty, so there is no Dex")?;
    match out {
        Some(path) => write(path, &text).map(|()| String::new()),
        None => Ok(text),
    }
}

/// Runs Dex until this process is asked to end. Dex keeps what it knows in memory, so people log in again after a change.
async fn keep_running(common: &Common, program: &Path) -> anyhow::Result<String> {
    let folder = tempfile::tempdir().context("there is no place for the configuration of Dex")?;
    let source = Source::open(common, certificate(common, folder.path())?).await?;
    let mut terminate = signal(SignalKind::terminate()).context("signals cannot be awaited")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("signals cannot be awaited")?;
    let path = folder.path().join("dex.yaml");
    let work = async {
        let mut made = known(&source).await;
        loop {
            let Some(text) = made.clone() else {
                tracing::info!("dex is not configured");
                made = changed(&source, made.as_deref()).await;
                continue;
            };
            write(&path, &text)?;
            let invocation = invocation(program, &path);
            tokio::select! {
                ended = tiphys_exec::with_terminal(&invocation) => match ended {
                    Ok(code) => {
                        tracing::error!(?code, "dex ended; it is started again");
                        tokio::time::sleep(INTERVAL).await;
                    }
                    Err(error) => anyhow::bail!("{} cannot be run: {error}", program.display()),
                },
                // Dropping the run ends it.
                next = changed(&source, made.as_deref()) => {
                    tracing::info!("dex is started again, as its configuration changed");
                    made = next;
                }
            }
        }
    };
    tokio::select! {
        ended = work => ended,
        _ = terminate.recv() => Ok(String::new()),
        _ = interrupt.recv() => Ok(String::new()),
    }
}

fn invocation(program: &Path, configuration: &Path) -> Invocation {
    Invocation {
        program: program.to_owned(),
        arguments: vec!["serve".into(), configuration.into()],
        environment: crate::environment()
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        directory: "/".into(),
        deadline: Duration::ZERO,
        grace: Duration::ZERO,
        stdout_bytes_max: 0,
        // It runs for as long as this process does.
        limits: Limits { cpu: Duration::from_hours(24 * 365 * 10), open_files: 65_536, ..Limits::default() },
    }
}

/// The next configuration that is another one.
async fn changed(source: &Source, than: Option<&str>) -> Option<String> {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let found = known(source).await;
        if found.as_deref() != than {
            return found;
        }
    }
}

/// The configuration as it is now, or as soon as it can be read and used; until then everything stays as it is.
async fn known(source: &Source) -> Option<String> {
    loop {
        match source.configuration().await {
            Ok(found) => return found,
            Err(error) => tracing::error!("dex stays as it is: {error:#}"),
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
