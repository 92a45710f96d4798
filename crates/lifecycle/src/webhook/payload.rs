//! The members of a payload that count, read into types: what else a payload holds is skipped while it is read,
//! and no member of any shape takes more than its own bytes (SEC-48, SEC-49).

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Changed files of one push; of more than that it is not known which.
const FILES_MAX: usize = 50_000;

/// A push of GitHub, Gogs, Gitea or GitLab.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Payload {
    #[serde(deserialize_with = "text")]
    pub(super) r#ref: String,
    #[serde(deserialize_with = "text")]
    pub(super) before: String,
    #[serde(deserialize_with = "text")]
    pub(super) after: String,
    #[serde(deserialize_with = "text")]
    pub(super) object_kind: String,
    #[serde(deserialize_with = "text")]
    pub(super) event_name: String,
    pub(super) repository: Option<Home>,
    pub(super) project: Option<Home>,
    pub(super) commits: Files,
}

/// Where a repository is shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Home {
    #[serde(deserialize_with = "text")]
    pub(super) html_url: String,
    #[serde(deserialize_with = "text")]
    pub(super) web_url: String,
    #[serde(deserialize_with = "text")]
    pub(super) default_branch: String,
}

/// Changed files of all commits.
#[derive(Debug, Default)]
pub(super) struct Files {
    names: Vec<String>,
    /// Whether some were left out.
    is_cut: bool,
}

impl Files {
    /// Sorted, each once; none where it is not known which.
    pub(super) fn into_names(mut self) -> Vec<String> {
        if self.is_cut {
            return Vec::new();
        }
        self.names.sort_unstable();
        self.names.dedup();
        self.names
    }

    fn add(&mut self, mut other: Self) {
        self.is_cut |= other.is_cut || self.names.len() + other.names.len() > FILES_MAX;
        if self.is_cut {
            self.names = Vec::new();
        } else {
            self.names.append(&mut other.names);
        }
    }
}

/// A text, or null.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

impl<'de> Deserialize<'de> for Files {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Commits)
    }
}

/// A list of commits, or null.
struct Commits;

impl<'de> Visitor<'de> for Commits {
    type Value = Files;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of commits")
    }

    fn visit_unit<E: Error>(self) -> Result<Files, E> {
        Ok(Files::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Files, A::Error> {
        let mut files = Files::default();
        while let Some(Commit(some)) = list.next_element()? {
            files.add(some);
        }
        Ok(files)
    }
}

/// The files of one commit.
struct Commit(Files);

impl<'de> Deserialize<'de> for Commit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Members).map(Self)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Files;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a commit")
    }

    fn visit_unit<E: Error>(self) -> Result<Files, E> {
        Ok(Files::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Files, A::Error> {
        let mut files = Files::default();
        while let Some(name) = members.next_key::<String>()? {
            if matches!(name.as_str(), "added" | "modified" | "removed") {
                files.add(members.next_value::<Names>()?.0);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(files)
    }
}

/// One list of names.
struct Names(Files);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameList).map(Self)
    }
}

struct NameList;

impl<'de> Visitor<'de> for NameList {
    type Value = Files;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of file names")
    }

    fn visit_unit<E: Error>(self) -> Result<Files, E> {
        Ok(Files::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Files, A::Error> {
        let mut files = Files::default();
        while !files.is_cut {
            match list.next_element::<Option<String>>()? {
                Some(Some(name)) => files.add(Files { names: vec![name], is_cut: false }),
                Some(None) => {}
                None => return Ok(files),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Delivery, Request, receive};
    use super::*;

    fn files(text: &str) -> Vec<String> {
        serde_json::from_str::<Payload>(text).unwrap().commits.into_names()
    }

    /// SEC-49: missing, null and renamed members are nothing; another shape is an error, never a panic.
    #[test]
    fn sec_49_every_member_may_be_missing_or_null() {
        for text in [
            "{}",
            r#"{"ref":null,"before":null,"after":null,"repository":null,"project":null,"commits":null}"#,
            r#"{"repository":{"html_url":null,"default_branch":null},"commits":[]}"#,
            r#"{"commits":[null,{},{"added":null},{"added":[null]},{"x":{"added":[7]}}]}"#,
        ] {
            assert_eq!(files(text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(files(r#"{"commits":[{"added":["b","a"],"id":7},{"removed":["a"]}]}"#), ["a", "b"]);
        let members =
            ["ref", "before", "after", "object_kind", "event_name", "repository", "project", "commits"];
        for member in members {
            for value in ["7", "true", "1e999", r#"[["x"]]"#, r#""\ud800""#] {
                let text = format!(r#"{{"{member}":{value}}}"#);
                assert!(serde_json::from_str::<Payload>(&text).is_err(), "{text}");
            }
        }
        // What is skipped costs nothing, however deep; what is kept has no depth.
        let deep = |member: &str| format!(r#"{{"{member}":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(serde_json::from_str::<Payload>(&deep("x")).is_ok());
        assert!(serde_json::from_str::<Payload>(&deep("commits")).is_err());
    }

    /// A push with the members of all providers.
    fn sample() -> Value {
        let home = json!({"html_url": "https://h/r", "web_url": "https://h/r", "default_branch": "main"});
        json!({"ref": "refs/heads/main", "before": "a", "after": "b", "object_kind": "push",
            "event_name": "push", "repository": home, "project": home, "changes": [{"ref": {"id": "refs/heads/main"}}], "eventType": "git.push",
            "commits": [{"added": ["a"], "modified": ["b"], "removed": ["c"]}],
            "push": {"changes": [{"new": {"name": "main", "target": {"hash": "b"}}}]},
            "resource": {"refUpdates": [{"name": "refs/heads/main"}], "repository": {"remoteUrl": "https://h/r"}}})
    }

    /// Pointers of everything below a value.
    fn places(value: &Value, at: &str, found: &mut Vec<String>) {
        let members: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(name, member)| (name.clone(), member)).collect(),
            Value::Array(list) => list.iter().enumerate().map(|(n, item)| (n.to_string(), item)).collect(),
            _ => Vec::new(),
        };
        for (name, member) in members {
            let place = format!("{at}/{name}");
            places(member, &place, found);
            found.push(place);
        }
    }

    /// SEC-49: for every provider, whatever one member is made of, or its absence, ends in an answer.
    #[test]
    fn sec_49_no_member_of_any_provider_ends_the_process() {
        let mut found = Vec::new();
        places(&sample(), "", &mut found);
        let senders = [
            ("x-github-event", "push", true),
            ("x-gogs-event", "push", true),
            ("x-gitlab-event", "Push Hook", true),
            ("x-gitlab-event", "System Hook", true),
            ("x-hook-uuid", "repo:push", true),
            ("x-event-key", "repo:refs_changed", true),
            ("x-vss-activityid", "1", true),
        ];
        let long = "x".repeat(100_000);
        let kinds =
            [json!(null), json!(7), json!(-1.5), json!(true), json!(long), json!([]), json!([[null]])];
        let others = [json!({}), json!({"x": {}})];
        let mut count = 0;
        for (header, event, is_known) in senders {
            for place in &found {
                let (parent, name) = place.rsplit_once('/').unwrap();
                for value in kinds.iter().chain(&others).map(Some).chain([None]) {
                    let mut payload = sample();
                    match (value, payload.pointer_mut(parent).unwrap()) {
                        (Some(value), parent) => match parent {
                            Value::Object(map) => map[name] = value.clone(),
                            list => list[name.parse::<usize>().unwrap()] = value.clone(),
                        },
                        (None, Value::Object(map)) => {
                            let member = map.remove(name).unwrap();
                            map.insert(format!("{name}x"), member);
                        }
                        (None, list) => list.as_array_mut().unwrap().clear(),
                    }
                    let (_, delivery) = receive(&Request {
                        method: "POST",
                        header: |asked: &str| {
                            (asked == header || (header == "x-hook-uuid" && asked == "x-event-key"))
                                .then_some(event)
                        },
                        body: payload.to_string().as_bytes(),
                        secret: |_: &str| String::new(),
                        megabytes_max: None,
                        allow_without_secret: false,
                    });
                    let is_refused = matches!(delivery, Delivery::Refused { status: 400, .. });
                    assert!(is_known || is_refused, "{header} {place}");
                    count += 1;
                }
            }
        }
        assert!(count >= 2000, "{count}");
    }

    /// SEC-48: what is kept of a payload is no larger than the payload.
    #[test]
    fn sec_48_many_files_are_unknown_files() {
        let list = |count: usize| format!(r#"{{"commits":[{{"added":[{}""]}}]}}"#, r#""a","#.repeat(count));
        assert_eq!(files(&list(10)), ["", "a"]);
        assert_eq!(files(&list(FILES_MAX)), Vec::<String>::new());
        let commits = format!(r#"{{"commits":[{}{{}}]}}"#, r#"{"added":["a"]},"#.repeat(FILES_MAX + 1));
        assert_eq!(files(&commits), Vec::<String>::new());
        let empty =
            serde_json::from_str::<Payload>(&format!(r#"{{"commits":[{}{{}}]}}"#, "{},".repeat(300_000)));
        assert_eq!(empty.unwrap().commits.names.capacity(), 0);
    }
}
