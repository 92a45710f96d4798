//! `Chart.yaml`: what a chart says of itself (RND-166).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tiphys_go::semver::Version;

use super::{DecodeError, GoType, Record};

/// What kind of chart it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChartType {
    /// One that is rendered.
    #[default]
    Application,
    /// One whose partials others use.
    Library,
}

/// `Chart.yaml`. Texts that are absent are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Name, without `/`.
    pub name: String,
    /// Home page.
    pub home: String,
    /// URLs of sources.
    pub sources: Vec<String>,
    /// A version, leniently read.
    pub version: String,
    /// One sentence.
    pub description: String,
    /// Words to find the chart by.
    pub keywords: Vec<String>,
    /// People.
    pub maintainers: Vec<Maintainer>,
    /// URL of a picture.
    pub icon: String,
    /// `v1` or `v2`.
    pub api_version: String,
    /// Not used by Helm.
    pub condition: String,
    /// Not used by Helm.
    pub tags: String,
    /// Version of what the chart installs.
    pub app_version: String,
    /// Whether nobody should use it any more.
    pub deprecated: bool,
    /// For other programs. Nothing and an empty map are told apart when printed.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Constraint on the version of Kubernetes.
    pub kube_version: String,
    /// Charts that it needs. Charts in `charts/` of a chart that lists none are not looked into (RND-170).
    pub dependencies: Option<Vec<Dependency>>,
    /// The type as written; see [`Metadata::chart_type`].
    pub type_text: String,
}

/// Somebody who looks after a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintainer {
    /// Name.
    pub name: String,
    /// Address.
    pub email: String,
    /// Page.
    pub url: String,
}

/// A chart that a chart needs (RND-170..172).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dependency {
    /// Name of the chart.
    pub name: String,
    /// Constraint on its version; in a lock file the version.
    pub version: String,
    /// Where it comes from; empty: it is in `charts/`.
    pub repository: String,
    /// Paths of values that switch it on or off.
    pub condition: String,
    /// Tags that do so.
    pub tags: Vec<String>,
    /// As written in the file. Helm sets it anew, but it is a part of the digest of lock files.
    pub enabled: bool,
    /// What of its values the parent takes over.
    pub import_values: Vec<ImportValue>,
    /// Name under which it is used.
    pub alias: String,
}

/// One entry of `import-values`.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportValue {
    /// `exports.NAME` of the child to the top level.
    Export(String),
    /// A table of the child to one of the parent.
    Table {
        /// Path in the child's values.
        child: String,
        /// Path in the parent's values.
        parent: String,
        /// The entry as written.
        written: Value,
    },
    /// Anything else, which Helm passes over.
    Other(Value),
}

const METADATA: GoType = GoType {
    name: "Metadata",
    full_name: "v2.Metadata",
    fields: &[
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
    ],
};

const MAINTAINER: GoType =
    GoType { name: "Maintainer", full_name: "v2.Maintainer", fields: &["name", "email", "url"] };

const DEPENDENCY: GoType = GoType {
    name: "Dependency",
    full_name: "v2.Dependency",
    fields: &["name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"],
};

/// Why `Chart.yaml` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("validation: {0}")]
pub struct ValidationError(String);

impl Metadata {
    /// Reads the document; what is wrong with it is found by [`Metadata::validate`].
    pub(super) fn decode(document: &Value) -> Result<Self, DecodeError> {
        let record = Record::of(document, METADATA)?;
        let maintainers = record.items("maintainers", "[]*v2.Maintainer")?.unwrap_or_default();
        Ok(Self {
            name: record.text("name")?,
            home: record.text("home")?,
            sources: record.texts("sources")?,
            version: record.text("version")?,
            description: record.text("description")?,
            keywords: record.texts("keywords")?,
            maintainers: maintainers
                .iter()
                .map(|item| Maintainer::decode(record.item("maintainers", item, MAINTAINER)?))
                .collect::<Result<_, _>>()?,
            icon: record.text("icon")?,
            api_version: record.text("apiVersion")?,
            condition: record.text("condition")?,
            tags: record.text("tags")?,
            app_version: record.text("appVersion")?,
            deprecated: record.truth("deprecated")?,
            annotations: record.text_map("annotations")?.map(|pairs| pairs.into_iter().collect()),
            kube_version: record.text("kubeVersion")?,
            dependencies: Dependency::decode_all(&record)?,
            type_text: record.text("type")?,
        })
    }

    /// The type. Letters may be of any case here, and only here.
    pub fn chart_type(&self) -> ChartType {
        if self.type_text.eq_ignore_ascii_case("library") {
            ChartType::Library
        } else {
            ChartType::Application
        }
    }

    /// Checks what is required and blanks what cannot be printed.
    pub(super) fn validate(&mut self, document: &Value) -> Result<(), ValidationError> {
        let wrong = |text: String| Err(ValidationError(text));
        let texts = [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ];
        texts.into_iter().chain(&mut self.sources).chain(&mut self.keywords).for_each(sanitize);
        if self.api_version.is_empty() {
            return wrong("chart.metadata.apiVersion is required".to_owned());
        }
        if self.name.is_empty() {
            return wrong("chart.metadata.name is required".to_owned());
        }
        if matches!(self.name.as_str(), "." | "..") {
            return wrong(format!("chart.metadata.name {:?} is not allowed", self.name));
        }
        if self.name.contains('/') {
            return wrong(format!("chart.metadata.name {:?} is invalid", self.name));
        }
        if self.version.is_empty() {
            return wrong("chart.metadata.version is required".to_owned());
        }
        if Version::parse(&self.version).is_err() {
            return wrong(format!("chart.metadata.version {:?} is invalid", self.version));
        }
        if !matches!(self.type_text.as_str(), "" | "application" | "library") {
            return wrong("chart.metadata.type must be application or library".to_owned());
        }
        if has_null_item(document, "maintainers") {
            return wrong("maintainers must not contain empty or null nodes".to_owned());
        }
        for maintainer in &mut self.maintainers {
            [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url].into_iter().for_each(sanitize);
        }
        self.validate_dependencies(document)
    }

    fn validate_dependencies(&mut self, document: &Value) -> Result<(), ValidationError> {
        let mut names = BTreeSet::new();
        let nulls = document.get("dependencies").and_then(Value::as_array).map(Vec::as_slice);
        let nulls = nulls.unwrap_or_default();
        for (at, dependency) in self.dependencies.iter_mut().flatten().enumerate() {
            if nulls.get(at).is_some_and(Value::is_null) {
                let text = "dependencies must not contain empty or null nodes";
                return Err(ValidationError(text.to_owned()));
            }
            let texts = [
                &mut dependency.name,
                &mut dependency.version,
                &mut dependency.repository,
                &mut dependency.condition,
            ];
            texts.into_iter().chain(&mut dependency.tags).for_each(sanitize);
            let allowed =
                |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
            if !dependency.alias.chars().all(allowed) {
                let text = format!("dependency {:?} has disallowed characters in the alias", dependency.name);
                return Err(ValidationError(text));
            }
            if !names.insert(dependency.used_as().to_owned()) {
                let text = format!("more than one dependency with name or alias {:?}", dependency.used_as());
                return Err(ValidationError(text));
            }
        }
        Ok(())
    }
}

fn has_null_item(document: &Value, field: &str) -> bool {
    document.get(field).and_then(Value::as_array).is_some_and(|items| items.iter().any(Value::is_null))
}

impl Maintainer {
    fn decode(record: Option<Record<'_>>) -> Result<Self, DecodeError> {
        let Some(record) = record else { return Ok(Self::default()) };
        Ok(Self { name: record.text("name")?, email: record.text("email")?, url: record.text("url")? })
    }
}

impl Dependency {
    /// The name under which the chart is used.
    pub fn used_as(&self) -> &str {
        if self.alias.is_empty() { &self.name } else { &self.alias }
    }

    /// Reads `dependencies` of a document.
    pub(super) fn decode_all(record: &Record<'_>) -> Result<Option<Vec<Self>>, DecodeError> {
        let Some(items) = record.items("dependencies", "[]*v2.Dependency")? else { return Ok(None) };
        let decode = |item| Self::decode(record.item("dependencies", item, DEPENDENCY)?);
        items.iter().map(decode).collect::<Result<_, _>>().map(Some)
    }

    fn decode(record: Option<Record<'_>>) -> Result<Self, DecodeError> {
        let Some(record) = record else { return Ok(Self::default()) };
        let imports = record.items("import-values", "[]interface {}")?.unwrap_or_default();
        Ok(Self {
            name: record.text("name")?,
            version: record.text("version")?,
            repository: record.text("repository")?,
            condition: record.text("condition")?,
            tags: record.texts("tags")?,
            enabled: record.truth("enabled")?,
            import_values: imports.iter().map(ImportValue::read).collect(),
            alias: record.text("alias")?,
        })
    }
}

impl ImportValue {
    fn read(item: &Value) -> Self {
        match item {
            Value::String(name) => Self::Export(name.clone()),
            Value::Object(members) => {
                // What `%v` prints of them.
                let text =
                    |field: &str| members.get(field).map_or("<nil>".to_owned(), tiphys_go::json::print_go);
                Self::Table { child: text("child"), parent: text("parent"), written: item.clone() }
            }
            other => Self::Other(other.clone()),
        }
    }
}

/// Makes every white space a blank and drops what cannot be printed.
fn sanitize(text: &mut String) {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return;
    }
    let keep = |character: char| {
        if character.is_whitespace() {
            return Some(' ');
        }
        is_print(character).then_some(character)
    };
    *text = text.chars().filter_map(keep).collect();
}

/// Whether Go calls a character printable. Rust escapes in debug output what is not, and a few that are.
fn is_print(character: char) -> bool {
    match character {
        '"' | '\'' | '\\' => true,
        _ => character.escape_debug().count() == 1,
    }
}
