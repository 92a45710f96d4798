//! Values of charts laid over each other (RND-173..175).
//!
//! What Helm does to maps is done here to the maps that templates get, reference by reference: a table of `global` is
//! the same map in a chart and in those below it, so that what one adds to it deep inside shows in the other, as it
//! does in Helm.

use serde_json::Value as Json;
use tiphys_go::live;
use tiphys_go::steps::Steps;
use tiphys_go::template::{Integers, List, Map, MapType, Text, Value};

use crate::HelmVersion;
use crate::user_values::{Merged, content_mark};

/// Maps inside each other. What users write is not half as deep; imports between charts can be deeper.
const DEPTH_MAX: usize = 500;
/// The key under which values are everybody's.
const GLOBAL: &[u8] = b"global";

/// Why values cannot be laid over each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValuesError {
    /// The parent's values for a chart are no map.
    #[error("type mismatch on {chart}: {found}")]
    Type {
        /// The chart.
        chart: String,
        /// What is there instead, as Helm prints it.
        found: String,
    },
    /// Maps in maps without an end.
    #[error("values are nested more than {DEPTH_MAX} levels deep")]
    Depth,
    /// Charts and values that multiply each other.
    #[error("laying the values of the charts over each other takes too many steps")]
    Steps,
    /// Values and all else that the rendering holds.
    #[error("laying the values of the charts over each other holds more than {bound} bytes of memory")]
    Held {
        /// The bound.
        bound: usize,
    },
}

/// A chart, as far as its values are concerned.
pub(crate) trait Scope: Sized {
    /// The name under which it is used.
    fn name(&self) -> &str;
    /// A copy of its default values.
    fn defaults(&self, work: &mut Work) -> Result<Map, ValuesError>;
    /// The charts below it.
    fn children(&self) -> &[Self];
}

/// Steps that are left for a rendering's values.
#[derive(Debug)]
pub(crate) struct Work {
    steps: Steps,
    version: HelmVersion,
}

/// Whether nothing gets lost on the way. Null values of users are still needed when values are laid over each other
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    /// They take away what they stand over.
    Remove,
    /// They stay.
    Keep,
}

impl Work {
    pub(crate) fn new(version: HelmVersion, steps: u64) -> Self {
        Self { steps: Steps::new(steps), version }
    }

    fn spend(&mut self, steps: usize) -> Result<(), ValuesError> {
        self.steps.spend(steps).map_err(|_exceeded| ValuesError::Steps)?;
        live::check().map_err(|exceeded| ValuesError::Held { bound: exceeded.bound })
    }

    /// Values that were read, as templates see them.
    pub(crate) fn read_values(
        &mut self,
        members: &serde_json::Map<String, Json>,
    ) -> Result<Map, ValuesError> {
        self.spend(members.values().map(count).sum::<usize>() + 1)?;
        let value = |json: &Json| Value::from_json_with(json, Integers::Kept);
        Ok(members.iter().map(|(key, json)| (Text::from(key.as_str()), value(json))).collect())
    }

    /// Values of users. Contents of files are put where their marks are.
    pub(crate) fn users_values(&mut self, merged: &Merged) -> Result<Map, ValuesError> {
        let values = self.read_values(&merged.values)?;
        if !merged.contents.is_empty() {
            let contents: Vec<(Text, Text)> = merged
                .contents
                .iter()
                .enumerate()
                .map(|(number, content)| (content_mark(number).into(), Text::from_bytes(content)))
                .collect();
            fill(&values, &contents);
        }
        Ok(values)
    }

    /// A copy that shares nothing with the original.
    pub(crate) fn copy(&mut self, map: &Map) -> Result<Map, ValuesError> {
        self.copy_map(map, 0)
    }

    fn copy_map(&mut self, map: &Map, depth: usize) -> Result<Map, ValuesError> {
        let members = map.members();
        self.spend(members.len() + 1)?;
        if depth > DEPTH_MAX {
            return Err(ValuesError::Depth);
        }
        let copied = Map::typed(map.map_type());
        for (key, value) in members {
            copied.set(key, self.copy_value(value, depth + 1)?);
        }
        Ok(copied)
    }

    fn copy_value(&mut self, value: Value, depth: usize) -> Result<Value, ValuesError> {
        Ok(match value {
            Value::Map(map) => Value::Map(self.copy_map(&map, depth)?),
            Value::List(list) if !list.is_nil() => {
                if depth > DEPTH_MAX {
                    return Err(ValuesError::Depth);
                }
                self.spend(list.len())?;
                let items = list.to_vec().into_iter().map(|item| self.copy_value(item, depth + 1));
                Value::List(List::typed(list.list_type(), items.collect::<Result<_, _>>()?))
            }
            other => other,
        })
    }

    /// Lays values over the defaults of a chart and of those below it. The values given stay as they are.
    pub(crate) fn coalesce<S: Scope>(
        &mut self,
        chart: &S,
        values: &Map,
        nulls: Nulls,
    ) -> Result<Map, ValuesError> {
        let values = self.copy(values)?;
        self.coalesce_chart(chart, &values, nulls, 0)?;
        Ok(values)
    }

    fn coalesce_chart<S: Scope>(
        &mut self,
        chart: &S,
        values: &Map,
        nulls: Nulls,
        depth: usize,
    ) -> Result<(), ValuesError> {
        if depth > DEPTH_MAX {
            return Err(ValuesError::Depth);
        }
        self.coalesce_own(chart, values, nulls)?;
        for child in chart.children() {
            let key = child.name().as_bytes();
            let below = match values.get(key) {
                None => {
                    let below = Map::new();
                    values.set(Text::from(child.name()), below.clone().into());
                    below
                }
                Some(Value::Map(below)) => below,
                Some(other) => {
                    let found = printed_as_truth(&other);
                    return Err(ValuesError::Type { chart: child.name().to_owned(), found });
                }
            };
            self.coalesce_globals(&below, values)?;
            self.coalesce_chart(child, &below, nulls, depth + 1)?;
        }
        Ok(())
    }

    /// Lays values over the defaults of one chart.
    fn coalesce_own<S: Scope>(&mut self, chart: &S, values: &Map, nulls: Nulls) -> Result<(), ValuesError> {
        let cleans = self.version == HelmVersion::V4 && nulls == Nulls::Remove;
        let defaults = chart.defaults(self)?.members();
        self.spend(defaults.len())?;
        for (key, default) in defaults {
            match (values.get(key.as_bytes()), default) {
                (Some(Value::Nil), _) if nulls == Nulls::Remove => values.remove(key.as_bytes()),
                (Some(Value::Map(own)), Value::Map(default)) => {
                    let is_child =
                        chart.children().iter().any(|child| child.name().as_bytes() == key.as_bytes());
                    let nulls = if is_child { Nulls::Keep } else { nulls };
                    if self.version == HelmVersion::V4 && nulls == Nulls::Remove {
                        self.clean(&default, 0)?;
                    }
                    self.lay_over(&own, &default, nulls, 0)?;
                }
                (Some(_), _) => {}
                (None, Value::Nil) if cleans => {}
                (None, default) => {
                    if let (true, Value::Map(default)) = (cleans, &default) {
                        self.clean(default, 0)?;
                    }
                    values.set(key, default);
                }
            }
        }
        Ok(())
    }

    /// Hands the globals of a chart to one below it. Those of the chart win.
    fn coalesce_globals(&mut self, below: &Map, above: &Map) -> Result<(), ValuesError> {
        let table = |map: &Map| match map.get(GLOBAL) {
            None => Some(Map::new()),
            Some(Value::Map(table)) => Some(table),
            Some(_) => None,
        };
        let (Some(below_globals), Some(above_globals)) = (table(below), table(above)) else { return Ok(()) };
        for (key, value) in above_globals.members() {
            self.spend(1)?;
            match (value, below_globals.get(key.as_bytes())) {
                (Value::Map(table), there) => {
                    // Only the outermost map is a copy.
                    let shared: Map = table.members().into_iter().collect();
                    match there {
                        None => {}
                        Some(Value::Map(there)) => self.lay_over(&shared, &there, Nulls::Keep, 0)?,
                        Some(_) => continue,
                    }
                    below_globals.set(key, shared.into());
                }
                (_, Some(Value::Map(_))) => {}
                (value, _) => {
                    below_globals.set(key, value);
                }
            }
        }
        below.set(Text::from_bytes(GLOBAL), below_globals.into());
        Ok(())
    }

    /// Lays one table over another; the result is in the first, and the second is used up.
    pub(crate) fn lay_over(
        &mut self,
        over: &Map,
        under: &Map,
        nulls: Nulls,
        depth: usize,
    ) -> Result<(), ValuesError> {
        if depth > DEPTH_MAX {
            return Err(ValuesError::Depth);
        }
        let (own, others) = (over.members(), under.members());
        self.spend(own.len() + others.len())?;
        if self.version == HelmVersion::V4 {
            for (key, _) in own.iter().filter(|(_, value)| value.is_nil()) {
                under.set(key.clone(), Value::Nil);
            }
        }
        for (key, value) in under.members() {
            let there = over.get(key.as_bytes());
            let before = others.binary_search_by(|(other, _)| other.cmp(&key)).ok();
            let was_set = before.and_then(|at| others.get(at)).is_some_and(|(_, value)| !value.is_nil());
            let removes = match self.version {
                HelmVersion::V3 => true,
                // Null over null stays: nobody takes a default away with it.
                HelmVersion::V4 => was_set,
            };
            match there {
                Some(Value::Nil) if nulls == Nulls::Remove && removes => over.remove(key.as_bytes()),
                None => {
                    over.set(key, value);
                }
                Some(Value::Map(own)) => {
                    if let Value::Map(value) = value {
                        self.lay_over(&own, &value, nulls, depth + 1)?;
                    }
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Takes all nulls out of a table.
    fn clean(&mut self, table: &Map, depth: usize) -> Result<(), ValuesError> {
        if depth > DEPTH_MAX {
            return Err(ValuesError::Depth);
        }
        for (key, value) in table.members() {
            self.spend(1)?;
            match value {
                Value::Nil => table.remove(key.as_bytes()),
                Value::Map(inner) => self.clean(&inner, depth + 1)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Number of values in a JSON tree.
fn count(json: &Json) -> usize {
    match json {
        Json::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Json::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

/// Puts contents in the place of their marks. Only parameters have them, so lists and maps are not deep.
fn fill(map: &Map, contents: &[(Text, Text)]) {
    for (key, value) in map.members() {
        if let Some(filled) = filled(&value, contents) {
            map.set(key, filled);
        }
    }
}

/// The value with its marks filled, if that is another one.
fn filled(value: &Value, contents: &[(Text, Text)]) -> Option<Value> {
    match value {
        Value::Text(text) => {
            let content = contents.iter().find(|(mark, _)| mark == text);
            content.map(|(_, content)| Value::Text(content.clone()))
        }
        Value::Map(map) => {
            fill(map, contents);
            None
        }
        Value::List(list) => {
            let items = list.to_vec();
            let filled = items.iter().map(|item| filled(item, contents).unwrap_or_else(|| item.clone()));
            Some(Value::list(filled.collect()))
        }
        _ => None,
    }
}

/// A value as Go's `%t` prints it: lists and tables by their members, what is no truth with a complaint.
fn printed_as_truth(value: &Value) -> String {
    let inside = |value: &Value| match value {
        Value::Nil => "<nil>".to_owned(),
        other => printed_as_truth(other),
    };
    match value {
        Value::Bool(truth) => truth.to_string(),
        Value::Nil => "%!t(<nil>)".to_owned(),
        Value::List(items) => {
            format!("[{}]", items.to_vec().iter().map(inside).collect::<Vec<_>>().join(" "))
        }
        Value::Map(map) => {
            let members = map.members().into_iter();
            let printed = members.map(|(key, member)| format!("%!t(string={key}):{}", inside(&member)));
            format!("map[{}]", printed.collect::<Vec<_>>().join(" "))
        }
        other => {
            let printed = other.to_json().map(|json| tiphys_go::json::print_go(&json)).unwrap_or_default();
            format!("%!t({}={printed})", other.type_name())
        }
    }
}

/// The table at a path, with dots between the names.
pub(crate) fn table(values: &Map, path: &str) -> Option<Map> {
    path.split('.').try_fold(values.clone(), |table, name| match table.get(name.as_bytes()) {
        Some(Value::Map(inner)) => Some(inner),
        _ => None,
    })
}

/// The value at a path, if it is no table.
pub(crate) fn value_at(values: &Map, path: &str) -> Option<Value> {
    let (table, name) = match path.rsplit_once('.') {
        None => (values.clone(), path),
        Some((above, name)) => (table(values, above)?, name),
    };
    table.get(name.as_bytes()).filter(|value| !matches!(value, Value::Map(_)))
}

/// A table inside others, one for each name of a path; `.` is the table itself.
pub(crate) fn nest(path: &str, table: Map) -> Result<Map, ValuesError> {
    if path == "." {
        return Ok(table);
    }
    if path.split('.').count() > DEPTH_MAX {
        return Err(ValuesError::Depth);
    }
    let wrap = |inner: Map, name: &str| {
        let outer = Map::typed(&MapType::ANY);
        outer.set(Text::from(name), inner.into());
        outer
    };
    Ok(path.rsplit('.').fold(table, wrap))
}
