//! Names, tags and digests of images (RND-223).

use smol_str::SmolStr;
use tiphys_go::nesting::DEPTH_MAX;
use tiphys_go::regexp::Regexp;

use super::Work;
use crate::config::FieldSpecs;
use crate::fault::{Fault, Result};
use crate::fields;
use crate::fieldspec;
use crate::graph::{Graph, Kind, Node, NodeId};
use crate::kustomization::Image;

/// Changes images.
#[derive(Debug)]
pub(crate) struct ImageTag {
    image: Image,
    pattern: Pattern,
}

/// What the name of an image must be. In most names only the dot is not itself.
#[derive(Debug)]
enum Pattern {
    Dotted(SmolStr),
    Expression(Box<Regexp>),
}

impl Pattern {
    fn new(name: &str) -> Result<Self> {
        let is_simple = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/' | b':' | b'@')
        };
        if name.bytes().all(is_simple) {
            return Ok(Self::Dotted(name.into()));
        }
        match Regexp::new(&format!("^{name}(:[a-zA-Z0-9_.{{}}-]*)?(@sha256:[a-zA-Z0-9_.{{}}-]*)?$")) {
            Ok(expression) => Ok(Self::Expression(Box::new(expression))),
            Err(error) if error.is_too_large() => Err(Fault::exhausted(error.to_string())),
            // The original ends with a panic here.
            Err(error) => Err(Fault::new(error.to_string())),
        }
    }

    fn fits(&self, text: &str) -> bool {
        let name = match self {
            Self::Expression(expression) => return expression.is_match(text),
            Self::Dotted(name) => name,
        };
        let mut rest = text.chars();
        for wanted in name.chars() {
            match rest.next() {
                Some('\n') | None => return false,
                Some(found) if wanted == '.' || found == wanted => {}
                Some(_) => return false,
            }
        }
        let is_tag = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'{' | b'}' | b'-'))
        };
        let rest = rest.as_str();
        let without_digest =
            |text: &str| text.is_empty() || text.strip_prefix("@sha256:").is_some_and(is_tag);
        if without_digest(rest) {
            return true;
        }
        let Some(tagged) = rest.strip_prefix(':') else { return false };
        let end = tagged.find('@').unwrap_or(tagged.len());
        let (tag, digest) = tagged.split_at_checked(end).unwrap_or((tagged, ""));
        is_tag(tag) && without_digest(digest)
    }
}

/// Name, tag and digest; a colon before the first slash belongs to the host.
pub(crate) fn split_image(image: &str) -> (&str, &str, &str) {
    let from = image.find('/').unwrap_or(0);
    let searched = image.get(from..).unwrap_or_default();
    let at = searched.find('@').map(|at| at + from);
    let colon = searched.find(':').map(|colon| colon + from);
    let part = |range: std::ops::Range<usize>| image.get(range).unwrap_or_default();
    let end = image.len();
    match (colon, at) {
        (None, None) => (image, "", ""),
        (Some(colon), Some(at)) if colon < at => (part(0..colon), part(colon + 1..at), part(at + 1..end)),
        (_, Some(at)) => (part(0..at), "", part(at + 1..end)),
        (Some(colon), None) => (part(0..colon), part(colon + 1..end), ""),
    }
}

impl ImageTag {
    pub(crate) fn new(image: Image) -> Result<Self> {
        let pattern = Pattern::new(&image.name)?;
        Ok(Self { image, pattern })
    }

    /// Changes images in all resources: those of containers anywhere, and the fields.
    pub(crate) fn transform(&self, work: &mut Work<'_>, fields: &FieldSpecs) -> Result<()> {
        for resource in work.resources.list() {
            if let Some(node) =
                resource.node().filter(|_| resource.kind(work.graph) != "CustomResourceDefinition")
            {
                self.walk(work.graph, node, 0)?;
            }
        }
        for resource in work.resources.list() {
            let Some(node) =
                resource.node().filter(|_| resource.kind(work.graph) != "CustomResourceDefinition")
            else {
                continue;
            };
            for field in fields {
                fieldspec::apply(work.graph, node, field, None, &mut |graph: &mut Graph, image: NodeId| {
                    self.update(graph, image)
                })?;
            }
        }
        Ok(())
    }

    fn walk(&self, graph: &mut Graph, node: NodeId, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        let (kind, count) = (graph.node(node).kind, graph.node(node).content.len());
        graph.spend(1)?;
        let child = |graph: &Graph, at: usize| graph.node(node).content.get(at).copied();
        match kind {
            Kind::Mapping => {
                for at in (0..count).step_by(2) {
                    let (Some(key), Some(value)) = (child(graph, at), child(graph, at + 1)) else { break };
                    if graph.node(value).kind == Kind::Scalar {
                        continue;
                    }
                    self.walk(graph, value, depth + 1)?;
                    let is_list = graph.node(value).kind == Kind::Sequence;
                    if is_list && matches!(graph.node(key).value.as_str(), "containers" | "initContainers") {
                        for container in fields::items(graph, value)? {
                            if let Some(image) = fields::get(graph, container, "image")? {
                                self.update(graph, image)?;
                            }
                        }
                    }
                }
            }
            Kind::Sequence => {
                for at in 0..count {
                    let Some(item) = child(graph, at) else { break };
                    if graph.node(item).kind != Kind::Scalar {
                        self.walk(graph, item, depth + 1)?;
                    }
                }
            }
            Kind::Scalar | Kind::Alias => {}
        }
        Ok(())
    }

    fn update(&self, graph: &mut Graph, node: NodeId) -> Result<()> {
        fields::expect_kind(graph, node, Kind::Scalar)?;
        let value = graph.node(node).value.clone();
        if !self.pattern.fits(&value) {
            return Ok(());
        }
        let (name, mut tag, mut digest) = split_image(&value);
        let joined;
        let image = &self.image;
        match (image.new_tag.as_str(), image.digest.as_str()) {
            ("", "") => {
                if !image.tag_suffix.is_empty() {
                    joined = format!("{tag}{}", image.tag_suffix);
                    (tag, digest) = (&joined, "");
                }
            }
            (new, digest_of_new) => (tag, digest) = (new, digest_of_new),
        }
        let mut text = if image.new_name.is_empty() { name.to_owned() } else { image.new_name.to_string() };
        for (sign, part) in [(':', tag), ('@', digest)] {
            if !part.is_empty() {
                text.push(sign);
                text.push_str(part);
            }
        }
        let value = graph.add(Node::scalar(text))?;
        fields::set_scalar(graph, node, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_223_a_name_matches_with_tag_and_digest() {
        let fits = |name: &str, image: &str| Pattern::new(name).unwrap().fits(image);
        for (name, image, expected) in [
            ("nginx", "nginx", true),
            ("nginx", "nginx:1.27", true),
            ("nginx", "nginx:1.27@sha256:abc", true),
            ("nginx", "nginx@sha256:abc", true),
            ("nginx", "nginx@sha512:abc", false),
            ("nginx", "nginx2", false),
            ("a.b", "axb:1", true),
            ("x", "x:a:b", false),
            ("h:5/x", "h:5/x:1", true),
            ("(a|b)", "b:1", true),
        ] {
            assert_eq!(fits(name, image), expected, "{name} {image}");
        }
    }

    #[test]
    fn rnd_223_a_colon_of_the_host_is_no_tag() {
        assert_eq!(split_image("h:5000/a/b:1@sha256:c"), ("h:5000/a/b", "1", "sha256:c"));
        assert_eq!(split_image("h:5000/a@sha256:c"), ("h:5000/a", "", "sha256:c"));
        assert_eq!(split_image("a:1"), ("a", "1", ""));
        assert_eq!(split_image("a"), ("a", "", ""));
    }
}
