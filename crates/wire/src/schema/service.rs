//! Services, their methods, and where REST has them.

use super::MessageId;

/// A service.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its name without the package.
    pub name: &'static str,
    /// Its package, as a place in the schema's.
    pub package: usize,
    /// Its name in paths of gRPC: `session.SessionService`.
    pub full: String,
    /// Its methods.
    pub methods: Vec<Method>,
}

/// A place in the list of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodId {
    pub(super) service: usize,
    pub(super) method: usize,
}

/// A method.
#[derive(Clone, Debug)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// Its path in gRPC: `/session.SessionService/Create`.
    pub path: String,
    /// What it takes.
    pub request: MessageId,
    /// What it answers.
    pub response: MessageId,
    /// Whether it takes several messages.
    pub client_streams: bool,
    /// Whether it answers with several.
    pub server_streams: bool,
    /// Where REST has it.
    pub bindings: Vec<Binding>,
}

/// A place in REST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The HTTP method.
    pub verb: &'static str,
    /// The path.
    pub template: Template,
    /// What the body is.
    pub body: Body,
}

/// What the body of a request is (API-P20).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing; one that is sent is not read.
    None,
    /// The whole message.
    All,
    /// One field.
    Field(&'static str),
}

/// A path with places for fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// As it is written in the table.
    pub text: &'static str,
    /// Its parts.
    pub segments: Vec<Segment>,
}

/// A part of a path template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A fixed text.
    Literal(&'static str),
    /// One part of the path is the value of a field.
    Field(&'static str),
    /// The rest of the path is the value of a field.
    Rest(&'static str),
}

impl Template {
    /// Reads `/a/{b.c}/{d=**}`; `None` when it is no template.
    pub(super) fn read(text: &'static str) -> Option<Self> {
        let mut segments = Vec::new();
        for part in text.strip_prefix('/')?.split('/') {
            if matches!(segments.last(), Some(Segment::Rest(_))) {
                return None;
            }
            let inner = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            segments.push(match inner {
                None if part.is_empty() || part.contains(['{', '}']) => return None,
                None => Segment::Literal(part),
                Some(field) => match field.strip_suffix("=**") {
                    Some(field) => Segment::Rest(field),
                    None => Segment::Field(field),
                },
            });
        }
        Some(Self { text, segments })
    }

    /// The fields that the path gives, as dotted paths.
    pub fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Literal(_) => None,
            Segment::Field(field) | Segment::Rest(field) => Some(*field),
        })
    }
}
