//! Fields of maps and objects, and their methods.

use super::machine::Machine;
use crate::template::error::Failure;
use crate::template::functions::{Function, Operand};
use crate::template::quote::quote;
use crate::template::templates::MissingKey;
use crate::template::value::{Kind, Text, Value};

impl Machine<'_, '_> {
    /// What `.name` is, without arguments.
    pub(super) fn field(&mut self, receiver: &Operand, name: &Text) -> Result<Operand, Failure> {
        // Nearly all fields are members of plain maps.
        if let Value::Map(map) = &receiver.value
            && map.map_type().methods.is_empty()
        {
            if let Some(value) = map.get(name.as_bytes()) {
                return Ok(Operand::held(value, map.map_type().member.is_interface()));
            }
            return self.missing(map.map_type().member, name);
        }
        if receiver.is_nothing() {
            if self.templates.missing_key == MissingKey::Error {
                return Err(Failure::new(format!("nil data; no entry for key {}", quote(name.as_bytes()))));
            }
            return Ok(Operand::NOTHING);
        }
        if let Some(function) = Self::method(receiver, name)? {
            return self.call_plain(function, &receiver.value);
        }
        match &receiver.value {
            Value::Map(map) => match map.get(name.as_bytes()) {
                Some(value) => Ok(Operand::held(value, map.map_type().member.is_interface())),
                None => self.missing(map.map_type().member, name),
            },
            Value::Object(object) => {
                let field = name.as_str().and_then(|name| object.field(name));
                let value = field.ok_or_else(|| no_field(receiver, name))?;
                let addressed = receiver.addressed || object.kind() == Kind::Pointer;
                Ok(Operand { addressed, ..Operand::plain(value) })
            }
            _ => Err(no_field(receiver, name)),
        }
    }

    fn missing(&self, member: crate::template::value::Element, name: &Text) -> Result<Operand, Failure> {
        match self.templates.missing_key {
            MissingKey::Nothing => Ok(Operand::NOTHING),
            MissingKey::Zero => Ok(Operand::held(member.zero(), member.is_interface())),
            MissingKey::Error => {
                Err(Failure::new(format!("map has no entry for key {}", quote(name.as_bytes()))))
            }
        }
    }

    /// The method of a name. Nothing in a box has none, and cannot be asked.
    pub(super) fn method(receiver: &Operand, name: &Text) -> Result<Option<&'static Function>, Failure> {
        if receiver.boxed && receiver.value.is_nil() {
            return Err(Failure::new(format!("nil pointer evaluating interface {{}}.{name}")));
        }
        let methods = receiver.value.methods();
        Ok(methods.iter().find(|method| method.name.as_bytes() == name.as_bytes()))
    }

    /// Why something with arguments is no call.
    pub(super) fn no_method(receiver: &Operand, name: &Text) -> Failure {
        if receiver.is_nothing() {
            return Failure::new(format!("nil data; no entry for key {}", quote(name.as_bytes())));
        }
        match &receiver.value {
            Value::Map(_) => Failure::new(format!("{name} is not a method but has arguments")),
            Value::Object(object) if name.as_str().and_then(|name| object.field(name)).is_some() => {
                Failure::new(format!("{name} has arguments but cannot be invoked as function"))
            }
            _ => no_field(receiver, name),
        }
    }
}

fn no_field(receiver: &Operand, name: &Text) -> Failure {
    Failure::new(format!("can't evaluate field {name} in type {}", receiver.type_name()))
}
