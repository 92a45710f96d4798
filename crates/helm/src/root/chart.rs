//! `.Chart`: `Chart.yaml` as templates see it.
//!
//! In Helm 4 it is a map under the names of Go's fields, in Helm 3 the struct itself.

use std::any::Any;
use std::rc::Rc;

use tiphys_go::template::{Element, Kind, List, ListType, Map, MapType, Object, Text, Value};

use crate::HelmVersion;
use crate::chart::{Dependency, ImportValue, Maintainer};
use crate::dependencies::Part;

/// `.Chart` of a chart.
pub(super) fn chart(part: &Part, is_root: bool, version: HelmVersion) -> Value {
    match version {
        HelmVersion::V4 => as_map(part, is_root),
        HelmVersion::V3 => as_struct(part, is_root),
    }
}

fn texts(texts: &[String]) -> Value {
    Value::list(texts.iter().map(|text| text.as_str().into()).collect())
}

fn text_map<'t>(members: impl IntoIterator<Item = (&'t str, &'t str)>) -> Value {
    let map = Map::typed(&MapType::TEXTS);
    for (key, value) in members {
        map.set(Text::from(key), value.into());
    }
    map.into()
}

fn annotations(part: &Part) -> Value {
    match &part.chart.metadata.annotations {
        None => Map::nil(&MapType::TEXTS).into(),
        Some(annotations) => text_map(annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()))),
    }
}

fn as_map(part: &Part, is_root: bool) -> Value {
    let metadata = &part.chart.metadata;
    let maintainers = metadata.maintainers.iter().map(maintainer).collect();
    let dependencies = part.dependencies.iter().flatten().map(dependency).collect();
    let members: [(&str, Value); 18] = [
        ("APIVersion", metadata.api_version.as_str().into()),
        ("Annotations", annotations(part)),
        ("AppVersion", metadata.app_version.as_str().into()),
        ("Condition", metadata.condition.as_str().into()),
        ("Dependencies", Value::list(dependencies)),
        ("Deprecated", metadata.deprecated.into()),
        ("Description", metadata.description.as_str().into()),
        ("Home", metadata.home.as_str().into()),
        ("Icon", metadata.icon.as_str().into()),
        ("IsRoot", is_root.into()),
        ("Keywords", texts(&metadata.keywords)),
        ("KubeVersion", metadata.kube_version.as_str().into()),
        ("Maintainers", Value::list(maintainers)),
        ("Name", part.name.as_str().into()),
        ("Sources", texts(&metadata.sources)),
        ("Tags", metadata.tags.as_str().into()),
        ("Type", metadata.type_text.as_str().into()),
        ("Version", metadata.version.as_str().into()),
    ];
    members.into_iter().collect::<Map>().into()
}

fn maintainer(maintainer: &Maintainer) -> Value {
    let members: [(&str, Value); 3] = [
        ("Email", maintainer.email.as_str().into()),
        ("Name", maintainer.name.as_str().into()),
        ("URL", maintainer.url.as_str().into()),
    ];
    members.into_iter().collect::<Map>().into()
}

fn dependency(dependency: &Dependency) -> Value {
    let imports = dependency.import_values.iter().map(import).collect();
    let members: [(&str, Value); 8] = [
        ("Alias", dependency.alias.as_str().into()),
        ("Condition", dependency.condition.as_str().into()),
        ("Enabled", dependency.enabled.into()),
        ("ImportValues", Value::list(imports)),
        ("Name", dependency.name.as_str().into()),
        ("Repository", dependency.repository.as_str().into()),
        ("Tags", texts(&dependency.tags)),
        ("Version", dependency.version.as_str().into()),
    ];
    members.into_iter().collect::<Map>().into()
}

fn import(import: &ImportValue) -> Value {
    match import {
        ImportValue::Export(name) => name.as_str().into(),
        ImportValue::Table { child, parent, .. } => {
            text_map([("child", child.as_str()), ("parent", parent.as_str())])
        }
        ImportValue::Other(value) => Value::from_json(value),
    }
}

/// A struct with names of its own for JSON.
#[derive(Debug)]
struct Struct {
    shape: &'static Shape,
    values: Vec<Value>,
}

/// Type of a [`Struct`].
#[derive(Debug)]
struct Shape {
    name: &'static str,
    kind: Kind,
    fields: &'static [&'static str],
    /// Names in JSON, and whether an empty value is left out there.
    json: &'static [(&'static str, bool)],
}

impl Object for Struct {
    fn type_name(&self) -> &'static str {
        self.shape.name
    }

    fn kind(&self) -> Kind {
        self.shape.kind
    }

    fn fields(&self) -> &'static [&'static str] {
        self.shape.fields
    }

    fn field(&self, name: &str) -> Option<Value> {
        let at = self.shape.fields.iter().position(|field| *field == name)?;
        self.values.get(at).cloned()
    }

    fn json(&self) -> Option<Result<Value, String>> {
        let members = self.shape.json.iter().zip(&self.values);
        let kept = members.filter(|((_, omits), value)| !omits || value.is_true());
        Some(Ok(kept.map(|((name, _), value)| (*name, value.clone())).collect::<Map>().into()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

static METADATA: Shape = Shape {
    name: "chart.Metadata",
    kind: Kind::Struct,
    fields: &[
        "Name",
        "Home",
        "Sources",
        "Version",
        "Description",
        "Keywords",
        "Maintainers",
        "Icon",
        "APIVersion",
        "Condition",
        "Tags",
        "AppVersion",
        "Deprecated",
        "Annotations",
        "KubeVersion",
        "Dependencies",
        "Type",
    ],
    json: &[
        ("name", true),
        ("home", true),
        ("sources", true),
        ("version", true),
        ("description", true),
        ("keywords", true),
        ("maintainers", true),
        ("icon", true),
        ("apiVersion", true),
        ("condition", true),
        ("tags", true),
        ("appVersion", true),
        ("deprecated", true),
        ("annotations", true),
        ("kubeVersion", true),
        ("dependencies", true),
        ("type", true),
    ],
};

static MAINTAINER: Shape = Shape {
    name: "*chart.Maintainer",
    kind: Kind::Pointer,
    fields: &["Name", "Email", "URL"],
    json: &[("name", true), ("email", true), ("url", true)],
};

static DEPENDENCY: Shape = Shape {
    name: "*chart.Dependency",
    kind: Kind::Pointer,
    fields: &["Name", "Version", "Repository", "Condition", "Tags", "Enabled", "ImportValues", "Alias"],
    json: &[
        ("name", false),
        ("version", true),
        ("repository", false),
        ("condition", true),
        ("tags", true),
        ("enabled", true),
        ("import-values", true),
        ("alias", true),
    ],
};

static MAINTAINERS: ListType = ListType::plain("[]*chart.Maintainer", Element::Other("*chart.Maintainer"));
static DEPENDENCIES: ListType = ListType::plain("[]*chart.Dependency", Element::Other("*chart.Dependency"));

fn text_list(texts: &[String]) -> Value {
    if texts.is_empty() {
        return Value::List(List::nil(&ListType::TEXTS));
    }
    Value::texts(texts.iter().map(|text| Text::from(text.as_str())))
}

fn structs(list_type: &'static ListType, items: impl Iterator<Item = Struct>) -> Value {
    let items: Vec<Value> = items.map(Value::object).collect();
    Value::List(if items.is_empty() { List::nil(list_type) } else { List::typed(list_type, items) })
}

fn as_struct(part: &Part, is_root: bool) -> Value {
    let metadata = &part.chart.metadata;
    let maintainers = metadata.maintainers.iter().map(|maintainer| {
        let fields = [&maintainer.name, &maintainer.email, &maintainer.url];
        Struct { shape: &MAINTAINER, values: fields.map(|text| text.as_str().into()).to_vec() }
    });
    let dependencies = part.dependencies.iter().flatten().map(|dependency| {
        let imports = dependency.import_values.iter().map(import).collect();
        let values = vec![
            dependency.name.as_str().into(),
            dependency.version.as_str().into(),
            dependency.repository.as_str().into(),
            dependency.condition.as_str().into(),
            text_list(&dependency.tags),
            dependency.enabled.into(),
            Value::list(imports),
            dependency.alias.as_str().into(),
        ];
        Struct { shape: &DEPENDENCY, values }
    });
    let values = vec![
        part.name.as_str().into(),
        metadata.home.as_str().into(),
        text_list(&metadata.sources),
        metadata.version.as_str().into(),
        metadata.description.as_str().into(),
        text_list(&metadata.keywords),
        structs(&MAINTAINERS, maintainers),
        metadata.icon.as_str().into(),
        metadata.api_version.as_str().into(),
        metadata.condition.as_str().into(),
        metadata.tags.as_str().into(),
        metadata.app_version.as_str().into(),
        metadata.deprecated.into(),
        annotations(part),
        metadata.kube_version.as_str().into(),
        structs(&DEPENDENCIES, dependencies),
        metadata.type_text.as_str().into(),
    ];
    Value::object(EmbeddedChart { metadata: Rc::new(Struct { shape: &METADATA, values }), is_root })
}

/// Helm 3's `.Chart`: a struct that has the fields of another one inside it.
#[derive(Debug)]
struct EmbeddedChart {
    metadata: Rc<Struct>,
    is_root: bool,
}

impl Object for EmbeddedChart {
    fn type_name(&self) -> &'static str {
        "struct { chart.Metadata; IsRoot bool }"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["Metadata", "IsRoot"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Metadata" => {
                let metadata: Rc<dyn Object> = Rc::<Struct>::clone(&self.metadata);
                Some(Value::Object(metadata))
            }
            "IsRoot" => Some(self.is_root.into()),
            name => self.metadata.field(name),
        }
    }

    fn json(&self) -> Option<Result<Value, String>> {
        let members = self.metadata.json()?.ok()?;
        members.as_map()?.set(Text::from("IsRoot"), self.is_root.into());
        Some(Ok(members))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
