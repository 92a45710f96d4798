//! Which manifests `diff`, `manifests` and previews look at (CLI-452, CLI-504).

use std::path::{Path, PathBuf};

use tiphys_api::Application;
use tiphys_api::application::are_copies;

use crate::core::{RenderPlan, Revisions};
use crate::failure::Failure;
use crate::flags::Parsed;

/// What the flags choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// What was compared last.
    Compared,
    /// All sources at one revision.
    Revision(String),
    /// Some of several sources at revisions, by their index.
    Indexed(Vec<(usize, String)>),
    /// Files of this machine.
    Local(Local),
}

/// A directory of this machine, in what stands for its repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) root: PathBuf,
    pub(super) path: String,
}

/// Reads the flags.
pub(super) fn chosen(app: &Application, flags: &Parsed) -> Result<Chosen, Failure> {
    let count = app.sources().len();
    let revisions = flags.texts("revisions");
    let positions = flags.ints("source-positions");
    let names = flags.texts("source-names");
    check_pairs((&positions, names), revisions).map_err(Failure::generic)?;
    if !revisions.is_empty() && app.is_multi_source() {
        let indexes = if names.is_empty() { by_position(&positions, count)? } else { by_name(app, names)? };
        return Ok(Chosen::Indexed(indexes.into_iter().zip(revisions.iter().cloned()).collect()));
    }
    if flags.is_set("revision") {
        return Ok(Chosen::Revision(flags.text("revision").to_owned()));
    }
    if flags.is_set("local") { local(flags).map(Chosen::Local) } else { Ok(Chosen::Compared) }
}

/// Whether each revision has the source that it is for, named in one way.
pub(super) fn check_pairs(
    (positions, names): (&[i64], &[String]),
    revisions: &[String],
) -> Result<(), String> {
    if !positions.is_empty() && !names.is_empty() {
        return Err("Only one of source-positions and source-names can be specified.".to_owned());
    }
    for (given, what) in [(positions.len(), "source-positions"), (names.len(), "source-names")] {
        if given > 0 && given != revisions.len() {
            return Err(format!(
                "While using --revisions and --{what}, length of values for both flags should be same."
            ));
        }
    }
    Ok(())
}

impl Chosen {
    /// What this process renders.
    pub(super) fn plan(self, app: &Application) -> RenderPlan {
        let mut compared = compared_revisions(app);
        compared.resize(app.sources().len(), String::new());
        match self {
            Self::Compared => RenderPlan::Revisions(compared),
            Self::Revision(revision) => RenderPlan::Revisions(vec![revision; compared.len()]),
            Self::Indexed(revisions) => {
                for (index, revision) in revisions {
                    if let Some(slot) = compared.get_mut(index) {
                        *slot = revision;
                    }
                }
                RenderPlan::Revisions(compared)
            }
            Self::Local(local) => local.plan(),
        }
    }

    /// What a server renders; `None` for files, which it does not have.
    pub(super) fn revisions(&self, app: &Application) -> Option<Revisions> {
        let position = |index: usize| i64::try_from(index).unwrap_or(i64::MAX).saturating_add(1);
        match self {
            Self::Local(_) => None,
            Self::Compared => Some(Revisions::default()),
            Self::Revision(revision) if app.is_multi_source() => {
                let by_position = (0..app.sources().len()).map(|at| (position(at), revision.clone()));
                Some(Revisions { by_position: by_position.collect(), ..Revisions::default() })
            }
            Self::Revision(revision) => Some(Revisions { single: revision.clone(), ..Revisions::default() }),
            Self::Indexed(revisions) => {
                let by_position = revisions.iter().map(|(at, revision)| (position(*at), revision.clone()));
                Some(Revisions { by_position: by_position.collect(), ..Revisions::default() })
            }
        }
    }
}

impl Local {
    /// What this process renders.
    pub(super) fn plan(self) -> RenderPlan {
        RenderPlan::Local { root: self.root, path: self.path }
    }

    /// The directory itself.
    pub(super) fn directory(&self) -> PathBuf {
        self.root.join(&self.path)
    }
}

/// The revisions of the last comparison, where it was about the present sources.
pub(crate) fn compared_revisions(app: &Application) -> Vec<String> {
    let sync = &app.status.sync;
    let is_current = if app.is_multi_source() {
        are_copies(&sync.compared_to.sources, &app.spec.sources)
    } else {
        let source = app.single_source().map_or(&[][..], std::slice::from_ref);
        are_copies(sync.compared_to.source.as_slice(), source)
    };
    match (is_current, app.is_multi_source()) {
        (false, _) => Vec::new(),
        (true, true) => sync.revisions.clone(),
        (true, false) => vec![sync.revision.clone()],
    }
}

/// Indexes of sources from positions that count from 1.
pub(super) fn by_position(positions: &[i64], count: usize) -> Result<Vec<usize>, Failure> {
    let index = |position: &i64| {
        let index = position.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        index.filter(|index| *index < count).ok_or_else(|| {
            Failure::fatal(
                "source-position cannot be less than 1 or more than number of sources in the app. Counting starts at 1.",
            )
        })
    };
    positions.iter().map(index).collect()
}

/// Indexes of sources from their names.
pub(super) fn by_name(app: &Application, names: &[String]) -> Result<Vec<usize>, Failure> {
    let index = |name: &String| {
        let found = app.sources().iter().position(|source| source.name == *name);
        found.ok_or_else(|| Failure::fatal(format!("Unknown source name '{name}'")))
    };
    names.iter().map(index).collect()
}

/// A local directory; without a meaningful root it is its own repository.
pub(super) fn local(flags: &Parsed) -> Result<Local, Failure> {
    let resolve = |text: &str| {
        std::fs::canonicalize(text).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Failure::generic(format!("stat {text}: no such file or directory"))
            }
            _ => Failure::generic(format!("{text}: {error}")),
        })
    };
    let directory = resolve(flags.text("local"))?;
    let root = resolve(flags.text("local-repo-root"))?;
    // Reading a whole file system to find one directory helps nobody.
    let root = if root == Path::new("/") || !directory.starts_with(&root) { directory.clone() } else { root };
    let path = directory.strip_prefix(&root).map(PathBuf::from).unwrap_or_default();
    let path = if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() };
    Ok(Local { root, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::show::MANIFESTS_FLAGS;
    use crate::flags::parse;
    use serde_json::json;

    fn app(multi: bool) -> Application {
        let (a, b) =
            (json!({"repoURL": "u", "path": "a", "name": "one"}), json!({"repoURL": "v", "path": "b"}));
        let value = if multi {
            json!({"metadata": {"name": "a"}, "spec": {"destination": {}, "sources": [a, b]},
                "status": {"sync": {"status": "Synced", "revisions": ["r1", "r2"], "comparedTo": {"destination": {}, "sources": [a, b]}}}})
        } else {
            json!({"metadata": {"name": "a"}, "spec": {"destination": {}, "source": a},
                "status": {"sync": {"status": "Synced", "revision": "r1", "comparedTo": {"destination": {}, "source": a}}}})
        };
        serde_json::from_value(value).unwrap()
    }

    fn planned(multi: bool, args: &[&str]) -> Result<RenderPlan, Failure> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let app = app(multi);
        Ok(chosen(&app, &parse(&args, &[MANIFESTS_FLAGS]).unwrap())?.plan(&app))
    }

    fn revisions(list: &[&str]) -> RenderPlan {
        RenderPlan::Revisions(list.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn cli_504_what_is_rendered() {
        assert_eq!(planned(false, &[]).unwrap(), revisions(&["r1"]));
        assert_eq!(planned(false, &["--revision", "x"]).unwrap(), revisions(&["x"]));
        assert_eq!(
            planned(true, &["--revisions", "x", "--source-positions", "2"]).unwrap(),
            revisions(&["r1", "x"])
        );
        assert_eq!(
            planned(true, &["--revisions", "x", "--source-names", "one"]).unwrap(),
            revisions(&["x", "r2"])
        );
        let mut changed = app(false);
        changed.spec.source.as_mut().unwrap().path = "other".into();
        let none = parse(&[], &[MANIFESTS_FLAGS]).unwrap();
        assert_eq!(
            chosen(&changed, &none).unwrap().plan(&changed),
            revisions(&[""]),
            "the comparison was about another source"
        );
    }

    #[test]
    fn cli_504_what_a_server_is_asked_for() {
        let asked = |multi: bool, args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let app = app(multi);
            chosen(&app, &parse(&args, &[MANIFESTS_FLAGS]).unwrap()).unwrap().revisions(&app)
        };
        let by_position = |list: &[(i64, &str)]| {
            let by_position = list.iter().map(|(at, text)| (*at, (*text).to_owned())).collect();
            Some(Revisions { by_position, ..Revisions::default() })
        };
        assert_eq!(asked(false, &[]), Some(Revisions::default()));
        assert_eq!(asked(false, &["--revision", "x"]).unwrap().single, "x");
        assert_eq!(asked(true, &["--revision", "x"]), by_position(&[(1, "x"), (2, "x")]));
        assert_eq!(asked(true, &["--revisions", "x", "--source-names", "one"]), by_position(&[(1, "x")]));
        assert_eq!(asked(false, &["--local", "."]), None);
    }

    #[test]
    fn cli_504_conflicts() {
        let text = |args: &[&str]| {
            let failure = planned(true, args).unwrap_err();
            (failure.message, failure.code)
        };
        assert_eq!(
            text(&["--revisions", "x", "--source-positions", "1", "--source-names", "one"]),
            ("Only one of source-positions and source-names can be specified.".to_owned(), 20)
        );
        assert_eq!(
            text(&["--revisions", "x", "--source-positions", "1,2"]),
            ("While using --revisions and --source-positions, length of values for both flags should be same.".to_owned(), 20)
        );
        assert_eq!(text(&["--revisions", "x", "--source-positions", "3"]).1, 1);
        assert_eq!(
            text(&["--revisions", "x", "--source-names", "no"]),
            ("Unknown source name 'no'".to_owned(), 1)
        );
    }

    #[test]
    fn cli_452_a_local_directory_is_its_own_root() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("apps/web");
        std::fs::create_dir_all(&inner).unwrap();
        let (root, inner) = (folder.path().canonicalize().unwrap(), inner.canonicalize().unwrap());
        let (root_text, inner_text) = (root.to_str().unwrap(), inner.to_str().unwrap());
        assert_eq!(
            planned(false, &["--local", inner_text, "--local-repo-root", "/"]).unwrap(),
            RenderPlan::Local { root: inner.clone(), path: ".".into() }
        );
        assert_eq!(
            planned(false, &["--local", inner_text, "--local-repo-root", root_text]).unwrap(),
            RenderPlan::Local { root: root.clone(), path: "apps/web".into() }
        );
        assert_eq!(planned(false, &["--local", "/nowhere/x"]).unwrap_err().code, 20);
    }
}
