//! The file `plugin.yaml` of a plugin server (RND-131).

use serde::Deserialize;
use serde_json::{Map, Value};
use tiphys_go::yaml::{self, Dialect, Limits};

/// Bytes of the file.
const BYTES_MAX: usize = 1 << 20;

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid plugin configuration file. {0}")]
pub struct ConfigError(String);

/// A program with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    /// The program, and what comes before the arguments.
    pub command: Vec<String>,
    /// The arguments.
    pub args: Vec<String>,
}

impl Command {
    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.command.is_empty()
    }

    /// All its words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.command.iter().chain(&self.args).map(String::as_str)
    }
}

/// How files are found that are for the plugin (RND-132).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Find {
    /// A glob, with `**`.
    pub glob: String,
    /// A program that prints something if they are.
    pub command: Vec<String>,
    /// Its arguments.
    pub args: Vec<String>,
}

/// Discovery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Discover {
    /// A glob of shells.
    pub file_name: String,
    /// A glob or a program.
    pub find: Find,
}

impl Discover {
    /// Whether any of them is set.
    pub fn is_configured(&self) -> bool {
        !self.file_name.is_empty() || !self.find.glob.is_empty() || !self.find.command.is_empty()
    }
}

/// Announced parameters.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Parameters {
    /// Always the same ones.
    pub r#static: Vec<Value>,
    /// A program that prints more of them.
    pub dynamic: Command,
}

/// What the plugin is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// A part of the name of the socket.
    pub version: String,
    /// Runs before everything else.
    pub init: Command,
    /// Prints manifests.
    pub generate: Command,
    /// Which files are for the plugin.
    pub discover: Discover,
    /// Announced parameters.
    pub parameters: Parameters,
    /// Whether files keep their modes.
    pub preserve_file_mode: bool,
    /// Whether `git` in the plugin gets credentials.
    pub provide_git_creds: bool,
}

/// A plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `metadata.name`.
    pub name: String,
    /// The rest.
    pub spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Document {
    api_version: String,
    kind: String,
    metadata: Map<String, Value>,
    spec: Spec,
}

impl Config {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// When it is no configuration of a plugin, or has a field that nothing is done with.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        let limits = Limits { bytes_max: BYTES_MAX, depth_max: 64 };
        let value = yaml::parse(text, Dialect::Sigs, &limits)
            .map_err(|error| ConfigError(error.to_string()))?
            .unwrap_or_default();
        let document: Document =
            serde_json::from_value(without_nulls(value)).map_err(|error| ConfigError(error.to_string()))?;
        let name = document.metadata.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let wrong = |text: &str| Err(ConfigError(text.to_owned()));
        if document.kind != "ConfigManagementPlugin" {
            return wrong("kind should be ConfigManagementPlugin");
        }
        if document.api_version != "argoproj.io/v1alpha1" {
            return wrong("apiVersion should be argoproj.io/v1alpha1");
        }
        if name.is_empty() {
            return wrong("metadata.name should not be empty");
        }
        // It becomes the name of a file.
        let config = Self { name, spec: document.spec };
        if config.socket().contains(['/', '\0']) {
            return wrong("metadata.name and spec.version should not contain a slash");
        }
        if config.spec.generate.is_empty() {
            return wrong("spec.generate command should not be empty");
        }
        Ok(config)
    }

    /// The name of the socket, without `.sock` (RND-127).
    pub fn socket(&self) -> String {
        if self.spec.version.is_empty() {
            self.name.clone()
        } else {
            format!("{}-{}", self.name, self.spec.version)
        }
    }
}

/// Go reads `null` as if the field were not there.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: &str = "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {name: p}\nspec:\n  version: v1.0\n  init:\n  generate: {command: [sh, -c], args: [cat a.yaml]}\n  discover: {find: {glob: '**/a.yaml'}}\n  parameters:\n    static: [{name: x, required: true}]\n    dynamic: {command: [echo, '[]']}\n  preserveFileMode: true\n  provideGitCreds: true\n";

    #[test]
    fn rnd_131_a_configuration_is_read() {
        let config = Config::read(PLUGIN).unwrap();
        assert_eq!(config.socket(), "p-v1.0");
        assert_eq!(config.spec.generate.words().collect::<Vec<_>>(), ["sh", "-c", "cat a.yaml"]);
        assert!(config.spec.init.is_empty() && config.spec.discover.is_configured());
        assert!(config.spec.preserve_file_mode && config.spec.provide_git_creds);
        assert_eq!(config.spec.parameters.r#static.len(), 1);
    }

    #[test]
    fn rnd_131_what_is_wrong_is_said_by_name() {
        let error = |from: &str, to: &str| Config::read(&PLUGIN.replace(from, to)).unwrap_err().to_string();
        let text = |what: &str| format!("invalid plugin configuration file. {what}");
        assert_eq!(error("{name: p}", "{}"), text("metadata.name should not be empty"));
        assert_eq!(error("ConfigManagementPlugin", "Plugin"), text("kind should be ConfigManagementPlugin"));
        assert_eq!(error("[sh, -c]", "[]"), text("spec.generate command should not be empty"));
        assert!(error("{name: p}", "{name: ../p}").ends_with("should not contain a slash"));
        assert!(error("discover:", "discovers:").contains("discovers"));
        assert!(error("kind:", "kind: [").starts_with("invalid plugin configuration file. "));
    }
}
