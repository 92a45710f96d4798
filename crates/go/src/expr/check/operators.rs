//! What operators and members give.

use super::{Checked, error};
use crate::expr::ast::{Binary, Kind, Node};
use crate::expr::error::{Misplaced, Place};
use crate::expr::methods;
use crate::expr::nature::{Function, Kind as TypeKind, Nature, Type};
use crate::regexp::Regexp;

/// What an operator gives for what is known of its operands.
pub(super) fn binary_of(operator: Binary, l: &Nature, r: &Nature, right: &Node, place: Place) -> Checked {
    let known = match operator {
        Binary::Equal | Binary::NotEqual => l.is_comparable_to(r).then(|| Type::Bool.into()),
        Binary::Or { .. } | Binary::And { .. } => {
            suits(l, r, |one| one.is(Type::Bool)).then(|| Type::Bool.into())
        }
        Binary::Less | Binary::More | Binary::LessOrEqual | Binary::MoreOrEqual => {
            let ordered = |one: &Nature| {
                one.is_number() || one.is(Type::Text) || one.is(Type::Time) || one.is(Type::Duration)
            };
            let same = l.is_number() && r.is_number() || l.ty == r.ty && ordered(l);
            (same || l.may_suit(r, ordered)).then(|| Type::Bool.into())
        }
        Binary::Add => add(l, r),
        Binary::Subtract => subtract(l, r),
        Binary::Multiply => multiply(l, r),
        Binary::Divide | Binary::Exponent => suits(l, r, Nature::is_number).then(|| Type::Float.into()),
        Binary::Modulo => suits(l, r, Nature::is_integer).then(|| Type::Int.into()),
        Binary::Range => suits(l, r, Nature::is_integer).then(|| Nature::from(Type::Int).list_of()),
        Binary::In => return is_in(l, r, place),
        Binary::Matches => {
            if let Kind::Text(pattern) = &right.kind {
                Regexp::new(&pattern.to_str()).map_err(|error| Misplaced::new(place, error))?;
            }
            let matched = (l.is(Type::Text) || l.is(Type::Bytes)) && r.is(Type::Text);
            (matched || l.may_suit(r, |one| one.is(Type::Text))).then(|| Type::Bool.into())
        }
        Binary::Contains | Binary::StartsWith | Binary::EndsWith => {
            suits(l, r, |one| one.is(Type::Text)).then(|| Type::Bool.into())
        }
        Binary::Coalesce => Some(match (l.nil, r.nil) {
            (true, true) => Nature::nil(),
            (true, false) => r.clone(),
            (false, true) => l.clone(),
            (false, false) if r.is_assignable_to(l.ty) => l.clone(),
            (false, false) => Nature::default(),
        }),
    };
    known.ok_or_else(|| mismatched(operator, l, r, place))
}

fn is_in(l: &Nature, r: &Nature, place: Place) -> Checked {
    let is_struct = matches!(r.kind(), TypeKind::Struct | TypeKind::Pointer);
    if is_struct && (l.is(Type::Text) || l.is_unknown()) {
        return Ok(Type::Bool.into());
    }
    if r.kind() == TypeKind::Map {
        let key = if r.is(Type::TextMap) { Type::Text } else { Type::Any };
        if !l.is_unknown() && !l.is_assignable_to(Some(key)) {
            let text = format!("cannot use {} as type {} in map key", l.shown(), key.name());
            return Err(Misplaced::new(place, text));
        }
        return Ok(Type::Bool.into());
    }
    if r.is_list() {
        let item = r.item();
        if !l.is_comparable_to(&item) {
            let text = format!("cannot use {} as type {} in array", l.shown(), item.shown());
            return Err(Misplaced::new(place, text));
        }
        return Ok(Type::Bool.into());
    }
    if l.is_unknown() && r.is(Type::Text) || r.is_unknown() {
        return Ok(Type::Bool.into());
    }
    Err(mismatched(Binary::In, l, r, place))
}

/// What is known of a member of something.
pub(super) fn member_of(base: &Nature, known: &Nature, property: &Node, place: Place) -> Checked {
    if base.is_unknown() {
        return Ok(Nature::default());
    }
    let name = match &property.kind {
        Kind::Text(name) => Some(name.to_string()),
        _ => None,
    };
    if let Some(name) = &name {
        if base.nil {
            return Err(Misplaced::new(place, format_args!("type nil has no field {name}")));
        }
        if let Some(method) = methods::of_type(base.ty, name) {
            return Ok(Type::Function(Function::Method(method)).into());
        }
    }
    match base.kind() {
        TypeKind::Map => {
            let key = if base.is(Type::TextMap) { Type::Text } else { Type::Any };
            if !known.is_assignable_to(Some(key)) && !known.is_unknown() {
                let text = format!("cannot use {} to get an element from {}", known.shown(), base.shown());
                return error(property, text);
            }
            Ok(base.item())
        }
        TypeKind::Slice => {
            if !known.is_integer() && !known.is_unknown() {
                let text =
                    format!("array elements can only be selected using an integer (got {})", known.shown());
                return error(property, text);
            }
            Ok(base.item())
        }
        _ => Err(Misplaced::new(
            place,
            match name {
                Some(name) => format!("type {} has no field {name}", base.shown()),
                None => format!("type {}[{}] is undefined", base.shown(), known.shown()),
            },
        )),
    }
}

/// Whether both are of a type, or one is and the other not known.
fn suits(l: &Nature, r: &Nature, is_one: impl Fn(&Nature) -> bool) -> bool {
    is_one(l) && is_one(r) || l.may_suit(r, is_one)
}

fn mismatched(operator: Binary, l: &Nature, r: &Nature, place: Place) -> Misplaced {
    let text = format!(
        "invalid operation: {} (mismatched types {} and {})",
        operator.as_str(),
        l.shown(),
        r.shown()
    );
    Misplaced::new(place, text)
}

/// The type of what two numbers give.
fn promoted(l: &Nature, r: &Nature) -> Nature {
    if l.is(Type::Float) || r.is(Type::Float) { Type::Float.into() } else { Type::Int.into() }
}

fn add(l: &Nature, r: &Nature) -> Option<Nature> {
    if l.is_number() && r.is_number() {
        return Some(promoted(l, r));
    }
    match (l.ty, r.ty) {
        (Some(Type::Text), Some(Type::Text)) => return Some(Type::Text.into()),
        (Some(Type::Time), Some(Type::Duration)) | (Some(Type::Duration), Some(Type::Time)) => {
            return Some(Type::Time.into());
        }
        (Some(Type::Duration), Some(Type::Duration)) => return Some(Type::Duration.into()),
        _ => {}
    }
    let added =
        |one: &Nature| one.is_number() || one.is(Type::Text) || one.is(Type::Time) || one.is(Type::Duration);
    l.may_suit(r, added).then(Nature::default)
}

fn subtract(l: &Nature, r: &Nature) -> Option<Nature> {
    if l.is_number() && r.is_number() {
        return Some(promoted(l, r));
    }
    match (l.ty, r.ty) {
        (Some(Type::Time), Some(Type::Time)) | (Some(Type::Duration), Some(Type::Duration)) => {
            return Some(Type::Duration.into());
        }
        (Some(Type::Time), Some(Type::Duration)) => return Some(Type::Time.into()),
        _ => {}
    }
    let subtracted = |one: &Nature| one.is_number() || one.is(Type::Time) || one.is(Type::Duration);
    l.may_suit(r, subtracted).then(Nature::default)
}

fn multiply(l: &Nature, r: &Nature) -> Option<Nature> {
    if l.is_number() && r.is_number() {
        return Some(promoted(l, r));
    }
    let multiplied = |one: &Nature| one.is_number() || one.is(Type::Duration);
    if multiplied(l) && multiplied(r) {
        return Some(Type::Duration.into());
    }
    l.may_suit(r, multiplied).then(Nature::default)
}
