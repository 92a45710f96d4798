//! Schemas of types, by name, with everything they refer to.

use serde_json::{Map, Value, json};
use tiphys_object::Gvk;
use tiphys_object::builtin::{Field, OmitWhen, Schema, Shape, StructType};
use tiphys_object::structured::{Merging, Relation};

use super::{custom, extension, set};
use crate::resource::{Resource, Subresource};

const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// What the paths of a resource refer to.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// Schema of an object.
    pub(super) object: String,
    /// Schema of a list.
    pub(super) list: String,
}

/// The schemas of one document.
#[derive(Debug, Default)]
pub(super) struct Components {
    schemas: Map<String, Value>,
}

impl Components {
    /// All schemas by name.
    pub(super) fn into_schemas(self) -> Value {
        Value::Object(self.schemas)
    }

    /// Adds the kind of a resource, its list, and what its operations take and answer.
    pub(super) fn add_resource(&mut self, resource: &Resource) -> Names {
        self.add_common();
        for subresource in resource.subresources() {
            self.add_subresource(&subresource);
        }
        let gvk = Gvk::new(&resource.group, &resource.version, &resource.kind);
        let list = Gvk::new(&resource.group, &resource.version, &resource.list_kind);
        match &resource.custom {
            Some(custom) => self.add_custom(&gvk, &list, &custom.schema),
            None => Names { object: self.add_kind(&gvk), list: self.add_kind(&list) },
        }
    }

    fn add_common(&mut self) {
        self.add_named(META, "Status", &Gvk::new("", "v1", "Status"));
        self.add_named(META, "DeleteOptions", &Gvk::new("", "v1", "DeleteOptions"));
        self.insert_with(&format!("{META}Patch"), any_object);
    }

    fn add_subresource(&mut self, subresource: &Subresource) {
        if !subresource.group.is_empty() {
            self.add_kind(&Gvk::new(subresource.group, subresource.version, subresource.kind));
        }
    }

    /// Adds a built-in kind and returns its name.
    fn add_kind(&mut self, gvk: &Gvk) -> String {
        let name = match Schema::of(gvk) {
            Some(known) => self.add_struct(known),
            None => match extension::name(gvk) {
                Some(name) => self.add_extension(name),
                None => return format!("{META}Status"),
            },
        };
        if let Some(schema) = self.schemas.get_mut(&name) {
            set(schema, "x-kubernetes-group-version-kind", json!([kind_of(gvk)]));
        }
        name
    }

    /// Adds a type that is meant by a kind, without saying that it is that kind.
    fn add_named(&mut self, package: &str, kind: &str, gvk: &Gvk) {
        if !self.schemas.contains_key(&format!("{package}{kind}"))
            && let Some(known) = Schema::of(gvk)
        {
            self.add_struct(known);
        }
    }

    fn add_custom(&mut self, gvk: &Gvk, list: &Gvk, schema: &Value) -> Names {
        for member in ["ObjectMeta", "ListMeta"] {
            self.add_metadata(member);
        }
        let names = Names { object: custom::name(gvk), list: custom::name(list) };
        let mut object = custom::object(schema);
        set(&mut object, "x-kubernetes-group-version-kind", json!([kind_of(gvk)]));
        self.schemas.insert(names.object.clone(), object);
        let mut listed = custom::list(&reference(&names.object));
        set(&mut listed, "x-kubernetes-group-version-kind", json!([kind_of(list)]));
        self.schemas.insert(names.list.clone(), listed);
        names
    }

    /// Adds the type of the metadata of objects or lists, found where a built-in kind uses it.
    pub(super) fn add_metadata(&mut self, name: &str) {
        let kind = if name == "ListMeta" { "PodList" } else { "Pod" };
        let known = Schema::of(&Gvk::new("", "v1", kind))
            .and_then(|known| known.field("metadata"))
            .and_then(|field| field.shape.struct_type());
        if let Some(known) = known {
            self.add_struct(known);
        }
    }

    /// Adds one of the schemas that the table of types does not have.
    fn add_extension(&mut self, name: &str) -> String {
        if !self.schemas.contains_key(name)
            && let Some(schema) = extension::schema(name)
        {
            self.schemas.insert(name.to_owned(), schema.clone());
            for found in extension::references(schema) {
                match found.strip_prefix(META) {
                    Some("Time") => self.insert_with(&found, time),
                    Some(metadata) => self.add_metadata(metadata),
                    None => drop(self.add_extension(&found)),
                }
            }
        }
        name.to_owned()
    }

    /// Adds a struct with everything below it and returns its name.
    fn add_struct(&mut self, known: &'static StructType) -> String {
        let name = struct_name(known.name());
        if self.schemas.contains_key(&name) {
            return name;
        }
        // The place is taken before the members are read: types may contain themselves.
        self.schemas.insert(name.clone(), Value::Null);
        let merging = Merging::of(known.name());
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in known.fields() {
            let mut schema = self.field(field, merging);
            enums::add(known.name(), field.name, &mut schema);
            properties.insert(field.name.to_owned(), schema);
            if is_required(known.name(), field) {
                required.push(field.name);
            }
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        if merging.is_atomic() {
            schema.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
        }
        self.schemas.insert(name.clone(), Value::Object(schema));
        name
    }

    fn field(&mut self, field: &Field, merging: Merging) -> Value {
        let mut schema = match field.name {
            "fieldsV1" => self.leaf(&format!("{META}FieldsV1"), any_object),
            _ => self.shape(field.shape),
        };
        // Nothing may stand beside a reference.
        if schema.get("$ref").is_some() {
            schema = json!({"allOf": [schema]});
        }
        if let Some(default) = merging.default_of(field.name) {
            set(&mut schema, "default", default.clone());
        }
        match merging.member(field.name) {
            Some(Relation::Set) => set(&mut schema, "x-kubernetes-list-type", "set"),
            Some(Relation::Keyed(keys)) => {
                set(&mut schema, "x-kubernetes-list-type", "map");
                set(&mut schema, "x-kubernetes-list-map-keys", json!(keys));
            }
            Some(Relation::Atomic) => set(&mut schema, "x-kubernetes-map-type", "atomic"),
            Some(Relation::Granular) => set(&mut schema, "x-kubernetes-map-type", "granular"),
            None => {}
        }
        add_patch(field, &mut schema);
        schema
    }

    fn shape(&mut self, shape: Shape) -> Value {
        match shape {
            Shape::Text => json!({"type": "string"}),
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Int32 => json!({"type": "integer", "format": "int32"}),
            Shape::Int64 => json!({"type": "integer", "format": "int64"}),
            Shape::Bytes => json!({"type": "string", "format": "byte"}),
            Shape::Any => self.leaf(RAW, any_object),
            Shape::Quantity => self.leaf(QUANTITY, quantity),
            Shape::IntOrText => self.leaf(INT_OR_STRING, int_or_string),
            Shape::Time => self.leaf(&format!("{META}Time"), time),
            Shape::MicroTime => self.leaf(&format!("{META}MicroTime"), time),
            Shape::Struct(_) => match shape.struct_type() {
                Some(known) => reference(&self.add_struct(known)),
                None => json!({"type": "object"}),
            },
            Shape::Pointer(_) => self.element(shape),
            Shape::List(_) => {
                let mut item = self.element(shape);
                if item.get("$ref").is_some() {
                    item = json!({"allOf": [item]});
                }
                json!({"type": "array", "items": item})
            }
            Shape::Map(_) => {
                let value = self.element(shape);
                json!({"type": "object", "additionalProperties": value})
            }
        }
    }

    fn element(&mut self, shape: Shape) -> Value {
        shape.element().map_or_else(|| json!({"type": "object"}), |inner| self.shape(inner))
    }

    fn leaf(&mut self, name: &str, schema: fn() -> Value) -> Value {
        self.insert_with(name, schema);
        reference(name)
    }

    fn insert_with(&mut self, name: &str, schema: impl FnOnce() -> Value) {
        if !self.schemas.contains_key(name) {
            self.schemas.insert(name.to_owned(), schema());
        }
    }
}

fn any_object() -> Value {
    json!({"type": "object"})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn quantity() -> Value {
    json!({"oneOf": [{"type": "string"}, {"type": "number"}]})
}

fn int_or_string() -> Value {
    json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
}

/// A reference to a schema of the same document.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn kind_of(gvk: &Gvk) -> Value {
    json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version})
}

/// The full name of a struct: `core/v1.Pod` is `io.k8s.api.core.v1.Pod`.
fn struct_name(short: &str) -> String {
    let package = if short.starts_with("meta/") { "io.k8s.apimachinery.pkg.apis" } else { "io.k8s.api" };
    format!("{package}.{}", short.replace('/', "."))
}

/// What is written even when it is empty must be there, but for the members that the text lists.
fn is_required(owner: &str, field: &Field) -> bool {
    let is_written = field.omit == OmitWhen::Never;
    let is_exception = required::EXCEPTIONS
        .iter()
        .any(|(name, members)| *name == owner && members.split(' ').any(|member| member == field.name));
    is_written != is_exception
}

fn add_patch(field: &Field, schema: &mut Value) {
    let patch = field.patch;
    let strategies = [("merge", patch.merge), ("replace", patch.replace), ("retainKeys", patch.retain_keys)];
    let strategies: Vec<&str> =
        strategies.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect();
    if !strategies.is_empty() {
        set(schema, "x-kubernetes-patch-strategy", strategies.join(","));
    }
    if !patch.merge_key.is_empty() {
        set(schema, "x-kubernetes-patch-merge-key", patch.merge_key);
    }
}

mod enums;
mod required;
