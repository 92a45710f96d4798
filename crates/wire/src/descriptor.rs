//! The description in protobuf's own form: one file per package, for server reflection and for other implementations
//! of protobuf (API-P12).

use std::collections::BTreeSet;

use crate::proto::writer::{bytes, nested, number};
use crate::schema::{Arity, Field, Kind, Message, MessageId, Method, Package, Presence, Schema, Style};

/// A file of descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Files that it needs.
    pub dependencies: Vec<String>,
    /// What it defines, by full name: messages, services and methods.
    pub symbols: Vec<String>,
    /// The encoded `FileDescriptorProto`.
    pub bytes: Vec<u8>,
}

/// The name of a package's file.
fn file_name(package: &Package) -> String {
    // The one file that every implementation has itself.
    if package.full == "google.protobuf" {
        "google/protobuf/empty.proto".to_owned()
    } else {
        format!("tiphys/{}.proto", package.short)
    }
}

/// All files, in the order of the packages.
pub fn files(schema: &Schema) -> Vec<File> {
    schema.packages().iter().enumerate().map(|(at, package)| file(schema, at, package)).collect()
}

/// All files as an encoded `FileDescriptorSet`, each after those that it needs.
pub fn file_set(schema: &Schema) -> Vec<u8> {
    let mut left = files(schema);
    let mut done = BTreeSet::new();
    let mut out = Vec::new();
    // Packages do not need each other in a circle (a test says so); each turn writes at least one.
    for _ in 0..left.len() {
        let is_next = |file: &File| file.dependencies.iter().all(|needed| done.contains(needed));
        let (next, later): (Vec<File>, Vec<File>) = left.into_iter().partition(is_next);
        for file in next {
            bytes(&mut out, 1, &file.bytes);
            done.insert(file.name);
        }
        left = later;
    }
    out
}

fn file(schema: &Schema, at: usize, package: &Package) -> File {
    let own = || schema.messages().filter(move |(_, message)| message.package == at);
    let services = || schema.services().iter().filter(move |service| service.package == at);
    let mut needed = BTreeSet::new();
    for (_, message) in own() {
        for field in &message.fields {
            if let Kind::Message(id) = field.kind {
                needed.insert(schema.message(id).package);
            }
        }
    }
    for method in services().flat_map(|service| &service.methods) {
        needed.extend([method.request, method.response].map(|id| schema.message(id).package));
    }
    needed.remove(&at);
    let dependencies: Vec<String> =
        needed.into_iter().filter_map(|other| schema.packages().get(other)).map(file_name).collect();
    let mut symbols = Vec::new();
    let mut out = Vec::new();
    bytes(&mut out, 1, file_name(package).as_bytes());
    bytes(&mut out, 2, package.full.as_bytes());
    for dependency in &dependencies {
        bytes(&mut out, 3, dependency.as_bytes());
    }
    for (id, message) in own() {
        symbols.push(schema.full_name(id));
        part(&mut out, 4, |out| message_type(schema, id, message, out));
    }
    for service in services() {
        symbols.push(service.full.clone());
        part(&mut out, 6, |out| {
            bytes(out, 1, service.name.as_bytes());
            for method in &service.methods {
                symbols.push(format!("{}.{}", service.full, method.name));
                part(out, 2, |out| method_type(schema, method, out));
            }
        });
    }
    if package.style == Style::Proto3 {
        bytes(&mut out, 12, b"proto3");
    } else {
        bytes(&mut out, 12, b"proto2");
    }
    File { name: file_name(package), dependencies, symbols, bytes: out }
}

/// A nested message whose writing cannot fail.
fn part(out: &mut Vec<u8>, field: u32, write: impl FnOnce(&mut Vec<u8>)) {
    let written = nested(out, field, |out| {
        write(out);
        Ok::<(), std::convert::Infallible>(())
    });
    match written {
        Ok(()) => {}
    }
}

fn method_type(schema: &Schema, method: &Method, out: &mut Vec<u8>) {
    bytes(out, 1, method.name.as_bytes());
    bytes(out, 2, format!(".{}", schema.full_name(method.request)).as_bytes());
    bytes(out, 3, format!(".{}", schema.full_name(method.response)).as_bytes());
    if method.client_streams {
        number(out, 5, 1);
    }
    if method.server_streams {
        number(out, 6, 1);
    }
}

fn message_type(schema: &Schema, id: MessageId, message: &Message, out: &mut Vec<u8>) {
    bytes(out, 1, message.name.as_bytes());
    let mut groups: Vec<&str> = Vec::new();
    for field in &message.fields {
        if let Some(group) = field.oneof
            && !groups.contains(&group)
        {
            groups.push(group);
        }
    }
    for field in &message.fields {
        let group = field.oneof.and_then(|name| groups.iter().position(|group| *group == name));
        part(out, 2, |out| field_type(schema, id, field, group, out));
    }
    for field in message.fields.iter().filter(|field| field.arity == Arity::Map) {
        part(out, 3, |out| {
            bytes(out, 1, entry_name(field).as_bytes());
            part(out, 2, |out| {
                bytes(out, 1, b"key");
                number(out, 3, 1);
                number(out, 4, 1);
                number(out, 5, 9);
            });
            part(out, 2, |out| {
                bytes(out, 1, b"value");
                number(out, 3, 2);
                number(out, 4, 1);
                kind(schema, field.kind, out);
            });
            part(out, 7, |out| number(out, 7, 1));
        });
    }
    for group in groups {
        part(out, 8, |out| bytes(out, 1, group.as_bytes()));
    }
}

fn field_type(schema: &Schema, id: MessageId, field: &Field, group: Option<usize>, out: &mut Vec<u8>) {
    bytes(out, 1, field.name.as_bytes());
    number(out, 3, u64::from(field.number));
    let label = match (field.arity, field.presence) {
        (Arity::Many | Arity::Map, _) => 3,
        (Arity::One, Presence::Required) => 2,
        (Arity::One, Presence::Implicit | Presence::Explicit) => 1,
    };
    number(out, 4, label);
    if field.arity == Arity::Map {
        number(out, 5, 11);
        bytes(out, 6, format!(".{}.{}", schema.full_name(id), entry_name(field)).as_bytes());
    } else {
        kind(schema, field.kind, out);
    }
    if let Some(group) = group.and_then(|group| u64::try_from(group).ok()) {
        number(out, 9, group);
    }
}

fn kind(schema: &Schema, kind: Kind, out: &mut Vec<u8>) {
    let word = match kind {
        Kind::Int64 => 3,
        Kind::Int32 => 5,
        Kind::Bool => 8,
        Kind::String => 9,
        Kind::Message(_) => 11,
        Kind::Bytes => 12,
    };
    number(out, 5, word);
    if let Kind::Message(id) = kind {
        bytes(out, 6, format!(".{}", schema.full_name(id)).as_bytes());
    }
}

/// The name that protobuf gives the entries of a map.
fn entry_name(field: &Field) -> String {
    let mut name = String::new();
    let mut is_first = true;
    for letter in field.name.chars() {
        if letter == '_' {
            is_first = true;
            continue;
        }
        name.push(if is_first { letter.to_ascii_uppercase() } else { letter });
        is_first = false;
    }
    name + "Entry"
}
