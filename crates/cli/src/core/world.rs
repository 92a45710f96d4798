//! The installation, read once for one command.

use std::ops::Deref;
use std::sync::Arc;

use tiphys_api::names::{
    GPG_KEYS_CONFIG_MAP, GROUP, KNOWN_HOSTS_CONFIG_MAP, PARAMS_CONFIG_MAP, SECRET_TYPE_LABEL,
    SETTINGS_CONFIG_MAP, TLS_CERTS_CONFIG_MAP, VERSION,
};
use tiphys_api::settings::Settings;
use tiphys_api::{AppProject, Application};
use tiphys_cluster::Target;
use tiphys_installation::{Installation, InstallationData, NoProject};
use tiphys_object::Gvk;
use tiphys_service::Secrets;

use crate::app::summary::Windows;
use crate::core::Core;
use crate::failure::Failure;

/// The `ConfigMaps` that an installation is made of.
const CONFIG_MAPS: [&str; 5] = [
    SETTINGS_CONFIG_MAP,
    PARAMS_CONFIG_MAP,
    KNOWN_HOSTS_CONFIG_MAP,
    TLS_CERTS_CONFIG_MAP,
    GPG_KEYS_CONFIG_MAP,
];

/// What decisions about applications depend on, and what a user is told of them.
pub(crate) struct World {
    installation: Installation,
    /// Whether a server told of it: it checks what is asked of it, and knows more than it tells.
    is_told: bool,
}

/// An installation, and the objects that say so.
pub(crate) struct Loaded {
    pub(crate) world: World,
    pub(crate) secrets: Secrets,
    /// Projects as they are stored, without what settings add.
    pub(crate) projects: Vec<AppProject>,
}

/// A world is asked what an installation is asked.
impl Deref for World {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl World {
    /// Reads everything. Settings that do not exist are all defaults.
    pub(crate) async fn load(core: &Core) -> Result<Self, Failure> {
        if let Some(server) = core.server() {
            let mut data =
                InstallationData { namespace: core.namespace.clone(), ..InstallationData::default() };
            for object in server.installation(&core.namespace).await? {
                data.take(object);
            }
            return Ok(Self { installation: Installation::build(&data), is_told: true });
        }
        Ok(Self::load_all(core).await?.world)
    }

    /// The same, with what it was made from.
    pub(crate) async fn load_all(core: &Core) -> Result<Loaded, Failure> {
        let mut data = config_maps(core, &CONFIG_MAPS).await?;
        let secret = Gvk::new("", "v1", "Secret");
        let project = Gvk::new(GROUP, VERSION, "AppProject");
        let secrets = core.list(&secret, &core.namespace, SECRET_TYPE_LABEL).await?;
        let projects = core.list(&project, &core.namespace, "").await?;
        // One that cannot be read is a warning of the installation.
        let stored =
            projects.iter().filter_map(|object| serde_json::from_slice(&object.raw()).ok()).collect();
        for object in secrets.iter().cloned().chain(projects) {
            data.take(object);
        }
        let secrets = Secrets::new(&core.namespace, secrets);
        let world = Self { installation: Installation::build(&data), is_told: false };
        Ok(Loaded { world, secrets, projects: stored })
    }

    /// The settings alone.
    pub(crate) async fn settings(core: &Core) -> Result<Settings, Failure> {
        Ok(Self::ground(core).await?.settings)
    }

    /// The settings alone, and what follows from them alone.
    pub(crate) async fn ground(core: &Core) -> Result<Installation, Failure> {
        let data = config_maps(core, &[SETTINGS_CONFIG_MAP, PARAMS_CONFIG_MAP]).await?;
        Ok(Installation::build(&data))
    }

    /// Whether there is the project of an application; a server says so itself.
    pub(crate) fn check_project(&self, app: &Application) -> Result<(), Failure> {
        if self.is_told { Ok(()) } else { self.project(app).map(drop) }
    }

    /// The project of an application; one that does not exist is a refusal.
    pub(crate) fn project(&self, app: &Application) -> Result<&AppProject, Failure> {
        match self.installation.project(app.project()) {
            Ok(project) => Ok(project),
            Err(NoProject::Missing) => Err(Failure::status(
                "NotFound",
                format!("appprojects.{GROUP} \"{}\" not found", app.project()),
            )),
            Err(NoProject::Unreadable(text)) => Err(Failure::generic(text)),
        }
    }

    /// Checks a spec as an API server does before it is stored (API-126, REP-216).
    pub(crate) fn check(&self, app: &Application) -> Result<(), Failure> {
        if self.is_told {
            return Ok(());
        }
        if self.installation.project(app.project()).is_ok()
            && let Err(error) = self.cluster_of(app)
        {
            let name = &app.metadata.name;
            let text = format!("application destination spec for {name} is invalid: {error}");
            return Err(Failure::status("InvalidArgument", text));
        }
        let Err(findings) = self.installation.check_spec(app) else { return Ok(()) };
        let texts = findings.iter().map(|finding| format!("{}: {}", finding.kind.as_str(), finding.message));
        let texts = texts.collect::<Vec<_>>().join(";");
        let name = &app.metadata.name;
        Err(Failure::status("InvalidArgument", format!("application spec for {name} is invalid: {texts}")))
    }

    /// The sync windows that match an application (CLI-443).
    pub(crate) fn windows(&self, app: &Application, now: jiff::Timestamp) -> Result<Windows, Failure> {
        use tiphys_policy::window::{SyncAttempt, can_sync_application, is_active, matches};
        let Ok(project) = self.installation.project(app.project()) else { return Ok(Windows::none()) };
        let subject = self.window_subject(app);
        let mut matching = Vec::new();
        for (_, window) in project.windows().filter(|(_, window)| matches(window, subject)) {
            let active = is_active(window, now).map_err(|error| Failure::generic(error.to_string()))?;
            matching.push((window.clone(), active));
        }
        let attempt = SyncAttempt { manual: true, operation_started_at: None, now };
        let manual_allowed = can_sync_application(project, subject, attempt).allowed;
        Ok(Windows::weigh(matching, manual_allowed))
    }

    /// Whether a sync by hand may start now (API-130).
    pub(crate) fn check_windows(&self, app: &Application, now: jiff::Timestamp) -> Result<(), Failure> {
        use tiphys_policy::window::{SyncAttempt, can_sync_application};
        if self.is_told {
            return Ok(());
        }
        let project = self.project(app)?;
        let attempt = SyncAttempt { manual: true, operation_started_at: None, now };
        let verdict = can_sync_application(project, self.window_subject(app), attempt);
        match verdict.message {
            Some(why) => Err(Failure::status("PermissionDenied", format!("cannot sync: {why}"))),
            None if verdict.allowed => Ok(()),
            None => Err(Failure::status("PermissionDenied", "cannot sync: blocked by sync window")),
        }
    }

    /// The repository and credentials that applications of a project use for a URL (REP-20).
    pub(crate) fn repository(&self, url: &str, project: &str) -> Result<tiphys_source::Repository, Failure> {
        let found = self.installation.repository(url, project).map_err(Failure::generic)?;
        Ok(tiphys_source::Repository::from(&found))
    }

    /// Who vouches for servers (REP-80, REP-81). An installation without known hosts leaves them to those of the
    /// person who asks.
    pub(crate) fn trust(&self) -> tiphys_source::Trust {
        let known_hosts = Some(&self.installation.known_hosts).filter(|text| !text.is_empty()).cloned();
        // What answers on this machine answers the person who asks, too.
        let local_addresses = true;
        tiphys_source::Trust {
            tls: Arc::clone(&self.installation.tls_certificates),
            known_hosts,
            local_addresses,
        }
    }

    /// Where an application is shown (CLI-442): at the configured address, or at that of the server that is asked; empty
    /// where neither is known.
    pub(crate) fn url(&self, app: &Application, core: &Core) -> String {
        let configured = self.settings.cm().get("url").map(|url| url.trim_end_matches('/'));
        let base = match configured.filter(|url| !url.is_empty()) {
            Some(url) => Some(url.to_owned()),
            None => core.server().map(|server| server.api.shown_address()),
        };
        base.map_or_else(String::new, |base| format!("{base}/applications/{}", app.metadata.name))
    }
}

async fn config_maps(core: &Core, wanted: &[&str]) -> Result<InstallationData, Failure> {
    let mut data = InstallationData { namespace: core.namespace.clone(), ..InstallationData::default() };
    // What the controller is told by its environment nobody else can see; this one a person may say for themselves.
    let signatures = core.environment.get_key_value("ARGOCD_GPG_ENABLED");
    data.env.extend(signatures.map(|(name, value)| (name.clone(), value.clone())));
    for name in wanted {
        let target = Target::new(Gvk::new("", "v1", "ConfigMap"), &core.namespace, name);
        if let Some(object) = core.get(&target).await? {
            data.take(object);
        }
    }
    Ok(data)
}
