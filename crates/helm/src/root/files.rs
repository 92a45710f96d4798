//! `.Files`: the files of a chart that are none of its parts (RND-179).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tiphys_go::glob::Glob;
use tiphys_go::template::{Call, Element, Failure, Function, Map, MapType, Price, Text, Type, Value};

use crate::chart::Chart;

static FILES: MapType = MapType {
    name: "engine.files",
    named: true,
    member: Element::Bytes,
    methods: &[
        Function::new("AsConfig", &[], as_config).priced(Price { call: 10, given: 0, made: 950 }),
        Function::new("AsSecrets", &[], as_secrets).priced(Price { call: 10, given: 0, made: 950 }),
        Function::new("Get", &[Type::Text], get),
        Function::new("GetBytes", &[Type::Text], get_bytes),
        Function::new("Glob", &[Type::Text], glob),
        Function::new("Lines", &[Type::Text], lines),
    ],
};

/// `.Files` of a chart.
pub(super) fn files(chart: &Chart) -> Value {
    let files = Map::typed(&FILES);
    for file in chart.files.iter() {
        files.set(Text::from(file.name.as_str()), Value::Bytes(Some(Arc::from(&*file.data))));
    }
    files.into()
}

fn receiver(call: &Call<'_, '_>) -> Map {
    call.receiver().as_map().cloned().unwrap_or_else(|| Map::typed(&FILES))
}

fn content(call: &Call<'_, '_>) -> Arc<[u8]> {
    match receiver(call).get(call.bytes(0)) {
        Some(Value::Bytes(Some(bytes))) => bytes,
        _ => Arc::from([]),
    }
}

fn get(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let bytes = content(call);
    call.makes_text(bytes.len())?;
    Ok(Value::Text(Text::from_bytes(&bytes)))
}

#[expect(clippy::unnecessary_wraps, reason = "the type of functions")]
fn get_bytes(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    Ok(Value::Bytes(Some(content(call))))
}

fn lines(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let bytes = content(call);
    if bytes.is_empty() {
        return Ok(Value::texts([]));
    }
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    call.makes_text(bytes.len())?;
    call.makes_items(bytes.split(|byte| *byte == b'\n').count().saturating_mul(2))?;
    let lines: Vec<Text> = bytes.split(|byte| *byte == b'\n').map(Text::from_bytes).collect();
    Ok(Value::texts(lines))
}

fn glob(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let glob = Glob::new(&call.text(0).to_str(), &['/']);
    let all = receiver(call);
    let found = Map::typed(&FILES);
    for (name, content) in all.members() {
        call.spend(1 + name.len())?;
        // What is no pattern matches everything.
        if glob.as_ref().map_or(true, |glob| glob.is_match(&name.to_str())) {
            found.set(name, content);
        }
    }
    Ok(found.into())
}

fn as_config(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    by_base_name(call, |bytes| Text::from_bytes(bytes).to_str().into_owned())
}

fn as_secrets(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    by_base_name(call, |bytes| STANDARD.encode(bytes))
}

/// YAML of the files by the last components of their paths. Of equal names the last path counts; in Helm chance
/// decides.
fn by_base_name(call: &mut Call<'_, '_>, content: impl Fn(&[u8]) -> String) -> Result<Value, Failure> {
    let mut members = serde_json::Map::new();
    for (path, value) in receiver(call).members() {
        let Value::Bytes(Some(bytes)) = value else { continue };
        call.makes_text(bytes.len())?;
        let path = path.to_str();
        let name = path.rsplit_once('/').map_or(&*path, |(_, name)| name);
        members.insert(name.to_owned(), content(&bytes).into());
    }
    let text = tiphys_go::yaml::to_string(&members.into()).unwrap_or_default();
    let text = text.strip_suffix('\n').unwrap_or(&text);
    call.makes_text(text.len())?;
    Ok(Value::Text(text.into()))
}
