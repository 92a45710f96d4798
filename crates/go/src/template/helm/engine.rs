//! Functions that need the engine: other templates, the cluster, a way to say stop.

use super::words::without_no_value;
use crate::template::environment::Lookup;
use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Rendering, Run, Source, Type};
use crate::template::quote::quote;
use crate::template::value::{Text, Value};

/// A template may be inside itself so often (RND-189).
const NESTED_MAX: u32 = 1_000;

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("fail", &[Type::Text], |call| Err(Failure::told(call.text(0).to_str()))),
    // Deviation (RND-196): names are never looked up, as in Helm without `--enable-dns`.
    Function::new("getHostByName", &[Type::Text], |_call| Ok(Value::Text(Text::EMPTY))),
    Function {
        name: "include",
        parameters: &[Type::Text, Type::Any],
        rest: None,
        boxed: false,
        run: Run::Template(include),
        price: Function::price_of("include"),
    },
    Function::new("lookup", &[Type::Text, Type::Text, Type::Text, Type::Text], lookup),
    Function::new("required", &[Type::Text, Type::Any], required).boxed(),
    Function {
        name: "tpl",
        parameters: &[Type::Text, Type::Any],
        rest: None,
        boxed: false,
        run: Run::Template(tpl),
        price: Function::price_of("tpl"),
    },
];

#[expect(clippy::unnecessary_wraps, reason = "what functions of templates answer")]
fn include(call: &mut Call<'_, '_>) -> Result<Rendering, Failure> {
    Ok(Rendering {
        template: Source::Named(call.text(0).clone()),
        dot: call.take(1),
        finish: |text| text,
        words: None,
        nested_max: Some(NESTED_MAX),
    })
}

fn tpl(call: &mut Call<'_, '_>) -> Result<Rendering, Failure> {
    let text = call.text(0).clone();
    let quoted = || quote(text.as_bytes());
    if !call.context.is_parsed(&text) {
        // 31 ns for a byte.
        call.spend(text.len())?;
    }
    let parsed = call.context.parse(&text).map_err(|error| {
        Failure(
            error.within(crate::template::error::Layer::Words(format!("cannot parse template {}", quoted()))),
        )
    })?;
    Ok(Rendering {
        template: Source::Parsed(parsed),
        dot: call.take(1),
        finish: without_no_value,
        words: Some(format!("error during tpl function execution for {}", quoted())),
        nested_max: None,
    })
}

fn required(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let missing = match call.value(1) {
        Value::Nil => true,
        Value::Text(text) => text.is_empty(),
        _ => false,
    };
    if missing {
        return Err(Failure::told(call.text(0).to_str()));
    }
    Ok(call.take(1))
}

fn lookup(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let texts = [0, 1, 2, 3].map(|at| call.text(at).to_str().into_owned());
    let [api_version, kind, namespace, name] = &texts;
    Ok(Value::Map(call.environment().lookup(Lookup { api_version, kind, namespace, name })?))
}
