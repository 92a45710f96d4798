//! What each scenario shows: the files of its repository and its Applications (CLI-1002).

use anyhow::Context as _;
use serde_json::{Value, json};

/// The word in sample files that stands for the address of the repository.
const REPOSITORY: &str = "__REPOSITORY__";
/// Namespace of the Applications and settings.
pub(crate) const NAMESPACE: &str = "argocd";
/// The branch that the Applications follow.
pub(crate) const BRANCH: &str = "main";

/// One story that the demo tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// An Application of Applications over plain manifests, a chart and an overlay.
    Guestbook,
    /// Hooks and waves.
    Waves,
    /// Live changes, healed and not.
    Drift,
    /// What goes wrong, each in its own way.
    Failures,
    /// An `ApplicationSet` that is rolled out and deleted in order.
    Progressive,
}

/// A file of a sample: path and text.
pub(crate) type File = (&'static str, &'static str);

macro_rules! files {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../sample/", $folder, "/", $path)))),+]
    };
}

const README: File = ("README.md", include_str!("../../sample/README.md"));
const GUESTBOOK: &[File] = files!("guestbook":
    "apps/guestbook.yaml", "apps/guestbook-helm.yaml", "apps/guestbook-kustomize.yaml", "apps/shop.yaml",
    "guestbook/deployment.yaml", "guestbook/service.yaml",
    "guestbook-helm/Chart.yaml", "guestbook-helm/values.yaml", "guestbook-helm/values-demo.yaml",
    "guestbook-helm/templates/_names.tpl", "guestbook-helm/templates/deployment.yaml",
    "guestbook-helm/templates/service.yaml",
    "guestbook-kustomize/kustomization.yaml", "guestbook-kustomize/base/kustomization.yaml",
    "guestbook-kustomize/base/deployment.yaml", "guestbook-kustomize/base/service.yaml",
    "shop/config.yaml", "shop/web/deployment.yaml", "shop/web/service.yaml",
    "shop/cart/deployment.yaml", "shop/cart/service.yaml",
);
const WAVES: &[File] = files!("waves":
    "waves/migrate.yaml", "waves/0-config.yaml", "waves/1-database.yaml", "waves/2-api.yaml", "waves/3-web.yaml",
    "waves/announce.yaml",
);
const DRIFT: &[File] = files!("drift":
    "healed/config.yaml", "healed/deployment.yaml", "watched/config.yaml", "watched/deployment.yaml",
);
const FAILURES: &[File] = files!("failures":
    "crashing/deployment.yaml", "crashing/service.yaml", "hooked/check.yaml", "hooked/deployment.yaml",
    "unknown-kind/deployment.yaml", "unreadable/deployment.yaml",
);
const PROGRESSIVE: &[File] = files!("progressive":
    "applicationset.yaml", "config/deployment.yaml", "db/deployment.yaml", "frontend/deployment.yaml",
);
/// One commit each: what is wrong from the beginning.
const BROKEN: &[File] = files!("failures/broken":
    "crashing/deployment.yaml", "hooked/check.yaml", "unknown-kind/database.yaml", "unreadable/settings.yaml",
);

/// An Application that the demo creates itself.
struct App {
    name: &'static str,
    namespace: &'static str,
    self_heal: bool,
    /// Attempts after the first; without a number the product's default counts.
    retries: Option<u32>,
}

const fn app(name: &'static str) -> App {
    App { name, namespace: name, self_heal: true, retries: None }
}

impl Scenario {
    /// All there are.
    pub(crate) const ALL: [Self; 5] =
        [Self::Guestbook, Self::Waves, Self::Drift, Self::Failures, Self::Progressive];

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Guestbook => "guestbook",
            Self::Waves => "waves",
            Self::Drift => "drift",
            Self::Failures => "failures",
            Self::Progressive => "progressive",
        }
    }

    /// The scenario of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }

    /// The files of the first commit.
    pub(crate) fn files(self, repository: &str) -> Vec<(String, String)> {
        let files = match self {
            Self::Guestbook => GUESTBOOK,
            Self::Waves => WAVES,
            Self::Drift => DRIFT,
            Self::Failures => FAILURES,
            Self::Progressive => PROGRESSIVE,
        };
        std::iter::once(&README)
            .chain(files)
            .map(|(path, text)| ((*path).to_owned(), text.replace(REPOSITORY, repository)))
            .collect()
    }

    /// What further commits break: an Application and its file.
    pub(crate) fn broken(self) -> Vec<(&'static str, File)> {
        let files = if self == Self::Failures { BROKEN } else { &[] };
        files.iter().map(|file| (file.0.split('/').next().unwrap_or(""), *file)).collect()
    }

    /// What the demo creates: Applications, or the set that makes them.
    pub(crate) fn objects(self, repository: &str) -> anyhow::Result<Vec<Value>> {
        if self == Self::Progressive {
            return Ok(vec![set(repository)?]);
        }
        Ok(self.apps().iter().map(|app| application(app, repository)).collect())
    }

    /// All Applications that exist when the scenario is complete, the children of others among them.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.apps().iter().map(|app| app.name).collect();
        if self == Self::Guestbook {
            names.extend(["guestbook", "guestbook-helm", "guestbook-kustomize", "shop"]);
        }
        names
    }

    /// The command that a newcomer tries first, and what comes of it.
    pub(crate) fn advice(self) -> (&'static str, &'static str) {
        match self {
            Self::Guestbook => ("break guestbook", "then `fix guestbook` and watch it heal"),
            Self::Waves => ("scale waves", "then watch the waves again"),
            Self::Drift => ("drift healed", "then watch it heal"),
            Self::Failures => ("fix crashing", "then watch it heal"),
            Self::Progressive => ("break db", "once the story below is told"),
        }
    }

    fn apps(self) -> Vec<App> {
        match self {
            Self::Guestbook => vec![App { namespace: NAMESPACE, ..app("apps") }],
            Self::Waves => vec![app("waves")],
            Self::Drift => vec![app("healed"), App { self_heal: false, ..app("watched") }],
            Self::Failures => ["crashing", "hooked", "unknown-kind", "unreadable"]
                .map(|name| App { retries: Some(1), ..app(name) })
                .into(),
            Self::Progressive => {
                ["config", "db", "frontend"].map(|name| App { namespace: "pricelist", ..app(name) }).into()
            }
        }
    }
}

/// The set, as the file of the repository has it.
fn set(repository: &str) -> anyhow::Result<Value> {
    let (path, text) = PROGRESSIVE.first().copied().unwrap_or_default();
    let text = text.replace(REPOSITORY, repository);
    let limits = tiphys_go::yaml::Limits::default();
    let set = tiphys_go::yaml::parse(&text, tiphys_go::yaml::Dialect::Sigs, &limits)?;
    set.with_context(|| format!("{path} is empty"))
}

fn application(app: &App, repository: &str) -> Value {
    let mut policy = json!({
        "automated": {"prune": true, "selfHeal": app.self_heal},
        "syncOptions": ["CreateNamespace=true"],
    });
    if let (Some(retries), Some(policy)) = (app.retries, policy.as_object_mut()) {
        let retry =
            json!({"limit": retries, "backoff": {"duration": "2s", "factor": 2, "maxDuration": "10s"}});
        policy.insert("retry".to_owned(), retry);
    }
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {
            "name": app.name,
            "namespace": NAMESPACE,
            "finalizers": ["resources-finalizer.argocd.argoproj.io"],
        },
        "spec": {
            "project": "default",
            "source": {"repoURL": repository, "targetRevision": BRANCH, "path": app.name},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": app.namespace},
            "syncPolicy": policy,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1002_every_sample_file_is_in_a_scenario() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("sample");
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        let mut known = vec!["README.md".to_owned()];
        for scenario in Scenario::ALL {
            let of = |path: &str| format!("{}/{path}", scenario.name());
            known.extend(scenario.files("").iter().skip(1).map(|(path, _)| of(path)));
            known.extend(scenario.broken().iter().map(|(_, (path, _))| of(&format!("broken/{path}"))));
        }
        found.sort();
        known.sort();
        assert_eq!(found, known);
    }

    #[test]
    fn cli_1002_applications_have_files_and_addresses() {
        for scenario in Scenario::ALL {
            let files = scenario.files("http://here/demo.git");
            assert!(files.iter().all(|(_, text)| !text.contains(REPOSITORY)));
            for name in scenario.names() {
                assert!(files.iter().any(|(path, _)| path.starts_with(&format!("{name}/"))), "{name}");
            }
            for (app, _) in scenario.broken() {
                assert!(scenario.names().contains(&app));
            }
        }
    }
}
