//! What goes wrong inside of a build, before it becomes a [`KustomizeError`].
//!
//! kustomize tries things: a `resources` entry as a file, then as a directory; a patch as a merge, then as a list of
//! operations. A fault of the input is text that such an attempt may swallow. A reason to end the build at once
//! ([`Fault::Stop`]) is never swallowed.

use crate::KustomizeError;
use crate::graph::Kind;

/// The result of a step of a build.
pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Why a step of a build failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The input is wrong.
    Input {
        /// What is wrong, as kustomize says it.
        text: String,
        /// What the code around makes a difference by.
        class: Class,
    },
    /// The build ends, whatever was being tried.
    Stop(Box<KustomizeError>),
}

/// What is wrong, as far as the code around makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Nothing special.
    Plain,
    /// A file is not YAML.
    MalformedYaml,
    /// A server answered with an error.
    Http,
    /// A node is of this kind, and another was needed.
    WrongKind(Kind),
}

impl Fault {
    /// A fault of the input.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::of(Class::Plain, text)
    }

    /// A fault of the input of some class.
    pub(crate) fn of(class: Class, text: impl Into<String>) -> Self {
        Self::Input { text: text.into(), class }
    }

    /// A bound is reached.
    pub(crate) fn exhausted(what: String) -> Self {
        Self::stop(KustomizeError::Exhausted { what })
    }

    /// Something is nested deeper than anything may be.
    pub(crate) fn too_deep() -> Self {
        Self::exhausted(format!("nesting of more than {} levels", tiphys_go::nesting::DEPTH_MAX))
    }

    /// The caller's time is up.
    pub(crate) fn cancelled() -> Self {
        Self::stop(KustomizeError::Cancelled)
    }

    /// Something that only the program can do (RND-161).
    pub(crate) fn unsupported(feature: impl Into<String>) -> Self {
        Self::stop(KustomizeError::Unsupported { feature: feature.into() })
    }

    /// The build ends.
    pub(crate) fn stop(error: KustomizeError) -> Self {
        Self::Stop(Box::new(error))
    }

    /// The class; that of a stop is [`Class::Plain`].
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Input { class, .. } => *class,
            Self::Stop(_) => Class::Plain,
        }
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Input { text, .. } => text.clone(),
            Self::Stop(error) => error.to_string(),
        }
    }

    /// The same with words before it.
    #[must_use]
    pub(crate) fn before(self, words: impl AsRef<str>) -> Self {
        match self {
            Self::Input { text, class } => Self::Input { text: format!("{}: {text}", words.as_ref()), class },
            stop @ Self::Stop(_) => stop,
        }
    }

    /// The same with another text.
    #[must_use]
    pub(crate) fn replace(self, text: impl FnOnce(&str) -> String) -> Self {
        match self {
            Self::Input { text: old, class } => Self::Input { text: text(&old), class },
            stop @ Self::Stop(_) => stop,
        }
    }
}

/// Words before the text of a fault.
pub(crate) trait Before<T> {
    /// Puts words before the text of a fault.
    fn before(self, words: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Before<T> for Result<T> {
    fn before(self, words: impl FnOnce() -> String) -> Self {
        self.map_err(|fault| fault.before(words()))
    }
}

/// A fault of the input, or the value; a stop goes on.
pub(crate) fn attempt<T>(outcome: Result<T>) -> Result<std::result::Result<T, Fault>> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(fault @ Fault::Input { .. }) => Ok(Err(fault)),
        Err(stop @ Fault::Stop(_)) => Err(stop),
    }
}

/// A text in the quotes of Go's `%q`.
pub(crate) fn quoted(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            // Writing to a text cannot fail.
            control if u32::from(control) < 0x20 || u32::from(control) == 0x7f => {
                let _infallible = write!(out, "\\x{:02x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
