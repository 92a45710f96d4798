//! Members of a block as they are written, by name and type.

use serde_json::{Map, Value};

use crate::ScmError;

/// The members of a block. What nobody asked for is an error in the end.
pub(crate) struct Fields<'b> {
    name: &'static str,
    members: &'b Map<String, Value>,
    asked: Vec<&'static str>,
}

impl<'b> Fields<'b> {
    pub(crate) fn of(name: &'static str, members: &'b Map<String, Value>) -> Self {
        Self { name, members, asked: Vec::new() }
    }

    /// A member that is there and not null.
    fn get(&mut self, member: &'static str) -> Option<&'b Value> {
        self.asked.push(member);
        self.members.get(member).filter(|value| !value.is_null())
    }

    /// A member that is for others to read.
    pub(crate) fn pass(&mut self, member: &'static str) {
        self.asked.push(member);
    }

    pub(crate) fn wrong(&self, member: &str, wanted: &str) -> ScmError {
        ScmError::Block(format!("{}.{member}: {wanted} is needed", self.name))
    }

    /// A text; empty when it is absent.
    pub(crate) fn text(&mut self, member: &'static str) -> Result<String, ScmError> {
        match self.get(member) {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(self.wrong(member, "a text")),
        }
    }

    /// A text that has to be there.
    pub(crate) fn needed(&mut self, member: &'static str) -> Result<String, ScmError> {
        let text = self.text(member)?;
        if text.is_empty() { Err(self.wrong(member, "a text")) } else { Ok(text) }
    }

    /// A switch; nothing when it is absent.
    pub(crate) fn flag(&mut self, member: &'static str) -> Result<Option<bool>, ScmError> {
        match self.get(member) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => Err(self.wrong(member, "true or false")),
        }
    }

    /// A switch that is off when it is absent.
    pub(crate) fn is_on(&mut self, member: &'static str) -> Result<bool, ScmError> {
        Ok(self.flag(member)?.unwrap_or(false))
    }

    /// A list of texts; empty when it is absent.
    pub(crate) fn texts(&mut self, member: &'static str) -> Result<Vec<String>, ScmError> {
        let wrong = |fields: &Self| fields.wrong(member, "a list of texts");
        match self.get(member) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
                texts.collect::<Option<_>>().ok_or_else(|| wrong(self))
            }
            Some(_) => Err(wrong(self)),
        }
    }

    /// An object.
    pub(crate) fn object(
        &mut self,
        member: &'static str,
    ) -> Result<Option<&'b Map<String, Value>>, ScmError> {
        match self.get(member) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(_) => Err(self.wrong(member, "an object")),
        }
    }

    /// A list of objects; empty when it is absent.
    pub(crate) fn objects(&mut self, member: &'static str) -> Result<Vec<&'b Map<String, Value>>, ScmError> {
        let wrong = |fields: &Self| fields.wrong(member, "a list of objects");
        match self.get(member) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                items.iter().map(Value::as_object).collect::<Option<_>>().ok_or_else(|| wrong(self))
            }
            Some(_) => Err(wrong(self)),
        }
    }

    /// Nothing else may be there.
    pub(crate) fn end(self) -> Result<(), ScmError> {
        match self.members.keys().find(|member| !self.asked.contains(&member.as_str())) {
            None => Ok(()),
            Some(unknown) => Err(ScmError::Block(format!("{}.{unknown}: there is no such field", self.name))),
        }
    }
}
