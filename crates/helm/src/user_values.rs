//! Values that users give: files, and parameters laid over them (RND-94, RND-97).

use bytes::Bytes;
use serde_json::{Map, Value};
use tiphys_go::memory::Memory;
use tiphys_go::strvals::{self, Reading, StrvalsError};

use crate::HelmVersion;
use crate::chart::{DocumentError, File, merge, read_values};

/// Values given by users, in the order in which they are laid over each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserValues {
    /// Value files, `--values`. The name is for errors.
    pub files: Vec<File>,
    /// Entries of `--set`.
    pub set: Vec<String>,
    /// Entries of `--set-string`.
    pub set_string: Vec<String>,
    /// Entries of `--set-file`, read already.
    pub set_file: Vec<FileParameter>,
}

/// A parameter whose value is the content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileParameter {
    /// Path of the value.
    pub name: String,
    /// The content, text or not.
    pub content: Bytes,
}

/// Why values of users cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum UserValuesError {
    /// A value file cannot be read.
    #[error("failed to parse {name}: {source}")]
    File {
        /// The file.
        name: String,
        /// What is wrong with it.
        source: DocumentError,
    },
    /// A parameter cannot be read.
    #[error("failed parsing --{flag} data: {source}")]
    Parameter {
        /// The flag of Helm that it stands for.
        flag: &'static str,
        /// What is wrong with it.
        source: StrvalsError,
    },
}

/// Values of users as one map. Integers in it come from parameters and are integers for templates too, all other
/// numbers are floats (RND-173).
#[derive(Debug, Default)]
pub(crate) struct Merged {
    pub(crate) values: Map<String, Value>,
    /// Contents of files that stand as [`content_mark`]s in the values.
    pub(crate) contents: Vec<Bytes>,
}

/// The text that stands for a file's content, which need not be text itself.
pub(crate) fn content_mark(number: usize) -> String {
    format!("\u{0}content of file parameter {number}\u{0}")
}

impl UserValues {
    /// Lays all values over each other.
    pub(crate) fn merge(&self, version: HelmVersion, memory: &mut Memory) -> Result<Merged, UserValuesError> {
        let mut values = Map::new();
        for file in &self.files {
            let read = read_values(&file.data, version, memory);
            let read = read.map_err(|source| UserValuesError::File { name: file.name.clone(), source })?;
            merge(&mut values, read);
        }
        let failed = |flag| move |source| UserValuesError::Parameter { flag, source };
        for entry in &self.set {
            strvals::set(&mut values, Reading::Typed, entry).map_err(failed("set"))?;
        }
        for entry in &self.set_string {
            strvals::set(&mut values, Reading::Text, entry).map_err(failed("set-string"))?;
        }
        let mut contents = Vec::new();
        for parameter in &self.set_file {
            let mark = content_mark(contents.len());
            let read = |_name: &str| Ok(mark.clone());
            let entry = format!("{}=file", parameter.name);
            strvals::set(&mut values, Reading::File(&read), &entry).map_err(failed("set-file"))?;
            contents.push(parameter.content.clone());
        }
        Ok(Merged { values, contents })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rnd_94_parameters_lie_over_files_and_text_over_typed_ones() {
        let file = |text: &'static str| File { name: "values.yaml".to_owned(), data: text.into() };
        let user = UserValues {
            files: vec![file("a: 1\nb: {c: 1, d: 2}"), file("b: {c: x}\n---\ne: 3")],
            set: vec!["b.d=5,f=6".to_owned(), "g=null".to_owned()],
            set_string: vec!["f=7".to_owned()],
            set_file: vec![FileParameter { name: "h.i".to_owned(), content: "{x: y}".into() }],
        };
        let merged = user.merge(HelmVersion::V4, &mut Memory::new(1 << 20)).unwrap();
        let expected = json!({
            "a": 1.0, "b": {"c": "x", "d": 5}, "e": 3.0, "f": "7", "g": null, "h": {"i": content_mark(0)},
        });
        assert_eq!(Value::Object(merged.values), expected);
        let v3 = user.merge(HelmVersion::V3, &mut Memory::new(1 << 20)).unwrap();
        assert_eq!(v3.values.get("e"), None);
    }

    #[test]
    fn rnd_97_what_cannot_be_read_is_told_as_helm_does() {
        let mut user = UserValues { set: vec!["a".to_owned()], ..UserValues::default() };
        let error = |user: &UserValues| {
            user.merge(HelmVersion::V4, &mut Memory::new(1 << 20)).unwrap_err().to_string()
        };
        assert_eq!(error(&user), "failed parsing --set data: key \"a\" has no value");
        user.files = vec![File { name: "x.yaml".to_owned(), data: "- a".into() }];
        let expected = "failed to parse x.yaml: cannot unmarshal yaml document: error unmarshaling JSON: while decoding \
                        JSON: json: cannot unmarshal array into Go value of type map[string]interface {}";
        assert_eq!(error(&user), expected);
    }
}
