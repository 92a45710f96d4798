//! Parts of trees, named by JSON pointers in which `*` is every item.

use serde_json::{Map, Value};

use crate::normal::{Normal, settle};

/// What a step compares of a body: all of it, or what `only` names, without what `drop` names.
pub(crate) fn select(step: &Map<String, Value>, body: &Value, normal: &mut Normal) -> Value {
    let mut body = body.clone();
    let unordered = step.contains_key("unordered");
    settle(&mut body, unordered);
    if unordered {
        // It has the causes in its own order.
        drop_at(&mut body, &parts("/message"));
    }
    for path in texts(step, "drop") {
        drop_at(&mut body, &parts(&path));
    }
    if !step.contains_key("only") {
        return normal.value(&body);
    }
    let mut selected = Map::new();
    for path in texts(step, "only") {
        let mut found = Vec::new();
        find(&body, &parts(&path), &mut found);
        // Members that are treated by their names keep them, also below the kind of a list.
        let name = path.rsplit('/').next().unwrap_or_default().replace("~1", "/");
        let is_top = path.matches('/').count() == 1;
        let found: Vec<Value> = found
            .into_iter()
            .map(|value| {
                let mut around = Map::new();
                around.extend(
                    body.get("kind").filter(|_| is_top).map(|kind| ("kind".to_owned(), kind.clone())),
                );
                around.insert(name.clone(), value);
                normal.value(&Value::Object(around)).get(&name).cloned().unwrap_or_default()
            })
            .collect();
        let value = match (path.contains('*'), found.first()) {
            (false, Some(value)) => value.clone(),
            (false, None) => continue,
            (true, _) => Value::Array(found),
        };
        selected.insert(path, value);
    }
    Value::Object(selected)
}

fn texts(step: &Map<String, Value>, member: &str) -> Vec<String> {
    let items = step.get(member).and_then(Value::as_array).into_iter().flatten();
    items.map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn parts(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

fn find(value: &Value, parts: &[String], found: &mut Vec<Value>) {
    let Some((part, rest)) = parts.split_first() else {
        found.push(value.clone());
        return;
    };
    match value {
        Value::Array(items) if part == "*" => items.iter().for_each(|item| find(item, rest, found)),
        Value::Object(members) if part == "*" => members.values().for_each(|item| find(item, rest, found)),
        Value::Array(items) => {
            let item = part.parse::<usize>().ok().and_then(|index| items.get(index));
            if let Some(item) = item {
                find(item, rest, found);
            }
        }
        Value::Object(members) => members.get(part).into_iter().for_each(|item| find(item, rest, found)),
        _ => {}
    }
}

fn drop_at(value: &mut Value, parts: &[String]) {
    let Some((part, rest)) = parts.split_first() else { return };
    if let (true, Value::Object(members)) = (rest.is_empty(), &mut *value) {
        members.remove(part);
        return;
    }
    match value {
        Value::Array(items) if part == "*" => items.iter_mut().for_each(|item| drop_at(item, rest)),
        Value::Object(members) if part == "*" => members.values_mut().for_each(|item| drop_at(item, rest)),
        Value::Array(items) => {
            let item = part.parse::<usize>().ok().and_then(|index| items.get_mut(index));
            if let Some(item) = item {
                drop_at(item, rest);
            }
        }
        Value::Object(members) => members.get_mut(part).into_iter().for_each(|item| drop_at(item, rest)),
        _ => {}
    }
}
