//! `ValueAddTransformer`: a value for fields, or for a part of a path in them (RND-237).

use smol_str::SmolStr;

use super::Work;
use super::namespace::Namespace;
use crate::fault::Result;
use crate::fields;
use crate::graph::{Graph, Kind, Node, NodeId};
use crate::kustomization::Selector;

/// A field that gets the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueTarget {
    pub(crate) selector: Option<Selector>,
    pub(crate) field_path: SmolStr,
    /// Where in a path the value goes, counted from 1; 0 for the whole field.
    pub(crate) position: usize,
}

/// Adds a value.
#[derive(Clone, Debug)]
pub(crate) struct ValueAdd {
    pub(crate) value: SmolStr,
    pub(crate) targets: Vec<ValueTarget>,
}

impl ValueAdd {
    pub(crate) fn transform(&self, work: &mut Work<'_>) -> Result<()> {
        for target in &self.targets {
            let selected = match &target.selector {
                Some(selector) => work.resources.select(work.graph, work.schemas, selector)?,
                None => (0..work.resources.len()).collect(),
            };
            for index in selected {
                let Some(node) =
                    work.resources.list_mut().get(index).and_then(crate::resource::Resource::node)
                else {
                    continue;
                };
                if target.field_path == "metadata/namespace" {
                    let namespace = Namespace { namespace: self.value.clone(), ..Namespace::default() };
                    namespace.apply(work.graph, work.schemas, node)?;
                } else {
                    self.add(work.graph, node, target)?;
                }
            }
        }
        Ok(())
    }

    fn add(&self, graph: &mut Graph, node: NodeId, target: &ValueTarget) -> Result<()> {
        let mut parts: Vec<SmolStr> = Vec::new();
        for part in target.field_path.split('/') {
            match parts.last_mut() {
                Some(last) if last.ends_with('\\') => {
                    let kept = last.strip_suffix('\\').unwrap_or(last);
                    *last = smol_str::format_smolstr!("{kept}/{part}");
                }
                _ => parts.push(part.into()),
            }
        }
        let Some(field) = fields::look_up_or_make(graph, node, &parts, Kind::Scalar)? else { return Ok(()) };
        fields::expect_kind(graph, field, Kind::Scalar)?;
        let value = match target.position.checked_sub(1) {
            None => self.value.to_string(),
            Some(position) => insert_part(&graph.node(field).value, position, &self.value),
        };
        if value.is_empty() {
            return Ok(());
        }
        let value = graph.add(Node::scalar(value))?;
        fields::set_scalar(graph, field, value)
    }
}

/// A path with one more part; an absolute one stays absolute.
fn insert_part(path: &str, position: usize, part: &str) -> String {
    let (is_absolute, relative) = match path.strip_prefix('/') {
        Some(relative) => (true, relative),
        None => (false, path),
    };
    let mut parts: Vec<&str> = relative.split('/').filter(|part| !part.is_empty()).collect();
    parts.insert(position.min(parts.len()), part);
    let joined = tiphys_go::path::clean_relative(&parts.join("/"));
    if is_absolute { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_237_a_part_goes_into_a_path() {
        for (path, position, expected) in [
            ("", 0, "PEACH"),
            ("/", 0, "/PEACH"),
            ("pie", 0, "PEACH/pie"),
            ("/pie", 0, "/PEACH/pie"),
            ("raw", 1, "raw/PEACH"),
            ("/raw", 9, "/raw/PEACH"),
            ("a/nice/warm/pie", 3, "a/nice/warm/PEACH/pie"),
        ] {
            assert_eq!(insert_part(path, position, "PEACH"), expected, "{path} {position}");
        }
    }
}
