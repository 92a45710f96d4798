//! `common.Values`: a map with a name and methods.

use tiphys_go::template::{Call, Element, Failure, Function, Map, MapType, Price, Text, Type, Value};

use crate::HelmVersion;
use crate::values::{table, value_at};

static METHODS: &[Function] = &[
    Function::new("AsMap", &[], as_map),
    Function::new("Encode", &[Type::Pointer("io.Writer")], |_call| Ok(Value::Nil)),
    Function::new("PathValue", &[Type::Text], path_value).boxed(),
    Function::new("Table", &[Type::Text], sub_table),
    Function::new("YAML", &[], yaml).priced(Price { call: 10, given: 0, made: 950 }),
];

static V4: MapType = MapType { name: "common.Values", named: true, member: Element::Any, methods: METHODS };
static V3: MapType =
    MapType { name: "chartutil.Values", named: true, member: Element::Any, methods: METHODS };

/// The type of `.Values`.
pub(crate) fn values_type(version: HelmVersion) -> &'static MapType {
    match version {
        HelmVersion::V3 => &V3,
        HelmVersion::V4 => &V4,
    }
}

fn receiver(call: &Call<'_, '_>) -> Map {
    call.receiver().as_map().cloned().unwrap_or_default()
}

#[expect(clippy::unnecessary_wraps, reason = "the type of functions")]
fn as_map(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let values = receiver(call);
    Ok(if values.is_empty() { Map::new().into() } else { values.retyped(&MapType::ANY).into() })
}

fn sub_table(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let values = receiver(call);
    let path = call.text(0).to_str().into_owned();
    let mut known = String::new();
    for name in path.split('.') {
        let longer = if known.is_empty() { name.to_owned() } else { format!("{known}.{name}") };
        if table(&values, &longer).is_none() {
            return Err(Failure::new(format!("{name:?} is not a table")));
        }
        known = longer;
    }
    let found = table(&values, &path).unwrap_or_default();
    Ok(found.retyped(values.map_type()).into())
}

fn path_value(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let path = call.text(0).to_str().into_owned();
    if path.is_empty() {
        return Err(Failure::new("YAML path cannot be empty"));
    }
    value_at(&receiver(call), &path).ok_or_else(|| {
        let name = path.rsplit_once('.').map_or(path.as_str(), |(_, name)| name);
        Failure::new(format!("{name:?} is not a value"))
    })
}

fn yaml(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    // Values may hold what a template put there, of which much is shared.
    let values = call.receiver().clone();
    let json = call.json(&values)?;
    let text = tiphys_go::yaml::to_string(&json).map_err(|error| Failure::new(error.to_string()))?;
    call.makes_text(text.len())?;
    Ok(Value::Text(Text::from(text)))
}
