//! The resources of a build in their order: finding, adding, merging them (RND-210, RND-216).

use std::collections::HashMap;

use smol_str::SmolStr;
use tiphys_go::regexp::Regexp;
use tiphys_object::selector::Selector as LabelSelector;

use crate::fault::{Fault, Result};
use crate::graph::Graph;
use crate::id::{Gvk, ResourceId};
use crate::kustomization::Selector;
use crate::resource::{Behavior, Resource};
use crate::schema::Schemas;

/// What two resources must not have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    group: SmolStr,
    version: SmolStr,
    kind: SmolStr,
    name: SmolStr,
    namespace: SmolStr,
}

impl Key {
    pub(crate) fn of(id: &ResourceId) -> Self {
        Self {
            group: id.gvk.group.clone(),
            version: id.gvk.version.clone(),
            kind: id.gvk.kind.clone(),
            name: id.name.clone(),
            namespace: id.effective_namespace().into(),
        }
    }
}

/// Resources in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    list: Vec<Resource>,
    /// How many have a key; known while nothing but additions happened.
    keys: Option<HashMap<Key, usize>>,
}

impl Resources {
    pub(crate) fn list(&self) -> &[Resource] {
        &self.list
    }

    /// The resources, to be changed in any way.
    pub(crate) fn list_mut(&mut self) -> &mut Vec<Resource> {
        self.keys = None;
        &mut self.list
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Drops what nothing is left of.
    pub(crate) fn drop_empty(&mut self, graph: &Graph) {
        if self.list.iter().any(|resource| resource.is_empty(graph)) {
            self.list_mut().retain(|resource| !resource.is_empty(graph));
        }
    }

    fn known_keys(&mut self, graph: &Graph, schemas: &mut Schemas) -> Result<&mut HashMap<Key, usize>> {
        if self.keys.is_none() {
            graph.spend(self.list.len())?;
            let mut keys = HashMap::new();
            for resource in &self.list {
                *keys.entry(Key::of(&resource.id(graph, schemas)?)).or_default() += 1;
            }
            self.keys = Some(keys);
        }
        Ok(self.keys.get_or_insert_default())
    }

    /// Adds a resource.
    ///
    /// # Errors
    /// When one of its id is there.
    pub(crate) fn append(&mut self, graph: &Graph, schemas: &mut Schemas, resource: Resource) -> Result<()> {
        graph.spend(1)?;
        let id = resource.id(graph, schemas)?;
        let keys = self.known_keys(graph, schemas)?;
        let count = keys.entry(Key::of(&id)).or_default();
        if *count > 0 {
            return Err(Fault::new(format!("may not add resource with an already registered id: {id}")));
        }
        *count += 1;
        self.list.push(resource);
        Ok(())
    }

    /// Adds resources.
    pub(crate) fn append_all(
        &mut self,
        graph: &Graph,
        schemas: &mut Schemas,
        others: Vec<Resource>,
    ) -> Result<()> {
        others.into_iter().try_for_each(|resource| self.append(graph, schemas, resource))
    }

    /// Positions of resources with a fitting id, present or previous.
    pub(crate) fn with_any_id(
        &self,
        graph: &Graph,
        schemas: &mut Schemas,
        fits: impl Fn(&ResourceId) -> bool,
    ) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        graph.spend(self.list.len())?;
        for (index, resource) in self.list.iter().enumerate() {
            if resource.is_empty(graph) {
                continue;
            }
            if resource.previous_ids(graph)?.iter().any(&fits) || fits(&resource.id(graph, schemas)?) {
                found.push(index);
            }
        }
        Ok(found)
    }

    /// The position of the one resource that a patch names.
    ///
    /// # Errors
    /// When there is none, or several.
    pub(crate) fn for_patch(&self, graph: &Graph, schemas: &mut Schemas, id: &ResourceId) -> Result<usize> {
        let found = self.with_any_id(graph, schemas, |other| id.equals(other))?;
        let words = match found.as_slice() {
            [one] => return Ok(*one),
            [] => "no matches",
            _ => "multiple matches",
        };
        Err(Fault::new(format!("{words} for Id {id}; failed to find unique target for patch {id}")))
    }

    /// Adds what a generator made, or merges it with what is there (RND-216).
    pub(crate) fn absorb(
        &mut self,
        graph: &mut Graph,
        schemas: &mut Schemas,
        mut resource: Resource,
    ) -> Result<()> {
        let id = resource.id(graph, schemas)?;
        let behavior = resource.behavior(graph);
        let found = self.with_any_id(graph, schemas, |other| id.equals(other))?;
        let index = match found.as_slice() {
            [] => {
                if matches!(behavior, Behavior::Merge | Behavior::Replace) {
                    return Err(Fault::new(format!(
                        "id {} does not exist; cannot merge or replace",
                        go_id(&id)
                    )));
                }
                return self.append(graph, schemas, resource);
            }
            [index] => *index,
            _ => {
                let shown: Vec<String> = found
                    .iter()
                    .filter_map(|index| self.list.get(*index))
                    .map(|resource| json_text(graph, resource))
                    .collect();
                let shown = shown.join(" ");
                return Err(Fault::new(format!(
                    "found multiple objects [{shown}] that could accept merge of {id}"
                )));
            }
        };
        let Some(old) = self.list.get(index).cloned() else { return Ok(()) };
        match behavior {
            Behavior::Replace => resource.take_metadata(graph, &old)?,
            Behavior::Merge => {
                let origin = old.annotation(graph, crate::origin::ORIGIN).map(SmolStr::new);
                resource.take_metadata(graph, &old)?;
                resource.take_data(graph, &old, "data")?;
                resource.take_data(graph, &old, "binaryData")?;
                if let Some(origin) = origin {
                    let mut annotations = resource.annotations(graph);
                    annotations.insert(crate::origin::ORIGIN.into(), origin);
                    resource.set_annotations(graph, &annotations)?;
                }
            }
            Behavior::Create | Behavior::Unspecified => {
                return Err(Fault::new(format!(
                    "id {} exists; can not use behavior: '{}', behavior must be merge or replace",
                    go_id(&id),
                    behavior.as_str()
                )));
            }
        }
        let id = resource.id(graph, schemas)?;
        let same: Vec<usize> = {
            let mut same = Vec::new();
            for (index, other) in self.list.iter().enumerate() {
                if id.equals(&other.id(graph, schemas)?) {
                    same.push(index);
                }
            }
            same
        };
        match same.as_slice() {
            [] => Err(Fault::new(format!("cannot find resource with id {id} to replace"))),
            [one] if *one == index => {
                if let Some(place) = self.list_mut().get_mut(index) {
                    *place = resource;
                }
                Ok(())
            }
            [_] => Err(Fault::new("unexpected target index in replacement")),
            several => Err(Fault::new(format!("in Replace: id matched {} resources", several.len()))),
        }
    }

    /// Positions of the resources that a selector selects (RND-225, RND-214).
    pub(crate) fn select(
        &self,
        graph: &Graph,
        schemas: &mut Schemas,
        selector: &Selector,
    ) -> Result<Vec<usize>> {
        let patterns = Patterns::new(selector)?;
        let mut found = Vec::new();
        graph.spend(self.list.len())?;
        for (index, resource) in self.list.iter().enumerate() {
            let current = resource.id(graph, schemas)?;
            let previous = resource.previous_ids(graph)?;
            let original = previous.first().unwrap_or(&current);
            let namespace_fits = patterns.namespace_fits(original.effective_namespace())
                || patterns.namespace_fits(current.effective_namespace());
            let name_fits = patterns.name_fits(&original.name) || patterns.name_fits(&current.name);
            if namespace_fits
                && name_fits
                && patterns.kind_fits(&current.gvk)
                && texts_fit(graph, resource, "labels", &selector.labels)?
                && texts_fit(graph, resource, "annotations", &selector.annotations)?
            {
                found.push(index);
            }
        }
        Ok(found)
    }

    /// Applies a merge patch to the resources with these ids, and looks for ids that are there twice afterwards.
    pub(crate) fn apply_merge_patch(
        &mut self,
        graph: &mut Graph,
        schemas: &mut Schemas,
        selected: &[ResourceId],
        patch: &Resource,
    ) -> Result<()> {
        let list = std::mem::take(self.list_mut());
        let mut kept = Vec::with_capacity(list.len());
        for mut resource in list {
            if selected.contains(&resource.id(graph, schemas)?) {
                let mut copy = patch.copy(graph)?;
                copy.take_metadata(graph, patch)?;
                // Members that only say what the target is become those of the target; the kind stays the patch's.
                let gvk = resource.gvk(graph, schemas)?;
                let kind = patch.kind(graph);
                if let Some(node) = copy.node() {
                    crate::fields::set_path(graph, node, &["kind"], &gvk.kind)?;
                    crate::fields::set_path(graph, node, &["apiVersion"], &gvk.api_version())?;
                    crate::fields::set_path(graph, node, &["kind"], &kind)?;
                }
                resource.apply_merge_patch(graph, schemas, &copy)?;
            }
            if !resource.is_empty(graph) {
                kept.push(resource);
            }
        }
        self.append_all(graph, schemas, kept)
    }
}

/// An id as `%#v` shows it.
fn go_id(id: &ResourceId) -> String {
    use crate::fault::quoted;
    let Gvk { group, version, kind, is_cluster_scoped } = &id.gvk;
    format!(
        "resid.ResId{{Gvk:resid.Gvk{{Group:{}, Version:{}, Kind:{}, isClusterScoped:{is_cluster_scoped}}}, Name:{}, Namespace:{}}}",
        quoted(group),
        quoted(version),
        quoted(kind),
        quoted(&id.name),
        quoted(&id.namespace)
    )
}

/// A resource as JSON, for error texts.
fn json_text(graph: &mut Graph, resource: &Resource) -> String {
    let value = resource.node().and_then(|node| crate::value::to_value(graph, node).ok());
    value.map(|value| tiphys_go::json::to_string_go(&value)).unwrap_or_default()
}

/// Whether labels or annotations meet a selector; an empty one selects all.
pub(crate) fn texts_fit(graph: &Graph, resource: &Resource, map: &str, selector: &str) -> Result<bool> {
    if selector.is_empty() {
        return Ok(true);
    }
    let selector: LabelSelector =
        selector.parse().map_err(|error| Fault::new(format!("unable to parse requirement: {error}")))?;
    let texts = resource.text_map(graph, map);
    Ok(selector.matches(|name| texts.get(name).map(SmolStr::as_str)))
}

/// A pattern of a selector; most are words.
#[derive(Debug)]
pub(crate) enum Pattern {
    Any,
    Word(SmolStr),
    Expression(Box<Regexp>),
}

impl Pattern {
    /// Reads a pattern, which has to match a whole text.
    pub(crate) fn new(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::Any);
        }
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/' | b' '))
        {
            return Ok(Self::Word(text.into()));
        }
        match Regexp::new(&format!("^(?:{text})$")) {
            Ok(expression) => Ok(Self::Expression(Box::new(expression))),
            Err(error) if error.is_too_large() => Err(Fault::exhausted(error.to_string())),
            Err(error) => Err(Fault::new(error.to_string())),
        }
    }

    pub(crate) fn fits(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Word(word) => word == text,
            Self::Expression(expression) => expression.is_match(text),
        }
    }
}

/// The patterns of a selector.
#[derive(Debug)]
pub(crate) struct Patterns {
    group: Pattern,
    version: Pattern,
    kind: Pattern,
    name: Pattern,
    namespace: Pattern,
}

impl Patterns {
    pub(crate) fn new(selector: &Selector) -> Result<Self> {
        let ResourceId { gvk, name, namespace } = &selector.id;
        Ok(Self {
            group: Pattern::new(&gvk.group)?,
            version: Pattern::new(&gvk.version)?,
            kind: Pattern::new(&gvk.kind)?,
            name: Pattern::new(name)?,
            namespace: Pattern::new(namespace)?,
        })
    }

    pub(crate) fn kind_fits(&self, gvk: &Gvk) -> bool {
        self.group.fits(&gvk.group) && self.version.fits(&gvk.version) && self.kind.fits(&gvk.kind)
    }

    pub(crate) fn name_fits(&self, name: &str) -> bool {
        self.name.fits(name)
    }

    pub(crate) fn namespace_fits(&self, namespace: &str) -> bool {
        self.namespace.fits(namespace)
    }
}
