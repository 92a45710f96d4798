//! The hydrator block of an Application: where manifests are written as sources, and where they are committed as
//! objects (CTL-5).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::ApplicationSource;

/// `spec.sourceHydrator`, as written, with what it means. What it means is read once, so that the sources of an
/// application can be borrowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hydrator {
    written: Map<String, Value>,
    dry: Box<ApplicationSource>,
    sync: Box<ApplicationSource>,
    hydrate_to: Option<String>,
}

impl Hydrator {
    /// Reads the block.
    ///
    /// # Errors
    /// When a member has another type than the CRD says.
    pub fn new(written: Map<String, Value>) -> Result<Self, serde_json::Error> {
        let part = |name: &str| written.get(name).filter(|value| !value.is_null());
        let dry: ApplicationSource = read(part("drySource"))?;
        let SyncSource { repo_url, target_branch, path } = read(part("syncSource"))?;
        let sync = ApplicationSource {
            repo_url: if repo_url.is_empty() { dry.repo_url.clone() } else { repo_url },
            path,
            target_revision: target_branch,
            ..ApplicationSource::default()
        };
        let hydrate_to = match part("hydrateTo") {
            Some(value) => Some(read::<HydrateTo>(Some(value))?.target_branch),
            None => None,
        };
        Ok(Self { written, dry: Box::new(dry), sync: Box::new(sync), hydrate_to })
    }

    /// The block as written.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.written
    }

    /// The block as written.
    pub fn into_map(self) -> Map<String, Value> {
        self.written
    }

    /// What is rendered.
    pub fn dry_source(&self) -> &ApplicationSource {
        &self.dry
    }

    /// What the application consists of: the hydrated branch (CTL-5).
    pub fn sync_source(&self) -> &ApplicationSource {
        &self.sync
    }

    /// The branch that is written where it is another one than that of the sync source; empty where it was forgotten.
    pub fn hydrate_to(&self) -> Option<&str> {
        self.hydrate_to.as_deref()
    }

    /// Copy of the block for a status: options of a dry source beyond this many bytes are replaced by a digest (CTL-36).
    pub fn abridged(&self, bytes_max: usize) -> Map<String, Value> {
        let mut written = self.written.clone();
        let is_large = serde_json::to_vec(&written).is_ok_and(|bytes| bytes.len() > bytes_max);
        if is_large && let Ok(dry) = serde_json::to_value(self.dry.abridged()) {
            written.insert("drySource".to_owned(), dry);
        }
        written
    }

    /// Whether two blocks mean the same, or one is a copy of the other (CTL-106).
    pub fn is_same(&self, other: &Self) -> bool {
        let is_same_dry = self.dry.is_copy_of(&other.dry) || other.dry.is_copy_of(&self.dry);
        is_same_dry && self.sync == other.sync && self.hydrate_to == other.hydrate_to
    }

    /// The branch that is written (CTL-108).
    pub fn target_branch(&self) -> &str {
        self.hydrate_to().unwrap_or(&self.sync.target_revision)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SyncSource {
    #[serde(rename = "repoURL", deserialize_with = "super::null_as_default")]
    repo_url: String,
    #[serde(deserialize_with = "super::null_as_default")]
    target_branch: String,
    #[serde(deserialize_with = "super::null_as_default")]
    path: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HydrateTo {
    #[serde(deserialize_with = "super::null_as_default")]
    target_branch: String,
}

fn read<T: Default + for<'de> Deserialize<'de>>(value: Option<&Value>) -> Result<T, serde_json::Error> {
    value.map_or_else(|| Ok(T::default()), T::deserialize)
}

impl Serialize for Hydrator {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Hydrator {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Map::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hydrator(value: &Value) -> Hydrator {
        serde_json::from_value(value.clone()).unwrap()
    }

    #[test]
    fn ctl_5_the_application_consists_of_the_hydrated_branch() {
        let written = json!({"drySource": {"repoURL": "u", "path": "p", "targetRevision": "main", "x": 1},
            "syncSource": {"targetBranch": "env/dev", "path": "apps/a"}, "other": true});
        let found = hydrator(&written);
        let sync = found.sync_source();
        assert_eq!((&*sync.repo_url, &*sync.path, &*sync.target_revision), ("u", "apps/a", "env/dev"));
        assert_eq!(found.dry_source().path, "p");
        assert_eq!(found.target_branch(), "env/dev");
        assert_eq!(serde_json::to_value(&found).unwrap(), written);
    }

    #[test]
    fn ctl_5_manifests_may_go_to_another_repository_and_branch() {
        let found = hydrator(&json!({"drySource": {"repoURL": "u"}, "hydrateTo": {"targetBranch": "next"},
            "syncSource": {"repoURL": "v", "targetBranch": "env/dev", "path": "a"}}));
        assert_eq!(found.sync_source().repo_url, "v");
        assert_eq!((found.hydrate_to(), found.target_branch()), (Some("next"), "next"));
        assert_eq!(hydrator(&json!({"hydrateTo": null})).hydrate_to(), None);
        assert!(serde_json::from_value::<Hydrator>(json!({"syncSource": {"path": 1}})).is_err());
    }
}
