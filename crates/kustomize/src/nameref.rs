//! Names of other objects, after these were renamed (RND-231..233).

use std::cell::RefCell;
use std::collections::HashMap;

use smol_str::SmolStr;

use crate::config::{Config, FieldSpec, NameReference};
use crate::fault::{Before as _, Fault, Result};
use crate::fields;
use crate::fieldspec;
use crate::graph::{Graph, Kind, Node, NodeId};
use crate::id::{Gvk, ResourceId};
use crate::resource::{PREFIXES, Resource, SUFFIXES};
use crate::resources::Resources;
use crate::schema::Schemas;
use crate::value::to_value;

/// Rewrites every field that names an object which was renamed.
pub(crate) fn fix_references(
    graph: &mut Graph,
    schemas: &mut Schemas,
    resources: &Resources,
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let warnings = RefCell::new(warnings);
    let candidates = Candidates::new(graph, schemas, resources.list())?;
    let specs = Specs::new(&config.name_reference);
    for (index, resource) in resources.list().iter().enumerate() {
        let (Some(node), Some(known)) = (resource.node(), candidates.list.get(index)) else { continue };
        let original = known.previous.first().unwrap_or(&known.id);
        let of_kind = specs.of_kind(&original.gvk.kind);
        if of_kind.is_empty() {
            continue;
        }
        let referrer = Referrer {
            resource,
            known,
            candidates: &candidates,
            namespaces: binding_namespaces(graph, resource, known)?,
            warnings: &warnings,
        };
        for (referent, field) in of_kind {
            if !original.gvk.is_selected(&field.gvk) {
                continue;
            }
            // The kind was looked at; what it is now does not count.
            let field = FieldSpec {
                gvk: Gvk::default(),
                create: field.create,
                path: field.path.clone(),
                parts: std::sync::Arc::clone(&field.parts),
            };
            fieldspec::apply(graph, node, &field, None, &mut |graph: &mut Graph, place: NodeId| {
                referrer.set(graph, place, referent, &field)
            })
            .before(|| format!("updating name reference in '{}' field of '{}'", field.path, known.id))?;
        }
    }
    Ok(())
}

/// The fields that may name something, by the kind that has them.
struct Specs<'c> {
    by_kind: HashMap<SmolStr, Vec<(&'c Gvk, &'c FieldSpec)>>,
    everywhere: bool,
    all: Vec<(&'c Gvk, &'c FieldSpec)>,
}

impl<'c> Specs<'c> {
    fn new(references: &'c [NameReference]) -> Self {
        let mut specs = Self { by_kind: HashMap::new(), everywhere: false, all: Vec::new() };
        for reference in references {
            for field in &reference.fields {
                specs.all.push((&reference.referent, field));
                specs.everywhere |= field.gvk.kind.is_empty();
                specs.by_kind.entry(field.gvk.kind.clone()).or_default().push((&reference.referent, field));
            }
        }
        specs
    }

    fn of_kind(&self, kind: &str) -> &[(&'c Gvk, &'c FieldSpec)] {
        if self.everywhere {
            return &self.all;
        }
        self.by_kind.get(kind).map(Vec::as_slice).unwrap_or_default()
    }
}

/// What is known of a resource that may be referred to.
struct Known {
    id: ResourceId,
    previous: Vec<ResourceId>,
    prefixes: Vec<SmolStr>,
    suffixes: Vec<SmolStr>,
}

struct Candidates<'r> {
    list: Vec<Known>,
    resources: &'r [Resource],
    by_previous_name: HashMap<SmolStr, Vec<usize>>,
}

impl<'r> Candidates<'r> {
    fn new(graph: &Graph, schemas: &mut Schemas, resources: &'r [Resource]) -> Result<Self> {
        let mut list = Vec::with_capacity(resources.len());
        let mut by_previous_name: HashMap<SmolStr, Vec<usize>> = HashMap::new();
        for (index, resource) in resources.iter().enumerate() {
            let note = |name: &str| -> Vec<SmolStr> {
                resource.note(graph, name).unwrap_or_default().into_iter().map(SmolStr::new).collect()
            };
            let known = Known {
                id: resource.id(graph, schemas)?,
                previous: resource.previous_ids(graph)?,
                prefixes: note(PREFIXES),
                suffixes: note(SUFFIXES),
            };
            for id in &known.previous {
                let indexes = by_previous_name.entry(id.name.clone()).or_default();
                if indexes.last() != Some(&index) {
                    indexes.push(index);
                }
            }
            list.push(known);
        }
        Ok(Self { list, resources, by_previous_name })
    }
}

/// Namespaces of the service accounts that a role binding names.
fn binding_namespaces(graph: &Graph, resource: &Resource, known: &Known) -> Result<Vec<SmolStr>> {
    let mut namespaces = Vec::new();
    if known.id.gvk.kind != "RoleBinding" {
        return Ok(namespaces);
    }
    let subjects = resource.node().and_then(|node| fields::find(graph, node, "subjects"));
    let Some(subjects) = subjects.filter(|subjects| graph.node(*subjects).kind == Kind::Sequence) else {
        return Ok(namespaces);
    };
    for subject in fields::items(graph, subjects)? {
        let Some(namespace) = fields::find(graph, subject, "namespace") else { continue };
        let kind = fields::find(graph, subject, "kind").map(|kind| graph.node(kind).value.clone());
        if kind.as_deref() != Some("ServiceAccount") {
            continue;
        }
        let namespace = graph.node(namespace);
        let is_text = namespace.kind == Kind::Scalar && (namespace.is_text() || namespace.style.is_text());
        if !is_text {
            let id = crate::fault::quoted(&known.id.to_string());
            return Err(Fault::new(format!("Invalid Input: namespace is blank for resource {id}\n")));
        }
        namespaces.push(namespace.value.clone());
    }
    Ok(namespaces)
}

struct Referrer<'r> {
    resource: &'r Resource,
    known: &'r Known,
    candidates: &'r Candidates<'r>,
    /// Namespaces of accounts that it names, if it is a role binding.
    namespaces: Vec<SmolStr>,
    warnings: &'r RefCell<&'r mut Vec<String>>,
}

impl Referrer<'_> {
    fn set(&self, graph: &mut Graph, place: NodeId, referent: &Gvk, field: &FieldSpec) -> Result<()> {
        let node = graph.node(place);
        if node.is_null() {
            return Ok(());
        }
        match node.kind {
            Kind::Scalar => self.set_scalar(graph, place, referent, field),
            Kind::Mapping => self.set_mapping(graph, place, referent, field),
            Kind::Sequence => {
                for item in fields::items(graph, place)? {
                    let node = graph.node(item);
                    match node.kind {
                        _ if node.is_null() => {}
                        Kind::Scalar => self.set_scalar(graph, item, referent, field)?,
                        Kind::Mapping => self.set_mapping(graph, item, referent, field)?,
                        Kind::Sequence | Kind::Alias => {
                            return Err(Fault::new(
                                "node is expected to be either a string or a map of string",
                            ));
                        }
                    }
                }
                Ok(())
            }
            Kind::Alias => Err(Fault::new("node must be a scalar, sequence or map")),
        }
    }

    fn set_scalar(&self, graph: &mut Graph, place: NodeId, referent: &Gvk, field: &FieldSpec) -> Result<()> {
        let old = graph.node(place).value.clone();
        let Some(found) = self.select(graph, &old, referent, field, None)? else { return Ok(()) };
        if found.id.name == old {
            return Ok(());
        }
        let value = graph.add(Node::scalar(found.id.name.clone()))?;
        fields::set_scalar(graph, place, value)
    }

    fn set_mapping(&self, graph: &mut Graph, place: NodeId, referent: &Gvk, field: &FieldSpec) -> Result<()> {
        let name = fields::get(graph, place, "name").before(|| "trying to match 'name' field".to_owned())?;
        let Some(name) = name else { return Err(Fault::new("path config error; no 'name' field in node")) };
        let namespace = fields::get(graph, place, "namespace")?;
        let namespace = namespace.map(|namespace| graph.node(namespace).value.clone());
        let old = graph.node(name).value.clone();
        let within = Within { namespace: namespace.as_deref() };
        let Some(found) = self.select(graph, &old, referent, field, Some(&within))? else { return Ok(()) };
        let (name, namespace) = (found.id.name.clone(), found.id.namespace.clone());
        if name == old && namespace.is_empty() {
            return Ok(());
        }
        // RND-233: nothing looks at the kind of a subject.
        let kind = fields::text_of(graph, place, "kind");
        if name != old && matches!(kind.as_str(), "User" | "Group") {
            let warning = format!(
                "# Warning: {kind} '{old}' in {} is renamed to '{name}' with an object",
                self.known.id
            );
            self.warnings.borrow_mut().push(warning);
        }
        let value = graph.add(Node::scalar(name))?;
        fields::set(graph, place, "name", Some(value))?;
        if namespace.is_empty() {
            return Ok(());
        }
        let value = graph.add(Node::scalar(namespace))?;
        fields::set(graph, place, "namespace", Some(value))
    }

    /// Whether this may refer to a resource at all.
    fn may_refer_to(&self, other: &Known) -> bool {
        self.known.id.gvk.is_cluster_scoped
            || other.id.gvk.is_cluster_scoped
            || other.id.is_same_namespace(&self.known.id)
            || self.namespaces.contains(&other.id.namespace)
    }

    /// The one resource that a name means, if there is one.
    fn select(
        &self,
        graph: &mut Graph,
        old: &str,
        referent: &Gvk,
        field: &FieldSpec,
        within: Option<&Within<'_>>,
    ) -> Result<Option<&Known>> {
        let Some(indexes) = self.candidates.by_previous_name.get(old) else { return Ok(None) };
        graph.spend(indexes.len())?;
        let role = field.path.ends_with("roleRef/name").then(|| self.role(graph)).flatten();
        let groups = within
            .and_then(|within| within.namespace)
            .map(|namespace| (namespace, self.groups(graph, namespace)));
        let group = match groups {
            Some((namespace, group)) => Some((namespace, group?)),
            None => None,
        };
        let was = |known: &Known, gvk: &Gvk| known.previous.iter().any(|id| id.gvk.is_selected(gvk));
        let mut found: Vec<usize> = Vec::new();
        for index in indexes {
            let Some(known) = self.candidates.list.get(*index) else { continue };
            let in_group = group.as_ref().is_none_or(|(namespace, by_original)| {
                let id = if *by_original { known.previous.first().unwrap_or(&known.id) } else { &known.id };
                id.effective_namespace() == *namespace
            });
            let in_namespace = self.known.id.gvk.is_cluster_scoped
                || known.id.gvk.is_cluster_scoped
                || known.id.gvk.kind == "ServiceAccount"
                || self.known.id.is_same_namespace(&known.id);
            if in_group
                && self.may_refer_to(known)
                && was(known, referent)
                && role.as_ref().is_none_or(|role| was(known, role))
                && in_namespace
            {
                found.push(*index);
            }
        }
        if found.len() != 1 {
            found.retain(|index| self.shares_context(*index, true));
            if found.len() > 1 {
                found.retain(|index| self.shares_context(*index, false));
            }
        }
        let known = |index: &usize| self.candidates.list.get(*index);
        let Some(first) = found.first().and_then(known) else { return Ok(None) };
        let is_same = |other: &Known| {
            other.id.name == first.id.name && (within.is_none() || other.id.namespace == first.id.namespace)
        };
        if found.iter().filter_map(known).all(is_same) {
            return Ok(Some(first));
        }
        Err(self.ambiguous(graph, &found))
    }

    /// Whether candidates of a namespace are found by their original one; if any is, only these count.
    fn groups(&self, graph: &Graph, namespace: &str) -> Result<bool> {
        graph.spend(self.candidates.list.len())?;
        Ok(self.candidates.list.iter().any(|known| {
            let original = known.previous.first().unwrap_or(&known.id);
            self.may_refer_to(known) && original.effective_namespace() == namespace
        }))
    }

    /// The kind of role that a binding names.
    fn role(&self, graph: &Graph) -> Option<Gvk> {
        let reference = fields::find(graph, self.resource.node()?, "roleRef")?;
        let text =
            |name: &str| fields::find(graph, reference, name).map(|value| graph.node(value).value.clone());
        let (group, kind) = (text("apiGroup")?, text("kind")?);
        Some(Gvk { group, kind, ..Gvk::default() })
    }

    /// Whether a candidate got the same prefixes and suffixes.
    fn shares_context(&self, index: usize, allow_empty: bool) -> bool {
        let Some(other) = self.candidates.list.get(index) else { return false };
        let equal = |one: &[SmolStr], other: &[SmolStr]| {
            (allow_empty && (one.is_empty() || other.is_empty())) || same_ending(one, other)
        };
        equal(&other.prefixes, &self.known.prefixes) && equal(&other.suffixes, &self.known.suffixes)
    }

    fn ambiguous(&self, graph: &mut Graph, found: &[usize]) -> Fault {
        let ids: Vec<String> = found
            .iter()
            .filter_map(|index| self.candidates.list.get(*index))
            .map(|known| known.id.to_string())
            .collect();
        let mut yaml = |resource: &Resource| {
            let value = resource.node().and_then(|node| to_value(graph, node).ok()).unwrap_or_default();
            tiphys_go::yaml::to_string(&value).unwrap_or_default()
        };
        let mut details =
            format!("\n**** Too many possible referral targets to referrer:\n{}\n", yaml(self.resource));
        for (number, index) in found.iter().enumerate() {
            if let Some(resource) = self.candidates.resources.get(*index) {
                details.push_str("--- possible referral ");
                details.push_str(&number.to_string());
                details.push_str(":\n");
                details.push_str(&yaml(resource));
                details.push('\n');
            }
        }
        Fault::new(format!("found multiple possible referrals: {}\n{details}", ids.join(", ")))
    }
}

/// Of which namespace the candidates are.
struct Within<'n> {
    namespace: Option<&'n str>,
}

/// Whether the shorter list is the end of the longer one; an empty one is that of no other.
fn same_ending(one: &[SmolStr], other: &[SmolStr]) -> bool {
    let (shorter, longer) = if one.len() > other.len() { (other, one) } else { (one, other) };
    if shorter.is_empty() { longer.is_empty() } else { longer.ends_with(shorter) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_231_histories_are_compared_from_their_ends() {
        let list = |text: &str| text.split_whitespace().map(SmolStr::new).collect::<Vec<_>>();
        for (one, other, expected) in
            [("a b", "b", true), ("b", "a b", true), ("a b", "a", false), ("", "", true), ("", "a", false)]
        {
            assert_eq!(same_ending(&list(one), &list(other)), expected, "{one} {other}");
        }
    }
}
