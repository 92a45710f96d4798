//! Where objects come from, as `buildMetadata` notes it in annotations (RND-213).

use smol_str::SmolStr;

use crate::fault::{Result, attempt};
use crate::graph::{Graph, Kind, Node, NodeId, Style, Tag};
use crate::remote::Repository;
use crate::resource::Resource;
use crate::yaml::write;

/// The annotation that says where an object comes from.
pub(crate) const ORIGIN: &str = "config.kubernetes.io/origin";
/// The annotation that lists what has changed an object.
pub(crate) const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";

/// Where an object, generator or transformer comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) path: String,
    pub(crate) repository: String,
    pub(crate) reference: String,
    pub(crate) configured_in: String,
    /// `apiVersion`, kind, name and namespace.
    pub(crate) configured_by: [SmolStr; 4],
}

impl Origin {
    /// The origin of something that is named by a path there.
    pub(crate) fn append(&self, path: &str) -> Result<Self> {
        let mut origin = self.clone();
        let mut path = path.to_owned();
        if let Ok(Some(repository)) = attempt(Repository::parse(&path))? {
            origin.repository.clone_from(&repository.url);
            origin.reference.clone_from(&repository.reference);
            origin.path.clear();
            // The original takes the name of its empty checkout for the path then.
            path = if repository.path.is_empty() { "notCloned".to_owned() } else { repository.path };
        }
        origin.path = join(&origin.path, &path);
        Ok(origin)
    }

    /// The origin of what a field of a kustomization file makes.
    pub(crate) fn of_field(&self, file: &str, kind: &str) -> Self {
        Self {
            path: String::new(),
            repository: self.repository.clone(),
            reference: self.reference.clone(),
            configured_in: join(&self.path, file),
            configured_by: ["builtin".into(), kind.into(), SmolStr::default(), SmolStr::default()],
        }
    }

    fn node(&self, graph: &mut Graph) -> Result<NodeId> {
        let map = graph.add(Node { tag: Tag::Mapping, ..Node::new(Kind::Mapping) })?;
        for (name, value) in [
            ("path", &self.path),
            ("repo", &self.repository),
            ("ref", &self.reference),
            ("configuredIn", &self.configured_in),
        ] {
            add_text(graph, map, name, value)?;
        }
        if self.configured_by.iter().any(|part| !part.is_empty()) {
            let by = graph.add(Node { tag: Tag::Mapping, ..Node::new(Kind::Mapping) })?;
            for (name, value) in
                ["apiVersion", "kind", "name", "namespace"].into_iter().zip(&self.configured_by)
            {
                add_text(graph, by, name, value)?;
            }
            let key = graph.add(Node::scalar("configuredBy"))?;
            graph.push(map, key)?;
            graph.push(map, by)?;
        }
        Ok(map)
    }

    /// The origin as YAML.
    pub(crate) fn text(&self, graph: &mut Graph) -> Result<String> {
        let node = self.node(graph)?;
        write(graph, node)
    }

    /// Notes the origin in an object.
    pub(crate) fn annotate(&self, graph: &mut Graph, resource: &Resource) -> Result<()> {
        let text = self.text(graph)?;
        let mut annotations = resource.annotations(graph);
        annotations.insert(ORIGIN.into(), text.into());
        resource.set_annotations(graph, &annotations)
    }

    /// Notes in an object that this has changed it, or made it.
    pub(crate) fn annotate_change(&self, graph: &mut Graph, resource: &Resource) -> Result<()> {
        if resource.annotation(graph, ORIGIN).is_none() {
            return self.annotate(graph, resource);
        }
        let item = self.node(graph)?;
        let list =
            graph.add(Node { tag: Tag::Sequence, content: vec![item], ..Node::new(Kind::Sequence) })?;
        let text = write(graph, list)?;
        let mut annotations = resource.annotations(graph);
        let known = annotations.get(TRANSFORMATIONS).map(SmolStr::as_str).unwrap_or_default();
        annotations.insert(TRANSFORMATIONS.into(), format!("{known}{text}").into());
        resource.set_annotations(graph, &annotations)
    }
}

fn add_text(graph: &mut Graph, map: NodeId, name: &str, value: &str) -> Result<()> {
    if value.is_empty() {
        return Ok(());
    }
    let style = if crate::yaml::is_old_non_text(value) { Style::DOUBLE_QUOTED } else { Style::PLAIN };
    let key = graph.add(Node::scalar(name))?;
    let value = graph.add(Node { style, tag: Tag::Text, ..Node::scalar(value) })?;
    graph.push(map, key)?;
    graph.push(map, value)
}

/// `filepath.Join` of relative paths.
fn join(directory: &str, path: &str) -> String {
    let joined = format!("{directory}/{path}");
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    if parts.is_empty() && !(directory.is_empty() && path.is_empty()) {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

/// The origin that a generator's or transformer's own file gives it.
pub(crate) fn of_plugin(graph: &Graph, resource: &Resource) -> Option<Origin> {
    let text = resource.annotation(graph, ORIGIN)?;
    let limits = tiphys_go::yaml::Limits::default();
    let value = tiphys_go::yaml::parse(text, tiphys_go::yaml::Dialect::Sigs, &limits).ok()??;
    let member =
        |name: &str| value.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    Some(Origin {
        path: String::new(),
        repository: member("repo"),
        reference: member("ref"),
        configured_in: member("path"),
        configured_by: [
            resource.api_version(graph),
            resource.kind(graph),
            resource.name(graph),
            resource.namespace(graph),
        ],
    })
}
