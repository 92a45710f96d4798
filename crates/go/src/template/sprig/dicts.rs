//! Maps. `set`, `unset` and the merges change the map that they are given.

use super::convert::strval;
use super::merge::{self, Overwrite};
use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Type};
use crate::template::limits::Exceeded;
use crate::template::value::{DEPTH_MAX, List, ListType, Map, MapType, Text, Value};

const MAP: &[Type] = &[Type::MAP];
const MAP_TEXT: &[Type] = &[Type::MAP, Type::Text];
const ANY: &[Type] = &[Type::Any];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("deepCopy", ANY, deep_copy).boxed(),
    Function::new("dict", &[], dict).and_more(Type::Any),
    Function::new("dig", &[], dig).and_more(Type::Any).boxed(),
    Function::new("get", MAP_TEXT, |call| {
        Ok(call.map(0).get(call.bytes(1)).unwrap_or_else(|| Value::text("")))
    })
    .boxed(),
    Function::new("hasKey", MAP_TEXT, |call| Ok(Value::Bool(call.map(0).contains(call.bytes(1))))),
    Function::new("keys", &[], keys).and_more(Type::MAP),
    Function::new("merge", MAP, |call| merge(call, Overwrite::Never)).and_more(Type::MAP).boxed(),
    Function::new("mergeOverwrite", MAP, |call| merge(call, Overwrite::Always)).and_more(Type::MAP).boxed(),
    Function::new("mustDeepCopy", ANY, deep_copy).boxed(),
    Function::new("mustMerge", MAP, |call| merge(call, Overwrite::Never)).and_more(Type::MAP).boxed(),
    Function::new("mustMergeOverwrite", MAP, |call| merge(call, Overwrite::Always))
        .and_more(Type::MAP)
        .boxed(),
    Function::new("omit", MAP, omit).and_more(Type::Text),
    Function::new("pick", MAP, pick).and_more(Type::Text),
    Function::new("pluck", &[Type::Text], pluck).and_more(Type::MAP),
    Function::new("set", &[Type::MAP, Type::Text, Type::Any], |call| {
        let (map, key, value) = (call.map(0), call.text(1).clone(), call.take(2));
        call.set_member(&map, key, value)?;
        Ok(Value::Map(map))
    }),
    Function::new("unset", MAP_TEXT, |call| {
        let map = call.map(0);
        map.remove(call.bytes(1));
        Ok(Value::Map(map))
    }),
    Function::new("values", MAP, |call| {
        let map = call.map(0);
        call.makes_items(map.len())?;
        // Deviation (RND-200): in the order of the keys, where Go has none.
        let values = map.members().into_iter().map(|(_, value)| value).collect();
        Ok(Value::List(List::appended(&ListType::ANY, values)))
    }),
];

fn dict(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    call.makes_items(call.len())?;
    let map = Map::new();
    let mut values = call.take_rest(0).into_iter();
    while let Some(key) = values.next() {
        let key = strval(&key, call.limit())?;
        map.set(key, values.next().unwrap_or_else(|| Value::text("")));
    }
    Ok(Value::Map(map))
}

fn keys(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let mut keys = Vec::new();
    for at in 0..call.len() {
        let map = call.map(at);
        call.makes_items(map.len())?;
        // Deviation (RND-200): in order, where Go has none.
        keys.extend(map.keys().into_iter().map(Value::Text));
    }
    Ok(Value::List(List::appended(&ListType::TEXTS, keys)))
}

fn pick(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let map = call.map(0);
    call.makes_items(call.len())?;
    let picked = Map::new();
    for at in 1..call.len() {
        if let Some(value) = map.get(call.bytes(at)) {
            picked.set(call.text(at).clone(), value);
        }
    }
    Ok(Value::Map(picked))
}

fn omit(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let map = call.map(0);
    call.makes_items(map.len())?;
    let mut omitted: Vec<Text> = (1..call.len()).map(|at| call.text(at).clone()).collect();
    omitted.sort_unstable();
    let kept = map.members().into_iter().filter(|(key, _)| omitted.binary_search(key).is_err()).collect();
    Ok(Value::Map(Map::from_sorted(&MapType::ANY, kept)))
}

fn pluck(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    call.makes_items(call.len())?;
    let found: Vec<Value> = (1..call.len()).filter_map(|at| call.map(at).get(call.bytes(0))).collect();
    Ok(Value::List(List::appended(&ListType::ANY, found)))
}

fn merge(call: &mut Call<'_, '_>, overwrite: Overwrite) -> Result<Value, Failure> {
    let mut target = call.map(0);
    for at in 1..call.len() {
        let source = call.map(at);
        if target.is_nil() && !source.is_nil() {
            target = Map::new();
        }
        merge::merge(call, &target, &source, overwrite)?;
    }
    Ok(Value::Map(target))
}

fn dig(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let count = call.len();
    if count < 3 {
        return Err(Failure::new("dig needs at least three arguments"));
    }
    let mut present = call.take(count - 1);
    let mut keys = Vec::new();
    plain_map(&present)?;
    for at in 0..count - 2 {
        match call.value(at) {
            Value::Text(key) => keys.push(key.clone()),
            other => return Err(not_converted(other, "string")),
        }
    }
    for key in keys {
        match plain_map(&present)?.get(key.as_bytes()) {
            Some(value) => present = value,
            None => return Ok(call.take(count - 2)),
        }
    }
    Ok(present)
}

/// The map, if its type is exactly the plain one.
fn plain_map(value: &Value) -> Result<&Map, Failure> {
    match value {
        Value::Map(map) if map.map_type().name == MapType::ANY.name => Ok(map),
        other => Err(not_converted(other, MapType::ANY.name)),
    }
}

fn not_converted(value: &Value, wanted: &str) -> Failure {
    let found = if value.is_nil() { "nil" } else { value.type_name() };
    Failure::new(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
}

fn deep_copy(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let value = call.take(0);
    if value.is_nil() {
        return Err(Failure::new("reflect: call of reflect.Value.Type on zero Value"));
    }
    copied(call, &value, 0)
}

fn copied(call: &mut Call<'_, '_>, value: &Value, depth: usize) -> Result<Value, Failure> {
    if depth > DEPTH_MAX {
        return Err(Exceeded::Depth(DEPTH_MAX).into());
    }
    Ok(match value {
        Value::List(list) if !list.is_nil() => {
            call.makes_items(list.len())?;
            let mut items = list.to_vec();
            // Loops, because adapters take many times as much of the stack.
            for item in &mut items {
                *item = copied(call, item, depth + 1)?;
            }
            Value::List(List::with_capacity(list.list_type(), items, list.capacity()))
        }
        Value::Map(map) if !map.is_nil() => {
            call.makes_items(map.len().saturating_mul(3))?;
            let mut members = map.members();
            for (_, member) in &mut members {
                *member = copied(call, member, depth + 1)?;
            }
            Value::Map(Map::from_sorted(map.map_type(), members))
        }
        other => other.clone(),
    })
}
