//! Which fields the transformers change: the built-in list, and what `configurations` and `crds` add (RND-234).

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use smol_str::SmolStr;

use crate::decode::{Decoder, Members};
use crate::fault::{Before as _, Fault, Result};
use crate::id::Gvk;
use crate::order;

static TEXT: &str = include_str!("../data/fields.txt");
static BUILT_IN: LazyLock<Arc<Config>> = LazyLock::new(|| Arc::new(Config::read_table(TEXT)));

/// A field of objects of some kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    pub(crate) gvk: Gvk,
    pub(crate) path: SmolStr,
    pub(crate) create: bool,
    /// The parts of the path.
    pub(crate) parts: Arc<[SmolStr]>,
}

impl FieldSpec {
    /// A field of objects of every kind.
    pub(crate) fn everywhere(path: &str) -> Self {
        Self { gvk: Gvk::default(), path: path.into(), create: true, parts: split_path(path, '/').into() }
    }

    /// Reads a field of a configuration.
    pub(crate) fn decode(value: &Value, at: &Decoder<'_>) -> Result<Self> {
        let (mut gvk, mut path, mut create) = (Gvk::default(), SmolStr::default(), false);
        for (name, value) in at.members(value, &["group", "version", "kind", "path", "create"])? {
            match name {
                "group" => gvk.group = at.field("Gvk.group").text(value)?,
                "version" => gvk.version = at.field("Gvk.version").text(value)?,
                "kind" => gvk.kind = at.field("Gvk.kind").text(value)?,
                "path" => path = at.field(name).text(value)?,
                _ => create = at.field(name).truth(value)?,
            }
        }
        let parts = split_path(&path, '/').into();
        Ok(Self { gvk, path, create, parts })
    }

    /// Whether the other field is at least as special, so that it need not be added.
    fn covers(&self, other: &Self) -> bool {
        self.gvk.is_selected(&other.gvk) && self.path == other.path
    }
}

/// The parts of a path; a backslash before a separator makes it a part of the name.
pub(crate) fn split_path(path: &str, separator: char) -> Vec<SmolStr> {
    let mut pieces = path.split(separator).peekable();
    let mut first = pieces.next().unwrap_or_default();
    if first.is_empty()
        && let Some(second) = pieces.next()
    {
        first = second;
    }
    let mut parts = vec![SmolStr::new(first)];
    for piece in pieces {
        match parts.last_mut() {
            Some(last) if last.ends_with('\\') => {
                let kept = last.strip_suffix('\\').unwrap_or(last);
                *last = smol_str::format_smolstr!("{kept}{separator}{piece}");
            }
            _ => parts.push(piece.into()),
        }
    }
    parts
}

/// A path whose parts in brackets may contain the separator: `spec.[name=a.b].x`.
pub(crate) fn split_smart(path: &str, separator: char) -> Vec<SmolStr> {
    let parts = split_path(path, separator);
    let mut result: Vec<SmolStr> = Vec::new();
    let mut parts = parts.into_iter().peekable();
    while let Some(part) = parts.next() {
        if !part.starts_with('[') || part.ends_with(']') {
            result.push(part);
            continue;
        }
        let mut joined = part.to_string();
        for next in parts.by_ref() {
            joined.push(separator);
            joined.push_str(&next);
            if next.ends_with(']') {
                break;
            }
        }
        if joined.contains('=') {
            result.push(joined.into());
        } else {
            result.push(joined.trim_matches(['[', ']']).into());
        }
    }
    result
}

/// Fields, each once.
pub(crate) type FieldSpecs = Vec<FieldSpec>;

/// Adds a field.
///
/// # Errors
/// When it is there and says something else about being created.
pub(crate) fn merge_one(fields: &mut FieldSpecs, field: &FieldSpec) -> Result<()> {
    match fields.iter().find(|known| known.covers(field)) {
        Some(known) if known.create != field.create => Err(Fault::new("conflicting fieldspecs")),
        Some(_) => Ok(()),
        None => {
            fields.push(field.clone());
            Ok(())
        }
    }
}

/// Adds fields.
pub(crate) fn merge_all(fields: &mut FieldSpecs, incoming: &[FieldSpec]) -> Result<()> {
    incoming.iter().try_for_each(|field| merge_one(fields, field))
}

/// Fields that name objects of a kind.
#[derive(Clone, Debug)]
pub(crate) struct NameReference {
    pub(crate) referent: Gvk,
    pub(crate) fields: FieldSpecs,
}

fn merge_reference(references: &mut Vec<NameReference>, other: &NameReference) -> Result<()> {
    let mut found = false;
    for known in references.iter_mut().filter(|known| known.referent.equals(&other.referent)) {
        merge_all(&mut known.fields, &other.fields)?;
        found = true;
    }
    if !found {
        references.push(other.clone());
    }
    Ok(())
}

/// Fields of all transformers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) name_prefix: FieldSpecs,
    pub(crate) name_suffix: FieldSpecs,
    pub(crate) namespace: FieldSpecs,
    pub(crate) common_labels: FieldSpecs,
    pub(crate) labels: FieldSpecs,
    pub(crate) template_labels: FieldSpecs,
    pub(crate) common_annotations: FieldSpecs,
    pub(crate) name_reference: Vec<NameReference>,
    pub(crate) var_reference: FieldSpecs,
    pub(crate) images: FieldSpecs,
    pub(crate) replicas: FieldSpecs,
    /// Nothing but what is built in.
    is_built_in: bool,
    /// What is built in is a part of it.
    has_built_in: bool,
}

impl Config {
    /// What is built in.
    pub(crate) fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    fn read_table(text: &str) -> Self {
        let mut config = Self::default();
        let mut section = "";
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let part = |word: &str| if word == "-" { SmolStr::default() } else { word.into() };
            let gvk = |group: &str, version: &str, kind: &str| Gvk {
                group: part(group),
                version: part(version),
                kind: part(kind),
                is_cluster_scoped: false,
            };
            match *words {
                ["#", name] => section = name,
                ["#", name, group, version, kind] => {
                    section = name;
                    let referent = gvk(group, version, kind);
                    config.name_reference.push(NameReference { referent, fields: Vec::new() });
                }
                [group, version, kind, path, ref create @ ..] => {
                    let field = FieldSpec {
                        gvk: gvk(group, version, kind),
                        create: !create.is_empty(),
                        ..FieldSpec::everywhere(path)
                    };
                    let fields = match section {
                        "nameReference" => config.name_reference.last_mut().map(|last| &mut last.fields),
                        name => config.section(name),
                    };
                    if let Some(fields) = fields {
                        fields.push(field);
                    }
                }
                _ => {}
            }
        }
        config.sort();
        let mut merged = Self::default();
        // The table has no conflicts; a test reads it.
        let _no_conflict = merged.add(&config);
        Self { is_built_in: true, has_built_in: true, ..merged }
    }

    fn section(&mut self, name: &str) -> Option<&mut FieldSpecs> {
        Some(match name {
            "namePrefix" => &mut self.name_prefix,
            "nameSuffix" => &mut self.name_suffix,
            "namespace" => &mut self.namespace,
            "commonLabels" => &mut self.common_labels,
            "labels" => &mut self.labels,
            "templateLabels" => &mut self.template_labels,
            "commonAnnotations" => &mut self.common_annotations,
            "varReference" => &mut self.var_reference,
            "images" => &mut self.images,
            "replicas" => &mut self.replicas,
            _ => return None,
        })
    }

    /// Reads a file of `configurations`.
    pub(crate) fn decode(value: &Value) -> Result<Self> {
        const NAMES: &[&str] = &[
            "namePrefix",
            "nameSuffix",
            "namespace",
            "commonLabels",
            "labels",
            "templateLabels",
            "commonAnnotations",
            "nameReference",
            "varReference",
            "images",
            "replicas",
        ];
        let mut config = Self::default();
        let root = Decoder::strict("TransformerConfig");
        for (name, value) in root.members(value, NAMES)? {
            let at = root.field(name);
            if name == "nameReference" {
                config.name_reference = at.list(value, "builtinconfig.nbrSlice", |value, at| {
                    let at = at.inside("NameBackReferences");
                    let (mut referent, mut fields) = (Gvk::default(), Vec::new());
                    for (name, value) in at.members(value, &["group", "version", "kind", "fieldSpecs"])? {
                        match name {
                            "group" => referent.group = at.field("Gvk.group").text(value)?,
                            "version" => referent.version = at.field("Gvk.version").text(value)?,
                            "kind" => referent.kind = at.field("Gvk.kind").text(value)?,
                            _ => fields = decode_fields(value, &at.field(name))?,
                        }
                    }
                    Ok(NameReference { referent, fields })
                })?;
            } else if let Some(fields) = config.section(name) {
                *fields = decode_fields(value, &at)?;
            }
        }
        config.sort();
        Ok(config)
    }

    fn sort(&mut self) {
        for fields in [
            &mut self.name_prefix,
            &mut self.name_suffix,
            &mut self.namespace,
            &mut self.common_labels,
            &mut self.labels,
            &mut self.template_labels,
            &mut self.common_annotations,
            &mut self.var_reference,
            &mut self.images,
            &mut self.replicas,
        ] {
            fields.sort_by_cached_key(|field| order::default_rank(&field.gvk));
        }
        self.name_reference.sort_by_cached_key(|reference| order::default_rank(&reference.referent));
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        let words = |name: &str| format!("failed to merge {name} fieldSpec");
        merge_all(&mut self.name_prefix, &other.name_prefix).before(|| words("NamePrefix"))?;
        merge_all(&mut self.name_suffix, &other.name_suffix).before(|| words("NameSuffix"))?;
        merge_all(&mut self.namespace, &other.namespace).before(|| words("NameSpace"))?;
        merge_all(&mut self.common_annotations, &other.common_annotations)
            .before(|| words("CommonAnnotations"))?;
        merge_all(&mut self.common_labels, &other.common_labels).before(|| words("CommonLabels"))?;
        merge_all(&mut self.labels, &other.labels).before(|| words("Labels"))?;
        merge_all(&mut self.template_labels, &other.template_labels).before(|| words("TemplateLabels"))?;
        merge_all(&mut self.var_reference, &other.var_reference).before(|| words("VarReference"))?;
        for reference in &other.name_reference {
            merge_reference(&mut self.name_reference, reference).before(|| words("NameReference"))?;
        }
        merge_all(&mut self.images, &other.images).before(|| words("Images"))?;
        merge_all(&mut self.replicas, &other.replicas).before(|| words("Replicas"))?;
        self.sort();
        Ok(())
    }

    fn is_empty(&self) -> bool {
        let lists = [
            &self.name_prefix,
            &self.name_suffix,
            &self.namespace,
            &self.common_labels,
            &self.labels,
            &self.template_labels,
            &self.common_annotations,
            &self.var_reference,
            &self.images,
            &self.replicas,
        ];
        self.name_reference.is_empty() && lists.iter().all(|fields| fields.is_empty())
    }

    /// This with what the other adds.
    ///
    /// # Errors
    /// When the two say different things about creating a field.
    pub(crate) fn merge(self: &Arc<Self>, other: &Arc<Self>) -> Result<Arc<Self>> {
        if other.is_empty() || (other.is_built_in && self.has_built_in) {
            return Ok(Arc::clone(self));
        }
        if self.is_empty() && other.is_built_in {
            return Ok(Arc::clone(other));
        }
        // Into an empty list the fields go one by one as well: one of a kind, if it comes first, keeps that of all
        // kinds out.
        let mut merged = Self { is_built_in: false, ..(**self).clone() };
        merged.add(other)?;
        merged.has_built_in |= other.has_built_in;
        Ok(Arc::new(merged))
    }

    /// Adds one field that names objects.
    pub(crate) fn add_reference(&mut self, referent: Gvk, field: FieldSpec) -> Result<()> {
        merge_reference(&mut self.name_reference, &NameReference { referent, fields: vec![field] })
    }
}

/// Reads fields.
pub(crate) fn decode_fields(value: &Value, at: &Decoder<'_>) -> Result<FieldSpecs> {
    at.list(value, "[]types.FieldSpec", |value, at| FieldSpec::decode(value, &at.inside("FieldSpec")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_232_the_table_of_fields_is_read_without_conflicts() {
        let config = Config::built_in();
        assert_eq!(config.name_reference.len(), 16);
        assert_eq!(config.common_labels.len(), 32);
        assert!(config.merge(&config).is_ok_and(|merged| Arc::ptr_eq(&merged, &config)));
    }

    #[test]
    fn rnd_229_paths_are_split_at_separators_that_are_not_escaped() {
        assert_eq!(split_path("/a/b\\/c/d", '/'), ["a", "b/c", "d"]);
        assert_eq!(split_smart("a.[name=x.y].b", '.'), ["a", "[name=x.y]", "b"]);
        assert_eq!(split_smart("metadata.annotations.[a.b/c]", '.'), ["metadata", "annotations", "a.b/c"]);
        assert_eq!(split_smart("a\\.b.c", '.'), ["a.b", "c"]);
    }
}
