//! The namespace of all resources (RND-219).

use std::collections::HashMap;

use smol_str::SmolStr;

use super::Work;
use crate::config::{FieldSpec, FieldSpecs};
use crate::fault::{Before as _, Class, Fault, Result};
use crate::fields;
use crate::fieldspec::{self, Creation};
use crate::graph::{Graph, Kind, Node, NodeId, Tag};
use crate::id::split_api_version;
use crate::resources::Key;
use crate::schema::Schemas;
use crate::value::to_value;

/// Which subjects of role bindings get the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subjects {
    /// Those named `default`.
    #[default]
    DefaultOnly,
    /// Those of kind `ServiceAccount`.
    AllServiceAccounts,
    /// None.
    None,
}

impl Subjects {
    /// Reads `setRoleBindingSubjects`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        match text {
            "" | "defaultOnly" => Ok(Self::DefaultOnly),
            "allServiceAccounts" => Ok(Self::AllServiceAccounts),
            "none" => Ok(Self::None),
            other => Err(Fault::new(format!(
                "invalid value {} for setRoleBindingSubjects: must be one of \"defaultOnly\", \"none\" or \"allServiceAccounts\"",
                crate::fault::quoted(other)
            ))),
        }
    }
}

/// Sets the namespace.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the fields of the file")]
pub(crate) struct Namespace {
    pub(crate) namespace: SmolStr,
    pub(crate) fields: FieldSpecs,
    pub(crate) unset_only: bool,
    pub(crate) subjects: Subjects,
}

impl Namespace {
    /// Sets the namespace of all resources.
    ///
    /// # Errors
    /// When two become the same.
    pub(crate) fn transform(&self, work: &mut Work<'_>) -> Result<()> {
        if self.namespace.is_empty() {
            return Ok(());
        }
        let Work { graph, schemas, resources } = work;
        let list = resources.list_mut();
        let mut counts: HashMap<Key, usize> = HashMap::new();
        let mut keys = Vec::with_capacity(list.len());
        for resource in list.iter() {
            let key = Key::of(&resource.id(graph, schemas)?);
            *counts.entry(key.clone()).or_default() += 1;
            keys.push(key);
        }
        for (resource, before) in list.iter().zip(keys) {
            let Some(node) = resource.node() else { continue };
            if resource.is_empty(graph) || resource.is_helm_generated(graph) {
                continue;
            }
            resource.store_previous_id(graph, schemas)?;
            self.apply(graph, schemas, node)?;
            let id = resource.id(graph, schemas)?;
            if let Some(count) = counts.get_mut(&before) {
                *count -= 1;
            }
            let count = counts.entry(Key::of(&id)).or_default();
            *count += 1;
            if *count != 1 {
                let mut shown = Vec::new();
                for other in list.iter() {
                    if id.equals(&other.id(graph, schemas)?)
                        && let Some(node) = other.node()
                    {
                        shown.push(tiphys_go::json::to_string_go(&to_value(graph, node)?));
                    }
                }
                let shown = shown.join(" ");
                return Err(Fault::new(format!("namespace transformation produces ID conflict: [{shown}]")));
            }
        }
        Ok(())
    }

    /// Sets the namespace of one object.
    pub(crate) fn apply(&self, graph: &mut Graph, schemas: &mut Schemas, node: NodeId) -> Result<()> {
        let member = |graph: &Graph, name: &str| {
            fields::find(graph, node, name).map(|value| graph.node(value).value.clone()).unwrap_or_default()
        };
        let (api_version, kind) = (member(graph, "apiVersion"), member(graph, "kind"));
        let is_cluster_scoped = match split_api_version(&api_version) {
            ("", version) => schemas.is_cluster_scoped(version, &kind)?,
            _ => schemas.is_cluster_scoped(&api_version, &kind)?,
        };
        if !is_cluster_scoped {
            let field = FieldSpec::everywhere("metadata/namespace");
            let creation = Creation { kind: Kind::Scalar, tag: Tag::None };
            let mut set = self.setter(graph)?;
            fieldspec::apply(graph, node, &field, Some(&creation), &mut set)?;
        }
        let is_binding = matches!(&*kind, "RoleBinding" | "ClusterRoleBinding");
        if is_binding {
            self.set_subjects(graph, node)?;
        }
        let creation = Creation { kind: Kind::Scalar, tag: Tag::Text };
        let mut set = self.setter(graph)?;
        for field in &self.fields {
            let of_metadata =
                field.path == "metadata/namespace" || (field.path == "metadata/name" && api_version != "v1");
            let of_subjects = is_binding
                && matches!(&*field.gvk.kind, "RoleBinding" | "ClusterRoleBinding")
                && field.path == "subjects/namespace";
            if of_metadata || of_subjects {
                continue;
            }
            fieldspec::apply(graph, node, field, Some(&creation), &mut set).map_err(|fault| {
                match fault.class() {
                    Class::WrongKind(kind) if kind != Kind::Scalar => {
                        fault.before("namespace field specs must target scalar nodes")
                    }
                    _ => fault.before("namespace transformation failed"),
                }
            })?;
        }
        Ok(())
    }

    /// Sets a field to the namespace, if it may.
    fn setter(&self, graph: &mut Graph) -> Result<impl FnMut(&mut Graph, NodeId) -> Result<()> + use<>> {
        let mut set = fieldspec::entry_setter(graph, "", &self.namespace, Tag::Text)?;
        let unset_only = self.unset_only;
        Ok(move |graph: &mut Graph, node: NodeId| {
            let found = graph.node(node);
            let has_value =
                !found.is_null_or_empty() && found.kind == Kind::Scalar && !found.value.is_empty();
            if unset_only && has_value { Ok(()) } else { set(graph, node) }
        })
    }

    fn set_subjects(&self, graph: &mut Graph, node: NodeId) -> Result<()> {
        let (name, value, words) = match self.subjects {
            Subjects::None => return Ok(()),
            Subjects::DefaultOnly => ("name", "default", "looking up name on (cluster)role binding subject"),
            Subjects::AllServiceAccounts => {
                ("kind", "ServiceAccount", "looking up kind on (cluster)role binding subject")
            }
        };
        let Some(subjects) =
            fields::get(graph, node, "subjects")?.filter(|found| !graph.node(*found).is_null())
        else {
            return Ok(());
        };
        let outer = || "setting namespace on (cluster)role binding subjects".to_owned();
        for subject in fields::items(graph, subjects).before(outer)? {
            let found = fields::get(graph, subject, name).before(|| words.to_owned()).before(outer)?;
            let Some(found) = found.filter(|found| !graph.node(*found).is_null()) else { continue };
            fields::expect_kind(graph, found, Kind::Scalar).before(|| words.to_owned()).before(outer)?;
            if graph.node(found).value != value {
                continue;
            }
            let mut set = self.setter(graph)?;
            let made = if let Some(found) = fields::find(graph, subject, "namespace") {
                Some(found)
            } else {
                let made = graph.add(Node::new(Kind::Scalar))?;
                fields::set(graph, subject, "namespace", Some(made))?;
                Some(made)
            };
            if let Some(made) = made {
                set(graph, made).before(outer)?;
            }
        }
        Ok(())
    }
}
