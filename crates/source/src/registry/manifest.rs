//! Manifests of artifacts, and which layer is the content (RND-115..117).

use serde_json::Value;

use super::reference::sha256_of;

/// Layers of one artifact (RND-115).
const LAYERS_MAX: usize = 10;
/// What says that an artifact is a chart (RND-116).
const HELM_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
/// The layer of a chart that holds its files.
const HELM_CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// The same of the first charts in registries.
const HELM_CONTENT_OLD: &str = "application/tar+gzip";
/// What manifests may be answered.
pub(crate) const ACCEPT: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.oci.artifact.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json";

/// A part of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: String,
    pub(crate) size: u64,
}

/// What an artifact consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    config_type: String,
    layers: Vec<Descriptor>,
    /// Manifests of an index.
    pub(crate) manifests: Vec<Descriptor>,
    /// Annotations, as far as they are texts.
    pub(crate) annotations: Vec<(String, String)>,
}

/// The content of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) layer: Descriptor,
    /// Whether it is a chart, whose only directory is the root.
    pub(crate) is_chart: bool,
}

impl Content {
    /// Whether the layer is packed with gzip; others are not packed at all.
    pub(crate) fn is_gzip(&self) -> bool {
        self.layer.media_type.ends_with("gzip")
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let value = tiphys_go::json::decode_kubernetes(body)
            .map_err(|_error| "the manifest is no JSON".to_owned())?;
        if !value.is_object() {
            return Err("the manifest is no object".to_owned());
        }
        let list =
            |name: &str| value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let annotations = value.get("annotations").and_then(Value::as_object);
        let annotations = annotations.into_iter().flatten();
        Ok(Self {
            config_type: text(value.get("config"), "mediaType"),
            layers: list("layers").iter().map(descriptor).collect(),
            manifests: list("manifests").iter().map(descriptor).collect(),
            annotations: annotations
                .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect(),
        })
    }

    /// The layer that is the content of a source (RND-115, RND-116).
    ///
    /// # Errors
    /// With the texts of RND-115 and RND-117.
    pub(crate) fn content(&self, allowed: &[String]) -> Result<Content, String> {
        let count = self.layers.len();
        if count > LAYERS_MAX {
            return Err(format!("expected no more than {LAYERS_MAX} oci layers, got {count}"));
        }
        let is_chart = self.config_type == HELM_CONFIG;
        let is_content = |layer: &&Descriptor| {
            let kind = layer.media_type.as_str();
            if is_chart {
                kind == HELM_CONTENT
            } else {
                kind.ends_with("tar") || kind.ends_with("tar+gzip") || kind.ends_with("tar.gzip")
            }
        };
        let mut found = self.layers.iter().filter(is_content);
        let layer = match (found.next(), found.count()) {
            (Some(layer), 0) => layer,
            (first, more) => {
                let count = usize::from(first.is_some()) + more;
                return Err(format!("expected only a single oci content layer, got {count}"));
            }
        };
        if !allowed.contains(&layer.media_type) {
            let kind = &layer.media_type;
            return Err(format!("oci layer media type {kind} is not in the list of allowed media types"));
        }
        checked(layer).map(|layer| Content { layer, is_chart })
    }

    /// The layer that holds a chart (RND-113).
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn chart(&self) -> Result<Descriptor, String> {
        let of = |kind: &str| self.layers.iter().find(|layer| layer.media_type == kind);
        let layer = of(HELM_CONTENT).or_else(|| of(HELM_CONTENT_OLD));
        let layer = layer
            .ok_or_else(|| format!("manifest does not contain a layer with mediatype {HELM_CONTENT}"))?;
        checked(layer)
    }
}

/// What is fetched by its digest must have one that can be computed.
fn checked(layer: &Descriptor) -> Result<Descriptor, String> {
    match sha256_of(&layer.digest) {
        Some(_) => Ok(layer.clone()),
        None => Err("the digest of the content layer is none of SHA-256".to_owned()),
    }
}

fn descriptor(value: &Value) -> Descriptor {
    Descriptor {
        media_type: text(Some(value), "mediaType"),
        digest: text(Some(value), "digest"),
        size: value.get("size").and_then(Value::as_u64).unwrap_or(0),
    }
}

fn text(value: Option<&Value>, name: &str) -> String {
    value.and_then(|value| value.get(name)).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sources::LAYER_TYPES;

    fn content(config: &str, layers: &[&str]) -> Result<(String, bool), String> {
        let layer = |kind: &&str| json!({"mediaType": kind, "digest": format!("sha256:{}", "a".repeat(64)), "size": 1});
        let manifest =
            json!({"config": {"mediaType": config}, "layers": layers.iter().map(layer).collect::<Vec<_>>()});
        let allowed: Vec<String> = LAYER_TYPES.iter().map(|&name| name.to_owned()).collect();
        let found = Manifest::read(manifest.to_string().as_bytes())?.content(&allowed)?;
        Ok((found.layer.media_type.clone(), found.is_chart))
    }

    #[test]
    fn rnd_115_one_layer_is_the_content() {
        let gzip = "application/vnd.oci.image.layer.v1.tar+gzip";
        let plain = "application/vnd.oci.image.layer.v1.tar";
        assert_eq!(content("x", &[gzip, "text/plain"]), Ok((gzip.to_owned(), false)));
        assert_eq!(content("x", &[plain]), Ok((plain.to_owned(), false)));
        let error = |layers: &[&str]| content("x", layers).unwrap_err();
        assert_eq!(error(&[gzip, plain]), "expected only a single oci content layer, got 2");
        assert_eq!(error(&["text/plain"]), "expected only a single oci content layer, got 0");
        assert_eq!(error(&[gzip; 11]), "expected no more than 10 oci layers, got 11");
        assert_eq!(
            error(&["application/x.tar.gzip"]),
            "oci layer media type application/x.tar.gzip is not in the list of allowed media types"
        );
        // RND-116: a provenance layer does not count.
        let provenance = "application/vnd.cncf.helm.chart.provenance.v1.prov";
        assert_eq!(
            content(HELM_CONFIG, &[HELM_CONTENT, provenance, gzip]),
            Ok((HELM_CONTENT.to_owned(), true))
        );
        assert!(Manifest::read(b"[]").is_err() && Manifest::read(b"{").is_err());
    }
}
