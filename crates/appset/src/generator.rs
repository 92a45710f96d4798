//! Generators as they are written: which kinds an entry holds, and how their fields are read (ASET-2, ASET-3).

use std::time::Duration;

use serde_json::{Map, Value};
use tiphys_api::ApplicationSet;
use tiphys_api::names::LAST_APPLIED;
use tiphys_api::settings::ApplicationSets;

/// How often generators ask again that speak to providers and plugins (ASET-27).
const PROVIDER_REQUEUE: Duration = Duration::from_mins(30);
/// Unknown generators that are named.
const NAMES_MAX: usize = 20;

/// A kind of generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Parameters written in the set.
    List,
    /// Registered clusters.
    Clusters,
    /// Directories or files of a repository.
    Git,
    /// Repositories of a provider.
    ScmProvider,
    /// Clusters that another resource chose.
    ClusterDecisionResource,
    /// Pull requests of a provider.
    PullRequest,
    /// Each combination of two generators.
    Matrix,
    /// Several generators, merged by key.
    Merge,
    /// What a service returns.
    Plugin,
}

impl Kind {
    /// All of them, in the order in which those of one entry run (ASET-11).
    pub const ALL: [Self; 9] = [
        Self::List,
        Self::Clusters,
        Self::Git,
        Self::ScmProvider,
        Self::ClusterDecisionResource,
        Self::PullRequest,
        Self::Matrix,
        Self::Merge,
        Self::Plugin,
    ];

    /// Its member in an entry.
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Clusters => "clusters",
            Self::Git => "git",
            Self::ScmProvider => "scmProvider",
            Self::ClusterDecisionResource => "clusterDecisionResource",
            Self::PullRequest => "pullRequest",
            Self::Matrix => "matrix",
            Self::Merge => "merge",
            Self::Plugin => "plugin",
        }
    }

    /// Whether it holds further generators.
    pub fn is_combination(self) -> bool {
        matches!(self, Self::Matrix | Self::Merge)
    }
}

/// How deep an entry stands in others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// In the set.
    Top,
    /// In a matrix or merge of the set.
    Child,
    /// In a matrix or merge of one; nothing stands deeper (ASET-3).
    Grandchild,
}

impl Level {
    /// That of what stands in an entry of this level; `None` for what is not recognised any more.
    fn below(self) -> Option<Self> {
        match self {
            Self::Top => Some(Self::Child),
            Self::Child => Some(Self::Grandchild),
            Self::Grandchild => None,
        }
    }
}

/// A generator of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Generator<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its fields.
    pub block: &'a Map<String, Value>,
}

/// The generators of an entry, in the order in which they run.
pub fn generators_of(entry: &Map<String, Value>, level: Level) -> impl Iterator<Item = Generator<'_>> {
    let may_combine = level.below().is_some();
    Kind::ALL
        .into_iter()
        .filter(move |kind| may_combine || !kind.is_combination())
        .filter_map(|kind| Some(Generator { kind, block: entry.get(kind.name())?.as_object()? }))
}

/// The entries that a combination holds, and their level.
pub fn children(generator: Generator<'_>, level: Level) -> (Vec<&Map<String, Value>>, Level) {
    let entries = generator.block.get("generators").and_then(Value::as_array).into_iter().flatten();
    (entries.filter_map(Value::as_object).collect(), level.below().unwrap_or(Level::Grandchild))
}

/// Whether a generator of a kind stands anywhere in a set.
pub fn uses(set: &ApplicationSet, wanted: impl Fn(Kind) -> bool) -> bool {
    let mut found = false;
    for entry in &set.spec.generators {
        visit(entry, Level::Top, &mut |generator| found |= wanted(generator.kind));
    }
    found
}

/// Looks at all generators of an entry, the outer ones first.
pub fn visit<'a>(entry: &'a Map<String, Value>, level: Level, look: &mut dyn FnMut(Generator<'a>)) {
    for generator in generators_of(entry, level) {
        look(generator);
        if generator.kind.is_combination() {
            let (entries, level) = children(generator, level);
            for entry in entries {
                visit(entry, level, look);
            }
        }
    }
}

/// The text about generators that are not recognised; `None` when all are (ASET-12).
pub fn unrecognized(set: &ApplicationSet) -> Option<String> {
    let unknown: Vec<usize> = (set.spec.generators.iter().enumerate())
        .filter(|(_, entry)| generators_of(entry, Level::Top).next().is_none())
        .map(|(at, _)| at)
        .collect();
    if unknown.is_empty() {
        return None;
    }
    let applied = set.metadata.annotations.get(LAST_APPLIED);
    let applied: Option<Value> = applied.and_then(|text| serde_json::from_str(text).ok());
    let entries = applied.as_ref().and_then(|set| set.pointer("/spec/generators")).and_then(Value::as_array);
    let name = |at: &usize| {
        let entry = entries?.get(*at)?.as_object()?;
        entry.keys().find(|key| *key != "selector").map(|key| key.chars().take(64).collect::<String>())
    };
    let mut names: Vec<String> = unknown.iter().filter_map(name).take(NAMES_MAX).collect();
    names.sort();
    let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    Some(format!("ApplicationSet {} contains unrecognized generators{names}", set.metadata.name))
}

/// When a set is looked at again; `None` when nothing asks for it (ASET-27).
pub fn requeue_after(set: &ApplicationSet, settings: &ApplicationSets) -> Option<Duration> {
    set.spec.generators.iter().filter_map(|entry| entry_requeue(entry, Level::Top, settings)).min()
}

fn entry_requeue(entry: &Map<String, Value>, level: Level, settings: &ApplicationSets) -> Option<Duration> {
    let one = |generator: Generator<'_>| match generator.kind {
        Kind::List | Kind::Clusters => None,
        Kind::Matrix | Kind::Merge => {
            let (entries, level) = children(generator, level);
            entries.into_iter().filter_map(|entry| entry_requeue(entry, level, settings)).min()
        }
        Kind::Git | Kind::ClusterDecisionResource => Some(own_requeue(generator, settings.requeue_after)),
        Kind::ScmProvider | Kind::PullRequest | Kind::Plugin => {
            Some(own_requeue(generator, PROVIDER_REQUEUE))
        }
    };
    generators_of(entry, level).filter_map(one).filter(|after| !after.is_zero()).min()
}

fn own_requeue(generator: Generator<'_>, default: Duration) -> Duration {
    match generator.block.get("requeueAfterSeconds").and_then(Value::as_f64) {
        Some(seconds) => Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(default),
        None => default,
    }
}

/// A text field; absent and null are empty.
pub(crate) fn text<'a>(block: &'a Map<String, Value>, name: &str) -> &'a str {
    block.get(name).and_then(Value::as_str).unwrap_or("")
}

/// A boolean field; absent and null are false.
pub(crate) fn flag(block: &Map<String, Value>, name: &str) -> bool {
    block.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// A list of objects.
pub(crate) fn objects<'a>(
    block: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a Map<String, Value>> {
    block.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(spec: Value) -> ApplicationSet {
        serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap()
    }

    fn generators(entries: Value) -> ApplicationSet {
        set(json!({"generators": entries, "template": {}}))
    }

    #[test]
    fn aset_11_kinds_of_one_entry_have_an_order() {
        let entry =
            json!({"plugin": {}, "merge": {}, "list": {}, "git": null, "clusters": {}, "selector": {}});
        let entry = entry.as_object().unwrap();
        let names: Vec<_> = generators_of(entry, Level::Top).map(|found| found.kind.name()).collect();
        assert_eq!(names, ["list", "clusters", "merge", "plugin"]);
        let names: Vec<_> = generators_of(entry, Level::Grandchild).map(|found| found.kind.name()).collect();
        assert_eq!(names, ["list", "clusters", "plugin"], "ASET-3");
    }

    #[test]
    fn aset_12_unknown_generators_are_named_by_what_was_applied() {
        let mut found = generators(json!([{}, {"list": {}}, {"selector": {}}]));
        assert_eq!(
            unrecognized(&found).as_deref(),
            Some("ApplicationSet s contains unrecognized generators")
        );
        let applied =
            json!({"spec": {"generators": [{"zebra": {}}, {"list": {}}, {"apple": {}, "selector": {}}]}});
        found.metadata.annotations.insert(LAST_APPLIED.to_owned(), applied.to_string());
        assert_eq!(
            unrecognized(&found).as_deref(),
            Some("ApplicationSet s contains unrecognized generators: apple, zebra")
        );
        assert_eq!(unrecognized(&generators(json!([{"clusters": {}}]))), None);
    }

    #[test]
    fn aset_27_the_shortest_interval_counts() {
        let settings = ApplicationSets::default();
        let seconds =
            |entries: Value| requeue_after(&generators(entries), &settings).map(|after| after.as_secs());
        assert_eq!(seconds(json!([{"list": {}}, {"clusters": {}}])), None);
        assert_eq!(seconds(json!([{"git": {}}])), Some(180));
        assert_eq!(seconds(json!([{"git": {"requeueAfterSeconds": 60}}, {"plugin": {}}])), Some(60));
        assert_eq!(seconds(json!([{"git": {"requeueAfterSeconds": 0}}])), None);
        assert_eq!(seconds(json!([{"pullRequest": {}}])), Some(1800));
        let nested = json!([{"matrix": {"generators": [
            {"list": {}},
            {"merge": {"generators": [{"scmProvider": {}}, {"git": {"requeueAfterSeconds": 90}}]}}]}}]);
        assert_eq!(seconds(nested), Some(90));
    }

    #[test]
    fn aset_180_generators_are_found_at_every_level() {
        let nested = generators(json!([{"matrix": {"generators": [
            {"list": {}}, {"merge": {"generators": [{"clusters": {}}]}}]}}]));
        assert!(uses(&nested, |kind| kind == Kind::Clusters));
        assert!(!uses(&nested, |kind| kind == Kind::Git));
    }
}
