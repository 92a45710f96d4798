//! Templates that know each other by name.

use super::code::Body;
use super::error::TemplateError;
use super::functions::FunctionSet;
use super::parse::{self, Parsed};
use super::value::Text;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// What a map answers for a key that it does not have (`missingkey`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// Nothing, of which further fields are nothing: `<no value>`. The default.
    #[default]
    Nothing,
    /// The zero of the map's type, which for most is nil, of which further fields are an error (Helm).
    Zero,
    /// An error.
    Error,
}

impl MissingKey {
    /// Reads an option such as `missingkey=error` (ASET-104).
    ///
    /// # Errors
    /// When there is no such option.
    pub fn of_option(option: &str) -> Result<Self, TemplateError> {
        parse::missing_key(option)
    }
}

/// Templates by name, with the functions that they were parsed for. Immutable while they are executed, for any thread.
#[derive(Debug, Clone)]
pub struct Templates {
    name: Text,
    functions: FunctionSet,
    bodies: HashMap<Text, Arc<Body>>,
    pub(crate) missing_key: MissingKey,
}

impl Templates {
    /// No templates yet. The name is what errors say that templates are associated with.
    pub fn new(name: &str, functions: FunctionSet) -> Self {
        Self { name: name.into(), functions, bodies: HashMap::new(), missing_key: MissingKey::default() }
    }

    /// The same with another answer for missing keys.
    #[must_use]
    pub fn with_missing_key(mut self, missing_key: MissingKey) -> Self {
        self.missing_key = missing_key;
        self
    }

    /// Parses a text and adds what it defines.
    ///
    /// # Errors
    /// When it is no template.
    pub fn parse(&mut self, name: &str, text: impl Into<Arc<[u8]>>) -> Result<(), TemplateError> {
        let parsed = Parsed::new(name, text, &self.functions)?;
        self.add(&parsed);
        Ok(())
    }

    /// Adds what a parsed file defines. A later template takes the place of an earlier one, unless there is nothing
    /// in it but blanks and comments (RND-188).
    pub fn add(&mut self, parsed: &Parsed) {
        for body in parsed.bodies.iter() {
            if !(body.is_empty && self.bodies.contains_key(&body.name)) {
                self.bodies.insert(body.name.clone(), Arc::clone(body));
            }
        }
    }

    /// The name of the set.
    pub fn name(&self) -> &Text {
        &self.name
    }

    /// The functions.
    pub fn functions(&self) -> &FunctionSet {
        &self.functions
    }

    /// Whether there is a template of a name.
    pub fn contains(&self, name: &str) -> bool {
        self.bodies.contains_key(name.as_bytes())
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Body>> {
        self.bodies.get(name)
    }
}

/// Templates that a text of `tpl` defines for itself, before those around it.
#[derive(Debug)]
pub(crate) struct Overlay {
    bodies: Vec<Arc<Body>>,
    outer: Option<Rc<Self>>,
}

impl Overlay {
    /// Puts the templates of a text before others. The one of the text itself is found by its name too.
    pub(crate) fn new(parsed: &Parsed, templates: &Templates, outer: Option<Rc<Self>>) -> Self {
        let known = |name: &Text| {
            outer.as_ref().and_then(|outer| outer.get(name.as_bytes())).is_some()
                || templates.get(name.as_bytes()).is_some()
        };
        let bodies =
            parsed.bodies.iter().filter(|body| !(body.is_empty && known(&body.name))).cloned().collect();
        Self { bodies, outer }
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Body>> {
        let mut present = Some(self);
        while let Some(overlay) = present {
            if let Some(body) = overlay.bodies.iter().find(|body| body.name.as_bytes() == name) {
                return Some(body);
            }
            present = overlay.outer.as_deref();
        }
        None
    }
}
