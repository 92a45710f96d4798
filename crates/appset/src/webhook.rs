//! Which sets a delivery of a webhook concerns (ASET-186).
//!
//! Payloads are read in `tiphys_lifecycle::webhook`. The second child of a matrix is known only once the first has run,
//! so this asks the same questions as a generation does.

use serde_json::{Map, Value};
use tiphys_lifecycle::webhook::{PullRequestEvent, SetEvent, host_of, repository_matches};

use crate::facts::Facts;
use crate::generate::{Request, Stop, interpolations};
use crate::generator::{self, Generator, Kind, Level, text};

/// Host of GitHub's API where none is written.
const GITHUB_API: &str = "https://api.github.com/";
/// Host of GitLab where none is written.
const GITLAB: &str = "https://gitlab.com/";

/// Whether a delivery concerns a set: it gets the annotation that asks for a refresh.
///
/// # Errors
/// When questions are open. A first child that fails concerns nobody: the set says so itself.
pub fn concerns(request: &Request<'_>, facts: &dyn Facts, event: &SetEvent) -> Result<bool, Stop> {
    let mut is_pending = false;
    for entry in &request.set.spec.generators {
        match entry_concerned(request, facts, event, entry, Level::Top) {
            Ok(true) => return Ok(true),
            Ok(false) | Err(Stop::Failed(_)) => {}
            Err(Stop::Pending) => is_pending = true,
        }
    }
    if is_pending { Err(Stop::Pending) } else { Ok(false) }
}

fn entry_concerned(
    request: &Request<'_>,
    facts: &dyn Facts,
    event: &SetEvent,
    entry: &Map<String, Value>,
    level: Level,
) -> Result<bool, Stop> {
    for generator in generator::generators_of(entry, level) {
        let is_concerned = match generator.kind {
            Kind::Git => git_concerned(generator.block, event),
            Kind::PullRequest => pull_request_concerned(generator.block, event),
            // Deviation (ASET-186): a plugin counts wherever it stands.
            Kind::Plugin => true,
            Kind::Matrix => matrix_concerned(request, facts, event, generator, level)?,
            Kind::Merge => {
                let (entries, level) = generator::children(generator, level);
                let mut any = false;
                for entry in entries {
                    any = any || entry_concerned(request, facts, event, entry, level)?;
                }
                any
            }
            Kind::List | Kind::Clusters | Kind::ScmProvider | Kind::ClusterDecisionResource => false,
        };
        if is_concerned {
            return Ok(true);
        }
    }
    Ok(false)
}

fn matrix_concerned(
    request: &Request<'_>,
    facts: &dyn Facts,
    event: &SetEvent,
    generator: Generator<'_>,
    level: Level,
) -> Result<bool, Stop> {
    let (entries, below) = generator::children(generator, level);
    let [first, second] = entries.as_slice() else { return Ok(false) };
    if entry_concerned(request, facts, event, first, below)? {
        return Ok(true);
    }
    for entry in interpolations(request, facts, first, second, below)? {
        if entry_concerned(request, facts, event, &entry, below)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a push moves what a git generator reads; which files changed does not matter.
fn git_concerned(block: &Map<String, Value>, event: &SetEvent) -> bool {
    let SetEvent::Pushes(pushes) = event else { return false };
    let url = text(block, "repoURL");
    let revision = text(block, "revision");
    let name = ["refs/heads/", "refs/tags/"]
        .iter()
        .find_map(|prefix| revision.strip_prefix(prefix))
        .unwrap_or(revision);
    pushes.iter().any(|push| {
        let moves =
            if revision.is_empty() || revision == "HEAD" { push.touched_head } else { name == push.revision };
        moves && push.web_urls.iter().any(|web| repository_matches(web, url))
    })
}

fn pull_request_concerned(block: &Map<String, Value>, event: &SetEvent) -> bool {
    let SetEvent::PullRequest(event) = event else { return false };
    let provider = |name: &str| block.get(name).and_then(Value::as_object);
    match event {
        PullRequestEvent::GitHub { owner, repository, api_host } => {
            provider("github").is_some_and(|github| {
                text(github, "owner").eq_ignore_ascii_case(owner)
                    && text(github, "repo").eq_ignore_ascii_case(repository)
                    && is_host(text(github, "api"), GITHUB_API, api_host)
            })
        }
        PullRequestEvent::GitLab { project_id, project_path, host } => {
            provider("gitlab").is_some_and(|gitlab| {
                let project = text(gitlab, "project");
                let is_it = project == project_id.to_string()
                    || (!project_path.is_empty() && project.eq_ignore_ascii_case(project_path));
                is_it && is_host(text(gitlab, "api"), GITLAB, host)
            })
        }
        PullRequestEvent::AzureDevOps { project, repository } => provider("azuredevops")
            .is_some_and(|azure| text(azure, "project") == project && text(azure, "repo") == repository),
    }
}

/// Deviation (ASET-186): only the host of an address counts, so that one with a path matches too.
fn is_host(api: &str, default: &str, host: &str) -> bool {
    let api = if api.is_empty() { default } else { api };
    host_of(api).eq_ignore_ascii_case(host)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiphys_lifecycle::webhook::Push;

    use super::*;
    use crate::fixtures::{World, fast_set, with_request};

    fn is_concerned(generators: Value, event: &SetEvent) -> bool {
        let world = World::default().with_repo("https://h/envs", &[("dev/x", "")]);
        let set = fast_set(generators);
        with_request(&world, &set, |request| concerns(request, &world, event)).unwrap()
    }

    fn push(revision: &str, touched_head: bool) -> SetEvent {
        let web_urls = vec!["https://git.acme.test/Shop/UI".to_owned()];
        let moved = Push { web_urls, revision: revision.to_owned(), touched_head, ..Push::default() };
        let other = Push { revision: "other".to_owned(), touched_head: false, ..moved.clone() };
        SetEvent::Pushes(vec![other, moved])
    }

    fn git(url: &str, revision: &str) -> Value {
        json!({"git": {"repoURL": url, "revision": revision, "directories": [{"path": "*"}]}})
    }

    #[test]
    fn aset_186_pushes_concern_git_generators() {
        let url = "git@git.acme.test:shop/ui.git";
        for (revision, event, expected) in [
            ("main", push("main", true), true),
            ("refs/heads/main", push("main", true), true),
            ("refs/tags/v1", push("v1", false), true),
            ("HEAD", push("main", true), true),
            ("", push("main", true), true),
            ("HEAD", push("dev", false), false),
            ("dev", push("main", true), false),
            ("other", push("main", true), true),
            ("1.x", push("1.2.0", false), false),
        ] {
            assert_eq!(is_concerned(json!([git(url, revision)]), &event), expected, "{revision}");
        }
        assert!(!is_concerned(json!([git("https://git.acme.test/other", "main")]), &push("main", true)));
        assert!(!is_concerned(json!([{"scmProvider": {"github": {}}}, {"list": {}}]), &push("main", true)));
    }

    #[test]
    fn aset_186_pull_requests_concern_their_generators() {
        let github = |owner: &str, api: Value| json!([{"pullRequest": {"github": {"owner": owner, "repo": "R", "api": api}}}]);
        let event = |host: &str| {
            SetEvent::PullRequest(PullRequestEvent::GitHub {
                owner: "Acme".to_owned(),
                repository: "r".to_owned(),
                api_host: host.to_owned(),
            })
        };
        assert!(is_concerned(github("acme", Value::Null), &event("api.github.com")));
        assert!(!is_concerned(github("other", Value::Null), &event("api.github.com")));
        assert!(!is_concerned(github("acme", Value::Null), &event("ghe.acme.test")));
        for api in [
            "https://ghe.acme.test",
            "http://x@ghe.acme.test:8443/",
            "ghe.acme.test",
            "https://ghe.acme.test/api/v3",
        ] {
            assert!(is_concerned(github("acme", json!(api)), &event("ghe.acme.test")), "{api}");
        }
        let gitlab = |project: &str| json!([{"pullRequest": {"gitlab": {"project": project}}}]);
        let event = SetEvent::PullRequest(PullRequestEvent::GitLab {
            project_id: 7,
            project_path: "g/p".to_owned(),
            host: "gitlab.com".to_owned(),
        });
        assert!(is_concerned(gitlab("7"), &event) && is_concerned(gitlab("g/p"), &event));
        assert!(!is_concerned(gitlab("8"), &event));
        let azure = |repo: &str| json!([{"pullRequest": {"azuredevops": {"project": "p", "repo": repo}}}]);
        let event = SetEvent::PullRequest(PullRequestEvent::AzureDevOps {
            project: "p".to_owned(),
            repository: "r".to_owned(),
        });
        assert!(is_concerned(azure("r"), &event) && !is_concerned(azure("s"), &event));
        assert!(!is_concerned(json!([git("https://git.acme.test/shop/ui", "main")]), &event));
    }

    #[test]
    fn aset_186_combinations_are_looked_into() {
        let ours = git("https://git.acme.test/shop/ui", "main");
        let list = json!({"list": {"elements": [{"env": "ui"}, {"env": "x"}]}});
        let templated = git("https://git.acme.test/shop/{{env}}", "main");
        let event = push("main", true);
        let matrix = |first: &Value, second: &Value| json!([{"matrix": {"generators": [first, second]}}]);
        assert!(is_concerned(matrix(&ours, &list), &event));
        assert!(is_concerned(matrix(&list, &ours), &event));
        assert!(is_concerned(matrix(&list, &templated), &event), "the first child is executed");
        assert!(!is_concerned(matrix(&json!({"list": {"elements": [{"env": "y"}]}}), &templated), &event));
        assert!(is_concerned(json!([{"merge": {"mergeKeys": ["a"], "generators": [list, ours]}}]), &event));
        let plugin = json!({"plugin": {"configMapRef": {"name": "c"}}});
        assert!(is_concerned(json!([plugin]), &event));
        assert!(is_concerned(matrix(&plugin, &list), &event));
        // A first child that cannot be executed concerns nobody.
        assert!(!is_concerned(matrix(&git("https://h/none", "x"), &templated), &event));
    }
}
