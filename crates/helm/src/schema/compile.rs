//! From documents to nodes.
//!
//! Places are compiled as they are found: a queue holds those that were named and not yet looked at.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};
use tiphys_go::regexp::{Regexp, compile_steps};
use tiphys_go::steps::Steps;

use super::address::{self, Fragment};
use super::decimal::Decimal;
use super::draft::Draft;
use super::node::{
    Additional, ArrayRules, Items, NeededWith, Node, NumberRules, ObjectRules, TextRules, Types,
};
use super::resource::Document;
use super::{Documents, NODES_MAX, REGEXPS_MAX, STEPS_MAX, Schema, SchemaError, format, meta};

/// Memory of one regular expression.
const REGEXP_BYTES_MAX: usize = 256 << 10;
/// Where schemas of schemas are.
const META: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// Compiles the document at an address.
pub(super) fn compile(url: &str, document: Value, documents: &Documents) -> Result<Schema, SchemaError> {
    let mut compiler = Compiler {
        documents,
        loaded: BTreeMap::new(),
        places: BTreeMap::new(),
        queue: Vec::new(),
        nodes: Vec::new(),
        regexps: 0,
        steps: Steps::new(STEPS_MAX),
        asserts_formats: is_meta(url),
    };
    compiler.insert(url, document)?;
    let root = compiler.node(url, "");
    while let Some((url, pointer)) = compiler.queue.get(compiler.nodes.len()).cloned() {
        if compiler.queue.len() > NODES_MAX {
            return Err(SchemaError::Exceeded("it has too many parts"));
        }
        let node = compiler.compile(&url, &pointer)?;
        compiler.nodes.push(node);
    }
    Ok(Schema { nodes: compiler.nodes, root })
}

fn is_meta(url: &str) -> bool {
    META.iter().any(|prefix| url.starts_with(prefix))
}

struct Compiler<'d> {
    documents: &'d Documents,
    loaded: BTreeMap<String, Document>,
    places: BTreeMap<(String, String), usize>,
    /// Places in the order of their nodes.
    queue: Vec<(String, String)>,
    nodes: Vec<Node>,
    regexps: usize,
    /// What expressions may still take to compile.
    steps: Steps,
    asserts_formats: bool,
}

impl Compiler<'_> {
    /// The number of the node of a place.
    fn node(&mut self, url: &str, pointer: &str) -> usize {
        let key = (url.to_owned(), pointer.to_owned());
        if let Some(known) = self.places.get(&key) {
            return *known;
        }
        let number = self.queue.len();
        self.queue.push(key.clone());
        self.places.insert(key, number);
        number
    }

    fn insert(&mut self, url: &str, value: Value) -> Result<(), SchemaError> {
        let document = Document::new(url, value, Draft::D2020)?;
        if !is_meta(url) {
            check(&document, "")?;
        }
        self.loaded.insert(url.to_owned(), document);
        Ok(())
    }

    /// Makes a document available.
    fn load(&mut self, url: &str) -> Result<(), SchemaError> {
        if self.loaded.contains_key(url) {
            return Ok(());
        }
        let value = match Draft::from_url(url) {
            Some(draft) => meta::document(draft),
            // Helm takes what it cannot resolve for a schema that everything fits.
            None if url.starts_with("urn:") => Value::Bool(true),
            None => match self.documents.get(url) {
                Some(document) => document.clone(),
                None => return Err(SchemaError::Remote { url: url.to_owned() }),
            },
        };
        self.insert(url, value)
    }

    fn compile(&mut self, url: &str, pointer: &str) -> Result<Node, SchemaError> {
        let Some(document) = self.loaded.get_mut(url) else {
            return Err(SchemaError::Remote { url: url.to_owned() });
        };
        if !document.known.contains(pointer) {
            document.add(pointer)?;
            if !is_meta(url) {
                check(document, pointer)?;
            }
        }
        let location = document.location(pointer);
        let value = document.look_up(pointer)?.clone();
        let Some((base, resource)) = document.resource(pointer) else {
            return Err(SchemaError::Invalid(format!("no schema at {location:?}")));
        };
        let (base, resource) = (base.to_owned(), resource.clone());
        let mut node = Node::new(location, resource.draft);
        if resource.draft >= Draft::D2020 && base == pointer {
            for name in &resource.dynamic_anchors {
                if let Some(target) = resource.anchors.get(name) {
                    node.dynamic_anchors.insert(name.clone(), self.node(url, target));
                }
            }
        }
        node.resource = self.node(url, &base);
        match &value {
            Value::Bool(truth) => node.truth = Some(*truth),
            Value::Object(members) if members.is_empty() => node.truth = Some(true),
            Value::Object(members) => {
                let object = Object { url, pointer, base: &resource.id, members, draft: resource.draft };
                self.object(&object, &mut node)?;
            }
            _ => {}
        }
        Ok(node)
    }

    fn object(&mut self, object: &Object<'_>, node: &mut Node) -> Result<(), SchemaError> {
        node.reference = self.reference(object, "$ref")?;
        if object.draft >= Draft::D6 {
            node.constant = object.members.get("const").cloned();
        }
        if object.draft < Draft::D2019 && node.reference.is_some() {
            // What stands beside a reference says nothing, but for `const`, which the library checks before it.
            return Ok(());
        }
        node.not = self.value(object, "not");
        node.all_of = self.list(object, "allOf");
        node.any_of = self.list(object, "anyOf");
        node.one_of = self.list(object, "oneOf");
        node.types = object.types();
        node.variants = object.array("enum").map(<[Value]>::to_vec);
        if self.asserts_formats || object.draft < Draft::D2019 {
            node.format =
                object.text("format").and_then(|name| Some((name.to_owned(), format::check(name)?)));
        }
        if object.draft >= Draft::D7
            && let Some(condition) = self.value(object, "if")
        {
            let truth = object.members.get("if").and_then(Value::as_bool);
            let then = if truth == Some(false) { None } else { self.value(object, "then") };
            let otherwise = if truth == Some(true) { None } else { self.value(object, "else") };
            node.condition = Some((condition, then, otherwise));
        }
        if object.draft >= Draft::D2019 {
            node.recursive_reference = self.reference(object, "$recursiveRef")?;
            node.recursive_anchor = object.truth("$recursiveAnchor");
        }
        if object.draft >= Draft::D2020 {
            if let Some(target) = self.reference(object, "$dynamicRef")? {
                let fragment =
                    object.text("$dynamicRef").map(address::split).and_then(|(_, f)| Fragment::parse(f));
                let name = match fragment {
                    Some(Fragment::Anchor(name)) => Some(name),
                    _ => None,
                };
                node.dynamic_reference = Some((target, name));
            }
            node.dynamic_anchor = object.text("$dynamicAnchor").map(str::to_owned);
        }
        node.object = self.object_rules(object)?;
        node.array = self.array_rules(object);
        node.text = self.text_rules(object)?;
        node.number = number_rules(object);
        Ok(())
    }

    fn object_rules(&mut self, object: &Object<'_>) -> Result<ObjectRules, SchemaError> {
        let mut rules = ObjectRules {
            members_min: object.count("minProperties"),
            members_max: object.count("maxProperties"),
            required: object.names("required"),
            members: self.map(object, "properties"),
            additional: self.additional(object, "additionalProperties"),
            ..ObjectRules::default()
        };
        for (pattern, schema) in self.map(object, "patternProperties") {
            let regexp = self.regexp(object, "patternProperties", &pattern)?;
            rules.patterns.push((regexp, schema));
        }
        for (name, value) in object.map("dependencies") {
            let needed = match value {
                Value::Array(items) => NeededWith::Members(texts(items)),
                _ => NeededWith::Schema(self.below(object, &["dependencies", name])),
            };
            rules.needed_with.insert(name.clone(), needed);
        }
        if object.draft >= Draft::D6 {
            rules.names = self.value(object, "propertyNames");
        }
        if object.draft >= Draft::D2019 {
            let lists = object.map("dependentRequired");
            let lists = lists.filter_map(|(name, value)| Some((name.clone(), texts(value.as_array()?))));
            rules.required_with = lists.collect();
            rules.schemas_with = self.map(object, "dependentSchemas");
            rules.unevaluated = self.value(object, "unevaluatedProperties");
        }
        Ok(rules)
    }

    fn array_rules(&mut self, object: &Object<'_>) -> ArrayRules {
        let mut rules = ArrayRules {
            items_min: object.count("minItems"),
            items_max: object.count("maxItems"),
            unique: object.truth("uniqueItems"),
            ..ArrayRules::default()
        };
        if object.draft >= Draft::D2020 {
            rules.prefix = self.list(object, "prefixItems");
            rules.rest = self.value(object, "items");
        } else if object.array("items").is_some() {
            rules.items = Some(Items::Each(self.list(object, "items")));
            rules.additional = self.additional(object, "additionalItems");
        } else {
            rules.items = self.value(object, "items").map(Items::All);
        }
        if object.draft >= Draft::D6 {
            rules.contains = self.value(object, "contains");
        }
        if object.draft >= Draft::D2019 {
            if rules.contains.is_some() {
                rules.contains_min = object.count("minContains");
                rules.contains_max = object.count("maxContains");
            }
            rules.unevaluated = self.value(object, "unevaluatedItems");
        }
        rules
    }

    fn text_rules(&mut self, object: &Object<'_>) -> Result<TextRules, SchemaError> {
        let pattern = match object.text("pattern") {
            None => None,
            Some(pattern) => Some((pattern.to_owned(), self.regexp(object, "pattern", pattern)?)),
        };
        Ok(TextRules {
            length_min: object.count("minLength"),
            length_max: object.count("maxLength"),
            pattern,
        })
    }

    fn regexp(&mut self, object: &Object<'_>, keyword: &str, pattern: &str) -> Result<Regexp, SchemaError> {
        self.regexps += 1;
        if self.regexps > REGEXPS_MAX {
            return Err(SchemaError::Exceeded("it has too many regular expressions"));
        }
        let paid = self.steps.spend(compile_steps(pattern));
        paid.map_err(|_exceeded| SchemaError::Exceeded("its regular expressions take too many steps"))?;
        Regexp::with_memory(pattern, REGEXP_BYTES_MAX).map_err(|error| {
            if error.is_too_large() {
                return SchemaError::Exceeded("a regular expression takes too much memory");
            }
            let place = format!("{}#{}/{keyword}", object.url, address::encode(object.pointer));
            SchemaError::Invalid(format!("invalid regex {pattern:?} at {place:?}: {error}"))
        })
    }

    /// The schema at a place below one.
    fn below(&mut self, object: &Object<'_>, steps: &[&str]) -> usize {
        let below: String = steps.iter().flat_map(|step| ["/".to_owned(), address::escape(step)]).collect();
        self.node(object.url, &format!("{}{below}", object.pointer))
    }

    fn value(&mut self, object: &Object<'_>, keyword: &str) -> Option<usize> {
        object.members.contains_key(keyword).then(|| self.below(object, &[keyword]))
    }

    fn list(&mut self, object: &Object<'_>, keyword: &str) -> Vec<usize> {
        let count = object.array(keyword).map_or(0, <[Value]>::len);
        (0..count).map(|at| self.below(object, &[keyword, &at.to_string()])).collect()
    }

    fn map(&mut self, object: &Object<'_>, keyword: &str) -> BTreeMap<String, usize> {
        object.map(keyword).map(|(name, _)| (name.clone(), self.below(object, &[keyword, name]))).collect()
    }

    fn additional(&mut self, object: &Object<'_>, keyword: &str) -> Option<Additional> {
        match object.members.get(keyword)? {
            Value::Bool(allowed) => Some(Additional::Allowed(*allowed)),
            _ => Some(Additional::Schema(self.below(object, &[keyword]))),
        }
    }

    /// The schema that a reference leads to.
    fn reference(&mut self, object: &Object<'_>, keyword: &str) -> Result<Option<usize>, SchemaError> {
        let Some(reference) = object.text(keyword) else { return Ok(None) };
        let (target, fragment) = address::split(reference);
        let Some(fragment) = Fragment::parse(fragment) else {
            return Err(SchemaError::Invalid(format!("error in parsing {reference:?}: invalid URL escape")));
        };
        let target = address::join(object.base, target);
        // Addresses of this document go before those of others.
        let own = self.loaded.get(object.url).and_then(|document| {
            let of = |(pointer, resource): (&String, &super::resource::Resource)| {
                (resource.id == target).then(|| pointer.clone())
            };
            if target == document.url { Some(String::new()) } else { document.resources.iter().find_map(of) }
        });
        let (url, base) = if let Some(base) = own {
            (object.url.to_owned(), base)
        } else {
            self.load(&target)?;
            (target, String::new())
        };
        let Some(document) = self.loaded.get(&url) else { return Err(SchemaError::Remote { url }) };
        let pointer = document.resolve(&base, &fragment)?;
        document.look_up(&pointer)?;
        Ok(Some(self.node(&url, &pointer)))
    }
}

/// Checks a part of a document against the schema of its draft.
fn check(document: &Document, pointer: &str) -> Result<(), SchemaError> {
    let Some((_, resource)) = document.resource(pointer) else { return Ok(()) };
    let Some(meta) = meta::compiled(resource.draft) else { return Ok(()) };
    meta.validate(document.look_up(pointer)?).map_err(|error| match error {
        SchemaError::Mismatch(text) => SchemaError::Invalid(format!(
            "{:?} is not valid against metaschema: jsonschema validation failed with '{}#'{text}",
            document.location(pointer),
            resource.draft.url()
        )),
        other => other,
    })
}

fn number_rules(object: &Object<'_>) -> NumberRules {
    let (minimum, maximum) = (object.number("minimum"), object.number("maximum"));
    let (above, below) = (object.truth("exclusiveMinimum"), object.truth("exclusiveMaximum"));
    NumberRules {
        minimum: minimum.filter(|_| !above),
        maximum: maximum.filter(|_| !below),
        above: if above { minimum } else { object.number("exclusiveMinimum") },
        below: if below { maximum } else { object.number("exclusiveMaximum") },
        multiple_of: object.number("multipleOf"),
    }
}

fn texts(items: &[Value]) -> Vec<String> {
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A schema that is a map, and where it stands.
struct Object<'o> {
    url: &'o str,
    pointer: &'o str,
    /// The address that references are resolved against.
    base: &'o str,
    members: &'o Map<String, Value>,
    draft: Draft,
}

impl<'o> Object<'o> {
    fn text(&self, keyword: &str) -> Option<&'o str> {
        self.members.get(keyword)?.as_str()
    }

    fn truth(&self, keyword: &str) -> bool {
        self.members.get(keyword).and_then(Value::as_bool).unwrap_or(false)
    }

    fn array(&self, keyword: &str) -> Option<&'o [Value]> {
        self.members.get(keyword)?.as_array().map(Vec::as_slice)
    }

    fn map(&self, keyword: &str) -> impl Iterator<Item = (&'o String, &'o Value)> + use<'o> {
        self.members.get(keyword).and_then(Value::as_object).into_iter().flatten()
    }

    fn names(&self, keyword: &str) -> Vec<String> {
        self.array(keyword).map(texts).unwrap_or_default()
    }

    fn number(&self, keyword: &str) -> Option<Decimal> {
        let number: &Number = self.members.get(keyword)?.as_number()?;
        Some(Decimal::new(number))
    }

    fn count(&self, keyword: &str) -> Option<i64> {
        self.number(keyword)?.count()
    }

    fn types(&self) -> Option<Types> {
        let mut types = Types::default();
        match self.members.get("type")? {
            Value::String(name) => types.add(name),
            Value::Array(names) => names.iter().filter_map(Value::as_str).for_each(|name| types.add(name)),
            _ => {}
        }
        Some(types).filter(|types| *types != Types::default())
    }
}
