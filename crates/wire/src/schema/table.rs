//! Reads the tables.

use std::collections::HashMap;

use super::{
    Arity, Binding, Body, Emission, Field, Kind, Member, Message, MessageId, Method, Package, Presence,
    Schema, Service, Shape, Style, Template,
};

/// A line of a table that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("table {table} line {line}: {what}")]
pub struct TableError {
    /// The table.
    pub table: &'static str,
    /// The line, counted from one.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// The verbs of REST.
const VERBS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// Messages that are inlined in each other; the tables have two.
const INLINE_DEPTH_MAX: usize = 4;

/// A field whose type is still a name.
struct Draft {
    field: Field,
    r#type: &'static str,
}

/// A method whose messages are still names.
struct MethodDraft {
    method: Method,
    request: &'static str,
    response: &'static str,
}

#[derive(Default)]
struct Reader {
    packages: Vec<Package>,
    messages: Vec<Message>,
    drafts: Vec<(Place, Vec<Draft>)>,
    services: Vec<(Service, Vec<(Place, MethodDraft)>)>,
    by_name: HashMap<String, MessageId>,
}

/// Where something stands.
#[derive(Clone, Copy)]
struct Place {
    table: &'static str,
    line: usize,
    package: usize,
}

impl Place {
    fn wrong<T>(self, what: impl Into<String>) -> Result<T, TableError> {
        Err(TableError { table: self.table, line: self.line, what: what.into() })
    }
}

pub(super) fn read(tables: &[(&'static str, &'static str)]) -> Result<Schema, TableError> {
    let mut reader = Reader::default();
    for &(table, text) in tables {
        let mut place = Place { table, line: 0, package: usize::MAX };
        for (at, line) in text.lines().enumerate() {
            place.line = at + 1;
            reader.line(&mut place, line)?;
        }
    }
    reader.finish()
}

impl Reader {
    fn line(&mut self, place: &mut Place, line: &'static str) -> Result<(), TableError> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("package ") {
            place.package = self.package(*place, rest)?;
            return Ok(());
        }
        let Some(package) = self.packages.get(place.package).copied() else {
            return place.wrong("no package was named");
        };
        if let Some(rest) = line.strip_prefix("message ") {
            return self.message(*place, package, rest);
        }
        if let Some(name) = line.strip_prefix("service ") {
            let full = format!("{}.{name}", package.full);
            let service = Service { name, package: place.package, full, methods: Vec::new() };
            self.services.push((service, Vec::new()));
            return Ok(());
        }
        let Some((service, methods)) = self.services.last_mut() else {
            return place.wrong("neither package, message nor service");
        };
        match line.strip_prefix("    ") {
            Some(rest) => match (methods.last_mut(), binding(rest)) {
                (Some((_, draft)), Some(binding)) => draft.method.bindings.push(binding),
                _ => return place.wrong(format!("no place in REST: {rest:?}")),
            },
            None => match method(service, line) {
                Some(draft) => methods.push((*place, draft)),
                None => return place.wrong(format!("no method: {line:?}")),
            },
        }
        Ok(())
    }

    fn package(&mut self, place: Place, text: &'static str) -> Result<usize, TableError> {
        let words: Vec<&'static str> = text.split(' ').collect();
        let &[short, full, style] = words.as_slice() else {
            return place.wrong("a package has a short name, a full name and a style");
        };
        let style = match style {
            "proto2" => Style::Proto2,
            "proto3" => Style::Proto3,
            "kube" => Style::Kube,
            other => return place.wrong(format!("no style: {other:?}")),
        };
        let package = Package { short, full, style };
        // Two tables may be one package: services, and what they share.
        if let Some(at) = self.packages.iter().position(|other| *other == package) {
            return Ok(at);
        }
        self.packages.push(package);
        Ok(self.packages.len() - 1)
    }

    fn message(&mut self, place: Place, package: Package, text: &'static str) -> Result<(), TableError> {
        let Some((head, fields)) = text.split_once(':') else { return place.wrong("a message has a colon") };
        let (name, shape) = match head.split_once(" as ") {
            None => (head, Shape::Plain),
            Some((name, "time")) => (name, Shape::Time),
            Some((name, "microtime")) => (name, Shape::MicroTime),
            Some((name, "json")) => (name, Shape::Json),
            Some((name, "int-or-string")) => (name, Shape::IntOrString),
            Some((name, "yaml")) => (name, Shape::Yaml),
            Some((_, other)) => return place.wrong(format!("no shape: {other:?}")),
        };
        let mut drafts = Vec::new();
        for text in fields.split(';').map(str::trim).filter(|text| !text.is_empty()) {
            match draft(text) {
                Ok(draft) => drafts.push(draft),
                Err(what) => return place.wrong(format!("field {text:?}: {what}")),
            }
        }
        if !drafts.is_sorted_by(|a, b| a.field.number < b.field.number) {
            return place.wrong("fields are listed by number");
        }
        let id = MessageId(self.messages.len());
        for known in [format!("{}.{name}", package.short), format!("{}.{name}", package.full)] {
            if self.by_name.insert(known, id).is_some_and(|other| other != id) {
                return place.wrong("the message is there twice");
            }
        }
        self.messages.push(Message {
            name,
            package: place.package,
            style: package.style,
            shape,
            fields: Vec::new(),
            members: HashMap::new(),
        });
        self.drafts.push((place, drafts));
        Ok(())
    }

    fn resolve(&self, place: Place, name: &str) -> Option<MessageId> {
        if name.contains('.') {
            return self.by_name.get(name).copied();
        }
        let package = self.packages.get(place.package)?;
        self.by_name.get(&format!("{}.{name}", package.short)).copied()
    }

    fn finish(mut self) -> Result<Schema, TableError> {
        let drafts = std::mem::take(&mut self.drafts);
        for (at, (place, drafts)) in drafts.into_iter().enumerate() {
            let mut fields = Vec::new();
            for Draft { mut field, r#type } in drafts {
                field.kind = match (scalar(r#type), self.resolve(place, r#type)) {
                    (Some(kind), _) => kind,
                    (None, Some(id)) => Kind::Message(id),
                    (None, None) => return place.wrong(format!("field {}: no type {}", field.name, r#type)),
                };
                fields.push(field);
            }
            if let Some(message) = self.messages.get_mut(at) {
                message.fields = fields;
            }
        }
        let services = self.methods()?;
        let mut schema = Schema {
            packages: self.packages,
            messages: self.messages,
            services,
            by_name: self.by_name,
            by_path: HashMap::new(),
        };
        schema.by_path = schema.methods().map(|(id, method)| (method.path.clone(), id)).collect();
        let members: Vec<_> =
            (0..schema.messages.len()).map(|at| members(&schema, MessageId(at), 0)).collect();
        for (message, members) in schema.messages.iter_mut().zip(members) {
            for member in members {
                message.members.entry(member.json.to_ascii_lowercase()).or_default().push(member);
            }
        }
        Ok(schema)
    }

    fn methods(&mut self) -> Result<Vec<Service>, TableError> {
        let mut services = Vec::new();
        for (mut service, drafts) in std::mem::take(&mut self.services) {
            for (place, draft) in drafts {
                let (Some(request), Some(response)) =
                    (self.resolve(place, draft.request), self.resolve(place, draft.response))
                else {
                    return place.wrong(format!("no message {:?} or {:?}", draft.request, draft.response));
                };
                service.methods.push(Method { request, response, ..draft.method });
            }
            services.push(service);
        }
        Ok(services)
    }
}

/// The members of a message's JSON, those of inlined messages included.
fn members(schema: &Schema, id: MessageId, depth: usize) -> Vec<Member> {
    let mut found = Vec::new();
    for (at, field) in schema.message(id).fields.iter().enumerate() {
        match field.kind {
            Kind::Message(inner) if field.is_inline && depth < INLINE_DEPTH_MAX => {
                found.extend(members(schema, inner, depth + 1));
            }
            _ => found.push(Member { message: id, field: at, json: field.json }),
        }
    }
    found
}

fn method(service: &Service, line: &'static str) -> Option<MethodDraft> {
    let (name, rest) = line.split_once(": ")?;
    let (request, response) = rest.split_once(" -> ")?;
    let streamed = |text: &'static str| match text.strip_prefix("stream ") {
        Some(inner) => (inner, true),
        None => (text, false),
    };
    let ((request, client_streams), (response, server_streams)) = (streamed(request), streamed(response));
    let method = Method {
        name,
        path: format!("/{}/{name}", service.full),
        request: MessageId(0),
        response: MessageId(0),
        client_streams,
        server_streams,
        bindings: Vec::new(),
    };
    Some(MethodDraft { method, request, response })
}

fn binding(text: &'static str) -> Option<Binding> {
    let mut words = text.split(' ');
    let (verb, template, body) = (words.next()?, words.next()?, words.next());
    if words.next().is_some() || !VERBS.contains(&verb) {
        return None;
    }
    let body = match body.map(|body| body.strip_prefix("body=")) {
        None => Body::None,
        Some(Some("*")) => Body::All,
        Some(Some(field)) => Body::Field(field),
        Some(None) => return None,
    };
    Some(Binding { verb, template: Template::read(template)?, body })
}

fn scalar(text: &str) -> Option<Kind> {
    Some(match text {
        "bool" => Kind::Bool,
        "int32" => Kind::Int32,
        "int64" => Kind::Int64,
        "string" => Kind::String,
        "bytes" => Kind::Bytes,
        _ => return None,
    })
}

fn draft(text: &'static str) -> Result<Draft, String> {
    let mut words = text.split(' ');
    let (Some(number), Some(name), Some(r#type)) = (words.next(), words.next(), words.next()) else {
        return Err("it has a number, a name and a type".to_owned());
    };
    let number: u32 = number.parse().map_err(|error| format!("number {number:?}: {error}"))?;
    let (r#type, is_optional) = match r#type.strip_suffix('?') {
        Some(inner) => (inner, true),
        None => (r#type, false),
    };
    let (r#type, arity) = if let Some(inner) = r#type.strip_prefix("[]") {
        (inner, Arity::Many)
    } else if let Some(inner) = r#type.strip_prefix("map<string,").and_then(|it| it.strip_suffix('>')) {
        (inner, Arity::Map)
    } else {
        (r#type, Arity::One)
    };
    let mut field = Field {
        number,
        name,
        json: name,
        kind: Kind::Bool,
        arity,
        presence: if is_optional { Presence::Explicit } else { Presence::Implicit },
        emission: Emission::WhenSet,
        is_inline: false,
        is_secret: false,
        oneof: None,
    };
    while let Some(flag) = words.next() {
        match flag {
            "req" => field.presence = Presence::Required,
            "!" => field.emission = Emission::Always,
            "![]" | "!{}" => field.emission = Emission::AlwaysEmpty,
            "omitzero" => field.emission = Emission::OmitZero,
            "inline" => field.is_inline = true,
            "secret" => field.is_secret = true,
            "oneof" => {
                field.oneof = words.next();
                field.presence = Presence::Explicit;
            }
            _ => match flag.strip_prefix("json=") {
                Some(key) => field.json = key,
                None => return Err(format!("no flag: {flag:?}")),
            },
        }
    }
    Ok(Draft { field, r#type })
}
