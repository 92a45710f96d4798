//! Whether a schema is structural: what stands under `anyOf` and the like judges values only, everything it
//! judges has a shape, and metadata is nobody's business.

use tiphys_go::regexp::Regexp;

use super::{Additional, Node};

/// Where a node stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// All reasons why a schema is not structural, sorted.
pub(super) fn problems(root: &Node) -> Vec<String> {
    let mut problems = Problems::default();
    shape(root, Level::Root, "", &mut problems);
    // Only the judgements at the root are held against the shape, as in the original.
    complete(root, root, "", "", &mut problems);
    problems.found.sort();
    problems.found
}

#[derive(Default)]
struct Problems {
    found: Vec<String>,
}

impl Problems {
    fn add(&mut self, path: &str, problem: &str) {
        self.found.push(format!("{path}: {problem}"));
    }

    fn forbid(&mut self, wrong: bool, path: &str, member: &str, must: &str) {
        if wrong {
            self.add(&child(path, member), &format!("Forbidden: must be {must} to be structural"));
        }
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn property(path: &str, name: &str) -> String {
    child(path, &format!("properties[{name}]"))
}

fn shape(node: &Node, level: Level, path: &str, problems: &mut Problems) {
    if node.r#type == "array" && node.items.is_none() {
        problems.add(&child(path, "items"), "Required value: must be specified");
    }
    if let Some(items) = &node.items {
        shape(items, Level::Item, &child(path, "items"), problems);
    }
    for (name, below) in &node.properties {
        shape(below, Level::Field, &property(path, name), problems);
    }
    if let Some(additional) = &node.additional {
        let path = child(path, "additionalProperties");
        if level == Level::Root {
            problems.add(&path, "Forbidden: must not be used at the root");
        }
        if node.is_embedded {
            problems.add(&path, "Forbidden: must not be used if x-kubernetes-embedded-resource is set");
        }
        if let Some(below) = additional.schema() {
            shape(below, Level::Field, &path, problems);
        }
    }
    if node.is_int_or_string && node.preserves_unknown {
        let path = child(path, "x-kubernetes-preserve-unknown-fields");
        problems.add(&path, "Invalid value: true: must be false if x-kubernetes-int-or-string is true");
    }
    if node.is_int_or_string && node.is_embedded {
        let path = child(path, "x-kubernetes-embedded-resource");
        problems.add(&path, "Invalid value: true: must be false if x-kubernetes-int-or-string is true");
    }
    let skips_any_of = is_int_or_string(&node.any_of);
    let skips_all_of = node.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of));
    judgements(node, skips_any_of, skips_all_of, path, problems);
    types(node, level, path, problems);
    metadata(node, level, path, problems);
    if node.is_embedded && !node.preserves_unknown && node.properties.is_empty() {
        problems.add(
            &child(path, "properties"),
            "Required value: must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        );
    }
}

fn types(node: &Node, level: Level, path: &str, problems: &mut Problems) {
    let path = child(path, "type");
    if node.is_embedded && node.r#type != "object" {
        problems.add(&path, "must be object if x-kubernetes-embedded-resource is true");
    } else if node.r#type.is_empty() && !node.is_int_or_string && !node.preserves_unknown {
        let text = match level {
            Level::Root => "Required value: must not be empty at the root",
            Level::Item => "Required value: must not be empty for specified array items",
            Level::Field => "Required value: must not be empty for specified object fields",
        };
        problems.add(&path, text);
    }
    if level == Level::Root && !node.r#type.is_empty() && node.r#type != "object" {
        problems.add(&path, "Invalid value: must be object at the root");
    }
}

fn metadata(node: &Node, level: Level, path: &str, problems: &mut Problems) {
    let is_object = level == Level::Root || node.is_embedded;
    for name in ["kind", "apiVersion"] {
        if is_object && node.properties.get(name).is_some_and(|found| found.r#type != "string") {
            problems.add(&child(&property(path, name), "type"), "Invalid value: must be string");
        }
    }
    let Some(found) = node.properties.get("metadata") else { return };
    let path = property(path, "metadata");
    if is_object && found.r#type != "object" {
        problems.add(&child(&path, "type"), "Invalid value: must be object");
    }
    if level == Level::Root {
        let mut rest = Node { r#type: String::new(), default: None, ..found.clone() };
        if rest.properties.keys().all(|name| name == "name" || name == "generateName") {
            rest.properties.clear();
        }
        if rest != Node::default() {
            problems.add(
                &path,
                "Forbidden: must not specify anything other than name and generateName, but metadata is \
                 implicitly specified",
            );
        }
    }
}

/// Exactly `[{type: integer}, {type: string}]`.
fn is_int_or_string(nodes: &[Node]) -> bool {
    let of = |name: &str| Node { r#type: name.to_owned(), ..Node::default() };
    nodes == [of("integer"), of("string")]
}

/// Checks what judges values at a node; `skips_any_of` and `skips_all_of` allow the pattern of integers and texts.
fn judgements(node: &Node, skips_any_of: bool, skips_all_of: bool, path: &str, problems: &mut Problems) {
    let lists = [("anyOf", &node.any_of), ("allOf", &node.all_of), ("oneOf", &node.one_of)];
    for (name, nodes) in lists {
        if name == "anyOf" && skips_any_of {
            continue;
        }
        for (at, below) in nodes.iter().enumerate() {
            let skips = name == "allOf" && skips_all_of && at == 0;
            nested(below, skips, &child(path, &format!("{name}[{at}]")), problems);
        }
    }
    if let Some(not) = &node.not {
        nested(not, false, &child(path, "not"), problems);
    }
    if !node.pattern.is_empty() && Regexp::new(&node.pattern).is_err() {
        problems.add(&child(path, "pattern"), "Invalid value: must be a valid regular expression");
    }
}

fn nested(node: &Node, skips_any_of: bool, path: &str, problems: &mut Problems) {
    judgements(node, skips_any_of, false, path, problems);
    if let Some(items) = &node.items {
        nested(items, false, &child(path, "items"), problems);
    }
    for (name, below) in &node.properties {
        nested(below, false, &property(path, name), problems);
    }
    problems.forbid(!node.r#type.is_empty(), path, "type", "empty");
    let additional = match &node.additional {
        None | Some(Additional::Bool(false)) => false,
        Some(_) => true,
    };
    problems.forbid(additional, path, "additionalProperties", "undefined");
    problems.forbid(node.default.is_some(), path, "default", "undefined");
    problems.forbid(!node.title.is_empty(), path, "title", "empty");
    problems.forbid(!node.description.is_empty(), path, "description", "empty");
    problems.forbid(node.nullable, path, "nullable", "false");
    problems.forbid(node.preserves_unknown, path, "x-kubernetes-preserve-unknown-fields", "false");
    problems.forbid(node.is_embedded, path, "x-kubernetes-embedded-resource", "false");
    problems.forbid(node.is_int_or_string, path, "x-kubernetes-int-or-string", "false");
    problems.forbid(node.has_list_keys, path, "x-kubernetes-list-map-keys", "empty");
    problems.forbid(node.has_list_type, path, "x-kubernetes-list-type", "undefined");
    problems.forbid(node.has_map_type, path, "x-kubernetes-map-type", "undefined");
    problems.forbid(node.has_rules, path, "x-kubernetes-validations", "empty");
    if node.properties.contains_key("metadata") {
        problems.add(&property(path, "metadata"), "Forbidden: must not be specified in a nested context");
    }
}

/// Whether everything that is judged has a shape.
fn complete(judged: &Node, shape: &Node, shape_path: &str, path: &str, problems: &mut Problems) {
    let lists = [("allOf", &judged.all_of), ("anyOf", &judged.any_of), ("oneOf", &judged.one_of)];
    for (name, nodes) in lists {
        for (at, below) in nodes.iter().enumerate() {
            complete_nested(below, shape, shape_path, &child(path, &format!("{name}[{at}]")), problems);
        }
    }
    if let Some(not) = &judged.not {
        complete_nested(not, shape, shape_path, &child(path, "not"), problems);
    }
}

fn complete_nested(judged: &Node, shape: &Node, shape_path: &str, path: &str, problems: &mut Problems) {
    complete(judged, shape, shape_path, path, problems);
    let lacks = |at: &str, from: &str, problems: &mut Problems| {
        problems.add(at, &format!("Required value: because it is defined in {from}"));
    };
    if let Some(items) = &judged.items {
        let (at, from) = (child(shape_path, "items"), child(path, "items"));
        match &shape.items {
            Some(shape) => complete_nested(items, shape, &at, &from, problems),
            None => lacks(&at, &from, problems),
        }
    }
    for (name, below) in &judged.properties {
        let (at, from) = (property(shape_path, name), property(path, name));
        match shape.properties.get(name) {
            Some(shape) => complete_nested(below, shape, &at, &from, problems),
            None => lacks(&at, &from, problems),
        }
    }
}
