//! What of a branch differs from what is wanted: pure, over anything that can be asked for a file (CTL-114, CTL-115).

use std::collections::BTreeMap;

use tiphys_render::TreePath;

use super::{Directory, Hydration};
use crate::SourceError;

/// A branch, as it is planned over. A branch that is not there has no files.
pub(crate) trait Branch {
    /// A file; `None` where nothing stands.
    fn file(&self, path: &TreePath) -> Result<Option<Vec<u8>>, SourceError>;

    /// All directories that have a file of this name, with its content.
    fn directories_with(&self, name: &str) -> Result<Vec<(TreePath, Vec<u8>)>, SourceError>;
}

/// Files to write, and to take away (`None`).
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) files: BTreeMap<TreePath, Option<String>>,
}

impl Plan {
    /// Whether all manifests are as wanted.
    pub(crate) fn is_nothing(&self) -> bool {
        self.files.is_empty()
    }
}

/// Plans a commit. Files that are not named are left alone.
pub(crate) fn plan(branch: &dyn Branch, wanted: &Hydration) -> Result<Plan, SourceError> {
    let mut files = BTreeMap::new();
    for (path, Directory { manifest, beside }) in &wanted.directories {
        let place = path.child(wanted.manifest);
        if branch.file(&place)?.is_some_and(|known| known == manifest.as_bytes()) {
            continue;
        }
        files.insert(place, Some(manifest.clone()));
        files.extend(beside.iter().map(|(name, text)| (path.child(name), Some(text.clone()))));
    }
    if let Some(is_stale) = &wanted.is_stale {
        for (path, metadata) in branch.directories_with(wanted.metadata)? {
            let is_ours = path.is_root() || wanted.directories.contains_key(&path);
            if is_ours || !is_stale(&path, &String::from_utf8_lossy(&metadata)) {
                continue;
            }
            let beside = wanted.directories.values().flat_map(|directory| directory.beside.keys());
            let mut names: Vec<&str> = beside.map(String::as_str).collect();
            names.extend([wanted.manifest, wanted.metadata]);
            for name in names {
                let place = path.child(name);
                if branch.file(&place)?.is_some() {
                    files.insert(place, None);
                }
            }
        }
    }
    if !files.is_empty() {
        let root = wanted.root.iter();
        files.extend(root.map(|(name, text)| (TreePath::root().child(name), Some(text.clone()))));
    }
    Ok(Plan { files })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    impl Branch for BTreeMap<&str, &str> {
        fn file(&self, path: &TreePath) -> Result<Option<Vec<u8>>, SourceError> {
            Ok(self.get(path.as_str()).map(|text| text.as_bytes().to_vec()))
        }

        fn directories_with(&self, name: &str) -> Result<Vec<(TreePath, Vec<u8>)>, SourceError> {
            let found = self.iter().filter_map(|(path, text)| {
                let path = TreePath::parse(path).unwrap();
                let is_it = path.as_str() == name || path.as_str().ends_with(&format!("/{name}"));
                Some((path.parent().filter(|_| is_it)?, text.as_bytes().to_vec()))
            });
            Ok(found.collect())
        }
    }

    fn wanted(manifests: &[(&str, &str)]) -> Hydration {
        let beside = || {
            BTreeMap::from([("README.md".to_owned(), "r".to_owned()), ("meta".to_owned(), "m".to_owned())])
        };
        let directory = |(path, text): &(&str, &str)| {
            (TreePath::parse(path).unwrap(), Directory { manifest: (*text).to_owned(), beside: beside() })
        };
        Hydration {
            sync_branch: "env".to_owned(),
            target_branch: "env".to_owned(),
            directories: manifests.iter().map(directory).collect(),
            root: BTreeMap::from([("meta".to_owned(), "root".to_owned())]),
            manifest: "manifest.yaml",
            metadata: "meta",
            is_stale: None,
            is_shared: false,
            as_default_branch: None,
            message: "message".to_owned(),
            note: "note".to_owned(),
            author: ("Ada".to_owned(), "ada@x".to_owned()),
        }
    }

    fn planned(branch: &BTreeMap<&str, &str>, wanted: &Hydration) -> Vec<String> {
        let files = plan(branch, wanted).unwrap().files;
        files.iter().map(|(path, text)| format!("{path}={}", text.as_deref().unwrap_or("-"))).collect()
    }

    #[test]
    fn ctl_115_only_directories_whose_manifests_changed_are_written() {
        let branch = BTreeMap::from([
            ("a/manifest.yaml", "A"),
            ("a/meta", "old"),
            ("b/manifest.yaml", "old"),
            ("x", "y"),
        ]);
        assert_eq!(
            planned(&branch, &wanted(&[("a", "A"), ("b", "B")])),
            ["b/README.md=r", "b/manifest.yaml=B", "b/meta=m", "meta=root"]
        );
        assert!(plan(&branch, &wanted(&[("a", "A")])).unwrap().is_nothing());
    }

    #[test]
    fn ctl_119_stale_directories_go_where_that_is_wanted() {
        let branch = BTreeMap::from([
            ("a/manifest.yaml", "A"),
            ("a/meta", "ours"),
            ("gone/manifest.yaml", "G"),
            ("gone/meta", "ours"),
            ("gone/own.txt", "kept"),
            ("other/manifest.yaml", "O"),
            ("other/meta", "theirs"),
            ("meta", "ours"),
        ]);
        let mut wanted = wanted(&[("a", "A")]);
        assert!(plan(&branch, &wanted).unwrap().is_nothing());
        wanted.is_stale = Some(Arc::new(|_, metadata| metadata == "ours"));
        assert_eq!(planned(&branch, &wanted), ["gone/manifest.yaml=-", "gone/meta=-", "meta=root"]);
    }
}
