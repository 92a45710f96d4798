//! The words of a status, as enums: phases, sync and health codes, results, types of conditions.
//!
//! A field of the wire stays the text it is: another version may write a word that we do not know, and it survives.
//! Such a field is compared with these enums directly (`state.phase == OperationPhase::Running`) and read by `parse`,
//! so that a word that does not exist does not compile.

use std::fmt;

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$word_doc])* $word),+ }

        impl $name {
            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word)),+ }
            }

            /// Reads the name on the wire; `None` for a word that is not known.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $(stringify!($word) => Some(Self::$word),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl From<$name> for String {
            fn from(code: $name) -> Self {
                code.as_str().to_owned()
            }
        }

        impl PartialEq<$name> for str {
            fn eq(&self, code: &$name) -> bool {
                self == code.as_str()
            }
        }

        impl PartialEq<$name> for String {
            fn eq(&self, code: &$name) -> bool {
                self == code.as_str()
            }
        }
    };
}

codes! {
    /// Whether live is what is desired (ENG-52).
    SyncStatusCode {
        /// It is.
        Synced,
        /// It is not.
        OutOfSync,
        /// It could not be found out.
        Unknown,
    }
}

codes! {
    /// Health codes, best to worst (ENG-96): "worse" means greater.
    HealthCode {
        /// Works.
        Healthy,
        /// Stopped on purpose.
        Suspended,
        /// On its way.
        Progressing,
        /// Not there.
        Missing,
        /// Does not work.
        Degraded,
        /// Could not be judged.
        Unknown,
    }
}

codes! {
    /// Phase of an operation or of one of its tasks (CTL-44).
    OperationPhase {
        /// Not done.
        Running,
        /// About to be ended.
        Terminating,
        /// Done.
        Succeeded,
        /// Done without success.
        Failed,
        /// Could not be done.
        Error,
    }
}

impl OperationPhase {
    /// Whether nothing more will happen.
    pub const fn is_completed(self) -> bool {
        match self {
            Self::Running | Self::Terminating => false,
            Self::Succeeded | Self::Failed | Self::Error => true,
        }
    }
}

codes! {
    /// Phase of a hydration (CTL-112).
    HydratePhase {
        /// Runs.
        Hydrating,
        /// Done.
        Hydrated,
        /// Done without success.
        Failed,
    }
}

codes! {
    /// What became of an object in a sync (ENG-189).
    ResultCode {
        /// It is as desired.
        Synced,
        /// It could not be made so.
        SyncFailed,
        /// It was deleted, because it is not desired any more.
        Pruned,
        /// It is not desired any more, and was left.
        PruneSkipped,
    }
}

codes! {
    /// A part of a sync, in the order of execution; `SyncFail` runs only when another one failed (ENG-143).
    SyncPhase {
        /// Before anything is applied.
        PreSync,
        /// The objects themselves.
        Sync,
        /// After everything is healthy.
        PostSync,
        /// After a failure.
        SyncFail,
    }
}

codes! {
    /// Types of conditions of an Application (CTL-16).
    ConditionType {
        /// The spec is wrong.
        InvalidSpecError,
        /// Something else is wrong.
        UnknownError,
        /// Desired or live state could not be found out.
        ComparisonError,
        /// An automatic sync is not made.
        SyncError,
        /// A deletion does not go on.
        DeletionError,
        /// Something that was asked for has no effect.
        UnsupportedOptionWarning,
        /// Another application has the same object.
        SharedResourceWarning,
        /// The sources have the same object twice.
        RepeatedResourceWarning,
        /// The settings leave a kind out that the sources have.
        ExcludedResourceWarning,
        /// Objects beside the application's own are nobody's.
        OrphanedResourceWarning,
    }
}

codes! {
    /// Types of conditions of an `ApplicationSet` (ASET-150).
    SetConditionType {
        /// The last look failed.
        ErrorOccurred,
        /// Generators and templates gave what they should.
        ParametersGenerated,
        /// The Applications are as generated.
        ResourcesUpToDate,
        /// A roll-out goes step by step.
        RolloutProgressing,
        /// The steps of the roll-out are not what was meant.
        InvalidRolloutConfig,
        /// The set is deleted, step by step.
        DeletionProgressing,
    }
}

codes! {
    /// Reasons of conditions of an `ApplicationSet` (ASET-150).
    SetReason {
        /// Something else failed.
        ErrorOccurred,
        /// Everything is as it should be.
        ApplicationSetUpToDate,
        /// Generators and templates gave what they should.
        ParametersGenerated,
        /// An Application could not be changed.
        UpdateApplicationError,
        /// A generator failed.
        ApplicationGenerationFromParamsError,
        /// A template failed.
        RenderTemplateParamsError,
        /// An Application could not be created.
        CreateApplicationError,
        /// An Application could not be deleted.
        DeleteApplicationError,
        /// The annotation that asked for a look could not be removed.
        RefreshApplicationError,
        /// A generated Application is not valid.
        ApplicationValidationError,
        /// A roll-out goes on.
        ApplicationSetModified,
        /// A roll-out is over.
        ApplicationSetRolloutComplete,
        /// A roll-out has no steps.
        ApplicationSetRolloutError,
        /// The steps are not what was meant.
        ApplicationSetInvalidRolloutConfig,
        /// The steps are right.
        ApplicationSetValidRolloutConfig,
        /// The order of a deletion is not valid (ASET-253).
        ApplicationSetInvalidDeletionConfig,
        /// A deletion goes on (ASET-250).
        ApplicationSetDeletionInProgress,
        /// An Application does not go (ASET-250).
        ApplicationDeletionStuck,
        /// An Application could not be deleted on the way (ASET-250).
        ApplicationDeletionError,
        /// The project of the set does not exist or does not admit it (ASET-272).
        ApplicationSetProjectError,
        /// The namespace accepts no sets without a project (ASET-282).
        ApplicationSetUnscopedNotAllowed,
    }
}

codes! {
    /// Where an Application is in a roll-out (ASET-205).
    RolloutPhase {
        /// Its changes are not synced yet.
        Waiting,
        /// Its sync was asked for.
        Pending,
        /// Its sync runs, or has run and its health is awaited.
        Progressing,
        /// It has arrived.
        Healthy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_not_known_survive_and_equal_no_code() {
        let phase = "Paused".to_owned();
        assert!(phase != OperationPhase::Running);
        assert_eq!(OperationPhase::parse(&phase), None);
        assert_eq!(OperationPhase::parse("Running"), Some(OperationPhase::Running));
        assert_eq!(String::from(OperationPhase::Error), "Error");
        assert!(HealthCode::Unknown > HealthCode::Degraded && HealthCode::Healthy < HealthCode::Suspended);
    }
}
