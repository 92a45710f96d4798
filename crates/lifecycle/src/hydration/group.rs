//! Which applications are hydrated together, and whether they may be (CTL-108, CTL-109, CTL-111).

use std::collections::BTreeMap;

use tiphys_api::application::Hydrator;
use tiphys_api::repo_url;
use tiphys_render::TreePath;

use super::ownership::{BranchId, is_default_branch};
use super::record::Outcome;

/// What one commit is made from, and where it goes (CTL-108).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// Project of the applications: those of another project are another commit (INV-16).
    pub project: String,
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
    /// The group of a hydrator of an application of a project.
    pub fn of(hydrator: &Hydrator, project: &str) -> Self {
        let (dry, sync) = (hydrator.dry_source(), hydrator.sync_source());
        // URLs that cannot be normalised are as different as their texts.
        let one = |url: &str| {
            Some(repo_url::normalize(url)).filter(|url| !url.is_empty()).unwrap_or(url.to_owned())
        };
        Self {
            project: project.to_owned(),
            dry_repository: one(&dry.repo_url),
            dry_revision: dry.target_revision.clone(),
            repository: one(&sync.repo_url),
            branch: hydrator.target_branch().to_owned(),
        }
    }
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
    if branch == "HEAD" || branch.starts_with("refs/") {
        return Err(format!(
            "app is configured to hydrate to \"{branch}\" (path \"{path}\"): a branch is named without \"refs/heads/\""
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

/// Why an application is hydrated by no group, by itself: it holds up nobody else (CTL-109). `refusal` says why its
/// project does not permit a repository.
pub fn refusal(hydrator: &Hydrator, refusal: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let (dry, sync) = (hydrator.dry_source(), hydrator.sync_source());
    refusal(&dry.repo_url)
        .or_else(|| destination(hydrator).err())
        .or_else(|| refusal(&sync.repo_url))
        .or_else(|| is_own_source(hydrator).then(|| own_source(hydrator)))
}

/// Whether manifests would be committed to the branch that they are rendered from. Which branch `HEAD` means is known
/// when the server is asked ([`own_source`] is the refusal then).
fn is_own_source(hydrator: &Hydrator) -> bool {
    let (dry, sync) = (hydrator.dry_source(), hydrator.sync_source());
    let target = BranchId::new(&sync.repo_url, hydrator.target_branch());
    target.is_some() && target == BranchId::new(&dry.repo_url, &dry.target_revision)
}

/// Whether the dry source is the default branch of the repository that is written.
pub fn renders_default_branch(hydrator: &Hydrator) -> bool {
    let (dry, sync) = (hydrator.dry_source(), hydrator.sync_source());
    let place = repo_url::place(&sync.repo_url);
    is_default_branch(&dry.target_revision) && place.is_some() && place == repo_url::place(&dry.repo_url)
}

/// The refusal to commit to the branch of the dry source.
pub fn own_source(hydrator: &Hydrator) -> String {
    let branch = hydrator.target_branch();
    format!(
        "app is configured to hydrate to the branch of its dry source (branch \"{branch}\") which is not allowed"
    )
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
        let key = |change: fn(&mut Value)| GroupKey::of(&hydrator("a", change), "p");
        assert_eq!(
            key(|_| {}),
            GroupKey::of(
                &hydrator("b", |it| it["drySource"]["repoURL"] = json!("https://git.test/dry")),
                "p"
            )
        );
        assert_ne!(key(|_| {}), GroupKey::of(&hydrator("a", |_| {}), "q"), "INV-16");
        let broken = |url: &'static str| {
            GroupKey::of(&hydrator("a", |it| it["drySource"]["repoURL"] = json!(url)), "p")
        };
        assert_ne!(broken("ssh://git@h:a/b"), broken("ssh://git@h:c/d"));
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

    #[test]
    fn ctl_109_both_repositories_must_be_permitted() {
        let told = |hydrator: &Hydrator, refuse: &str| {
            refusal(hydrator, &|url| (url == refuse).then(|| format!("{url} refused")))
        };
        let other = hydrator("b", |it| it["syncSource"]["repoURL"] = json!("https://git.test/wet"));
        assert_eq!(told(&other, "https://git.test/wet").as_deref(), Some("https://git.test/wet refused"));
        assert!(told(&other, "https://git.test/Dry.git").is_some());
        assert_eq!((told(&hydrator("a", |_| {}), "https://git.test/wet"), told(&other, "")), (None, None));
    }

    #[test]
    fn inv_16_the_branch_of_the_dry_source_is_not_written() {
        let told = |change: fn(&mut Value)| refusal(&hydrator("a", change), &|_| None).is_some();
        assert!(!told(|_| {}));
        assert!(told(|it| it["syncSource"]["targetBranch"] = json!("main")));
        assert!(told(|it| it["hydrateTo"] = json!({"targetBranch": "main"})));
        for url in ["https://git.test/dry", "git@git.test:dry.git", "https://GIT.test:443/Dry/"] {
            let text = json!({"repoURL": url, "targetBranch": "main", "path": "a"});
            assert!(
                refusal(&hydrator("a", |it| it["syncSource"] = text.clone()), &|_| None).is_some(),
                "{url}"
            );
        }
        assert!(!told(|it| it["syncSource"] =
            json!({"repoURL": "https://git.test/wet", "targetBranch": "main", "path": "a"})));
        let default = |revision: &str| {
            renders_default_branch(&hydrator("a", |it| it["drySource"]["targetRevision"] = json!(revision)))
        };
        assert!(default("") && default("HEAD") && !default("main"));
        for branch in ["HEAD", "refs/heads/env"] {
            assert!(
                destination(&hydrator("a", |it| it["syncSource"]["targetBranch"] = json!(branch))).is_err()
            );
        }
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
