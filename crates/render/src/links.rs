//! Where the path of a source leads, links followed.

use crate::{PathError, Reason, RenderError, Tree, TreeError, TreePath};

pub use tiphys_tree::links::*;

/// What is said of a path that is not there (RND-53).
pub const PATH_NOT_FOUND: &str = "app path does not exist";

/// The directory that `source.path` names, links followed (RND-53).
///
/// # Errors
/// With the texts of RND-53, which begin with the path as written.
pub fn app_directory(tree: &dyn Tree, path: &str) -> Result<TreePath, RenderError> {
    let fail = |reason, what| Err(RenderError::new(reason, format!("{path}: {what}")));
    let parsed = match TreePath::parse(path) {
        Ok(parsed) => parsed,
        Err(PathError::Absolute) => return fail(Reason::PathAbsolute, "app path is absolute"),
        Err(PathError::Outside) => return fail(Reason::PathOutsideRepo, "app path outside root"),
        Err(PathError::Invalid) => return fail(Reason::PathNotFound, PATH_NOT_FOUND),
    };
    match resolve(tree, &parsed)? {
        Resolved::Found(directory, entry) if entry.is_directory() => Ok(directory),
        Resolved::Found(..) => fail(Reason::PathNotDirectory, "app path is not a directory"),
        Resolved::Submodule(path) => Err(TreeError::submodule(tree, &path).into()),
        Resolved::Missing | Resolved::Loop => fail(Reason::PathNotFound, PATH_NOT_FOUND),
        Resolved::Outside => fail(Reason::PathOutsideRepo, "app path outside root"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryEntry, MemoryTree};

    #[test]
    fn rnd_53_app_path_texts() {
        let file = ("repo/file".to_owned(), MemoryEntry::File("x".into(), false));
        let tree = MemoryTree::from_entries([file]).unwrap();
        let text = |path: &str| app_directory(&tree, path).map_err(|error| error.to_string());
        assert_eq!(text("/repo"), Err("/repo: app path is absolute".to_owned()));
        assert_eq!(text("../repo"), Err("../repo: app path outside root".to_owned()));
        assert_eq!(text("x"), Err("x: app path does not exist".to_owned()));
        assert_eq!(text("repo/file"), Err("repo/file: app path is not a directory".to_owned()));
        assert_eq!(text(""), Ok(TreePath::root()));
        assert_eq!(text("./repo/../"), Ok(TreePath::root()));
    }
}
