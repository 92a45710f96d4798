//! Values as flat parameters, for those who show or change them one by one (RND-153, EVAL-705).

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tiphys_go::json;
use tiphys_go::memory::Memory;

use crate::HelmVersion;
use crate::chart::{DocumentError, File, merge, read_values};

/// Parameters of one chart.
const PARAMETERS_MAX: usize = 100_000;
/// Bytes of all names; deep values repeat them.
const NAME_BYTES_MAX: usize = 32 << 20;
/// Memory that the values take.
const MEMORY_MAX: usize = 128 << 20;

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// As Go prints it: `1e+06`, `<nil>`, `true`.
    pub value: String,
    /// The same with all digits of numbers (RND-154).
    pub plain: String,
}

/// Why there are no parameters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParametersError {
    /// A file cannot be read.
    #[error("failed to parse {name}: {source}")]
    Values {
        /// The file.
        name: String,
        /// What is wrong with it.
        source: DocumentError,
    },
    /// More parameters than anybody looks at.
    #[error("the values have more than {PARAMETERS_MAX} parameters")]
    TooMany,
}

/// Parameters of values that are laid over each other, the first at the bottom: `a.b[0].c` and the text of the
/// scalar there. Empty maps and lists have none.
pub fn flatten_parameters<'f>(
    files: impl IntoIterator<Item = &'f File>,
    version: HelmVersion,
) -> Result<BTreeMap<String, Parameter>, ParametersError> {
    let mut memory = Memory::new(MEMORY_MAX);
    let mut values = Map::new();
    for file in files {
        let read = read_values(&file.data, version, &mut memory);
        merge(
            &mut values,
            read.map_err(|source| ParametersError::Values { name: file.name.clone(), source })?,
        );
    }
    let mut flat = Flat { parameters: BTreeMap::new(), bytes_left: NAME_BYTES_MAX };
    for (name, value) in &values {
        flat.add(name, value)?;
    }
    Ok(flat.parameters)
}

struct Flat {
    parameters: BTreeMap<String, Parameter>,
    bytes_left: usize,
}

impl Flat {
    fn add(&mut self, name: &str, value: &Value) -> Result<(), ParametersError> {
        self.bytes_left = self.bytes_left.checked_sub(name.len()).ok_or(ParametersError::TooMany)?;
        match value {
            Value::Object(members) => {
                members.iter().try_for_each(|(key, value)| self.add(&format!("{name}.{key}"), value))
            }
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(at, value)| self.add(&format!("{name}[{at}]"), value))
            }
            scalar => {
                if self.parameters.len() >= PARAMETERS_MAX {
                    return Err(ParametersError::TooMany);
                }
                let printed = json::print_go(scalar);
                let plain = if scalar.is_number() { json::to_string_go(scalar) } else { printed.clone() };
                self.parameters.insert(name.to_owned(), Parameter { value: printed, plain });
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(texts: &[&'static str]) -> Vec<(String, String, String)> {
        let file = |text: &&'static str| File { name: "values.yaml".to_owned(), data: (*text).into() };
        let files: Vec<File> = texts.iter().map(file).collect();
        let flat = flatten_parameters(&files, HelmVersion::V4).unwrap();
        flat.into_iter().map(|(name, parameter)| (name, parameter.value, parameter.plain)).collect()
    }

    #[test]
    fn rnd_153_values_become_flat_parameters() {
        let values = "a: {b: [{c: x}, 1000000]}\nm: null\ne: {}\nl: []\nt: true\nf: 1.5";
        let expected = [
            ("a.b[0].c", "x", "x"),
            ("a.b[1]", "1e+06", "1000000"),
            ("f", "1.5", "1.5"),
            ("m", "<nil>", "<nil>"),
            ("t", "true", "true"),
        ];
        let expected =
            expected.map(|(name, value, plain)| (name.to_owned(), value.to_owned(), plain.to_owned()));
        assert_eq!(flat(&[values]), expected);
    }

    #[test]
    fn rnd_153_later_files_lie_over_earlier_ones() {
        let flat = flat(&["a: {b: 1, c: 2}", "a: {c: x}"]);
        let pairs: Vec<(&str, &str)> =
            flat.iter().map(|(name, value, _)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a.b", "1"), ("a.c", "x")]);
    }
}
