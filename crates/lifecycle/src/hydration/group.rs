//! Which applications are hydrated together, and whether they may be (CTL-108, CTL-109, CTL-111, CTL-119).

use std::collections::{BTreeMap, HashMap};

use tiphys_api::application::Hydrator;
use tiphys_api::repo_url;
use tiphys_render::TreePath;

use super::record::Outcome;

/// What one commit is made from, and where it goes (CTL-108).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// Normalised URL of the dry repository.
    pub dry_repository: String,
    /// Its revision.
    pub dry_revision: String,
    /// Normalised URL of the repository that is written.
    pub repository: String,
    /// Its branch.
    pub branch: String,
}

impl GroupKey {
    /// The group of a hydrator.
    pub fn of(hydrator: &Hydrator) -> Self {
        let (dry, sync) = (hydrator.dry_source(), hydrator.sync_source());
        Self {
            dry_repository: repo_url::normalize(&dry.repo_url),
            dry_revision: dry.target_revision.clone(),
            repository: repo_url::normalize(&sync.repo_url),
            branch: hydrator.target_branch().to_owned(),
        }
    }
}

/// One application of a group.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name, as messages have it.
    pub name: &'a str,
    /// Its hydrator.
    pub hydrator: &'a Hydrator,
}

/// Where the manifests of a hydrator go: a directory of the branch that is not its root (CTL-109, CTL-116).
///
/// # Errors
/// When they would lie in the root, outside of it, or among the files of git itself.
pub fn destination(hydrator: &Hydrator) -> Result<TreePath, String> {
    let sync = hydrator.sync_source();
    let (path, branch) = (&sync.path, hydrator.target_branch());
    let parsed = TreePath::parse(path.trim_start_matches('/')).map_err(|error| {
        format!("app is configured to hydrate to a path that cannot be used (branch \"{branch}\", path \"{path}\"): {error}")
    })?;
    if parsed.is_root() {
        return Err(format!(
            "app is configured to hydrate to the repository root (branch \"{branch}\", path \"{path}\") which is not allowed"
        ));
    }
    // Nobody could check such a tree out.
    if parsed.as_str().split('/').any(|name| name.eq_ignore_ascii_case(".git")) {
        return Err(format!(
            "app is configured to hydrate to a directory of git itself (branch \"{branch}\", path \"{path}\") which is not allowed"
        ));
    }
    Ok(parsed)
}

/// What is wrong with the members of a group, by their places (CTL-109). `refusal` says why a member may not use a
/// repository, or has no project.
pub fn problems(
    members: &[Member<'_>],
    refusal: &dyn Fn(usize, &str) -> Option<String>,
) -> BTreeMap<usize, String> {
    let mut found = BTreeMap::new();
    let mut places: HashMap<(String, TreePath), usize> = HashMap::new();
    for (at, member) in members.iter().enumerate() {
        let (dry, sync) = (member.hydrator.dry_source(), member.hydrator.sync_source());
        if let Some(text) = refusal(at, &dry.repo_url) {
            found.insert(at, text);
            continue;
        }
        let path = match destination(member.hydrator) {
            Ok(path) => path,
            Err(text) => {
                found.insert(at, text);
                continue;
            }
        };
        if let Some(text) = refusal(at, &sync.repo_url) {
            found.insert(at, text);
            continue;
        }
        let place = (repo_url::normalize(&sync.repo_url), path);
        match places.get(&place) {
            None => drop(places.insert(place, at)),
            Some(&first) => {
                let text = |other: usize| {
                    let other = members.get(other).map_or("", |member| member.name);
                    let (url, path) = (repo_url::redact(&sync.repo_url), &sync.path);
                    format!("app {other} hydrator uses the same destination: repo={url}, path={path}")
                };
                found.entry(first).or_insert_with(|| text(at));
                found.insert(at, text(first));
            }
        }
    }
    found
}

/// How a run ends for the members when some of them failed (CTL-111). `names` are those of all members.
pub fn failures(names: &[String], errors: &BTreeMap<usize, String>, dry_sha: &str) -> Vec<Outcome> {
    let first = errors.keys().next().and_then(|at| names.get(*at)).map_or("", String::as_str);
    let others = match errors.len().saturating_sub(1) {
        0 => format!("cannot hydrate because application {first} has an error"),
        more => format!("cannot hydrate because application {first} and {more} more have errors"),
    };
    let failed = |at: usize| {
        let text = errors.get(&at).unwrap_or(&others);
        Outcome::Failed { message: format!("Failed to hydrate: {text}"), dry_sha: dry_sha.to_owned() }
    };
    (0..names.len()).map(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn hydrator(path: &str, change: impl FnOnce(&mut Value)) -> Hydrator {
        let mut written = json!({"drySource": {"repoURL": "https://git.test/Dry.git", "targetRevision": "main"},
            "syncSource": {"targetBranch": "env", "path": path}});
        change(&mut written);
        serde_json::from_value(written).unwrap()
    }

    #[test]
    fn ctl_108_a_group_is_one_source_and_one_branch() {
        let key = |change: fn(&mut Value)| GroupKey::of(&hydrator("a", change));
        assert_eq!(
            key(|_| {}),
            GroupKey::of(&hydrator("b", |it| it["drySource"]["repoURL"] = json!("https://git.test/dry")))
        );
        assert_eq!(key(|it| it["hydrateTo"] = json!({"targetBranch": "next"})).branch, "next");
        assert_ne!(key(|it| it["syncSource"]["repoURL"] = json!("https://git.test/wet")), key(|_| {}));
        assert_ne!(key(|it| it["drySource"]["targetRevision"] = json!("dev")), key(|_| {}));
    }

    #[test]
    fn ctl_109_ctl_116_manifests_never_go_to_the_root_or_outside() {
        for path in ["", ".", "/", "a/..", "./"] {
            let text = destination(&hydrator(path, |_| {})).unwrap_err();
            assert_eq!(
                text,
                format!(
                    "app is configured to hydrate to the repository root (branch \"env\", path \"{path}\") which is not allowed"
                )
            );
        }
        for path in ["../x", "a/../../b", "a/.git/hooks", ".GIT"] {
            assert!(destination(&hydrator(path, |_| {})).is_err(), "{path}");
        }
        assert_eq!(destination(&hydrator("/apps//./a/", |_| {})).unwrap().as_str(), "apps/a");
    }

    fn told(hydrators: &[Hydrator], refuse: &str) -> BTreeMap<usize, String> {
        let names = ["one", "two", "three"];
        let members: Vec<Member<'_>> =
            names.iter().zip(hydrators).map(|(name, hydrator)| Member { name, hydrator }).collect();
        problems(&members, &|_, url| (url == refuse).then(|| format!("{url} refused")))
    }

    #[test]
    fn ctl_109_both_repositories_must_be_permitted() {
        let other = hydrator("b", |it| it["syncSource"]["repoURL"] = json!("https://git.test/wet"));
        let both = [hydrator("a", |_| {}), other];
        assert_eq!(
            told(&both, "https://git.test/wet"),
            BTreeMap::from([(1, "https://git.test/wet refused".to_owned())])
        );
        assert_eq!(told(&both, "https://git.test/Dry.git").len(), 2);
        assert!(told(&both, "").is_empty());
    }

    #[test]
    fn ctl_119_equal_destinations_are_found_however_they_are_written() {
        let all = [hydrator("apps/a", |_| {}), hydrator("b", |_| {}), hydrator("./apps//a/", |_| {})];
        let text = |other: &str, path: &str| {
            format!(
                "app {other} hydrator uses the same destination: repo=https://git.test/Dry.git, path={path}"
            )
        };
        assert_eq!(
            told(&all, ""),
            BTreeMap::from([(0, text("three", "./apps//a/")), (2, text("one", "./apps//a/"))])
        );
    }

    #[test]
    fn ctl_111_one_failure_fails_all() {
        let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).into();
        let messages = |errors: &[usize]| {
            let errors = errors.iter().map(|at| (*at, format!("e{at}"))).collect();
            let all = failures(&names, &errors, "sha").into_iter();
            all.map(|outcome| match outcome {
                Outcome::Failed { message, dry_sha } if dry_sha == "sha" => message,
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
        };
        assert_eq!(
            messages(&[1]),
            [
                "Failed to hydrate: cannot hydrate because application b has an error",
                "Failed to hydrate: e1",
                "Failed to hydrate: cannot hydrate because application b has an error"
            ]
        );
        assert_eq!(
            messages(&[0, 2])[1],
            "Failed to hydrate: cannot hydrate because application a and 1 more have errors"
        );
    }
}
