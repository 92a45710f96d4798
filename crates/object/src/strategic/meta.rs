//! Where in the type a patch stands, and how the members below are patched.

use super::{StrategicError, UnknownFields};
use crate::builtin::{Patch, Shape, StructType};

/// A place in a built-in type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    place: Place,
    unknown_fields: UnknownFields,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Struct(&'static StructType),
    Shape(Shape),
    /// Below a member the type does not have.
    Unknown,
}

impl Meta {
    pub(super) fn of_struct(schema: &'static StructType, unknown_fields: UnknownFields) -> Self {
        Self { place: Place::Struct(schema), unknown_fields }
    }

    /// Whether to do what the original does even where that is an error or leaves directives behind.
    pub(super) fn is_strict(self) -> bool {
        self.unknown_fields == UnknownFields::Fail
    }

    fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// Metadata of an object member.
    pub(super) fn object(self, name: &str) -> Result<(Self, Patch), StrategicError> {
        self.field(name).map(|(shape, patch)| (self.at(shape), patch))
    }

    /// Metadata of a list member; the place is that of its items.
    pub(super) fn list(self, name: &str) -> Result<(Self, Patch), StrategicError> {
        let (place, patch) = self.field(name)?;
        let Place::Shape(shape) = place else { return Ok((self.at(place), patch)) };
        let inner = match shape {
            Shape::List(_) | Shape::Pointer(_) => shape.element(),
            Shape::Bytes => Some(shape),
            _ => None,
        };
        match (inner, self.unknown_fields) {
            (Some(inner), _) => Ok((self.at(Place::Shape(inner)), patch)),
            (None, UnknownFields::Merge) => Ok((self.at(Place::Unknown), Patch::default())),
            (None, UnknownFields::Fail) => Err(self.unknown(name)),
        }
    }

    fn field(self, name: &str) -> Result<(Place, Patch), StrategicError> {
        let schema = match self.place {
            Place::Struct(schema) => Some(schema),
            Place::Shape(shape) => shape.struct_type(),
            Place::Unknown => None,
        };
        match (schema.and_then(|schema| schema.field(name)), self.unknown_fields) {
            (Some(field), _) => Ok((Place::Shape(field.shape), field.patch)),
            (None, UnknownFields::Merge) => Ok((Place::Unknown, Patch::default())),
            (None, UnknownFields::Fail) => Err(self.unknown(name)),
        }
    }

    fn unknown(self, name: &str) -> StrategicError {
        let type_name = match self.place {
            Place::Struct(schema) => schema.name(),
            Place::Shape(shape) => shape.struct_type().map_or("", StructType::name),
            Place::Unknown => "",
        };
        StrategicError::UnknownField { type_name, field: name.to_owned() }
    }
}
