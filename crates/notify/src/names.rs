//! What a configuration has, by name, whether or not all of it can be used (API-184).

use std::collections::{BTreeMap, BTreeSet};

/// Names of services, triggers and templates, each in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of services.
    pub services: BTreeSet<String>,
    /// Of triggers.
    pub triggers: BTreeSet<String>,
    /// Of templates.
    pub templates: BTreeSet<String>,
}

impl Names {
    /// The names in the data of a `ConfigMap`.
    #[must_use]
    pub fn of(data: &BTreeMap<String, String>) -> Self {
        let mut names = Self::default();
        let built_in = (data.get("catalog").map(String::as_str) == Some("builtin")).then(crate::catalog);
        for key in built_in.iter().flatten().map(|(key, _)| key).chain(data.keys()) {
            let Some((area, name)) = key.split_once('.') else { continue };
            let (set, name) = match area {
                // `service.<type>` or `service.<type>.<name>` (NTF-3).
                "service" => (&mut names.services, name.split_once('.').map_or(name, |(_, name)| name)),
                "trigger" => (&mut names.triggers, name),
                "template" => (&mut names.templates, name),
                _ => continue,
            };
            set.insert(name.to_owned());
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_184_names_are_those_of_the_keys() {
        let keys =
            ["service.slack", "service.email.post", "trigger.on-x", "template.a.b", "context", "triggers"];
        let data = keys.iter().map(|key| ((*key).to_owned(), "{{ broken".to_owned())).collect();
        let names = Names::of(&data);
        let shown = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(shown(&names.services), "post slack");
        assert_eq!((shown(&names.triggers), shown(&names.templates)), ("on-x".to_owned(), "a.b".to_owned()));
        assert_eq!(Names::of(&BTreeMap::new()), Names::default());
    }
}
