//! The value of the tracking annotation (TRK-30..34).

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_object::{Gvk, ResourceKey, access};

/// Form of the tracking annotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrackingFormat {
    /// `<instance name>:<group>/<kind>:<namespace>/<name>` (TRK-30).
    #[default]
    Colon,
    /// `<instance name>;<group>/<kind>/<namespace>/<name>` (TRK-35).
    Semicolon,
}

impl TrackingFormat {
    /// Reads a settings value exactly.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "colon" => Some(Self::Colon),
            "semicolon" => Some(Self::Semicolon),
            _ => None,
        }
    }

    /// The settings value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Colon => "colon",
            Self::Semicolon => "semicolon",
        }
    }
}

/// Who an object belongs to, and which object was marked. It is read and printed in the form with colons;
/// [`TrackingId::read`] and [`TrackingId::write`] know both.
///
/// ```
/// # use tiphys_engine::tracking::TrackingId;
/// let id: TrackingId = "web:apps/Deployment:shop/ui".parse()?;
/// assert_eq!((id.instance.as_str(), id.key.to_string().as_str()), ("web", "apps/Deployment/shop/ui"));
/// assert_eq!(id.to_string(), "web:apps/Deployment:shop/ui");
/// # Ok::<(), tiphys_engine::tracking::TrackingIdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackingId {
    /// Instance name of the application.
    pub instance: SmolStr,
    /// The object; a cluster-scoped one carries the destination namespace here (TRK-31).
    pub key: ResourceKey,
}

impl TrackingId {
    /// The id for a desired object: its own namespace, else the destination's (TRK-31, TRK-32).
    pub fn for_object(instance: &str, object: &Value, destination_namespace: &str) -> Self {
        let gvk = Gvk::of(object);
        let own = access::namespace(object);
        let namespace = if own.is_empty() { destination_namespace } else { own };
        Self {
            instance: instance.into(),
            key: ResourceKey {
                group: gvk.group,
                kind: gvk.kind,
                namespace: namespace.into(),
                name: access::name(object).into(),
            },
        }
    }
}

impl TrackingId {
    /// Reads a value where a form is written: the one with semicolons is read there alone, the one with colons
    /// everywhere (TRK-35).
    ///
    /// # Errors
    /// When it has no form that is read; such an object has no owner (TRK-34).
    pub fn read(text: &str, format: TrackingFormat) -> Result<Self, TrackingIdError> {
        let first = text.find([':', ';']).and_then(|at| text.as_bytes().get(at));
        if format == TrackingFormat::Colon || first != Some(&b';') {
            return text.parse();
        }
        let (instance, rest) = text.split_once(';').ok_or(TrackingIdError)?;
        let mut parts = rest.split('/');
        let mut part = || parts.next().ok_or(TrackingIdError);
        let key = ResourceKey::new(part()?, part()?, part()?, part()?);
        match parts.next() {
            None => Ok(Self { instance: instance.into(), key }),
            Some(_) => Err(TrackingIdError),
        }
    }

    /// Prints a value in a form.
    pub fn write(&self, format: TrackingFormat) -> String {
        match format {
            TrackingFormat::Colon => self.to_string(),
            TrackingFormat::Semicolon => {
                let ResourceKey { group, kind, namespace, name } = &self.key;
                format!("{};{group}/{kind}/{namespace}/{name}", self.instance)
            }
        }
    }
}

impl fmt::Display for TrackingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResourceKey { group, kind, namespace, name } = &self.key;
        write!(f, "{}:{group}/{kind}:{namespace}/{name}", self.instance)
    }
}

/// A tracking annotation that does not have the right form; such an object has no owner (TRK-34).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("wrong resource tracking format, should be <application-name>:<group>/<kind>:<namespace>/<name>")]
pub struct TrackingIdError;

impl FromStr for TrackingId {
    type Err = TrackingIdError;

    /// Splits at most twice at `:`, so that names with `:` survive; parts may be empty (TRK-33).
    fn from_str(text: &str) -> Result<Self, TrackingIdError> {
        let mut parts = text.splitn(3, ':');
        let (Some(instance), Some(group_kind), Some(place)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(TrackingIdError);
        };
        let (group, kind) = pair(group_kind)?;
        let (namespace, name) = pair(place)?;
        Ok(Self { instance: instance.into(), key: ResourceKey::new(group, kind, namespace, name) })
    }
}

fn pair(text: &str) -> Result<(&str, &str), TrackingIdError> {
    text.split_once('/').filter(|(_, second)| !second.contains('/')).ok_or(TrackingIdError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn trk_30_values_are_printed_with_colons() {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cfg"}});
        assert_eq!(
            TrackingId::for_object("my-app", &object, "default").to_string(),
            "my-app:/ConfigMap:default/cfg"
        );
    }

    #[test]
    fn trk_31_cluster_scoped_objects_carry_the_destination_namespace() {
        let object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}});
        let print = |namespace| TrackingId::for_object("my-app", &object, namespace).to_string();
        assert_eq!(print("prod"), "my-app:rbac.authorization.k8s.io/ClusterRole:prod/reader");
        assert_eq!(print(""), "my-app:rbac.authorization.k8s.io/ClusterRole:/reader");
    }

    #[test]
    fn trk_32_generated_names_are_empty() {
        let object = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "x-"}});
        assert_eq!(TrackingId::for_object("a", &object, "n").to_string(), "a:batch/Job:n/");
    }

    #[test]
    fn trk_33_names_may_contain_colons() {
        let id: TrackingId = "a:rbac.authorization.k8s.io/ClusterRole:/system:node".parse().unwrap();
        assert_eq!(id.key.name, "system:node");
        assert_eq!(id.key.namespace, "");
    }

    #[test]
    fn trk_33_anything_else_is_invalid() {
        for text in ["", "a", "a:b/c", "a:b:c/d", "a:b/c/d:e/f", "a:b/c:d", "a:b/c:d/e/f", "a;/Secret/n/s"] {
            assert_eq!(text.parse::<TrackingId>(), Err(TrackingIdError), "{text:?}");
        }
        assert!(":/:/".parse::<TrackingId>().is_ok());
    }

    #[test]
    fn trk_35_semicolons_are_read_where_they_are_written() {
        let id = TrackingId { instance: "my-app".into(), key: ResourceKey::new("", "Secret", "ns", "s:1") };
        for format in [TrackingFormat::Colon, TrackingFormat::Semicolon] {
            assert_eq!(TrackingId::read(&id.write(format), format), Ok(id.clone()));
        }
        let written = id.write(TrackingFormat::Semicolon);
        assert_eq!(written, "my-app;/Secret/ns/s:1");
        assert_eq!(TrackingId::read(&written, TrackingFormat::Colon), Err(TrackingIdError));
        assert_eq!(TrackingId::read(&id.to_string(), TrackingFormat::Semicolon), Ok(id));
        for wrong in ["", "a", "a;b", "a;/Secret/ns", "a;/Secret/ns/s/t", "a;;", "a:;/b/c/d"] {
            assert_eq!(TrackingId::read(wrong, TrackingFormat::Semicolon), Err(TrackingIdError), "{wrong}");
        }
    }
}
