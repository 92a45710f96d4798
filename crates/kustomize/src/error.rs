//! Why a build failed.

use tiphys_tree::TreeError;

use crate::edit::EditError;
use crate::remote::RemoteSpec;

/// A failed build. Printing gives the text that users see.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KustomizeError {
    /// The input is wrong; the text is that of `kustomize build`, with paths of the tree.
    #[error("{0}")]
    Invalid(String),
    /// An edit of the root kustomization cannot be made (RND-81).
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Content is needed that is not fetched yet. Whoever fetches it may build again.
    #[error("content is not fetched: {}", list(.specs))]
    Missing {
        /// All of it, as far as this build got.
        specs: Vec<RemoteSpec>,
    },
    /// A bound of the budget is reached.
    #[error("kustomize build exceeds its budget: {what}")]
    Exhausted {
        /// Which one.
        what: String,
    },
    /// The caller's time is up.
    #[error("timeout after 1m30s")]
    Cancelled,
    /// Something that only the program can do (RND-161).
    #[error("native kustomize renderer: unsupported {feature}; set tiphys.renderer.kustomize=exec")]
    Unsupported {
        /// What it is.
        feature: String,
    },
    /// The store behind a tree failed, or has not everything.
    #[error(transparent)]
    Tree(TreeError),
}

fn list(specs: &[RemoteSpec]) -> String {
    specs.iter().map(RemoteSpec::to_string).collect::<Vec<_>>().join(", ")
}
