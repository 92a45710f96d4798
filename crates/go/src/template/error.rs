//! Why a template is not parsed or not executed, in Go's words and in parts.

use super::limits::Exceeded;
use super::quote::quote;
use crate::live;
use std::fmt::{self, Write};

/// What kind of mistake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is no template.
    Parse,
    /// Executing it failed.
    Execute,
    /// The template's author says that it must not go on: Helm's `fail` and `required`. The message is theirs.
    Told,
    /// A template of this name does not exist.
    NoTemplate,
    /// An option that does not exist.
    Option,
    /// A limit was exceeded.
    Limit(Exceeded),
    /// The caller gave up.
    Cancelled,
}

/// Why a template failed.
///
/// `Display` gives Go's text. [`TemplateError::layers`] gives it in parts, the outermost first: an `include` inside
/// an `include` has two places and two calls before the message. Callers that word errors in their own way, as Helm
/// does, put their text together from these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError(Box<Parts>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    kind: ErrorKind,
    /// The innermost first.
    layers: Vec<Layer>,
    message: String,
}

/// A part of an error's text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layer {
    /// A place in a template that was being executed: `template: base:1:3: executing "base" at <.a>: `.
    Place {
        /// File, line, and bytes before it in the line: `base:1:3`.
        location: String,
        /// The template that was executed.
        template: String,
        /// The part of it, spelled as Go spells it.
        context: String,
    },
    /// A place in a file that was being parsed: `template: base:1: `.
    File {
        /// The file.
        name: String,
        /// The line, counted from 1.
        line: u32,
    },
    /// A function that failed: `error calling include: `.
    Calling(String),
    /// Words that a function put before the error of another: `error during tpl function execution for "…": `.
    Words(String),
}

impl fmt::Display for Layer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place { location, template, context } => {
                write!(out, "template: {location}: executing {} at <{context}>: ", quote(template.as_bytes()))
            }
            Self::File { name, line } => write!(out, "template: {name}:{line}: "),
            Self::Calling(function) => write!(out, "error calling {function}: "),
            Self::Words(words) => write!(out, "{words}: "),
        }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layers().try_for_each(|layer| layer.fmt(out))?;
        out.write_str(&self.0.message)
    }
}

impl std::error::Error for TemplateError {}

impl TemplateError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Parts { kind, layers: Vec::new(), message: message.into() }))
    }

    /// The same error with one more layer around it.
    #[must_use]
    pub(crate) fn within(mut self, layer: Layer) -> Self {
        self.0.layers.push(layer);
        self
    }

    /// What kind of mistake it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The parts of the text before the message, the outermost first.
    pub fn layers(&self) -> impl DoubleEndedIterator<Item = &Layer> {
        self.0.layers.iter().rev()
    }

    /// The innermost message, without any place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The error as each place in a template sees it, the outermost first: the beginnings of the texts that
    /// `errors.Unwrap` walks through in Go, each once, up to and with the next place. The last is the message of a
    /// function, where one failed.
    pub(crate) fn links(&self) -> impl Iterator<Item = String> {
        let layers = &self.0.layers;
        let is_place = |layer: &Layer| matches!(layer, Layer::Place { .. } | Layer::File { .. });
        // A place and the call in it are one error.
        let begins = move |at: usize| at == layers.len() || !layers.get(at).is_some_and(is_place);
        (0..=layers.len()).rev().filter(move |at| begins(*at)).map(move |at| {
            let mut text = String::new();
            for (count, layer) in layers.iter().take(at).rev().enumerate() {
                let _ = write!(text, "{layer}");
                if count > 0 && is_place(layer) {
                    return text;
                }
            }
            text + &self.0.message
        })
    }
}

/// What a function answers when it fails.
#[derive(Debug)]
pub struct Failure(pub(crate) TemplateError);

impl Failure {
    /// A failure with Go's text.
    pub fn new(message: impl Into<String>) -> Self {
        Self(TemplateError::new(ErrorKind::Execute, message))
    }

    /// The limit that was exceeded, where that is the reason.
    pub(crate) fn exceeded(&self) -> Option<Exceeded> {
        match self.0.kind() {
            ErrorKind::Limit(exceeded) => Some(exceeded),
            _ => None,
        }
    }

    /// The words of a template's author.
    pub(crate) fn told(message: impl Into<String>) -> Self {
        Self(TemplateError::new(ErrorKind::Told, message))
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

impl From<live::Exceeded> for Failure {
    fn from(exceeded: live::Exceeded) -> Self {
        Exceeded::from(exceeded).into()
    }
}

impl From<Exceeded> for Failure {
    fn from(exceeded: Exceeded) -> Self {
        let kind =
            if exceeded == Exceeded::Cancelled { ErrorKind::Cancelled } else { ErrorKind::Limit(exceeded) };
        Self(TemplateError::new(kind, exceeded.to_string()))
    }
}
