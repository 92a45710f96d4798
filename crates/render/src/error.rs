//! Why rendering failed: the text users see, a reason for programs, a code for clients.

use std::fmt;

use crate::TreeError;

/// Codes of failures, named as gRPC names them (RND-11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Anything without a better code.
    Unknown,
    /// The request is wrong.
    InvalidArgument,
    /// A named thing is not there.
    NotFound,
    /// The caller may not use a thing.
    PermissionDenied,
    /// A budget ran out.
    ResourceExhausted,
    /// A document of the source cannot be read.
    FailedPrecondition,
    /// The store behind the tree failed; trying again may help.
    Unavailable,
}

impl Code {
    /// The name, as gRPC prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::InvalidArgument => "InvalidArgument",
            Self::NotFound => "NotFound",
            Self::PermissionDenied => "PermissionDenied",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::Unavailable => "Unavailable",
        }
    }
}

/// Reasons of failures, as programs see them (EVAL-701).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// More than one type of source is configured.
    MultipleSourceTypes,
    /// The path of the source does not exist.
    PathNotFound,
    /// The path of the source is no directory.
    PathNotDirectory,
    /// The path of the source is absolute.
    PathAbsolute,
    /// The path of the source leaves the repository.
    PathOutsideRepo,
    /// A link leaves the repository.
    SymlinkOutOfBounds,
    /// A link leads back to itself.
    SymlinkLoop,
    /// A manifest cannot be read.
    ManifestUnmarshal,
    /// A JSON file holds more than one object.
    JsonMultipleObjects,
    /// The manifests are larger than the limit.
    ManifestsTooLarge,
    /// A member of a list is no object.
    ListItemNotObject,
    /// An override file cannot be read.
    SourceParameters,
    /// A Jsonnet file cannot be evaluated.
    JsonnetEvaluate,
    /// The result of a Jsonnet file is no object, and no list of objects.
    JsonnetOutput,
    /// A file that a source names is not inside of the repository.
    ResolvedOutsideRepo,
    /// A value file comes by a URL whose scheme is not allowed.
    UrlSchemeNotAllowed,
    /// A glob of value files matches nothing.
    ValuesGlobNoMatch,
    /// A value file is not there.
    ValuesFileMissing,
    /// There is no such version of Helm.
    HelmVersionUnsupported,
    /// A version of Kubernetes cannot be read.
    KubeVersionParse,
    /// A chart cannot be rendered.
    HelmRender,
    /// Values do not fit the schema of a chart.
    HelmSchema,
    /// The fields of the source cannot become edits of the kustomization.
    KustomizeEdit,
    /// An overlay cannot be built.
    KustomizeBuild,
    /// A number of replicas is none.
    KustomizeReplicaCount,
    /// No such version of Kustomize is registered.
    KustomizeVersion,
    /// No source of the application has that `ref`.
    RefUnknown,
    /// Two sources have one `ref`.
    RefDuplicate,
    /// A `ref` is no name.
    RefInvalidName,
    /// A source with a chart cannot be referred to.
    RefChart,
    /// Something would have to come from the network.
    NetworkRequired,
    /// A program outside would be needed.
    ExecRequired,
    /// There is no plugin that takes the source.
    PluginNotFound,
    /// A plugin failed.
    PluginFailed,
    /// A budget ran out.
    BudgetExceeded,
    /// The same, of what a source takes in memory or of its files: with a larger budget it may be rendered.
    MemoryExceeded,
    /// The content cannot be read.
    ContentUnavailable,
}

impl Reason {
    /// The name, as programs see it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MultipleSourceTypes => "multiple-source-types",
            Self::PathNotFound => "path-not-found",
            Self::PathNotDirectory => "path-not-directory",
            Self::PathAbsolute => "path-absolute",
            Self::PathOutsideRepo => "path-outside-repo",
            Self::SymlinkOutOfBounds => "symlink-out-of-bounds",
            Self::SymlinkLoop => "symlink-loop",
            Self::ManifestUnmarshal => "manifest-unmarshal",
            Self::JsonMultipleObjects => "json-multiple-objects",
            Self::ManifestsTooLarge => "manifests-too-large",
            Self::ListItemNotObject => "list-item-not-object",
            Self::SourceParameters => "source-parameters",
            Self::JsonnetEvaluate => "jsonnet-evaluate",
            Self::JsonnetOutput => "jsonnet-output",
            Self::ResolvedOutsideRepo => "resolved-outside-repo",
            Self::UrlSchemeNotAllowed => "url-scheme-not-allowed",
            Self::ValuesGlobNoMatch => "values-glob-no-match",
            Self::ValuesFileMissing => "values-file-missing",
            Self::HelmVersionUnsupported => "helm-version-unsupported",
            Self::KubeVersionParse => "kube-version-parse",
            Self::HelmRender => "helm-render",
            Self::HelmSchema => "helm-schema",
            Self::KustomizeEdit => "kustomize-edit",
            Self::KustomizeBuild => "kustomize-build",
            Self::KustomizeReplicaCount => "kustomize-replica-count",
            Self::KustomizeVersion => "kustomize-version",
            Self::RefUnknown => "ref-unknown",
            Self::RefDuplicate => "ref-duplicate",
            Self::RefInvalidName => "ref-invalid-name",
            Self::RefChart => "ref-chart",
            Self::NetworkRequired => "network-required",
            Self::ExecRequired => "exec-required",
            Self::PluginNotFound => "plugin-not-found",
            Self::PluginFailed => "plugin-failed",
            Self::BudgetExceeded | Self::MemoryExceeded => "budget-exceeded",
            Self::ContentUnavailable => "content-unavailable",
        }
    }

    /// The code that goes with the reason (RND-11).
    pub fn code(self) -> Code {
        match self {
            Self::ManifestUnmarshal | Self::JsonMultipleObjects | Self::NetworkRequired => {
                Code::FailedPrecondition
            }
            Self::ValuesGlobNoMatch => Code::NotFound,
            Self::BudgetExceeded | Self::MemoryExceeded => Code::ResourceExhausted,
            Self::ContentUnavailable => Code::Unavailable,
            _ => Code::Unknown,
        }
    }
}

/// A failed rendering. Printing gives the text that users see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    /// Why, for programs.
    pub reason: Reason,
    /// Why, for people; texts that tools parse are pinned by the specification.
    pub message: String,
}

impl RenderError {
    /// Makes one.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The code for clients.
    pub fn code(&self) -> Code {
        self.reason.code()
    }

    /// Whether trying again without a new revision may help (RND-146).
    pub fn is_transient(&self) -> bool {
        self.reason == Reason::ContentUnavailable
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RenderError {}

impl From<TreeError> for RenderError {
    fn from(error: TreeError) -> Self {
        // A submodule stays one; the other failures are the store's, which fetching again may mend.
        let reason = match error {
            TreeError::Submodule { .. } => Reason::ExecRequired,
            TreeError::Exceeded { .. } | TreeError::Cancelled => Reason::BudgetExceeded,
            _ => Reason::ContentUnavailable,
        };
        Self::new(reason, error.to_string())
    }
}
