//! Who follows which reference of which repository, and which of its paths: what a push concerns is looked up from
//! what it changed, so that its cost is that of the change and not that of all applications (API-204..207).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use smol_str::SmolStr;
use tiphys_api::application::ApplicationSource;
use tiphys_api::names::annotation;
use tiphys_api::{Application, repo_url};
use tiphys_go::steps::Steps;
use tiphys_lifecycle::hydration::ownership::BranchId;
use tiphys_lifecycle::webhook::{
    Push, STEPS_MAX, TagPush, repository_matches, revision_matches, source_paths,
};
use tiphys_render::TreePath;
use tiphys_render::refresh::{ChangedFiles, RefreshPaths};

use super::remove_from;
use crate::app_key::AppKey;

/// Paths of one application that are looked up; whoever names more follows everything.
const PATHS_MAX: usize = 1_000;
/// Steps in which all patterns are held against the files of one push; who is not reached counts as concerned.
const PATTERN_STEPS_MAX: u64 = 40_000_000;

/// The applications that follow one reference of one repository.
#[derive(Debug, Default)]
struct Followers {
    /// Those that every change concerns.
    everything: BTreeSet<AppKey>,
    /// Those that name no paths and whose manifests come from one directory alone, as far as is known: what a push
    /// changed there is read from the trees (`crate::pushes`). By project, which decides what may be read.
    by_directory: HashMap<SmolStr, HashMap<SmolStr, BTreeSet<AppKey>>>,
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
    /// Those of them whose dry source it changed (API-208).
    pub(crate) hydrated: BTreeSet<AppKey>,
    /// References with followers by directory: whom of these it concerns is not known yet.
    pub(crate) references: BTreeSet<Reference>,
}

/// A reference of a repository, as sources name them, for the applications of one project.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reference {
    /// The repository's URL.
    pub(crate) url: SmolStr,
    /// The reference.
    pub(crate) name: SmolStr,
    /// The project: it has credentials, and rights, of its own.
    pub(crate) project: SmolStr,
}

/// Followers by repository and reference.
type Repositories = HashMap<SmolStr, HashMap<SmolStr, Followers>>;

/// All applications by what they follow.
#[derive(Debug, Default)]
pub(crate) struct ByReference {
    repositories: Repositories,
    /// The dry sources of those that are hydrated (API-203).
    dry: Repositories,
    /// Who follows by directory.
    within: HashSet<AppKey>,
    /// URLs of all of them by where their repository is, however they are spelled.
    spellings: HashMap<String, BTreeSet<SmolStr>>,
}

/// How much of a branch a source reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// One directory, as far as is known.
    Directory(SmolStr),
    /// Perhaps anything.
    Branch,
}

/// A source that reads a branch.
pub(super) struct Read<'a> {
    pub(super) key: &'a AppKey,
    /// URL of the source.
    pub(super) url: &'a str,
    pub(super) reads: Reads,
    /// Whether it is the dry source of a hydrator.
    pub(super) is_dry: bool,
}

impl ByReference {
    /// Adds an application.
    pub(crate) fn add(&mut self, key: &AppKey, app: &Application) {
        for source in app.sources() {
            add_to(&mut self.repositories, key, app, source);
            self.spelled(&source.repo_url);
        }
        if let Some(hydrator) = &app.spec.source_hydrator {
            add_to(&mut self.dry, key, app, hydrator.dry_source());
            self.spelled(&hydrator.dry_source().repo_url);
        }
    }

    fn spelled(&mut self, url: &str) {
        if let Some(place) = repo_url::place(url) {
            self.spellings.entry(place).or_default().insert(url.into());
        }
    }

    /// Forgets a URL that no source has any more.
    fn unspelled(&mut self, url: &str) {
        if self.repositories.contains_key(url) || self.dry.contains_key(url) {
            return;
        }
        let Some(place) = repo_url::place(url) else { return };
        if let Some(urls) = self.spellings.get_mut(&place) {
            urls.remove(url);
            if urls.is_empty() {
                self.spellings.remove(&place);
            }
        }
    }

    /// Sources that read a branch by its name, or as the default branch of its repository. Tags, ranges and commits are no
    /// branches.
    pub(super) fn readers<'a>(
        &'a self,
        branch: &'a BranchId,
        as_default: bool,
    ) -> impl Iterator<Item = Read<'a>> {
        let names = if as_default {
            ["HEAD".to_owned(), String::new()]
        } else {
            [branch.branch().to_owned(), format!("refs/heads/{}", branch.branch())]
        };
        let urls = self.spellings.get(branch.place()).into_iter().flatten();
        let maps = urls.flat_map(|url| [(url, &self.repositories, false), (url, &self.dry, true)]);
        maps.flat_map(move |(url, repositories, is_dry)| {
            let references = repositories.get(url);
            let followers = names.clone().into_iter().filter_map(move |name| references?.get(name.as_str()));
            followers.flat_map(Followers::all).map(move |(key, reads)| Read {
                key,
                url,
                reads: if is_dry { Reads::Branch } else { reads },
                is_dry,
            })
        })
    }

    /// Notes whether everything that an application renders comes from its own directory, as its last rendering
    /// found. It may be noted as often as one likes.
    pub(crate) fn keep_within(&mut self, key: &AppKey, app: &Application, is_within: bool) {
        if !self.is_news(key, app, is_within) {
            return;
        }
        let Some((source, directory)) = own_directory(app) else { return };
        let references = self.repositories.get_mut(source.repo_url.as_str());
        let followers = references.and_then(|found| found.get_mut(source.target_revision.as_str()));
        let Some(followers) = followers else { return };
        if is_within {
            followers.everything.remove(key);
            let directories = followers.by_directory.entry(app.project().into()).or_default();
            directories.entry(directory).or_default().insert(key.clone());
            self.within.insert(key.clone());
        } else {
            if let Some(directories) = followers.by_directory.get_mut(app.project()) {
                remove_from(directories, &directory, key);
                if directories.is_empty() {
                    followers.by_directory.remove(app.project());
                }
            }
            followers.everything.insert(key.clone());
            self.within.remove(key);
        }
    }

    /// Whether that would change anything: most applications are noted as what they are known to be, or name paths.
    pub(crate) fn is_news(&self, key: &AppKey, app: &Application, is_within: bool) -> bool {
        self.within.contains(key) != is_within && own_directory(app).is_some()
    }

    /// Whether an application follows by directory.
    pub(crate) fn is_within(&self, key: &AppKey) -> bool {
        self.within.contains(key)
    }

    /// Those that follow a reference by directory, of which one of these files lies in theirs; all of them when the
    /// files are not known.
    pub(crate) fn within(&self, reference: &Reference, files: Option<&[String]>) -> BTreeSet<AppKey> {
        let references = self.repositories.get(&reference.url);
        let followers = references.and_then(|found| found.get(&reference.name));
        let Some(followed) = followers.and_then(|found| found.by_directory.get(&reference.project)) else {
            return BTreeSet::new();
        };
        let Some(files) = files else { return followed.values().flatten().cloned().collect() };
        let directories: BTreeSet<&str> = files.iter().flat_map(|file| directories_of(file)).collect();
        directories.into_iter().filter_map(|directory| followed.get(directory)).flatten().cloned().collect()
    }

    /// Removes an application that was added like this.
    pub(crate) fn remove(&mut self, key: &AppKey, app: &Application) {
        if self.within.contains(key) {
            self.keep_within(key, app, false);
        }
        for source in app.sources() {
            take_from(&mut self.repositories, key, app, source);
            self.unspelled(&source.repo_url);
        }
        if let Some(hydrator) = &app.spec.source_hydrator {
            take_from(&mut self.dry, key, app, hydrator.dry_source());
            self.unspelled(&hydrator.dry_source().repo_url);
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
                    for project in followers.by_directory.keys().cloned() {
                        let (url, name) = (url.clone(), reference.clone());
                        found.references.insert(Reference { url, name, project });
                    }
                    followers.concerned(&changed, &mut steps, &mut found.applications);
                }
            }
        }
        for (url, references) in &mut self.dry {
            if !push.web_urls.iter().any(|web| repository_matches(web, url)) {
                continue;
            }
            found.repositories.insert(url.clone());
            for (reference, followers) in references {
                if revision_matches(push, reference, &mut Steps::new(STEPS_MAX)).unwrap_or(true) {
                    followers.concerned(&changed, &mut steps, &mut found.hydrated);
                }
            }
        }
        found.applications.extend(found.hydrated.iter().cloned());
        found
    }

    /// Everybody with a source in the repository of an artifact, or in one that it is a chart of.
    pub(crate) fn below(&self, tag: &TagPush) -> Pushed {
        let (unknown, mut found) = (ChangedFiles::new(&[]), Pushed::default());
        let all = self.repositories.iter().chain(&self.dry);
        for (url, references) in all.filter(|(url, _)| tag.is_at_or_below(url)) {
            found.repositories.insert(url.clone());
            for followers in references.values() {
                followers.concerned(&unknown, &mut Steps::new(PATTERN_STEPS_MAX), &mut found.applications);
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

fn add_to(repositories: &mut Repositories, key: &AppKey, app: &Application, source: &ApplicationSource) {
    let references = repositories.entry(SmolStr::new(&source.repo_url)).or_default();
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

fn take_from(repositories: &mut Repositories, key: &AppKey, app: &Application, source: &ApplicationSource) {
    let Some(references) = repositories.get_mut(source.repo_url.as_str()) else { return };
    if let Some(followers) = references.get_mut(source.target_revision.as_str()) {
        followers.everything.remove(key);
        followers.patterns.remove(key);
        if let RefreshPaths::Some { plain, .. } = followed(app, source) {
            for path in plain {
                remove_from(&mut followers.by_path, path.as_str(), key);
            }
        }
        if followers.is_empty() {
            references.remove(source.target_revision.as_str());
        }
    }
    if references.is_empty() {
        repositories.remove(source.repo_url.as_str());
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

/// The only source of an application that names no paths, and the directory it comes from. The root is no directory
/// of its own: every change concerns it.
fn own_directory(app: &Application) -> Option<(&ApplicationSource, SmolStr)> {
    if app.spec.source_hydrator.is_some() {
        // It is looked up by its own path already.
        return None;
    }
    let [source] = app.sources() else { return None };
    let is_plain = app.annotation(annotation::MANIFEST_GENERATE_PATHS).is_none()
        && source.chart.is_empty()
        && source.tag_prefix.is_empty();
    let path = TreePath::parse(&source.path).ok().filter(|path| is_plain && !path.is_root())?;
    Some((source, path.as_str().into()))
}

/// All directories that a file lies in, without the root.
fn directories_of(file: &str) -> impl Iterator<Item = &str> {
    file.match_indices('/').filter_map(|(at, _)| file.get(..at))
}

impl Followers {
    fn is_empty(&self) -> bool {
        self.everything.is_empty() && self.by_path.is_empty() && self.by_directory.is_empty()
    }

    /// All of them, with how much they read.
    fn all(&self) -> impl Iterator<Item = (&AppKey, Reads)> {
        let directories = self.by_directory.values().flatten();
        let within = directories
            .flat_map(|(directory, keys)| keys.iter().map(|key| (key, Reads::Directory(directory.clone()))));
        let named = self.by_path.values().flatten().chain(self.patterns.keys());
        self.everything.iter().chain(named).map(|key| (key, Reads::Branch)).chain(within)
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
    use serde_json::json;
    use tiphys_lifecycle::webhook::{Concern, concern};

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
        assert!(index.repositories.is_empty() && index.spellings.is_empty(), "{index:?}");
    }

    /// INV-16: sources of a branch are found by whatever URL and name they have for it.
    #[test]
    fn inv_16_readers_of_a_branch_are_found_by_any_spelling() {
        let apps: Vec<_> = [
            (URL, "main", None),
            ("https://Git.acme.test:443/Shop/ui.git", "refs/heads/main", Some(".")),
            ("git@git.acme.test:shop/ui", "HEAD", Some("/a*b")),
            ("https://git.acme.test/shop/ui/", "", None),
            (URL, "dev", None),
            ("https://git.acme.test/shop/other", "main", None),
        ]
        .into_iter()
        .enumerate()
        .map(|(number, (url, revision, paths))| app(number, url, revision, paths))
        .collect();
        let mut index = ByReference::default();
        for (key, app) in &apps {
            index.add(key, app);
        }
        index.keep_within(&apps[0].0, &apps[0].1, true);
        let branch = BranchId::new("ssh://git@git.acme.test/shop/ui", "main").unwrap();
        let readers = |as_default| {
            index
                .readers(&branch, as_default)
                .map(move |read| (read.key.name.to_string(), as_default, read.reads))
        };
        let mut found: Vec<_> = readers(false).chain(readers(true)).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found.dedup();
        let expected = [
            ("a0", false, Reads::Directory("apps/0".into())),
            ("a1", false, Reads::Branch),
            ("a2", true, Reads::Branch),
            ("a3", true, Reads::Branch),
        ];
        assert_eq!(found, expected.map(|(name, is_default, reads)| (name.to_owned(), is_default, reads)));
    }

    /// API-207: whoever renders one directory alone is found by the files in it; the others are asked as before.
    #[test]
    fn api_207_followers_by_directory_are_found_by_their_files() {
        let apps: Vec<_> = (0..3).map(|number| app(number, URL, "main", None)).collect();
        let keys = |numbers: &[usize]| numbers.iter().map(|number| apps[*number].0.clone()).collect();
        let mut index = ByReference::default();
        for (key, app) in &apps {
            index.add(key, app);
        }
        assert_eq!(pushed(&mut index, &push("main", &[])), keys(&[0, 1, 2]));
        for (key, app) in &apps[..2] {
            index.keep_within(key, app, true);
            index.keep_within(key, app, true);
        }
        let found = index.pushed(&push("main", &["apps/0/x.yaml"]), Timestamp::UNIX_EPOCH);
        assert_eq!(found.applications, keys(&[2]));
        let reference = Reference { url: URL.into(), name: "main".into(), project: "default".into() };
        assert_eq!(found.references, BTreeSet::from([reference.clone()]));
        let within = |index: &ByReference, files: &[&str]| {
            let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
            index.within(&reference, Some(&files))
        };
        assert_eq!(within(&index, &["apps/0/deep/x.yaml", "apps/0/y.yaml"]), keys(&[0]));
        assert_eq!(within(&index, &["apps/01/x.yaml", "apps/2/x.yaml", "apps", "x.yaml"]), keys(&[]));
        assert_eq!(index.within(&reference, None), keys(&[0, 1]));
        let other = Reference { project: "other".into(), ..reference.clone() };
        assert_eq!(index.within(&other, None), keys(&[]), "each project is looked at by itself");
        index.keep_within(&apps[0].0, &apps[0].1, false);
        assert_eq!(pushed(&mut index, &push("main", &[])), keys(&[0, 2]));
        for (key, app) in &apps {
            index.remove(key, app);
        }
        assert!(index.repositories.is_empty() && index.within.is_empty(), "{index:?}");
    }

    /// Whoever names paths, has several sources, a range with a prefix or the root is never found by directory.
    #[test]
    fn api_207_only_one_plain_directory_is_followed_by_directory() {
        let (key, plain) = app(1, URL, "main", None);
        let changes: [fn(&mut Application); 4] = [
            |app| {
                let name = annotation::MANIFEST_GENERATE_PATHS.to_owned();
                app.metadata.annotations.insert(name, ".".to_owned());
            },
            |app| app.spec.sources = vec![app.spec.source.clone().unwrap(), app.spec.source.clone().unwrap()],
            |app| app.spec.source.as_mut().unwrap().tag_prefix = "v".to_owned(),
            |app| app.spec.source.as_mut().unwrap().path = ".".to_owned(),
        ];
        for change in changes {
            let mut app = plain.clone();
            change(&mut app);
            let mut index = ByReference::default();
            index.add(&key, &app);
            index.keep_within(&key, &app, true);
            assert!(!index.is_within(&key), "{:?}", app.sources());
        }
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
