//! What a backup of an installation holds (CLI-901, CLI-902): which objects, in which order, and what of each.

use std::sync::Arc;

use serde_json::{Map, Value};
use tiphys_api::names::{
    GPG_KEYS_CONFIG_MAP, GROUP, KNOWN_HOSTS_CONFIG_MAP, RBAC_CONFIG_MAP, SECRET, SECRET_TYPE_LABEL,
    SETTINGS_CONFIG_MAP, TLS_CERTS_CONFIG_MAP, VERSION, annotation,
};
use tiphys_cluster::Target;
use tiphys_engine::tracking::TrackingSettings;
use tiphys_object::{Gvk, Object, access};
use tiphys_policy::pattern;

use crate::core::{Core, World, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};

/// The `ConfigMaps` of a backup, in its order.
const CONFIG_MAPS: [&str; 5] =
    [SETTINGS_CONFIG_MAP, RBAC_CONFIG_MAP, KNOWN_HOSTS_CONFIG_MAP, TLS_CERTS_CONFIG_MAP, GPG_KEYS_CONFIG_MAP];

/// Which namespaces count, for `export` and `import` alike.
pub(super) const NAMESPACES: &[Flag] = &[
    flag(
        "application-namespaces",
        Kind::Csv,
        "",
        "Namespaces of applications beside that of the installation, as globs or /regular expressions/; those of \
         argocd-cmd-params-cm by default",
    ),
    flag(
        "applicationset-namespaces",
        Kind::Csv,
        "",
        "Namespaces of ApplicationSets beside that of the installation; those of argocd-cmd-params-cm by default",
    ),
];

/// The kinds of objects that a backup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    ConfigMap,
    Secret,
    Project,
    Application,
    ApplicationSet,
}

impl Part {
    const ALL: [Self; 5] =
        [Self::ConfigMap, Self::Secret, Self::Project, Self::Application, Self::ApplicationSet];

    /// The kind of an object; `None` where a backup has none like it.
    pub(super) fn of(gvk: &Gvk) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.gvk() == *gvk)
    }

    pub(super) fn gvk(self) -> Gvk {
        match self {
            Self::ConfigMap => Gvk::new("", "v1", "ConfigMap"),
            Self::Secret => Gvk::new("", "v1", "Secret"),
            Self::Project => Gvk::new(GROUP, VERSION, "AppProject"),
            Self::Application => Gvk::new(GROUP, VERSION, "Application"),
            Self::ApplicationSet => Gvk::new(GROUP, VERSION, "ApplicationSet"),
        }
    }
}

/// Where the objects of an installation are.
pub(super) struct Places {
    /// The namespace of the installation.
    pub(super) namespace: String,
    applications: Vec<String>,
    sets: Vec<String>,
    /// How objects of the installation itself may be marked, where an application deploys them.
    pub(super) tracking: TrackingSettings,
}

impl Places {
    /// What the flags say, else the settings.
    pub(super) async fn of(core: &Core, flags: &Parsed) -> Result<Self, Failure> {
        let ground = World::ground(core).await?;
        let given = |name: &str, configured: &[String]| {
            let given = flags.texts(name);
            let patterns = if given.is_empty() { configured } else { given };
            patterns.iter().filter(|pattern| !pattern.is_empty()).cloned().collect::<Vec<_>>()
        };
        Ok(Self {
            namespace: core.namespace.clone(),
            applications: given("application-namespaces", ground.settings.application_namespaces()),
            sets: given("applicationset-namespaces", &ground.settings.application_sets().namespaces),
            tracking: ground.tracking,
        })
    }

    /// Namespaces beside our own, as patterns.
    fn others(&self, part: Part) -> &[String] {
        match part {
            Part::ConfigMap | Part::Secret | Part::Project => &[],
            Part::Application => &self.applications,
            Part::ApplicationSet => &self.sets,
        }
    }

    /// Whether objects of a kind count in a namespace.
    pub(super) fn count(&self, part: Part, namespace: &str) -> bool {
        namespace == self.namespace || pattern::regex_list(self.others(part), namespace)
    }

    /// Every object that a backup of the installation holds, in its order.
    ///
    /// # Errors
    /// When one of them cannot be read: a backup without it would say that it does not exist.
    pub(super) async fn objects(&self, core: &Core) -> Result<Vec<(Part, Arc<Object>)>, Failure> {
        let mut found = Vec::new();
        for name in CONFIG_MAPS {
            let target = Target::new(Part::ConfigMap.gvk(), &self.namespace, name);
            found.extend(core.get(&target).await?.map(|object| (Part::ConfigMap, object)));
        }
        for part in [Part::Secret, Part::Project, Part::Application, Part::ApplicationSet] {
            // Who has no objects elsewhere needs no right to look there.
            let only_own = self.others(part).is_empty();
            let namespace = if only_own { self.namespace.as_str() } else { "" };
            let listed = core.every(&part.gvk(), namespace).await?;
            let counts = |object: &Arc<Object>| {
                self.count(part, object.namespace()) && (part != Part::Secret || is_ours(object))
            };
            found.extend(listed.into_iter().filter(counts).map(|object| (part, object)));
        }
        Ok(found)
    }

    /// What a backup says of an object: nothing that the API server manages.
    pub(super) fn document(&self, object: &Object) -> Result<Value, Failure> {
        let mut value = value_of(object)?;
        let metadata = access::metadata_mut(&mut value);
        let is_elsewhere =
            metadata.get("namespace").and_then(Value::as_str).is_some_and(|at| at != self.namespace);
        let mut kept = Map::new();
        for member in ["annotations", "finalizers", "labels", "name", "namespace"] {
            let Some(own) = metadata.remove(member) else { continue };
            if member != "namespace" || is_elsewhere {
                kept.insert(member.to_owned(), own);
            }
        }
        *metadata = kept;
        Ok(value)
    }
}

/// Whether a Secret belongs to the installation: by its name, its label, or because the product manages it.
fn is_ours(secret: &Arc<Object>) -> bool {
    secret.name() == SECRET
        || secret.label(SECRET_TYPE_LABEL).is_some()
        || secret.annotation(annotation::MANAGED_BY) == Some(annotation::MANAGED_BY_US)
}
