//! What of a chart is worked out once and used by every rendering.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use serde_json::Value;
use tiphys_go::live;
use tiphys_go::memory::Memory;
use tiphys_go::nesting;
use tiphys_go::template::{FunctionSet, Parsed, TemplateError};
use tiphys_go::yaml::{self, Dialect, YamlError};

use crate::chart::{Chart, File};
use crate::schema::{Documents, Schema, SchemaError};

/// Places at which the templates of one chart are kept; an alias makes another one of it.
const PLACES_MAX: usize = 32;
/// Memory that the documents of `crds/` take.
const CRDS_MEMORY_MAX: usize = 256 << 20;

/// Parsed templates, schema and CRDs of one chart. A copy of a chart begins without.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    templates: RwLock<HashMap<String, Arc<ParsedTemplates>>>,
    schema: OnceLock<Result<Schema, SchemaError>>,
    crds: OnceLock<Result<Arc<[CrdDocument]>, CrdError>>,
}

impl Clone for Cache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Templates of a chart at one place: the path of the template and what parsing it gave.
pub(crate) type ParsedTemplates = Vec<(String, Result<Parsed, TemplateError>)>;

/// A document of `crds/`.
#[derive(Clone, Debug, PartialEq)]
pub struct CrdDocument {
    /// Path of the file, below the directory of its chart.
    pub file: String,
    /// What it says.
    pub object: Value,
}

/// A document of `crds/` that is not YAML.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{file}: {source}")]
pub struct CrdError {
    file: String,
    source: YamlError,
}

impl CrdError {
    /// Whether it takes more memory than there is for it.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self.source, YamlError::Memory { .. })
    }
}

/// The functions of Helm's templates. Building the set takes longer than a small chart.
pub(crate) fn functions() -> FunctionSet {
    static FUNCTIONS: OnceLock<FunctionSet> = OnceLock::new();
    FUNCTIONS.get_or_init(FunctionSet::helm).clone()
}

impl Chart {
    /// The templates of the chart, parsed under the paths they have when the chart stands at `place`.
    pub(crate) fn parsed(&self, place: &str) -> Arc<ParsedTemplates> {
        let kept =
            self.cache.templates.read().unwrap_or_else(PoisonError::into_inner).get(place).map(Arc::clone);
        if let Some(kept) = kept {
            return kept;
        }
        let functions = functions();
        let parse = |file: &File| {
            let path = format!("{place}/{}", file.name);
            let parsed = Parsed::new(&path, &*file.data, &functions);
            (path, parsed)
        };
        let parsed: Arc<ParsedTemplates> = Arc::new(self.templates.iter().map(parse).collect());
        let mut templates = self.cache.templates.write().unwrap_or_else(PoisonError::into_inner);
        if templates.len() < PLACES_MAX {
            templates.insert(place.to_owned(), Arc::clone(&parsed));
        }
        parsed
    }

    /// The schema of the values, if there is one. Only one that needs no other documents is kept.
    pub(crate) fn check_schema(
        &self,
        values: &Value,
        documents: &Documents,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), SchemaError> {
        let Some(text) = &self.schema else { return Ok(()) };
        match self.cache.schema.get_or_init(|| Schema::compile(text, &Documents::new())) {
            Ok(schema) => schema.validate_unless(values, is_cancelled),
            Err(SchemaError::Remote { .. }) if !documents.is_empty() => {
                Schema::compile(text, documents)?.validate_unless(values, is_cancelled)
            }
            Err(error) => Err(error.clone()),
        }
    }

    /// The documents of `crds/`, in the order of the files.
    pub(crate) fn crd_documents(&self) -> Result<Arc<[CrdDocument]>, CrdError> {
        self.cache.crds.get_or_init(|| self.read_crds().map(Into::into)).clone()
    }

    fn read_crds(&self) -> Result<Vec<CrdDocument>, CrdError> {
        let mut memory = Memory::new(CRDS_MEMORY_MAX.min(live::room()));
        let mut documents = Vec::new();
        for file in self.crds() {
            let failed = |source| CrdError { file: file.name.clone(), source };
            let text = yaml::decode_text(&file.data).map_err(failed)?;
            for text in yaml::split_documents(&text) {
                let object = yaml::parse_within(&text, Dialect::Sigs, nesting::DEPTH_MAX, &mut memory);
                if let Some(object) = object.map_err(failed)?.filter(|object| !object.is_null()) {
                    documents.push(CrdDocument { file: file.name.clone(), object });
                }
            }
        }
        Ok(documents)
    }
}
