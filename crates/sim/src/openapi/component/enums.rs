//! The values that members of built-in types may have, read from `data/enums.txt`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::openapi::set;

static TEXT: &str = include_str!("../../../data/enums.txt");

/// Values by type and member.
static ENUMS: LazyLock<HashMap<(&str, &str), Vec<&str>>> = LazyLock::new(|| {
    let mut owner = "";
    let mut found = HashMap::new();
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ").and_then(|line| line.split_once(' ')) {
            Some((member, values)) => drop(found.insert((owner, member), values.split(',').collect())),
            None => owner = line,
        }
    }
    found
});

/// Says which values a member may have; of a list, its items.
pub(super) fn add(owner: &str, member: &str, schema: &mut Value) {
    let Some(values) = ENUMS.get(&(owner, member)) else { return };
    match schema.get_mut("items") {
        Some(items) => set(items, "enum", json!(values)),
        None => set(schema, "enum", json!(values)),
    }
}
