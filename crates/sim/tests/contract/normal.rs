//! What differs from run to run and says nothing: replaced by placeholders, equal ones for equal values.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::{SignedDuration, Timestamp};
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

/// Letters and digits of generated names: no vowels, nothing that looks like something else.
const GENERATED: &str = "[bcdfghjklmnpqrstvwxz2456789]";

/// One rule for text: a pattern, and what stands for its first group (or all of it).
struct Rule {
    pattern: Regex,
    /// Kind of the placeholder; a `#` at the end numbers the values.
    placeholder: &'static str,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let rule = |pattern: &str, placeholder| Rule { pattern: Regex::new(pattern).unwrap(), placeholder };
    vec![
        rule(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----(?:\n|\\n)?", "certificate"),
        rule(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "uid#"),
        // Headers of files that `diff` prints, and dates of `kubectl describe`.
        rule(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ [+-]\d{4}", "time"),
        rule(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000", "time"),
        rule(r"(?:LIVE|MERGED)-(\d+)", "number"),
        rule(r#"Invalid value: ("\{.*\}"): "#, "object"),
        rule(r"Invalid value: (\[\{.*?\}\]): ", "object"),
        // Go prints its own structs side by side, with members that no manifest has.
        rule(r"(?s)for bound claims\n((?:@@ .*)?)$", "diff"),
        rule(r#"resourceVersion"?: "(\d+)""#, "version#"),
        rule(r"resource version: (\d+)", "version"),
        rule(r"ResourceVersion in record \((\d+)\)", "version"),
        rule(r"resource version: <version> \((\d+)\)", "version"),
        rule(r"resource version: <version>, current: (\d+)", "version"),
        // The service range of the test bed and the addresses of simulated Pods.
        rule(r"\b10\.\d+\.\d+\.\d+\b", "ip"),
        rule(r":(3[0-2]\d{3})/", "port"),
        rule(r"[nN]odePort(?:: +| {2,}\S+ +|: )(3[0-2]\d{3})\b", "port"),
        // Hashes of templates come from Go's way to print a struct: nobody relies on their value.
        rule(&format!(r"-({GENERATED}{{8,10}})\b"), "hash#"),
        rule(&format!(r"[-_]({GENERATED}{{5}})\b"), "random#"),
        rule(r"\.([0-9a-f]{16})\b", "event#"),
    ]
});
static TIME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)").unwrap());
static AGE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)(^|\s|\()(?:\d+[smhdy](?:\d+[smhd])?|<unknown>)(\s|$|\))").unwrap());
static BLANKS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(\S) {2,}").unwrap());
static TRAILING: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?m) +$").unwrap());

/// What kubectl's libraries log, for example when a watch ends a moment before a wait does.
static LOGGED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^[EIW]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n?").unwrap());

/// The placeholders of one case.
#[derive(Default)]
pub(crate) struct Normal {
    /// Texts that stand for themselves, longest first.
    literals: Vec<(String, String)>,
    /// Values by kind of placeholder.
    seen: BTreeMap<String, Vec<String>>,
}

impl Normal {
    /// Replaces a text wherever it occurs.
    pub(crate) fn literal(&mut self, text: &str, placeholder: &str) {
        self.literals.push((text.to_owned(), placeholder.to_owned()));
        self.literals.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    }

    /// A text without what differs.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (literal, placeholder) in &self.literals {
            text = text.replace(literal, placeholder);
        }
        text = TIME.replace_all(&text, |found: &Captures<'_>| moment(&found[0])).into_owned();
        for rule in RULES.iter() {
            text = self.follow(rule, &text);
        }
        text
    }

    /// What a program printed for people: also without ages, and columns as wide as they may be.
    pub(crate) fn printed(&mut self, text: &str) -> String {
        let text = self.text(&LOGGED.replace_all(text, ""));
        // Two, because neighbours share the blank between them.
        let text = AGE.replace_all(&text, "${1}<age>${2}");
        let text = AGE.replace_all(&text, "${1}<age>${2}");
        let text = BLANKS.replace_all(&text, "${1}  ");
        TRAILING.replace_all(&text, "").into_owned()
    }

    fn follow(&mut self, rule: &Rule, text: &str) -> String {
        let replaced = rule.pattern.replace_all(text, |found: &Captures<'_>| {
            let whole = &found[0];
            let Some(part) = found.get(1) else { return self.placeholder(rule.placeholder, whole) };
            let begin = found.get(0).unwrap().start();
            let placeholder = self.placeholder(rule.placeholder, part.as_str());
            let mut all = whole.to_owned();
            all.replace_range(part.start() - begin..part.end() - begin, &placeholder);
            all
        });
        replaced.into_owned()
    }

    fn placeholder(&mut self, kind: &str, value: &str) -> String {
        let Some(kind) = kind.strip_suffix('#') else { return format!("<{kind}>") };
        let values = self.seen.entry(kind.to_owned()).or_default();
        let index = values.iter().position(|seen| seen == value).unwrap_or_else(|| {
            values.push(value.to_owned());
            values.len() - 1
        });
        format!("<{kind}-{}>", index + 1)
    }

    /// A tree without what differs.
    pub(crate) fn value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(members) => self.object(members),
            other => other.clone(),
        }
    }

    fn object(&mut self, members: &Map<String, Value>) -> Value {
        let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
        let is_list = kind.ends_with("List") || kind == "Table" || members.contains_key("items");
        let is_bookmark = members.get("type").is_some_and(|one| one == "BOOKMARK");
        let mut result = Map::new();
        for (name, value) in members {
            let value = match name.as_str() {
                // The version of a collection rises with the writes of other cases.
                "metadata" if is_list => self.collection(value),
                "object" if is_bookmark => self.bookmark(value),
                _ => match self.member(name, value) {
                    Some(value) => value,
                    None => continue,
                },
            };
            result.insert(self.text(name), value);
        }
        Value::Object(result)
    }

    /// A member by its name; `None` when it is left out.
    fn member(&mut self, name: &str, value: &Value) -> Option<Value> {
        let text = value.as_str().unwrap_or_default();
        Some(match name {
            "resourceVersion" if is_number(text) => json!(self.placeholder("version#", text)),
            "pod-template-hash" | "controller-revision-hash" | "controller.kubernetes.io/hash"
                if value.is_string() =>
            {
                let hash = text.rsplit('-').next().unwrap_or_default();
                let placeholder = self.placeholder("hash#", hash);
                json!(self.text(text).replace(hash, &placeholder))
            }
            "nodePort" | "healthCheckNodePort" if value.is_u64() => json!("<port>"),
            // A hash of what the storage layer is made of.
            "storageVersionHash" => return None,
            // Prose of the Kubernetes project, which only people read.
            "columnDefinitions" => {
                let mut columns = value.clone();
                for column in columns.as_array_mut().into_iter().flatten() {
                    column.as_object_mut()?.remove("description");
                }
                self.value(&columns)
            }
            "cells" => {
                value.as_array().into_iter().flatten().map(|cell| self.cell(cell)).collect::<Vec<_>>().into()
            }
            _ => self.value(value),
        })
    }

    fn cell(&mut self, cell: &Value) -> Value {
        match cell {
            Value::String(text) => json!(self.printed(text)),
            other => self.value(other),
        }
    }

    fn collection(&mut self, metadata: &Value) -> Value {
        let mut metadata = metadata.clone();
        for (member, placeholder) in [("resourceVersion", "<list-version>"), ("continue", "<continue>")] {
            if metadata[member].as_str().is_some_and(|text| !text.is_empty()) {
                metadata[member] = json!(placeholder);
            }
        }
        self.value(&metadata)
    }

    fn bookmark(&mut self, object: &Value) -> Value {
        let mut object = object.clone();
        // Go writes out the members that an empty object of the kind must have; nobody reads more of a
        // bookmark than its metadata.
        if let Some(members) = object.as_object_mut() {
            members.retain(|member, _| !matches!(member.as_str(), "spec" | "status"));
        }
        if object["metadata"]["resourceVersion"].as_str().is_some_and(is_number) {
            object["metadata"]["resourceVersion"] = json!("<bookmark-version>");
        }
        self.value(&object)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text != "0" && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Lists whose order is that of a busy machine or of a Go map, in an order of their own.
pub(crate) fn settle(value: &mut Value, unordered: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| settle(item, unordered)),
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                settle(member, unordered);
                let Some(items) = member.as_array_mut() else { continue };
                match name.as_str() {
                    // Entries of one operation are in the order of their seconds.
                    "managedFields" => items.sort_by_key(|entry| {
                        ["operation", "manager", "subresource", "apiVersion"]
                            .map(|key| entry[key].to_string())
                    }),
                    // Managers in conflict are in the order of a Go map, and so are some rules of schemas.
                    "causes"
                        if unordered || items.iter().all(|one| one["reason"] == "FieldManagerConflict") =>
                    {
                        items.sort_by_key(Value::to_string);
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// A moment of this run is a placeholder; one that a case wrote stays.
fn moment(text: &str) -> String {
    let near = text
        .parse::<Timestamp>()
        .is_ok_and(|time| Timestamp::now().duration_since(time).abs() < SignedDuration::from_hours(12));
    if !near {
        return text.to_owned();
    }
    if text.contains('.') { "<microtime>".to_owned() } else { "<time>".to_owned() }
}
