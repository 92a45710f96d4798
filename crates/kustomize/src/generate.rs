//! Generated `ConfigMap`s and Secrets (RND-215), and what generators of built-in kinds make.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use smol_str::SmolStr;

use crate::fault::{Before as _, Fault, Result};
use crate::fields;
use crate::graph::{Graph, Kind, Node, NodeId, Style, Tag};
use crate::kustomization::Generator;
use crate::load::{Found, Loader, Reading};
use crate::resource::{Behavior, Resource};

/// Columns of base64 text.
const BASE64_COLUMNS: usize = 70;

/// What a generator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generated {
    ConfigMap,
    Secret,
}

/// Makes a `ConfigMap` or Secret; `None` when something it needs is not fetched yet.
pub(crate) fn generate(
    graph: &mut Graph,
    reading: &mut Reading<'_>,
    loader: &Loader<'_>,
    what: Generated,
    args: &Generator,
) -> Result<Option<Resource>> {
    let kind = match what {
        Generated::ConfigMap => "ConfigMap",
        Generated::Secret => "Secret",
    };
    let object = graph.add(Node { tag: Tag::Mapping, ..Node::new(Kind::Mapping) })?;
    for (name, value) in [("apiVersion", "v1"), ("kind", kind)] {
        let value = graph.add(Node { tag: Tag::Text, ..Node::scalar(value) })?;
        fields::set(graph, object, name, Some(value))?;
    }
    if args.name.is_empty() {
        return Err(Fault::new("a configmap must have a name"));
    }
    set_metadata(graph, object, "name", &args.name)?;
    if !args.namespace.is_empty() {
        set_metadata(graph, object, "namespace", &args.namespace)?;
    }
    if what == Generated::Secret {
        let secret_type = if args.secret_type.is_empty() { "Opaque" } else { &args.secret_type };
        let value = graph.add(Node::text(secret_type))?;
        fields::set(graph, object, "type", Some(value))?;
    }
    let Some(pairs) = read_pairs(graph, reading, loader, args).before(|| "loading KV pairs".to_owned())?
    else {
        return Ok(None);
    };
    let mut data: std::collections::BTreeMap<SmolStr, Vec<u8>> = std::collections::BTreeMap::new();
    for (key, value) in pairs {
        if data.contains_key(&key) {
            return Err(Fault::new(format!("configmap {} illegally repeats the key `{key}`", args.name)));
        }
        data.insert(key, value);
    }
    if what == Generated::Secret {
        // There is data, though there may be nothing in it.
        fields::look_up_or_make(graph, object, &["data"], Kind::Mapping)?;
    }
    for (key, value) in data {
        let (field, text) = match (what, String::from_utf8(value)) {
            (Generated::ConfigMap, Ok(text)) => ("data", text),
            (Generated::ConfigMap, Err(binary)) => ("binaryData", base64_lines(binary.as_bytes())),
            (Generated::Secret, Ok(text)) => ("data", base64_lines(text.as_bytes())),
            (Generated::Secret, Err(binary)) => ("data", base64_lines(binary.as_bytes())),
        };
        let value = graph.add(Node::text(text))?;
        if let Some(map) = fields::look_up_or_make(graph, object, &[field], Kind::Mapping)? {
            fields::set(graph, map, &key, Some(value))?;
        }
    }
    let options = args.options.clone().unwrap_or_default();
    for (name, value) in &options.labels {
        fields::set_label(graph, object, name, value)?;
    }
    for (name, value) in &options.annotations {
        fields::set_annotation(graph, object, name, value)?;
    }
    if options.immutable {
        let value = graph.add(Node { tag: Tag::Bool, ..Node::scalar("true") })?;
        fields::set(graph, object, "immutable", Some(value))?;
    }
    let resource = Resource::new(object);
    resource.mark_generated(graph, !options.disable_name_suffix_hash, Behavior::parse(&args.behavior))?;
    Ok(Some(resource))
}

fn set_metadata(graph: &mut Graph, object: NodeId, name: &str, value: &str) -> Result<()> {
    let value = graph.add(Node::text(value))?;
    if let Some(metadata) = fields::look_up_or_make(graph, object, &["metadata"], Kind::Mapping)? {
        fields::set(graph, metadata, name, Some(value))?;
    }
    Ok(())
}

/// base64 in lines, when it takes more than one.
fn base64_lines(bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    if text.len() < BASE64_COLUMNS {
        return text;
    }
    let mut lines = String::with_capacity(text.len() + text.len() / BASE64_COLUMNS + 1);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at_checked(BASE64_COLUMNS).unwrap_or((rest, ""));
        lines.push_str(line);
        lines.push('\n');
        rest = after;
    }
    lines
}

type Pairs = Vec<(SmolStr, Vec<u8>)>;

/// Keys and values in the order envs, literals, files.
fn read_pairs(
    graph: &Graph,
    reading: &mut Reading<'_>,
    loader: &Loader<'_>,
    args: &Generator,
) -> Result<Option<Pairs>> {
    let mut pairs = Pairs::new();
    let mut is_complete = true;
    let listed =
        |list: &[SmolStr]| format!("[{}]", list.iter().map(SmolStr::as_str).collect::<Vec<_>>().join(" "));
    for path in &args.envs {
        let words = || format!("env source files: {}", listed(&args.envs));
        match loader.load(reading, path).before(words)? {
            Found::Here(bytes) => read_env_file(graph, &bytes, &mut pairs).before(words)?,
            Found::NotYet => is_complete = false,
        }
    }
    for literal in &args.literals {
        let words = || format!("literal sources {}", listed(&args.literals));
        let pair = literal.split_once('=').filter(|(key, _)| !key.is_empty());
        let Some((key, value)) = pair else {
            let fault = Fault::new(format!("invalid literal source {literal}, expected key=value"));
            return Err(fault.before(words()));
        };
        pairs.push((key.into(), without_quotes(value).as_bytes().to_vec()));
    }
    for source in &args.files {
        let words = || format!("file sources: {}", listed(&args.files));
        let (key, path) = parse_file_source(source).before(words)?;
        match loader.load(reading, path).before(words)? {
            Found::Here(bytes) => {
                graph.take(bytes.len())?;
                pairs.push((key.into(), bytes.to_vec()));
            }
            Found::NotYet => is_complete = false,
        }
    }
    Ok(is_complete.then_some(pairs))
}

fn without_quotes(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn read_env_file(graph: &Graph, bytes: &[u8], pairs: &mut Pairs) -> Result<()> {
    /// What Go's scanner takes for a line at most.
    const LINE_BYTES_MAX: usize = 64 * 1024;
    graph.take(bytes.len())?;
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        // The original stops reading there, without an error.
        if line.len() >= LINE_BYTES_MAX {
            break;
        }
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Ok(line) = std::str::from_utf8(line) else {
            let shown = String::from_utf8_lossy(line);
            let numbers: Vec<String> = line.iter().map(u8::to_string).collect();
            return Err(Fault::new(format!("line [{}] has invalid utf8 bytes : {shown}", numbers.join(" "))));
        };
        let line = if number == 0 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        if !key.is_empty() {
            pairs.push((key.into(), value.as_bytes().to_vec()));
        }
    }
    Ok(())
}

fn parse_file_source(source: &str) -> Result<(&str, &str)> {
    use crate::fault::quoted;
    match source.matches('=').count() {
        0 => Ok((base_name(source), source)),
        1 => match source.split_once('=') {
            Some(("", path)) => Err(Fault::new(format!(
                "missing key name for file path {} in source {}",
                quoted(path),
                quoted(source)
            ))),
            Some((key, "")) => Err(Fault::new(format!(
                "missing file path for key name {} in source {}",
                quoted(key),
                quoted(source)
            ))),
            Some(pair) => Ok(pair),
            None => Ok((base_name(source), source)),
        },
        _ => Err(Fault::new(format!("source {} key name or file path contains '='", quoted(source)))),
    }
}

/// `path.Base` of Go.
fn base_name(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let path = path.trim_end_matches('/');
    if path.is_empty() { "/" } else { path.rsplit_once('/').map_or(path, |(_, name)| name) }
}

/// `IAMPolicyGenerator`: a service account of Kubernetes for one of a cloud (RND-237).
#[derive(Clone, Debug, Default)]
pub(crate) struct IamPolicy {
    pub(crate) cloud: SmolStr,
    pub(crate) kubernetes_name: SmolStr,
    pub(crate) namespace: SmolStr,
    pub(crate) account_name: SmolStr,
    pub(crate) project_id: SmolStr,
}

impl IamPolicy {
    /// Makes the service account.
    pub(crate) fn generate(&self, graph: &mut Graph) -> Result<Resource> {
        if self.cloud != "gke" {
            return Err(Fault::new(format!("cloud provider {} not supported yet", self.cloud)));
        }
        let annotation = format!("{}@{}.iam.gserviceaccount.com", self.account_name, self.project_id);
        let object = graph.add(Node { tag: Tag::Mapping, ..Node::new(Kind::Mapping) })?;
        for (path, value) in [
            (&["apiVersion"][..], "v1"),
            (&["kind"], "ServiceAccount"),
            (&["metadata", "annotations", "iam.gke.io/gcp-service-account"], &annotation),
            (&["metadata", "name"], &self.kubernetes_name),
            (&["metadata", "namespace"], &self.namespace),
        ] {
            if value.is_empty() && path.last() == Some(&"namespace") {
                continue;
            }
            let tag = crate::yaml::resolve_plain(value).tag();
            let value = graph.add(Node { tag, style: Style::PLAIN, ..Node::scalar(value) })?;
            let Some((last, parents)) = path.split_last() else { continue };
            if let Some(parent) = fields::look_up_or_make(graph, object, parents, Kind::Mapping)? {
                fields::set(graph, parent, last, Some(value))?;
            }
        }
        Ok(Resource::new(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_215_sources_of_files_have_a_key_and_a_path() {
        assert_eq!(parse_file_source("a/b.txt").unwrap(), ("b.txt", "a/b.txt"));
        assert_eq!(parse_file_source("k=a/b.txt").unwrap(), ("k", "a/b.txt"));
        for source in ["=a", "k=", "k=a=b"] {
            assert!(parse_file_source(source).is_err(), "{source}");
        }
    }

    #[test]
    fn rnd_215_env_files_keep_quotes_and_know_comments() {
        let graph = Graph::new(crate::graph::Allowance { memory: 1 << 20, steps: 1 << 20, cancelled: None });
        let mut pairs = Pairs::new();
        read_env_file(&graph, "\u{feff}A=\"1\"\r\n  # no\n\n B=x=y\nC\n".as_bytes(), &mut pairs).unwrap();
        let expected = [("A", "\"1\""), ("B", "x=y"), ("C", "")];
        assert_eq!(pairs, expected.map(|(key, value)| (SmolStr::new(key), value.as_bytes().to_vec())));
    }

    #[test]
    fn rnd_215_one_pair_of_quotes_is_removed() {
        assert_eq!(without_quotes("\"a\""), "a");
        assert_eq!(without_quotes("'a'"), "a");
        assert_eq!(without_quotes("\"a'"), "\"a'");
        assert_eq!(without_quotes("\""), "\"");
        assert_eq!(base64_lines(&[0; 51]).len(), 68);
        assert_eq!(base64_lines(&[0; 54]), format!("{}\n{}\n", "A".repeat(70), "A".repeat(2)));
    }
}
