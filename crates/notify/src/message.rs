//! Templates of notifications (NTF-200..207).

use serde_json::{Map, Value};
use tiphys_go::template::{Engine, Environment, FunctionSet, Limits, Templates, Value as TemplateValue};

/// Name of each template, as errors have it.
const NAME: &str = "notification";
/// Bounds of one text: a mebibyte and some seconds (NTF-207).
const LIMITS: Limits = Limits {
    steps: 20_000_000,
    made_bytes: 64 << 20,
    live_bytes: 32 << 20,
    text_bytes: 1 << 20,
    nesting: 1_000,
};

/// Why a notification cannot be made; the delivery fails, others go on (NTF-205).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// The trigger sends a template that does not exist (NTF-204).
    #[error("template '{0}' is not supported")]
    Unknown(String),
    /// A text of it cannot be rendered.
    #[error("{0}")]
    Text(String),
}

/// A notification, or the template of one: a message, and what each type of service wants beside it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notification {
    /// The message.
    pub message: String,
    /// Further members by type of service; webhooks by the name of theirs.
    pub blocks: Map<String, Value>,
}

impl Notification {
    /// Reads a template and looks whether all of its texts can be parsed.
    ///
    /// # Errors
    /// When it is no map, or a text is no template.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        let mut members = match value {
            Value::Null => Map::new(),
            Value::Object(members) => members.clone(),
            _ => return Err("a template is a map with a message".to_owned()),
        };
        let message = match members.remove("message") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text,
            Some(_) => return Err("message is no text".to_owned()),
        };
        members.retain(|_, block| !block.is_null());
        if let Some((name, _)) = members.iter().find(|(_, block)| !block.is_object()) {
            return Err(format!("{name} is no map"));
        }
        let template = Self { message, blocks: members };
        let functions = FunctionSet::isolated();
        parse(&template.message, &functions)?;
        for block in template.blocks.values() {
            each_text(block, &mut |text| parse(text, &functions).map(drop))?;
        }
        Ok(template)
    }

    /// Lays a later template over this one: what it sets counts (NTF-204).
    pub(crate) fn overlay(&mut self, later: &Self) {
        if !later.message.is_empty() {
            self.message.clone_from(&later.message);
        }
        overlay(&mut self.blocks, &later.blocks);
    }

    /// Renders all texts.
    ///
    /// # Errors
    /// When one of them cannot be rendered.
    pub(crate) fn render(
        &self,
        variables: &TemplateValue,
        environment: &dyn Environment,
    ) -> Result<Self, RenderError> {
        let functions = FunctionSet::isolated();
        let text = |text: &str| render(text, &functions, variables, environment);
        let mut blocks = Map::new();
        for (name, block) in &self.blocks {
            blocks.insert(name.clone(), map_texts(block, &text)?);
        }
        Ok(Self { message: text(&self.message)?, blocks })
    }
}

fn overlay(members: &mut Map<String, Value>, later: &Map<String, Value>) {
    for (key, value) in later {
        match (members.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => overlay(old, new),
            _ if is_empty(value) => {}
            _ => {
                members.insert(key.clone(), value.clone());
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn parse(text: &str, functions: &FunctionSet) -> Result<Templates, String> {
    let mut templates = Templates::new(NAME, functions.clone());
    templates.parse(NAME, text.as_bytes().to_vec()).map_err(|error| error.to_string())?;
    Ok(templates)
}

fn render(
    text: &str,
    functions: &FunctionSet,
    variables: &TemplateValue,
    environment: &dyn Environment,
) -> Result<String, RenderError> {
    if !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let templates = parse(text, functions).map_err(RenderError::Text)?;
    let made = Engine::new(&templates, environment, LIMITS).execute(NAME, variables);
    let made = made.map_err(|error| RenderError::Text(error.to_string()))?;
    Ok(String::from_utf8_lossy(&made).into_owned())
}

fn each_text(value: &Value, run: &mut dyn FnMut(&str) -> Result<(), String>) -> Result<(), String> {
    match value {
        Value::String(text) => run(text),
        Value::Array(items) => items.iter().try_for_each(|item| each_text(item, run)),
        Value::Object(members) => members.values().try_for_each(|member| each_text(member, run)),
        _ => Ok(()),
    }
}

fn map_texts(value: &Value, run: &dyn Fn(&str) -> Result<String, RenderError>) -> Result<Value, RenderError> {
    Ok(match value {
        Value::String(text) => Value::String(run(text)?),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| map_texts(item, run)).collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let mut mapped = Map::new();
            for (key, member) in members {
                mapped.insert(key.clone(), map_texts(member, run)?);
            }
            Value::Object(mapped)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ntf_204_later_templates_set_what_they_have() {
        let read = |value: Value| Notification::read(&value).unwrap();
        let mut merged = read(json!({"message": "A", "slack": {"username": "u", "icon": "i"}}));
        merged.overlay(&read(json!({"message": "B", "slack": {"icon": "j", "username": ""}})));
        merged.overlay(&read(json!({"email": {"subject": "S"}})));
        let expected = json!({"slack": {"username": "u", "icon": "j"}, "email": {"subject": "S"}});
        assert_eq!((merged.message.as_str(), Value::Object(merged.blocks)), ("B", expected));
    }
}
