//! Lists: whatever is given, most answer a new `[]interface {}`.

use super::convert::nil_pointer;
use super::defaults::is_empty;
use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Type, kind_name};
use crate::template::number::to_i64;
use crate::template::value::{List, ListType, Value};

const ANY: &[Type] = &[Type::Any];
const TWO: &[Type] = &[Type::Any, Type::Any];
const INT_ANY: &[Type] = &[Type::INT, Type::Any];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("append", TWO, push),
    Function::new("chunk", INT_ANY, chunk),
    Function::new("compact", ANY, compact),
    Function::new("concat", &[], concat).and_more(Type::Any).boxed(),
    Function::new("first", ANY, |call| edge(call, "first")).boxed(),
    Function::new("has", TWO, has),
    Function::new("initial", ANY, |call| but_one(call, "initial")),
    Function::new("last", ANY, |call| edge(call, "last")).boxed(),
    Function::new("list", &[], list).and_more(Type::Any),
    Function::new("mustAppend", TWO, push),
    Function::new("mustChunk", INT_ANY, chunk),
    Function::new("mustCompact", ANY, compact),
    Function::new("mustFirst", ANY, |call| edge(call, "first")).boxed(),
    Function::new("mustHas", TWO, has),
    Function::new("mustInitial", ANY, |call| but_one(call, "initial")),
    Function::new("mustLast", ANY, |call| edge(call, "last")).boxed(),
    Function::new("mustPrepend", TWO, prepend),
    Function::new("mustPush", TWO, push),
    Function::new("mustRest", ANY, |call| but_one(call, "rest")),
    Function::new("mustReverse", ANY, reverse),
    Function::new("mustSlice", ANY, slice).and_more(Type::Any).boxed(),
    Function::new("mustUniq", ANY, uniq),
    Function::new("mustWithout", ANY, without).and_more(Type::Any),
    Function::new("prepend", TWO, prepend),
    Function::new("push", TWO, push),
    Function::new("rest", ANY, |call| but_one(call, "rest")),
    Function::new("reverse", ANY, reverse),
    Function::new("slice", ANY, slice).and_more(Type::Any).boxed(),
    Function::new("tuple", &[], list).and_more(Type::Any),
    Function::new("uniq", ANY, uniq),
    Function::new("without", ANY, without).and_more(Type::Any),
];

impl Call<'_, '_> {
    /// `reflect.DeepEqual`, paid for.
    pub(crate) fn deep_equals(&mut self, left: &Value, right: &Value) -> Result<bool, Failure> {
        let (equal, compared) = left.deep_equals_counted(right);
        self.spend(compared)?;
        Ok(equal)
    }

    /// The list that an argument is, or Go's complaint: `Cannot push on type string`.
    fn any_list(&self, at: usize, complaint: &str) -> Result<List, Failure> {
        let value = self.value(at);
        match value.items() {
            Some(items) => Ok(items),
            None if value.is_nil() => Err(nil_pointer()),
            None => Err(Failure::new(format!("{complaint} {}", kind_name(value)))),
        }
    }

    fn contains(&mut self, items: &[Value], wanted: &Value) -> Result<bool, Failure> {
        for item in items {
            if self.deep_equals(wanted, item)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn list(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    call.makes_items(call.len())?;
    Ok(Value::list(call.take_rest(0)))
}

fn push(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let list = call.any_list(0, "Cannot push on type")?;
    call.makes_items(list.len() + 1)?;
    let mut items = list.to_vec();
    let before = items.len();
    items.push(call.take(1));
    let capacity = List::grown(&ListType::ANY, before, before + 1);
    Ok(Value::List(List::with_capacity(&ListType::ANY, items, capacity)))
}

fn prepend(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let list = call.any_list(0, "Cannot prepend on type")?;
    call.makes_items(list.len() + 1)?;
    let mut items = vec![call.take(1)];
    items.extend(list.to_vec());
    let capacity = List::grown(&ListType::ANY, 1, items.len());
    Ok(Value::List(List::with_capacity(&ListType::ANY, items, capacity)))
}

fn chunk(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let list = call.any_list(1, "Cannot chunk type")?;
    call.makes_items(list.len().saturating_mul(2))?;
    let items = list.to_vec();
    // The sizes are computed with floats, which shows for sizes below one.
    #[expect(clippy::cast_precision_loss, reason = "as Go does")]
    let (length, size) = (items.len() as f64, call.int(0) as f64);
    let too_long = || Failure::new("runtime error: makeslice: len out of range");
    let chunks =
        usize::try_from(to_i64(((length - 1.0) / size).floor() + 1.0)).map_err(|_negative| too_long())?;
    call.makes_items(chunks)?;
    let mut out = Vec::new();
    for place in 0..chunks {
        let mut count = call.int(0);
        if place + 1 == chunks {
            let rest = to_i64((length % size).floor());
            count = if rest == 0 { count } else { rest };
        }
        let count = usize::try_from(count).map_err(|_negative| too_long())?;
        let start = place.saturating_mul(usize::try_from(call.int(0)).unwrap_or(0));
        let part = items.get(start..start.saturating_add(count));
        let part = part.ok_or_else(|| Failure::new("reflect: slice index out of range"))?;
        out.push(Value::list(part.to_vec()));
    }
    Ok(Value::List(List::typed(&ListType::LISTS, out)))
}

fn edge(call: &mut Call<'_, '_>, name: &str) -> Result<Value, Failure> {
    let list = call.any_list(0, &format!("Cannot find {name} on type"))?;
    let place = if name == "first" { Some(0) } else { list.len().checked_sub(1) };
    Ok(place.and_then(|place| list.get(place)).unwrap_or_default())
}

/// All items but the first, or but the last; of nothing, nil.
fn but_one(call: &mut Call<'_, '_>, name: &str) -> Result<Value, Failure> {
    let list = call.any_list(0, &format!("Cannot find {name} on type"))?;
    call.makes_items(list.len())?;
    let mut items = list.to_vec();
    if items.is_empty() {
        return Ok(Value::List(List::nil(&ListType::ANY)));
    }
    if name == "rest" {
        items.remove(0);
    } else {
        items.pop();
    }
    Ok(Value::list(items))
}

fn reverse(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let list = call.any_list(0, "Cannot find reverse on type")?;
    call.makes_items(list.len())?;
    let mut items = list.to_vec();
    items.reverse();
    Ok(Value::list(items))
}

fn compact(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let list = call.any_list(0, "Cannot compact on type")?;
    call.makes_items(list.len())?;
    let items: Vec<Value> = list.to_vec().into_iter().filter(|item| !is_empty(item)).collect();
    Ok(Value::List(List::appended(&ListType::ANY, items)))
}

fn uniq(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let list = call.any_list(0, "Cannot find uniq on type")?;
    call.makes_items(list.len())?;
    let mut items = Vec::new();
    for item in list.to_vec() {
        if !call.contains(&items, &item)? {
            items.push(item);
        }
    }
    Ok(Value::List(List::appended(&ListType::ANY, items)))
}

fn without(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let list = call.any_list(0, "Cannot find without on type")?;
    call.makes_items(list.len())?;
    let omitted = call.take_rest(1);
    let mut items = Vec::new();
    for item in list.to_vec() {
        if !call.contains(&omitted, &item)? {
            items.push(item);
        }
    }
    Ok(Value::List(List::appended(&ListType::ANY, items)))
}

fn has(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    if call.value(1).is_nil() {
        return Ok(Value::Bool(false));
    }
    let list = call.any_list(1, "Cannot find has on type")?;
    let wanted = call.take(0);
    call.spend(list.len())?;
    let found = call.contains(&list.to_vec(), &wanted)?;
    Ok(Value::Bool(found))
}

fn slice(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let list = call.any_list(0, "list should be type of slice or array but")?;
    let length = list.len();
    if length == 0 {
        return Ok(Value::Nil);
    }
    let start = if call.len() > 1 { call.to_int(1) } else { 0 };
    let end = if call.len() > 2 { call.to_int(2) } else { i64::try_from(length).unwrap_or(i64::MAX) };
    let bounds = (usize::try_from(start), usize::try_from(end));
    match bounds {
        (Ok(start), Ok(end)) if start <= end && end <= list.capacity() => {
            if let Value::Bytes(Some(bytes)) = call.value(0) {
                return Ok(Value::Bytes(bytes.get(start..end).map(Into::into)));
            }
            Ok(Value::List(list.part(start, end, list.capacity() - start)))
        }
        _ => Err(Failure::new("reflect.Value.Slice: slice index out of bounds")),
    }
}

fn concat(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let mut items = Vec::new();
    for at in 0..call.len() {
        let value = call.value(at);
        let Some(list) = value.items() else {
            if value.is_nil() {
                return Err(nil_pointer());
            }
            return Err(Failure::new(format!("Cannot concat type {} as list", kind_name(value))));
        };
        call.makes_items(list.len())?;
        items.extend(list.to_vec());
    }
    if items.is_empty() {
        return Ok(Value::List(List::nil(&ListType::ANY)));
    }
    Ok(Value::List(List::appended(&ListType::ANY, items)))
}
