//! What types of arguments functions without signatures want.

use crate::expr::nature::{Kind, Type};

type Types<'t> = &'t [Option<Type>];

fn kind(ty: Option<Type>) -> Kind {
    match ty.map_or(Kind::Invalid, Type::kind) {
        // What zones point to.
        Kind::Pointer => Kind::Struct,
        kind => kind,
    }
}

fn name(ty: Option<Type>) -> &'static str {
    ty.map_or("nil", Type::name)
}

fn only(types: Types<'_>) -> Result<Option<Type>, String> {
    match types {
        [only] => Ok(*only),
        _ => Err(format!("invalid number of arguments (expected 1, got {})", types.len())),
    }
}

/// One argument of one of these kinds.
fn one(types: Types<'_>, suits: fn(Kind) -> bool, verb: &str) -> Result<Type, String> {
    match only(types)? {
        Some(ty) if suits(kind(Some(ty))) => Ok(ty),
        other => Err(format!("{verb} (type {})", name(other))),
    }
}

fn is_number(kind: Kind) -> bool {
    kind.is_number() || kind == Kind::Interface
}

fn is_list(kind: Kind) -> bool {
    matches!(kind, Kind::Slice | Kind::Interface)
}

fn is_map(kind: Kind) -> bool {
    matches!(kind, Kind::Map | Kind::Interface)
}

pub(super) fn len(types: Types<'_>) -> Result<Type, String> {
    let suits = |kind| matches!(kind, Kind::Map | Kind::Slice | Kind::String | Kind::Interface);
    one(types, suits, "invalid argument for len").map(|_| Type::Int)
}

pub(super) fn abs(types: Types<'_>) -> Result<Type, String> {
    one(types, is_number, "invalid argument for abs")
}

pub(super) fn round(types: Types<'_>) -> Result<Type, String> {
    one(types, is_number, "invalid argument for rounding").map(|_| Type::Float)
}

pub(super) fn int(types: Types<'_>) -> Result<Type, String> {
    let suits = |kind| is_number(kind) || kind == Kind::String;
    one(types, suits, "invalid argument for int").map(|_| Type::Int)
}

pub(super) fn float(types: Types<'_>) -> Result<Type, String> {
    let suits = |kind| is_number(kind) || kind == Kind::String;
    one(types, suits, "invalid argument for float").map(|_| Type::Float)
}

/// Numbers, and lists of whatever; the first argument that may be a list ends the search.
pub(super) fn aggregate(types: Types<'_>) -> Result<Type, String> {
    let Some(first) = types.first() else { return Err("not enough arguments".to_owned()) };
    for ty in types {
        match kind(*ty) {
            Kind::Interface | Kind::Slice => return Ok(Type::Any),
            kind if kind.is_number() => {}
            _ => return Err(format!("invalid argument (type {})", name(*ty))),
        }
    }
    first.ok_or_else(|| "invalid argument (type nil)".to_owned())
}

pub(super) fn now(types: Types<'_>) -> Result<Type, String> {
    match types {
        [] | [Some(Type::ZonePointer)] => Ok(Type::Time),
        _ => Err(format!("invalid number of arguments (expected 0, got {})", types.len())),
    }
}

pub(super) fn date(types: Types<'_>) -> Result<Type, String> {
    let given = match types {
        [] => return Err("invalid number of arguments (expected at least 1, got 0)".to_owned()),
        [Some(Type::ZonePointer), rest @ ..] => rest.len(),
        all => all.len(),
    };
    if given > 3 {
        return Err(format!("invalid number of arguments (expected at most 3, got {given})"));
    }
    Ok(Type::Time)
}

/// The first or last item.
pub(super) fn end(types: Types<'_>) -> Result<Type, String> {
    match only(types)? {
        Some(Type::Any) => Ok(Type::Any),
        ty => {
            let item = ty.filter(|ty| ty.kind() == Kind::Slice).and_then(Type::item);
            item.ok_or_else(|| format!("cannot get element from {}", name(ty)))
        }
    }
}

pub(super) fn take(types: Types<'_>) -> Result<Type, String> {
    let [from, count] = types else {
        return Err(format!("invalid number of arguments (expected 2, got {})", types.len()));
    };
    let Some(from) = from.filter(|from| is_list(kind(Some(*from)))) else {
        return Err(format!("cannot take from {}", name(*from)));
    };
    if !matches!(kind(*count), Kind::Interface | Kind::Int | Kind::Int64) {
        return Err(format!("cannot take {} elements", name(*count)));
    }
    Ok(from)
}

pub(super) fn keys(types: Types<'_>) -> Result<Type, String> {
    one(types, is_map, "cannot get keys or values").map(|_| Type::List)
}

pub(super) fn from_pairs(types: Types<'_>) -> Result<Type, String> {
    one(types, is_list, "cannot transform from pairs").map(|_| Type::AnyMap)
}

/// One list that another is made of.
pub(super) fn list(types: Types<'_>) -> Result<Type, String> {
    one(types, is_list, "a list is needed").map(|_| Type::List)
}

pub(super) fn concat(types: Types<'_>) -> Result<Type, String> {
    if types.is_empty() {
        return Err("invalid number of arguments (expected at least 1, got 0)".to_owned());
    }
    match types.iter().find(|ty| !is_list(kind(**ty))) {
        Some(ty) => Err(format!("cannot concat {}", name(*ty))),
        None => Ok(Type::List),
    }
}
