//! The `fields` parameter: which members of an answer are sent (API-P29, API-P30).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Which members are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    paths: BTreeSet<String>,
    is_exclusion: bool,
}

/// What can be selected of each Application of a list.
const APPLICATION_PATHS: [&str; 24] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.annotations",
    "metadata.labels",
    "metadata.creationTimestamp",
    "metadata.deletionTimestamp",
    "spec",
    "spec.destination",
    "spec.project",
    "spec.source",
    "spec.sources",
    "spec.sourceHydrator",
    "spec.syncPolicy",
    "status.sourceHydrator",
    "status.summary",
    "status.sync.status",
    "status.sync.revision",
    "status.health",
    "status.operationState.startedAt",
    "status.operationState.finishedAt",
    "status.operationState.phase",
    "status.operationState.operation.sync",
    "status.resources",
    "operation.sync",
];

impl Selection {
    /// Reads `a.b,c.d` or `-a.b`; `None` when nothing is selected, which keeps everything.
    pub fn read(text: &str) -> Option<Self> {
        let (text, is_exclusion) = match text.strip_prefix('-') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let paths: BTreeSet<String> =
            text.split(',').map(str::trim).filter(|path| !path.is_empty()).map(str::to_owned).collect();
        (!paths.is_empty()).then_some(Self { paths, is_exclusion })
    }

    /// Removes from an answer what is not selected.
    pub fn apply(&self, value: &mut Value) {
        self.walk(value, "");
    }

    fn walk(&self, value: &mut Value, path: &str) {
        match value {
            Value::Object(members) => members.retain(|key, inner| {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let is_listed = self.paths.contains(&path);
                if self.is_exclusion {
                    if !is_listed {
                        self.walk(inner, &path);
                    }
                    return !is_listed;
                }
                if is_listed {
                    return true;
                }
                let is_above = self.is_above(&path);
                if is_above {
                    self.walk(inner, &path);
                }
                is_above
            }),
            Value::Array(items) => items.iter_mut().for_each(|item| self.walk(item, path)),
            _ => {}
        }
    }

    /// Whether something below a path is listed; beginnings of texts are compared, as the reference does.
    fn is_above(&self, path: &str) -> bool {
        self.paths.range(path.to_owned()..).next().is_some_and(|listed| listed.starts_with(path))
    }

    /// What is selected of the Applications of a list.
    pub fn of_applications(&self) -> ApplicationFields {
        let mut fields = Fields::default();
        for path in APPLICATION_PATHS.iter().filter(|path| self.is_selected(path)) {
            // The sync of the operation that ran is its result, in the reference.
            let (source, shown) = match *path {
                "status.operationState.operation.sync" => {
                    ("status.operationState.syncResult", Some(("operation", "sync")))
                }
                path => (path, None),
            };
            fields.add(source, shown);
        }
        ApplicationFields(fields)
    }

    fn is_selected(&self, path: &str) -> bool {
        self.paths.contains(&format!("items.{path}")) != self.is_exclusion
    }
}

/// What is selected of the Applications of a list; works on their text, of which most is only passed over.
#[derive(Clone, Debug)]
pub struct ApplicationFields(Fields);

impl ApplicationFields {
    /// Appends an Application with what is selected of it.
    ///
    /// # Errors
    /// When the text is no JSON object, or ends early; what was appended is then of no use.
    pub fn write(&self, application: &[u8], out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(application);
        Members { fields: &self.0, out }.deserialize(&mut reader)?;
        reader.end()
    }
}

/// Selected members of an object.
#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, Selected>);

/// What is selected of a member.
#[derive(Clone, Debug)]
enum Selected {
    /// All of it, shown as itself, or as a member of an object that is shown instead.
    Whole(Option<(&'static str, &'static str)>),
    /// Some of its members.
    Some(Fields),
}

impl Fields {
    fn add(&mut self, path: &'static str, shown: Option<(&'static str, &'static str)>) {
        match path.split_once('.') {
            None => drop(self.0.insert(path, Selected::Whole(shown))),
            Some((first, rest)) => {
                let inner = self.0.entry(first).or_insert_with(|| Selected::Some(Self::default()));
                // What an ancestor brings is whole already.
                if let Selected::Some(inner) = inner {
                    inner.add(rest, shown);
                }
            }
        }
    }
}

/// Writes the selected members of an object, in their order.
struct Members<'s, 'o> {
    fields: &'s Fields,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Members<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.out.push(b'{');
        let mut is_first = true;
        while let Some(Key(key)) = map.next_key()? {
            match self.fields.0.get(&*key) {
                None => drop(map.next_value::<IgnoredAny>()?),
                Some(Selected::Whole(shown)) => {
                    let value: &RawValue = map.next_value()?;
                    if value.get() == "null" {
                        continue;
                    }
                    comma(self.out, &mut is_first);
                    match shown {
                        None => member(self.out, &key, value.get()),
                        Some((outer, inner)) => {
                            member(self.out, outer, "{");
                            member(self.out, inner, value.get());
                            self.out.push(b'}');
                        }
                    }
                }
                Some(Selected::Some(fields)) => {
                    let value: &RawValue = map.next_value()?;
                    if !value.get().starts_with('{') {
                        continue;
                    }
                    let (before, was_first) = (self.out.len(), is_first);
                    comma(self.out, &mut is_first);
                    member(self.out, &key, "");
                    let empty = self.out.len() + "{}".len();
                    let mut reader = serde_json::Deserializer::from_str(value.get());
                    let inner = Members { fields, out: &mut *self.out };
                    inner.deserialize(&mut reader).map_err(serde::de::Error::custom)?;
                    // An object of which nothing is shown is not shown.
                    if self.out.len() == empty {
                        self.out.truncate(before);
                        is_first = was_first;
                    }
                }
            }
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// The name of a member, borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Key<'k>(#[serde(borrow)] Cow<'k, str>);

fn comma(out: &mut Vec<u8>, is_first: &mut bool) {
    if !std::mem::take(is_first) {
        out.push(b',');
    }
}

/// A member; its name is one of ours, which need no escapes.
fn member(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(b'"');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn selected(fields: &str, mut value: Value) -> Value {
        if let Some(selection) = Selection::read(fields) {
            selection.apply(&mut value);
        }
        value
    }

    #[test]
    fn api_p29_listed_paths_are_kept_or_removed() {
        let answer = json!({"result": {"type": "ADDED", "application": {"metadata": {"name": "web", "uid": "u"},
            "status": {"resources": [{"kind": "Pod", "name": "a"}, {"kind": "Pod", "health": {}}]}}}});
        assert_eq!(selected("", answer.clone()), answer);
        assert_eq!(selected(",", answer.clone()), answer, "nothing is listed");
        assert_eq!(
            selected("result.type,result.application.metadata.name", answer.clone()),
            json!({"result": {"type": "ADDED", "application": {"metadata": {"name": "web"}}}})
        );
        assert_eq!(
            selected("result.application.status.resources.kind", answer.clone()),
            json!({"result": {"application": {"status": {"resources": [{"kind": "Pod"}, {"kind": "Pod"}]}}}}),
            "places in lists are no part of a path"
        );
        assert_eq!(
            selected("-result.application.status,result.type", answer),
            json!({"result": {"application": {"metadata": {"name": "web", "uid": "u"}}}})
        );
    }

    #[test]
    fn api_p30_a_list_of_applications_has_a_fixed_set_of_paths() {
        let application = json!({"metadata": {"name": "web", "uid": "u", "labels": {"a": "b"}},
            "spec": {"project": "shop", "destination": {"namespace": "n"}, "info": []},
            "status": {"sync": {"status": "Synced", "comparedTo": {}}, "health": {"status": "Healthy"},
                "operationState": {"phase": "Succeeded", "message": "m", "syncResult": {"revision": "abc"}}}});
        let shown = |fields: &str| {
            let mut out = Vec::new();
            let fields = Selection::read(fields).unwrap().of_applications();
            fields.write(application.to_string().as_bytes(), &mut out).unwrap();
            serde_json::from_slice::<Value>(&out).unwrap()
        };
        assert_eq!(
            shown("items.metadata.name,items.metadata.uid,items.spec.project,items.status.health"),
            json!({"metadata": {"name": "web"}, "spec": {"project": "shop"}, "status": {"health": {"status": "Healthy"}}})
        );
        assert_eq!(
            shown("items.spec,items.spec.project,items.status.operationState.operation.sync"),
            json!({"spec": application["spec"],
                "status": {"operationState": {"operation": {"sync": {"revision": "abc"}}}}})
        );
        let rest = shown("-items.spec,items.metadata.labels");
        assert_eq!(rest["metadata"], json!({"name": "web"}));
        assert_eq!(rest["spec"], json!({"project": "shop", "destination": {"namespace": "n"}}));
        assert_eq!(rest["status"]["sync"], json!({"status": "Synced"}));
        assert_eq!(shown("items.status"), json!({}), "not one of the set");
    }
    #[test]
    fn api_p30_what_is_null_or_no_object_is_left_out() {
        let fields =
            Selection::read("items.spec.project,items.spec.source,items.status.health,items.metadata.labels")
                .unwrap()
                .of_applications();
        let shown = |text: &str| {
            let mut out = Vec::new();
            fields.write(text.as_bytes(), &mut out).ok().map(|()| String::from_utf8(out).unwrap())
        };
        let shows = |text: &str, expected: &str| assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        shows("{}", "{}");
        shows(
            r#"{"metadata":null,"spec":{"project":null,"source":{"path":"a\"b"}},"status":5}"#,
            r#"{"spec":{"source":{"path":"a\"b"}}}"#,
        );
        shows(
            r#"{"kind":"x","metadata":{"name":"n"},"status":{"health":{}}}"#,
            r#"{"status":{"health":{}}}"#,
        );
        shows(r#"{ "sp\u0065c" : { "project" : "p" } }"#, r#"{"spec":{"project":"p"}}"#);
        for bad in ["", "[]", "{", r#"{"spec":{"project":}}"#, "{} {}"] {
            assert_eq!(shown(bad), None, "{bad}");
        }
    }
}
