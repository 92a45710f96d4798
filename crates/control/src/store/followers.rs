//! Who follows which reference of which repository, and which of its paths: what a push concerns is looked up from
//! what it changed, so that its cost is that of the change and not that of all applications (API-204..207).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_api::application::ApplicationSource;
use tiphys_go::steps::Steps;
use tiphys_render::refresh::{ChangedFiles, RefreshPaths};

use super::AppKey;
use crate::webhook::{Push, STEPS_MAX, repository_matches, revision_matches, source_paths};

/// Paths of one application that are looked up; whoever names more follows everything.
const PATHS_MAX: usize = 1_000;
/// Steps in which all patterns are held against the files of one push; who is not reached counts as concerned.
const PATTERN_STEPS_MAX: u64 = 40_000_000;

/// The applications that follow one reference of one repository.
#[derive(Debug, Default)]
struct Followers {
    /// Those that every change concerns.
    everything: BTreeSet<AppKey>,
    /// Those that changes of a file, or of anything in a directory, concern.
    by_path: HashMap<SmolStr, BTreeSet<AppKey>>,
    /// Those that changes of matching files concern.
    patterns: BTreeMap<AppKey, BTreeSet<String>>,
    /// When a push last moved the reference.
    moved: Option<Timestamp>,
}

/// What a push means to the applications.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// Repositories, as sources name them.
    pub(crate) repositories: BTreeSet<SmolStr>,
    /// Applications that it concerns. The others that follow the reference get its revision, and nothing else.
    pub(crate) applications: BTreeSet<AppKey>,
}

/// All applications by what they follow.
#[derive(Debug, Default)]
pub(crate) struct ByReference {
    repositories: HashMap<SmolStr, HashMap<SmolStr, Followers>>,
}

impl ByReference {
    /// Adds an application.
    pub(crate) fn add(&mut self, key: &AppKey, app: &Application) {
        for source in app.sources() {
            let references = self.repositories.entry(SmolStr::new(&source.repo_url)).or_default();
            let followers = references.entry(SmolStr::new(&source.target_revision)).or_default();
            match followed(app, source) {
                RefreshPaths::Some { plain, patterns } => {
                    for path in plain {
                        followers.by_path.entry(path.into()).or_default().insert(key.clone());
                    }
                    if !patterns.is_empty() {
                        followers.patterns.entry(key.clone()).or_default().extend(patterns);
                    }
                }
                RefreshPaths::Everything => {
                    followers.everything.insert(key.clone());
                }
            }
        }
    }

    /// Removes an application that was added like this.
    pub(crate) fn remove(&mut self, key: &AppKey, app: &Application) {
        for source in app.sources() {
            let Some(references) = self.repositories.get_mut(source.repo_url.as_str()) else { continue };
            if let Some(followers) = references.get_mut(source.target_revision.as_str()) {
                followers.everything.remove(key);
                followers.patterns.remove(key);
                if let RefreshPaths::Some { plain, .. } = followed(app, source) {
                    for path in plain {
                        if let Some(keys) = followers.by_path.get_mut(path.as_str()) {
                            keys.remove(key);
                            if keys.is_empty() {
                                followers.by_path.remove(path.as_str());
                            }
                        }
                    }
                }
                if followers.is_empty() {
                    references.remove(source.target_revision.as_str());
                }
            }
            if references.is_empty() {
                self.repositories.remove(source.repo_url.as_str());
            }
        }
    }

    /// Whom a push concerns; the references it moved are noted as moved at this time.
    pub(crate) fn pushed(&mut self, push: &Push, at: Timestamp) -> Pushed {
        let changed = ChangedFiles::new(&push.files);
        let mut steps = Steps::new(PATTERN_STEPS_MAX);
        let mut found = Pushed::default();
        for (url, references) in &mut self.repositories {
            if !push.web_urls.iter().any(|web| repository_matches(web, url)) {
                continue;
            }
            found.repositories.insert(url.clone());
            for (reference, followers) in references {
                if revision_matches(push, reference, &mut Steps::new(STEPS_MAX)).unwrap_or(true) {
                    followers.moved = Some(at);
                    followers.concerned(&changed, &mut steps, &mut found.applications);
                }
            }
        }
        found
    }

    /// When a push last moved something that an application follows.
    pub(crate) fn moved(&self, app: &Application) -> Option<Timestamp> {
        let moved = |url: &str, reference: &str| self.repositories.get(url)?.get(reference)?.moved;
        app.sources().iter().filter_map(|source| moved(&source.repo_url, &source.target_revision)).max()
    }
}

/// The paths that a source is looked up by. What takes too long to find out, or is too much to look up, is concerned by
/// everything (SEC-07).
fn followed(app: &Application, source: &ApplicationSource) -> RefreshPaths {
    match source_paths(app, source) {
        Ok(RefreshPaths::Some { plain, patterns }) if plain.len() <= PATHS_MAX => {
            RefreshPaths::Some { plain, patterns }
        }
        Ok(_) | Err(_) => RefreshPaths::Everything,
    }
}

impl Followers {
    fn is_empty(&self) -> bool {
        self.everything.is_empty() && self.by_path.is_empty()
    }

    fn concerned(&self, changed: &ChangedFiles<'_>, steps: &mut Steps, into: &mut BTreeSet<AppKey>) {
        into.extend(self.everything.iter().cloned());
        if changed.is_unknown() {
            into.extend(self.by_path.values().flatten().cloned());
            return;
        }
        let by_path = changed.paths().filter_map(|path| self.by_path.get(path)).flatten();
        into.extend(by_path.cloned());
        for (key, patterns) in &self.patterns {
            let is_concerned = !into.contains(key)
                && patterns.iter().any(|pattern| changed.matches(pattern, steps).unwrap_or(true));
            if is_concerned {
                into.insert(key.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::{Concern, concern};
    use serde_json::json;

    const URL: &str = "https://git.acme.test/shop/ui";

    fn app(number: usize, url: &str, revision: &str, paths: Option<&str>) -> (AppKey, Application) {
        let mut app = json!({"metadata": {"name": format!("a{number}"), "namespace": "argocd"},
            "spec": {"destination": {},
                "source": {"repoURL": url, "targetRevision": revision, "path": format!("apps/{}", number % 7)}}});
        if let Some(paths) = paths {
            app["metadata"]["annotations"] = json!({"argocd.argoproj.io/manifest-generate-paths": paths});
        }
        (AppKey::new("argocd", &format!("a{number}")), serde_json::from_value(app).unwrap())
    }

    fn push(revision: &str, files: &[&str]) -> Push {
        Push {
            web_urls: vec![URL.to_owned()],
            revision: revision.to_owned(),
            touched_head: revision == "main",
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            ..Push::default()
        }
    }

    fn pushed(index: &mut ByReference, push: &Push) -> BTreeSet<AppKey> {
        index.pushed(push, Timestamp::UNIX_EPOCH).applications
    }

    /// API-204..207: looking up says the same as asking every application.
    #[test]
    fn api_207_the_index_finds_exactly_those_that_are_concerned() {
        let urls = [URL, "https://git.acme.test/shop/ui.git", "https://git.acme.test/other"];
        let revisions = ["main", "HEAD", "", "dev", "refs/heads/main", "1.x"];
        let paths = [
            None,
            Some("."),
            Some(".."),
            Some("/apps/*/values.yaml;../[1-3]"),
            Some("/apps;/docs"),
            Some("../3;../../base"),
            Some(" ; "),
            Some("/"),
            Some("../../../outside"),
            Some("[;/docs/a.md"),
        ];
        let mut apps = Vec::new();
        for url in urls {
            for revision in revisions {
                for paths in paths {
                    apps.push(app(apps.len(), url, revision, paths));
                }
            }
        }
        let mut index = ByReference::default();
        for (key, app) in &apps {
            index.add(key, app);
        }
        let pushes = [
            push("main", &[]),
            push("main", &["docs/a.md"]),
            push("main", &["apps/3/values.yaml"]),
            push("dev", &["apps/1/x.yaml", "base/k.yaml"]),
            push("1.4.2", &["outside"]),
            push("main", &["apps"]),
            push("other", &["apps/1/x.yaml"]),
        ];
        for push in &pushes {
            let asked: BTreeSet<AppKey> = apps
                .iter()
                .filter(|(_, app)| concern(push, app) == Concern::Files)
                .map(|(key, _)| key.clone())
                .collect();
            assert_eq!(pushed(&mut index, push), asked, "{push:?}");
        }
        for (key, app) in &apps {
            index.remove(key, app);
        }
        assert!(index.repositories.is_empty(), "{index:?}");
    }

    /// Only a reference that was pushed to has moved.
    #[test]
    fn api_205_a_push_moves_the_references_that_it_names() {
        let ((main_key, main), (dev_key, dev)) =
            (app(1, URL, "main", Some(".")), app(2, URL, "dev", Some(".")));
        let mut index = ByReference::default();
        index.add(&main_key, &main);
        index.add(&dev_key, &dev);
        assert_eq!(index.moved(&main), None);
        assert!(pushed(&mut index, &push("main", &["docs/a.md"])).is_empty());
        assert_eq!((index.moved(&main), index.moved(&dev)), (Some(Timestamp::UNIX_EPOCH), None));
    }

    /// SEC-07: whoever names more paths than are looked up, or patterns that take too long, is compared.
    #[test]
    fn sec_07_what_takes_too_long_to_look_up_is_compared() {
        let list =
            |count: usize, path: fn(usize) -> String| (0..count).map(path).collect::<Vec<_>>().join(";");
        let many = list(2_000, |path| format!("/x/{path}"));
        let patterns = list(900, |path| format!("/{path}*a*b*c*d"));
        let mut index = ByReference::default();
        for (number, paths) in [many, patterns].iter().enumerate() {
            let (key, app) = app(number, URL, "main", Some(paths));
            index.add(&key, &app);
        }
        let files: Vec<String> = (0..10_000).map(|file| format!("docs/{file}")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        assert_eq!(pushed(&mut index, &push("main", &files)).len(), 2);
    }
}
