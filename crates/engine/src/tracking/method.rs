//! How ownership is marked (TRK section 3).

use std::fmt;

/// What is written on objects, and from what the owner is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TrackingMethod {
    /// The tracking annotation alone.
    #[default]
    Annotation,
    /// The tracking annotation, plus an informational label.
    AnnotationAndLabel,
    /// The instance label alone.
    Label,
    /// The instance label with a digest of the instance name.
    Hash,
    /// The tracking annotation, plus an informational label with a digest.
    AnnotationAndHash,
}

impl TrackingMethod {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 5] =
        [Self::Annotation, Self::AnnotationAndLabel, Self::Label, Self::Hash, Self::AnnotationAndHash];

    /// Reads a settings value exactly: no trimming, case-sensitive. `None` for anything unrecognised.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }

    /// The settings value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::AnnotationAndLabel => "annotation+label",
            Self::Label => "label",
            Self::Hash => "hash",
            Self::AnnotationAndHash => "annotation+hash",
        }
    }

    /// Whether the tracking annotation decides who owns an object.
    pub fn is_annotation_family(self) -> bool {
        match self {
            Self::Annotation | Self::AnnotationAndLabel | Self::AnnotationAndHash => true,
            Self::Label | Self::Hash => false,
        }
    }

    /// Whether the instance label is written, with the instance name or a digest of it.
    pub fn writes_label(self) -> bool {
        self != Self::Annotation
    }

    /// Whether the instance label holds a digest.
    pub fn is_hashed(self) -> bool {
        matches!(self, Self::Hash | Self::AnnotationAndHash)
    }
}

impl fmt::Display for TrackingMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
