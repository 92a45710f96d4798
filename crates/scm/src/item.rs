//! Members of what a server sends. What is missing is an error, never an empty text.

use serde_json::Value;

/// Something in an answer, and what it is called in errors.
#[derive(Clone, Copy)]
pub(crate) struct Item<'v> {
    pub(crate) value: &'v Value,
    name: &'static str,
}

impl<'v> Item<'v> {
    pub(crate) fn of(name: &'static str, value: &'v Value) -> Self {
        Self { value, name }
    }

    /// A member by its path; nothing when it is absent or null.
    pub(crate) fn get(&self, path: &str) -> Option<&'v Value> {
        let found = path.split('.').try_fold(self.value, |value, member| value.get(member));
        found.filter(|value| !value.is_null())
    }

    fn missing(&self, path: &str) -> String {
        format!("{} has no {path}", self.name)
    }

    /// A text that has to be there, and not be empty.
    pub(crate) fn text(&self, path: &str) -> Result<String, String> {
        self.some(path).ok_or_else(|| self.missing(path))
    }

    /// A text that may be absent or empty.
    pub(crate) fn some(&self, path: &str) -> Option<String> {
        self.get(path).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A number that has to be there.
    pub(crate) fn number(&self, path: &str) -> Result<i64, String> {
        self.get(path).and_then(Value::as_i64).ok_or_else(|| self.missing(path))
    }

    /// A switch; off when it is absent.
    pub(crate) fn is_on(&self, path: &str) -> bool {
        self.get(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A list that has to be there.
    pub(crate) fn list(&self, path: &str) -> Result<&'v [Value], String> {
        self.get(path).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| self.missing(path))
    }

    /// Texts of a list; none when it is absent.
    pub(crate) fn texts(&self, path: &str) -> Result<Vec<String>, String> {
        let Some(list) = self.get(path) else { return Ok(Vec::new()) };
        let texts = list.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
        texts.and_then(Iterator::collect::<Option<_>>).ok_or_else(|| self.missing(path))
    }

    /// Names of a list of objects; none when it is absent.
    pub(crate) fn names(&self, path: &str) -> Result<Vec<String>, String> {
        match self.get(path) {
            None => Ok(Vec::new()),
            Some(_) => self.list(path)?.iter().map(|item| Item::of("a label", item).text("name")).collect(),
        }
    }
}

/// Each item of a list.
pub(crate) fn each<T>(
    list: &Value,
    name: &'static str,
    read: impl Fn(Item<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let items = list.as_array().ok_or("it is no list")?;
    items.iter().map(|item| read(Item::of(name, item))).collect()
}

/// The same, of the list in a member.
pub(crate) fn each_in<T>(
    body: &Value,
    member: &str,
    name: &'static str,
    read: impl Fn(Item<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    each(body.get(member).unwrap_or(&Value::Null), name, read)
}
