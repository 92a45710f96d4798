//! Where imports are looked for: in the tree of the source, and nowhere else (RND-79, RND-80, SEC-52).

use bytes::Bytes;

use super::{Imported, Imports, SOURCE_BYTES_MAX};
use crate::links::{self, Resolved};
use crate::{PathError, Reason, RenderError, Tree, TreeError, TreePath};

/// Imports from a tree.
pub struct TreeImports<'a> {
    tree: &'a dyn Tree,
    /// Directories after that of the importing file, in the order in which they are looked at.
    directories: Vec<TreePath>,
}

impl<'a> TreeImports<'a> {
    /// `libs` are directories relative to the root; the last one is looked at first, the application's own after them.
    ///
    /// # Errors
    /// When one of them is not inside of the root.
    pub fn new(tree: &'a dyn Tree, directory: &TreePath, libs: &[String]) -> Result<Self, RenderError> {
        let mut directories = Vec::with_capacity(libs.len() + 1);
        for lib in libs.iter().rev() {
            let outside = || {
                let text = format!("file '{lib}' resolved to outside repository root");
                RenderError::new(Reason::ResolvedOutsideRepo, text)
            };
            // An absolute path begins at the root of the repository.
            let path = TreePath::parse(lib.trim_start_matches('/')).map_err(|_error| outside())?;
            match links::resolve(tree, &path)? {
                Resolved::Found(path, _) => directories.push(path),
                Resolved::Missing => directories.push(path),
                Resolved::Outside | Resolved::Loop => return Err(outside()),
                Resolved::Submodule(path) => return Err(TreeError::submodule(tree, &path).into()),
            }
        }
        directories.push(directory.clone());
        Ok(Self { tree, directories })
    }

    fn read(&self, path: &TreePath) -> Result<Option<Imported>, String> {
        match links::resolve(self.tree, path).map_err(|error| error.to_string())? {
            Resolved::Found(real, entry) if entry.is_file() => {
                let content: Bytes =
                    self.tree.read(&real, SOURCE_BYTES_MAX).map_err(|error| error.to_string())?;
                // By the name under which it was found: that is where its own imports begin, as in the reference.
                Ok(Some(Imported { file: path.as_str().to_owned(), content }))
            }
            Resolved::Found(..) => Err(format!("read {path}: is a directory")),
            Resolved::Missing => Ok(None),
            Resolved::Outside => Err(format!("file '{path}' resolved to outside repository root")),
            Resolved::Loop => Err("too many links".to_owned()),
            Resolved::Submodule(path) => Err(TreeError::submodule(self.tree, &path).to_string()),
        }
    }
}

impl Imports for TreeImports<'_> {
    fn load(&mut self, from: &str, path: &str) -> Result<Imported, String> {
        let own =
            if from.is_empty() { None } else { TreePath::parse(from).ok().and_then(|file| file.parent()) };
        let mut is_outside = false;
        for directory in own.iter().chain(&self.directories) {
            match directory.join(path) {
                Ok(candidate) => {
                    if let Some(found) = self.read(&candidate)? {
                        return Ok(found);
                    }
                }
                Err(PathError::Absolute | PathError::Outside) => is_outside = true,
                Err(PathError::Invalid) => return Err("the path is not valid".to_owned()),
            }
        }
        Err(if is_outside {
            format!("file '{path}' resolved to outside repository root")
        } else {
            "no match locally or in the Jsonnet library paths".to_owned()
        })
    }
}
