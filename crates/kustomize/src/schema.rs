//! What the schema of a kind says about lists, and which kinds belong to no namespace (RND-226, RND-238).
//!
//! kustomize has the `OpenAPI` document of Kubernetes 1.21.2 built in. Of it only merged lists, what leads to them,
//! and the scopes of kinds have an effect; `data/schema.txt` has these (`hack/oracles/kustomize/schema` prints it).
//! A document of the user's takes its place. When which of them is read is the original's book-keeping, imitated in
//! [`Schemas::set`] and [`Schemas::read`]: a document of a base may be read beside the built-in one or instead of it.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use smol_str::SmolStr;
use tiphys_go::nesting::DEPTH_MAX;
use tiphys_go::yaml::{Dialect, Limits};

use crate::fault::{Fault, Result};

static TEXT: &str = include_str!("../data/schema.txt");
static BUILT_IN: LazyLock<Document> = LazyLock::new(|| Document::read_table(TEXT));

/// The version of the built-in document.
const VERSION: &str = "v1.21.2";

/// What a schema says about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    /// There is one, and nothing below is merged.
    Plain,
    /// A type of a definition.
    Named(SmolStr),
    /// A type that has no name.
    Inline {
        /// Whose definitions it is in.
        document: usize,
        /// Its number there.
        number: usize,
    },
}

/// A member of a type.
#[derive(Clone, Debug)]
struct Member {
    /// Keys of a list that is merged; none for a list of scalars.
    merge: Option<Vec<SmolStr>>,
    /// What the member is, or the items of the list.
    target: Target,
}

#[derive(Clone, Debug)]
enum Target {
    Plain,
    Named(SmolStr),
    Inline(usize),
}

#[derive(Clone, Debug, Default)]
struct Type {
    members: HashMap<SmolStr, Member>,
    /// Members of any other name.
    other: Option<Member>,
    /// The type is only another name.
    alias: Option<SmolStr>,
}

/// One `OpenAPI` document.
#[derive(Clone, Debug, Default)]
struct Document {
    types: Vec<Type>,
    names: HashMap<SmolStr, usize>,
    /// By kind: `apiVersion` and name of the type.
    kinds: HashMap<SmolStr, Vec<(SmolStr, SmolStr)>>,
    /// By kind: `apiVersion` and whether there is a namespace.
    scopes: HashMap<SmolStr, Vec<(SmolStr, bool)>>,
}

impl Document {
    fn read_table(text: &str) -> Self {
        let mut document = Self::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match *words {
                ["scope", api_version, kind, word] => {
                    document.scopes.entry(kind.into()).or_default().push((api_version.into(), word == "yes"));
                }
                ["kind", api_version, kind, name] => {
                    document.kinds.entry(kind.into()).or_default().push((api_version.into(), name.into()));
                }
                ["type", name] => {
                    document.names.insert(name.into(), document.types.len());
                    document.types.push(Type::default());
                }
                [".", name, target] => {
                    document.table_member(name, Member { merge: None, target: Target::Named(target.into()) });
                }
                ["-", name, keys, target] => {
                    let keys = match keys {
                        "!" => Vec::new(),
                        keys => keys.split(',').map(SmolStr::new).collect(),
                    };
                    let target = if target == "-" { Target::Plain } else { Target::Named(target.into()) };
                    document.table_member(name, Member { merge: Some(keys), target });
                }
                _ => {}
            }
        }
        document
    }

    fn table_member(&mut self, name: &str, member: Member) {
        if let Some(last) = self.types.last_mut() {
            if name == "*" {
                last.other = Some(member);
            } else {
                last.members.insert(name.into(), member);
            }
        }
    }

    /// Reads a document of the user's.
    fn read(text: &[u8]) -> Result<Self> {
        let text =
            std::str::from_utf8(text).map_err(|_invalid| Fault::new("invalid schema file: not UTF-8"))?;
        let limits = Limits::default();
        let value = if text.starts_with('{') {
            tiphys_go::json::decode_go(text.as_bytes()).map_err(|error| error.to_string())
        } else {
            let parsed = tiphys_go::yaml::parse(text, Dialect::Sigs, &limits);
            parsed.map(Option::unwrap_or_default).map_err(|error| error.to_string())
        };
        let value = value.map_err(|error| Fault::new(format!("invalid schema file: {error}")))?;
        let mut document = Self::default();
        if let Some(definitions) = value.get("definitions").and_then(Value::as_object) {
            for (name, definition) in definitions {
                let number = document.read_type(definition, 0)?;
                document.names.insert(name.into(), number);
                let kinds = definition.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
                for (api_version, kind) in kinds.into_iter().flatten().filter_map(type_of) {
                    let of_kind = document.kinds.entry(kind).or_default();
                    of_kind.retain(|(known, _)| *known != api_version);
                    of_kind.push((api_version, name.into()));
                }
            }
        }
        if let Some(paths) = value.get("paths").and_then(Value::as_object) {
            for (path, about) in paths {
                let kind = about.get("get").and_then(|get| get.get("x-kubernetes-group-version-kind"));
                let Some((api_version, kind)) = kind.and_then(type_of) else { continue };
                let namespaced = path.contains("namespaces/{namespace}");
                let of_kind = document.scopes.entry(kind).or_default();
                match of_kind.iter_mut().find(|(known, _)| *known == api_version) {
                    Some((_, known)) => *known |= namespaced,
                    None => of_kind.push((api_version, namespaced)),
                }
            }
        }
        Ok(document)
    }

    fn read_type(&mut self, schema: &Value, depth: usize) -> Result<usize> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        let mut read = Type { alias: reference(schema), ..Type::default() };
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                read.members.insert(name.into(), self.read_member(property, depth)?);
            }
        }
        if let Some(other) = schema.get("additionalProperties").filter(|other| other.is_object()) {
            read.other = Some(self.read_member(other, depth)?);
        }
        self.types.push(read);
        Ok(self.types.len() - 1)
    }

    fn read_member(&mut self, schema: &Value, depth: usize) -> Result<Member> {
        if let Some(name) = reference(schema) {
            return Ok(Member { merge: None, target: Target::Named(name) });
        }
        let text = |name: &str| schema.get(name).and_then(Value::as_str);
        let merges = text("x-kubernetes-patch-strategy")
            .is_some_and(|strategy| strategy.split(',').any(|part| part == "merge"));
        let merge =
            merges.then(|| match schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array) {
                Some(keys) => keys.iter().filter_map(Value::as_str).map(SmolStr::new).collect(),
                None => {
                    text("x-kubernetes-patch-merge-key").map(SmolStr::new).into_iter().collect::<Vec<_>>()
                }
            });
        let is_list = match schema.get("type") {
            Some(Value::String(name)) => name == "array",
            Some(Value::Array(names)) => matches!(&**names, [Value::String(name)] if name == "array"),
            _ => false,
        };
        let target = match schema.get("items").filter(|items| is_list && items.is_object()) {
            Some(items) => match reference(items) {
                Some(name) => Target::Named(name),
                None => Target::Inline(self.read_type(items, depth + 1)?),
            },
            None if is_list => Target::Plain,
            None => Target::Inline(self.read_type(schema, depth + 1)?),
        };
        Ok(Member { merge, target })
    }
}

fn reference(schema: &Value) -> Option<SmolStr> {
    let name = schema.get("$ref").and_then(Value::as_str)?;
    Some(name.strip_prefix("#/definitions/").unwrap_or(name).into())
}

fn type_of(extension: &Value) -> Option<(SmolStr, SmolStr)> {
    let text = |name: &str| extension.get(name).and_then(Value::as_str);
    let (version, kind) = (text("version")?, text("kind")?);
    let api_version = match text("group") {
        None | Some("") => version.into(),
        Some(group) => smol_str::format_smolstr!("{group}/{version}"),
    };
    Some((api_version, kind.into()))
}

/// Whether the built-in document was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BuiltIn {
    NotRead,
    Wanted,
    Read,
}

/// The documents of a build.
#[derive(Debug)]
pub(crate) struct Schemas {
    version: String,
    custom: Option<Vec<u8>>,
    is_read: bool,
    built_in: BuiltIn,
    /// Read documents of the user's; what a later one defines counts.
    documents: Vec<Document>,
}

impl Default for Schemas {
    fn default() -> Self {
        let documents = Vec::new();
        Self { version: String::new(), custom: None, is_read: false, built_in: BuiltIn::NotRead, documents }
    }
}

impl Schemas {
    /// Takes the `openapi` field of a kustomization, with the content of the file it names.
    ///
    /// # Errors
    /// When both a version and a file are given, or the version is not built in.
    pub(crate) fn set(
        &mut self,
        field: &Map<String, Value>,
        content: Option<Vec<u8>>,
        is_root: bool,
    ) -> Result<()> {
        let is_set = !self.version.is_empty() || self.custom.is_some();
        if is_set && !is_root {
            return Ok(());
        }
        let version = field.get("version").and_then(Value::as_str);
        if let Some(content) = content {
            if version.is_some() {
                return Err(Fault::new("builtin version and custom schema provided, cannot use both"));
            }
            self.custom = Some(content);
            "custom".clone_into(&mut self.version);
            self.is_read = false;
            return Ok(());
        }
        version.unwrap_or_default().clone_into(&mut self.version);
        if self.version.is_empty() {
            return Ok(());
        }
        if self.version != VERSION {
            return Err(Fault::new("the specified OpenAPI version is not built in"));
        }
        self.custom = None;
        self.is_read = false;
        Ok(())
    }

    /// Reads what was set and is not read yet.
    pub(crate) fn read(&mut self) -> Result<()> {
        if self.is_read {
            return Ok(());
        }
        self.is_read = true;
        if let Some(custom) = &self.custom {
            self.documents.push(Document::read(custom)?);
        } else {
            self.built_in = BuiltIn::Read;
        }
        if self.built_in == BuiltIn::Wanted {
            self.built_in = BuiltIn::Read;
        }
        Ok(())
    }

    /// Whether objects of a kind certainly belong to no namespace.
    pub(crate) fn is_cluster_scoped(&mut self, api_version: &str, kind: &str) -> Result<bool> {
        let of = |document: &Document| {
            let known = document.scopes.get(kind)?.iter().find(|(known, _)| known == api_version);
            known.map(|(_, namespaced)| *namespaced)
        };
        if let Some(namespaced) = of(&BUILT_IN) {
            return Ok(!namespaced);
        }
        if !self.is_read {
            if self.custom.is_some() {
                self.read()?;
            } else if self.built_in == BuiltIn::NotRead {
                self.built_in = BuiltIn::Wanted;
            }
        }
        Ok(self.documents.iter().rev().find_map(of) == Some(false))
    }

    /// The schema of a kind, once the documents are [read](Self::read).
    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<Schema> {
        let of = |document: &Document| {
            let known = document.kinds.get(kind)?.iter().find(|(known, _)| known == api_version);
            known.map(|(_, name)| name.clone())
        };
        let custom = self.documents.iter().rev().find_map(of);
        if let Some(name) =
            custom.or_else(|| (self.built_in == BuiltIn::Read).then(|| of(&BUILT_IN)).flatten())
        {
            return Some(Schema::Named(name));
        }
        // Kinds whose types merge nothing are not in the table, but their scopes are.
        let is_known =
            BUILT_IN.scopes.get(kind).is_some_and(|known| known.iter().any(|(api, _)| api == api_version));
        (self.built_in == BuiltIn::Read && is_known).then_some(Schema::Plain)
    }

    /// The document and number of a type.
    fn type_at(&self, schema: &Schema) -> Option<(usize, &Type)> {
        let built_in = self.documents.len();
        let mut name = match schema {
            Schema::Plain => return None,
            Schema::Inline { document, number } => {
                let found = if *document == built_in { &*BUILT_IN } else { self.documents.get(*document)? };
                return Some((*document, found.types.get(*number)?));
            }
            Schema::Named(name) => name.clone(),
        };
        // A definition that is only another name; a ring of them is none.
        for _ in 0..DEPTH_MAX {
            let in_document = |document: &Document| document.names.get(&name).copied();
            let found = self
                .documents
                .iter()
                .enumerate()
                .rev()
                .find_map(|(at, document)| Some((at, in_document(document)?)));
            let (at, number) = match found {
                Some(found) => found,
                None if self.built_in == BuiltIn::Read => (built_in, in_document(&BUILT_IN)?),
                None => return None,
            };
            let document = if at == built_in { &*BUILT_IN } else { self.documents.get(at)? };
            let found = document.types.get(number)?;
            match &found.alias {
                Some(alias) => name = alias.clone(),
                None => return Some((at, found)),
            }
        }
        None
    }

    fn target(document: usize, target: &Target) -> Schema {
        match target {
            Target::Plain => Schema::Plain,
            Target::Named(name) => Schema::Named(name.clone()),
            Target::Inline(number) => Schema::Inline { document, number: *number },
        }
    }

    /// The schema of a member, and how its list is merged.
    pub(crate) fn member(&self, schema: &Schema, name: &str) -> Option<Found> {
        if *schema == Schema::Plain {
            return Some(Found::default());
        }
        let Some((document, of)) = self.type_at(schema) else {
            // The built-in table names types that merge nothing nowhere.
            return Some(Found::default());
        };
        let built_in = document == self.documents.len();
        match of.members.get(name).or(of.other.as_ref()) {
            Some(member) => {
                Some(Found { merge: member.merge.clone(), schema: Self::target(document, &member.target) })
            }
            None => built_in.then(Found::default),
        }
    }
}

/// A member, or the items of a list.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Keys of a list that is merged; none for a list of scalars.
    pub(crate) merge: Option<Vec<SmolStr>>,
    /// The schema of the member, or that of the list's items.
    pub(crate) schema: Schema,
}

impl Default for Found {
    fn default() -> Self {
        Self { merge: None, schema: Schema::Plain }
    }
}
