//! `.Chart`: `Chart.yaml` as templates see it.
//!
//! In Helm 4 it is a map under the names of Go's fields, in Helm 3 the struct itself.

use tiphys_go::template::{Element, Kind, List, ListType, Map, MapType, Record, RecordType, Text, Value};

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

/// The struct around the metadata. The metadata's fields are its own too.
static CHART: RecordType = RecordType {
    name: "struct { chart.Metadata; IsRoot bool }",
    kind: Kind::Struct,
    fields: &["Metadata", "IsRoot"],
    methods: &[],
    print: None,
};

static METADATA: RecordType = RecordType {
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
    methods: &[],
    print: None,
};

static MAINTAINER: RecordType = RecordType {
    name: "*chart.Maintainer",
    kind: Kind::Pointer,
    fields: &["Name", "Email", "URL"],
    methods: &[],
    print: None,
};

static DEPENDENCY: RecordType = RecordType {
    name: "*chart.Dependency",
    kind: Kind::Pointer,
    fields: &["Name", "Version", "Repository", "Condition", "Tags", "Enabled", "ImportValues", "Alias"],
    methods: &[],
    print: None,
};

static MAINTAINERS: ListType = ListType::plain("[]*chart.Maintainer", Element::Other("*chart.Maintainer"));
static DEPENDENCIES: ListType = ListType::plain("[]*chart.Dependency", Element::Other("*chart.Dependency"));

fn text_list(texts: &[String]) -> Value {
    if texts.is_empty() {
        return Value::List(List::nil(&ListType::TEXTS));
    }
    Value::texts(texts.iter().map(|text| Text::from(text.as_str())))
}

fn records(list_type: &'static ListType, items: Vec<Value>) -> Value {
    Value::List(if items.is_empty() { List::nil(list_type) } else { List::typed(list_type, items) })
}

fn as_struct(part: &Part, is_root: bool) -> Value {
    let metadata = &part.chart.metadata;
    let maintainers = metadata.maintainers.iter().map(|maintainer| {
        let fields = [&maintainer.name, &maintainer.email, &maintainer.url];
        Value::object(Record::new(&MAINTAINER, fields.map(|text| text.as_str().into()).to_vec()))
    });
    let dependencies = part.dependencies.iter().flatten().map(|dependency| {
        let imports = dependency.import_values.iter().map(import).collect();
        let fields = vec![
            dependency.name.as_str().into(),
            dependency.version.as_str().into(),
            dependency.repository.as_str().into(),
            dependency.condition.as_str().into(),
            text_list(&dependency.tags),
            dependency.enabled.into(),
            Value::list(imports),
            dependency.alias.as_str().into(),
        ];
        Value::object(Record::new(&DEPENDENCY, fields))
    });
    let fields = vec![
        part.name.as_str().into(),
        metadata.home.as_str().into(),
        text_list(&metadata.sources),
        metadata.version.as_str().into(),
        metadata.description.as_str().into(),
        text_list(&metadata.keywords),
        records(&MAINTAINERS, maintainers.collect()),
        metadata.icon.as_str().into(),
        metadata.api_version.as_str().into(),
        metadata.condition.as_str().into(),
        metadata.tags.as_str().into(),
        metadata.app_version.as_str().into(),
        metadata.deprecated.into(),
        annotations(part),
        metadata.kube_version.as_str().into(),
        records(&DEPENDENCIES, dependencies.collect()),
        metadata.type_text.as_str().into(),
    ];
    Value::object(EmbeddedChart { metadata: Value::object(Record::new(&METADATA, fields)), is_root })
}

/// Helm 3's `.Chart`: a struct that has the fields of another one inside it.
#[derive(Debug)]
struct EmbeddedChart {
    metadata: Value,
    is_root: bool,
}

/// Names of the metadata in JSON, and whether an empty value is left out there.
const JSON_NAMES: [&str; 17] = [
    "name",
    "home",
    "sources",
    "version",
    "description",
    "keywords",
    "maintainers",
    "icon",
    "apiVersion",
    "condition",
    "tags",
    "appVersion",
    "deprecated",
    "annotations",
    "kubeVersion",
    "dependencies",
    "type",
];

impl tiphys_go::template::Object for EmbeddedChart {
    fn type_name(&self) -> &'static str {
        CHART.name
    }

    fn fields(&self) -> &'static [&'static str] {
        CHART.fields
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Metadata" => Some(self.metadata.clone()),
            "IsRoot" => Some(self.is_root.into()),
            name => self.metadata.as_object::<Record>().and_then(|record| record.field(name)),
        }
    }

    fn json(&self) -> Option<Result<Value, String>> {
        let members = Map::new();
        let record = self.metadata.as_object::<Record>()?;
        for (field, name) in METADATA.fields.iter().zip(JSON_NAMES) {
            let value = record.field(field).unwrap_or_default();
            if value.is_true() {
                members.set(Text::from(name), in_json(value));
            }
        }
        members.set(Text::from("IsRoot"), self.is_root.into());
        Some(Ok(members.into()))
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// People and dependencies under their names in JSON.
fn in_json(value: Value) -> Value {
    let Value::List(list) = &value else { return value };
    let items = list.to_vec().into_iter().map(|item| {
        let Some(record) = item.as_object::<Record>() else { return item };
        let members = Map::new();
        for field in record.record_type().fields {
            let value = record.field(field).unwrap_or_default();
            let name = match *field {
                "ImportValues" => "import-values".to_owned(),
                field => field.to_lowercase(),
            };
            if value.is_true()
                || *field == "Repository"
                || (*field == "Name" && record.record_type().fields.len() > 3)
            {
                members.set(Text::from(name), value);
            }
        }
        members.into()
    });
    Value::list(items.collect())
}

use tiphys_go::template::Object as _;
