//! Functions of lists and maps.

use super::{Builtin, Check, Context, Overload, argument, counted, many, one, validate};
use crate::expr::nature::Type;
use crate::expr::value::{Key, List, Map, Of};
use crate::expr::{Budget, Fault, Value, access, equal, sort};
use std::collections::BTreeMap;

pub(super) const ROWS: &[Builtin] = &[
    one("len", Check::Validate(validate::len), len),
    many("first", Check::Validate(validate::end), |arguments, _| Ok(end(arguments, 0))),
    many("last", Check::Validate(validate::end), |arguments, _| Ok(end(arguments, -1))),
    many("get", Check::Get, |arguments, _| {
        if let [from, property, ..] = arguments {
            access::get(from, property)
        } else {
            let given = arguments.len();
            Err(Fault::Value(format!("invalid number of arguments (expected 2, got {given})")))
        }
    }),
    many("take", Check::Validate(validate::take), take),
    many("keys", Check::Validate(validate::keys), |arguments, context| {
        let Value::Map(map) = map_of(arguments, "get keys from")? else { return Ok(Value::Nil) };
        made(map.members().map(|(key, _)| key).collect(), context.budget)
    }),
    many("values", Check::Validate(validate::keys), |arguments, context| {
        let Value::Map(map) = map_of(arguments, "get values from")? else { return Ok(Value::Nil) };
        made(map.members().map(|(_, value)| value.clone()).collect(), context.budget)
    }),
    many("toPairs", Check::Validate(validate::keys), to_pairs),
    many("fromPairs", Check::Validate(validate::from_pairs), from_pairs),
    many("reverse", Check::Validate(validate::list), |arguments, context| {
        let items = items_of(arguments, "reverse", context.budget)?;
        context.budget.count(items.len())?;
        made(items.into_iter().rev().collect(), context.budget)
    }),
    many("uniq", Check::Validate(validate::list), uniq),
    many("concat", Check::Validate(validate::concat), concat),
    many("flatten", Check::Validate(validate::list), |arguments, context| {
        counted(arguments, 1)?;
        let mut flat = Vec::new();
        let list = argument(arguments, 0)?;
        if list.list_len().is_none() {
            return Err(Fault::Value(format!("cannot flatten {}", list.go_type())));
        }
        flatten(list, &mut flat, context.budget)?;
        context.budget.count(flat.len())?;
        made(flat, context.budget)
    }),
    many("sort", Check::Types(SORT), sorted),
];

const SORT: &[Overload] = &[
    Overload { parameters: &[Type::List, Type::Text], result: Type::List },
    Overload { parameters: &[Type::Ints, Type::Text], result: Type::List },
    Overload { parameters: &[Type::Floats, Type::Text], result: Type::List },
    Overload { parameters: &[Type::Texts, Type::Text], result: Type::List },
    Overload { parameters: &[Type::List], result: Type::List },
    Overload { parameters: &[Type::Floats], result: Type::List },
    Overload { parameters: &[Type::Texts], result: Type::List },
    Overload { parameters: &[Type::Ints], result: Type::List },
];

fn made(items: Vec<Value>, budget: &mut Budget) -> Result<Value, Fault> {
    budget.list(items.len())?;
    Ok(Value::List(List::new(items)?))
}

fn len(value: &Value, budget: &mut Budget) -> Result<Value, Fault> {
    let len = match value {
        Value::Text(text) => {
            budget.scan(text.len())?;
            Some(text.to_str().chars().count())
        }
        Value::Map(map) => Some(map.len()),
        other => other.len(),
    };
    let len = len.and_then(|len| i64::try_from(len).ok());
    len.map(Value::Int)
        .ok_or_else(|| Fault::Value(format!("invalid argument for len (type {})", value.go_type())))
}

/// The item at an index, or nil whatever goes wrong.
fn end(arguments: &[Value], index: i64) -> Value {
    let from = arguments.first().unwrap_or(&Value::Nil);
    access::fetch(from, &Value::Int(index)).unwrap_or(Value::Nil)
}

/// All items of the one argument.
fn items_of(arguments: &[Value], verb: &str, budget: &mut Budget) -> Result<Vec<Value>, Fault> {
    counted(arguments, 1)?;
    let list = argument(arguments, 0)?;
    let Some(items) = list.list_items() else {
        return Err(Fault::Value(format!("cannot {verb} {}", list.go_type())));
    };
    budget.list(list.list_len().unwrap_or(0))?;
    Ok(items.collect())
}

fn map_of<'a>(arguments: &'a [Value], verb: &str) -> Result<&'a Value, Fault> {
    counted(arguments, 1)?;
    match argument(arguments, 0)? {
        map @ Value::Map(_) => Ok(map),
        other => Err(Fault::Value(format!("cannot {verb} {}", other.go_type()))),
    }
}

fn take(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    counted(arguments, 2)?;
    let (list, count) = (argument(arguments, 0)?, argument(arguments, 1)?);
    let Some(len) = list.list_len() else {
        return Err(Fault::Value(format!("cannot take from {}", list.go_type())));
    };
    let count = match count {
        Value::Int(number) | Value::Int64(number) | Value::Duration(number) => *number,
        Value::Month(number) | Value::Weekday(number) => i64::from(*number),
        other => return Err(Fault::Value(format!("cannot take {} elements", other.go_type()))),
    };
    let Ok(count) = usize::try_from(count) else {
        return Err(Fault::Value("reflect.Value.Slice: slice index out of bounds".to_owned()));
    };
    if matches!(list, Value::List(list) if list.item_type() == Of::Pair) {
        return Err(Fault::Value("reflect.Value.Slice: slice of unaddressable array".to_owned()));
    }
    access::part(list, 0, count.min(len), context.budget)
}

fn to_pairs(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    let Value::Map(map) = map_of(arguments, "transform to pairs")? else { return Ok(Value::Nil) };
    let mut pairs = Vec::with_capacity(map.len());
    for (key, value) in map.members() {
        context.budget.list(2)?;
        pairs.push(Value::List(List::of(Of::Pair, vec![key, value.clone()])?));
    }
    context.budget.list(pairs.len())?;
    Ok(Value::List(List::of(Of::Pairs, pairs)?))
}

fn from_pairs(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    let mut map = BTreeMap::new();
    for pair in items_of(arguments, "transform from pairs", context.budget)? {
        if pair.list_len() != Some(2) {
            return Err(Fault::Value(format!("invalid pair of type {}", pair.go_type())));
        }
        context.budget.member(map.len())?;
        let key = Key::of(&pair.item(0).unwrap_or(Value::Nil))?;
        map.insert(key, pair.item(1).unwrap_or(Value::Nil));
    }
    Ok(Value::Map(Map::of_any(map)?))
}

fn uniq(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    let mut kept: Vec<Value> = Vec::new();
    for item in items_of(arguments, "uniq", context.budget)? {
        let mut known = false;
        for other in &kept {
            known = equal::equal(&item, other, context.budget)?;
            if known {
                break;
            }
        }
        if !known {
            kept.push(item);
        }
    }
    made(kept, context.budget)
}

fn concat(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    if arguments.is_empty() {
        return Err(Fault::Value("invalid number of arguments (expected at least 1, got 0)".to_owned()));
    }
    let mut all = Vec::new();
    for argument in arguments {
        let Some(items) = argument.list_items() else {
            return Err(Fault::Value(format!("cannot concat {}", argument.go_type())));
        };
        context.budget.list(argument.list_len().unwrap_or(0))?;
        all.extend(items);
    }
    context.budget.count(all.len())?;
    // Nothing was ever appended to the original's list.
    if all.is_empty() { Ok(Value::List(List::nil(Of::Any))) } else { Ok(Value::List(List::new(all)?)) }
}

fn flatten(list: &Value, flat: &mut Vec<Value>, budget: &mut Budget) -> Result<(), Fault> {
    for item in list.list_items().into_iter().flatten() {
        budget.value()?;
        if item.list_len().is_some() {
            flatten(&item, flat, budget)?;
        } else {
            budget.list(1)?;
            flat.push(item);
        }
    }
    Ok(())
}

fn sorted(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    if arguments.is_empty() || arguments.len() > 2 {
        let given = arguments.len();
        return Err(Fault::Value(format!("invalid number of arguments (expected 1 or 2, got {given})")));
    }
    let list = argument(arguments, 0)?;
    let descending = match arguments.get(1) {
        None => false,
        Some(order) => sort::is_descending(order)?,
    };
    let sortable = match list {
        Value::Range(_) => true,
        Value::List(list) => matches!(list.item_type(), Of::Any | Of::Text),
        _ => false,
    };
    if !sortable {
        return Ok(Value::List(List::nil(Of::Any)));
    }
    context.budget.list(list.list_len().unwrap_or(0))?;
    let mut items: Vec<Value> = list.list_items().into_iter().flatten().collect();
    sort::sort(&mut items, descending, |item| item, context.budget)?;
    context.budget.count(items.len())?;
    made(items, context.budget)
}
