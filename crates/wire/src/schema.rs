//! The description of the API: messages, services and methods, as the tables in `schema/` give them.
//!
//! A table is lines of four kinds:
//!
//! ```text
//! package <short name> <full name> proto2|proto3|kube
//! service <Name>
//! <Method>: [stream ]<Request> -> [stream ]<Answer>
//!     <VERB> <path template> [body=<field or *>]
//! message <Name>[ as <shape>]: <number> <name> <type>[?][ <flag>]*; …
//! ```
//!
//! `?` says that unset and zero are different things. Flags: `req` (proto2 `required`), `!` (in JSON even when zero;
//! `![]` and `!{}` even empty lists and maps instead of `null`), `inline` (its members are those of the message
//! around it in JSON), `json=<key>`, `oneof <name>`, `omitzero` (left out of JSON when nothing is in it), `secret`
//! (never in an answer).
//!
//! Styles: `proto2` and `proto3` are messages of services; `kube` are the objects of the product and of Kubernetes,
//! whose JSON shows nested messages always and whose binary form holds zeros (API-P8, API-P9).

mod service;
mod table;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use service::{Binding, Body, Method, MethodId, Segment, Service, Template};
pub use table::TableError;

/// The tables, in the order in which their services are registered (API-P19).
const TABLES: &[(&str, &str)] = &[
    ("version", include_str!("../schema/version.txt")),
    ("cluster", include_str!("../schema/cluster.txt")),
    ("application", include_str!("../schema/application.txt")),
    ("applicationset", include_str!("../schema/applicationset.txt")),
    ("notification", include_str!("../schema/notification.txt")),
    ("repository", include_str!("../schema/repository.txt")),
    ("repocreds", include_str!("../schema/repocreds.txt")),
    ("session", include_str!("../schema/session.txt")),
    ("settings", include_str!("../schema/settings.txt")),
    ("project", include_str!("../schema/project.txt")),
    ("account", include_str!("../schema/account.txt")),
    ("certificate", include_str!("../schema/certificate.txt")),
    ("gpgkey", include_str!("../schema/gpgkey.txt")),
    ("health", include_str!("../schema/health.txt")),
    ("reflection", include_str!("../schema/reflection.txt")),
    ("reflection_alpha", include_str!("../schema/reflection_alpha.txt")),
    ("events", include_str!("../schema/events.txt")),
    ("manifests", include_str!("../schema/manifests.txt")),
    ("oidc", include_str!("../schema/oidc.txt")),
    ("v1alpha1", include_str!("../schema/v1alpha1.txt")),
    ("kubernetes", include_str!("../schema/kubernetes.txt")),
];

/// The description of the API.
pub fn schema() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        #[expect(clippy::expect_used, reason = "the tables are compiled in, and a test reads them")]
        Schema::read(TABLES).expect("the tables of the API can be read")
    });
    &SCHEMA
}

/// Which rules a message follows (API-P8, API-P9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A message of a service, proto2.
    Proto2,
    /// A message of a service, proto3.
    Proto3,
    /// An object of the product or of Kubernetes, proto2 with Go's JSON.
    Kube,
}

/// Messages whose JSON is not an object of their fields (API-P5, API-P10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// An object of the fields.
    Plain,
    /// RFC 3339 with seconds; `null` is the zero time.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// Any JSON value.
    Json,
    /// A number or a text.
    IntOrString,
    /// The fields as YAML in one text, as settings have them.
    Yaml,
}

/// A place in [`Schema::messages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(usize);

impl MessageId {
    /// The first message of the tables.
    pub fn first() -> Self {
        Self(0)
    }
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Bool,
    /// 32 bits with a sign.
    Int32,
    /// 64 bits with a sign.
    Int64,
    /// Text.
    String,
    /// Bytes; base64 in JSON.
    Bytes,
    /// Another message.
    Message(MessageId),
}

/// How often a field's kind occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Once.
    One,
    /// A list.
    Many,
    /// Values by text.
    Map,
}

/// What an absent field means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The same as zero.
    Implicit,
    /// That nothing is said.
    Explicit,
    /// That the message is wrong.
    Required,
}

/// Whether JSON shows a field that is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emission {
    /// No; yes for nested messages of objects without presence.
    WhenSet,
    /// Yes; `null` for lists, maps and absent messages.
    Always,
    /// Yes; an empty list or map.
    AlwaysEmpty,
    /// No, not even nested messages.
    OmitZero,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its number in the binary form.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Its key in JSON.
    pub json: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// How often.
    pub arity: Arity,
    /// What its absence means.
    pub presence: Presence,
    /// Whether JSON shows its zero.
    pub emission: Emission,
    /// Whether its members are those of the message around it in JSON.
    pub is_inline: bool,
    /// Whether no answer may hold it.
    pub is_secret: bool,
    /// The group of which one member is set at most.
    pub oneof: Option<&'static str>,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its name without the package.
    pub name: &'static str,
    /// Its package, as a place in [`Schema::packages`].
    pub package: usize,
    /// Its rules.
    pub style: Style,
    /// Its JSON.
    pub shape: Shape,
    /// Its fields, by number.
    pub fields: Vec<Field>,
    /// JSON keys in lower case to members, those of inlined messages included.
    members: HashMap<String, Vec<Member>>,
}

/// A member of the JSON object of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The message that has the field: this one, or one inlined in it.
    pub message: MessageId,
    /// The place of the field in its message.
    pub field: usize,
    /// Its key.
    pub json: &'static str,
}

/// A package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Package {
    /// The name that tables use.
    pub short: &'static str,
    /// The name in protobuf.
    pub full: &'static str,
    /// The rules of its messages.
    pub style: Style,
}

/// The whole description.
#[derive(Debug)]
pub struct Schema {
    packages: Vec<Package>,
    messages: Vec<Message>,
    services: Vec<Service>,
    by_name: HashMap<String, MessageId>,
    by_path: HashMap<String, MethodId>,
}

impl Schema {
    /// Reads tables.
    ///
    /// # Errors
    /// With the line that cannot be read.
    pub fn read(tables: &[(&'static str, &'static str)]) -> Result<Self, TableError> {
        table::read(tables)
    }

    /// All packages.
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// All services, in the order in which their paths are tried.
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// The messages, with their ids.
    pub fn messages(&self) -> impl Iterator<Item = (MessageId, &Message)> {
        self.messages.iter().enumerate().map(|(at, message)| (MessageId(at), message))
    }

    /// A message.
    pub fn message(&self, id: MessageId) -> &Message {
        #[expect(
            clippy::indexing_slicing,
            reason = "ids are made by the reader of the tables, for this list"
        )]
        &self.messages[id.0]
    }

    /// A message by its full name, or by its short one: `v1.Application`.
    pub fn find(&self, name: &str) -> Option<MessageId> {
        self.by_name.get(name).copied()
    }

    /// The name of a message in protobuf.
    pub fn full_name(&self, id: MessageId) -> String {
        let message = self.message(id);
        let package = self.packages.get(message.package).map_or("", |package| package.full);
        format!("{package}.{}", message.name)
    }

    /// A method by the path of gRPC: `/session.SessionService/Create`.
    pub fn method_at(&self, path: &str) -> Option<MethodId> {
        self.by_path.get(path).copied()
    }

    /// A method.
    pub fn method(&self, id: MethodId) -> &Method {
        #[expect(
            clippy::indexing_slicing,
            reason = "ids are made by the reader of the tables, for this list"
        )]
        &self.services[id.service].methods[id.method]
    }

    /// The service of a method.
    pub fn service(&self, id: MethodId) -> &Service {
        #[expect(
            clippy::indexing_slicing,
            reason = "ids are made by the reader of the tables, for this list"
        )]
        &self.services[id.service]
    }

    /// All methods, in order.
    pub fn methods(&self) -> impl Iterator<Item = (MethodId, &Method)> {
        self.services.iter().enumerate().flat_map(|(service, it)| {
            it.methods.iter().enumerate().map(move |(method, it)| (MethodId { service, method }, it))
        })
    }

    /// The member of a message that a JSON key means: the one written so, else one written so in other case (API-P7).
    pub fn member(&self, id: MessageId, key: &str) -> Option<Member> {
        let candidates = self.message(id).members.get(&key.to_ascii_lowercase())?;
        candidates.iter().find(|member| member.json == key).or_else(|| candidates.first()).copied()
    }

    /// A field by place.
    pub fn field(&self, member: Member) -> &Field {
        #[expect(clippy::indexing_slicing, reason = "members are made by the reader of the tables")]
        &self.message(member.message).fields[member.field]
    }
}

impl Message {
    /// A field by number.
    pub fn by_number(&self, number: u32) -> Option<(usize, &Field)> {
        let at = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(at).map(|field| (at, field))
    }

    /// A field by name.
    pub fn by_name(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

#[cfg(test)]
mod tests;
