//! The finalizers of an Application: which of them its hooks ask for, and which is next when it is deleted (CTL-76,
//! CTL-78).

use tiphys_api::Application;
use tiphys_api::names::annotation;
use tiphys_api::names::finalizer::{
    CASCADE, CASCADE_BACKGROUND, CASCADE_FOREGROUND, POST_DELETE, POST_DELETE_CLEANUP, PRE_DELETE,
    PRE_DELETE_CLEANUP,
};
use tiphys_engine::hook::HookType;

/// Those that ask for the deletion of the application's objects.
pub const CASCADES: &[&str] = &[CASCADE, CASCADE_FOREGROUND, CASCADE_BACKGROUND];
/// All that a deletion works off.
pub const ALL: &[&str] = &[
    CASCADE,
    CASCADE_FOREGROUND,
    CASCADE_BACKGROUND,
    PRE_DELETE,
    PRE_DELETE_CLEANUP,
    POST_DELETE,
    POST_DELETE_CLEANUP,
];

/// What is next in a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is left to do.
    Done,
    /// The hooks of a type run.
    Hooks(HookType),
    /// The objects are deleted.
    Cascade {
        /// In the background instead of in the foreground.
        in_background: bool,
    },
    /// The hooks of a type are cleaned up.
    CleanUp(HookType),
}

impl Stage {
    /// The finalizers that go when the stage is over.
    pub fn finalizers(self) -> &'static [&'static str] {
        match self {
            Self::Done => &[],
            Self::Cascade { .. } => CASCADES,
            Self::Hooks(HookType::PreDelete) => &[PRE_DELETE],
            Self::Hooks(_) => &[POST_DELETE],
            Self::CleanUp(HookType::PreDelete) => &[PRE_DELETE_CLEANUP],
            Self::CleanUp(_) => &[POST_DELETE_CLEANUP],
        }
    }
}

/// The first finalizer that is there decides what is next (CTL-78).
pub fn next_stage(app: &Application) -> Stage {
    let has = |name: &str| app.metadata.finalizers.iter().any(|found| found == name);
    let cascade = app.metadata.finalizers.iter().find(|name| CASCADES.contains(&name.as_str()));
    match cascade {
        _ if has(PRE_DELETE) => Stage::Hooks(HookType::PreDelete),
        Some(name) => Stage::Cascade { in_background: name == CASCADE_BACKGROUND },
        None if has(POST_DELETE) => Stage::Hooks(HookType::PostDelete),
        None if has(PRE_DELETE_CLEANUP) => Stage::CleanUp(HookType::PreDelete),
        None if has(POST_DELETE_CLEANUP) => Stage::CleanUp(HookType::PostDelete),
        None => Stage::Done,
    }
}

/// Whether the deletion is to go on without its hooks (CTL-84).
pub fn skips_hooks(app: &Application) -> bool {
    app.annotation(annotation::DELETION_SKIP_HOOKS) == Some("true")
}

/// The finalizers with those for deletion hooks added or removed, as the targets have such hooks (CTL-76).
pub fn with_hooks(found: &[String], has_hooks: impl Fn(HookType) -> bool) -> Vec<String> {
    let mut all = found.to_vec();
    let pairs = [
        (HookType::PreDelete, [PRE_DELETE, PRE_DELETE_CLEANUP]),
        (HookType::PostDelete, [POST_DELETE, POST_DELETE_CLEANUP]),
    ];
    for (hook_type, finalizers) in pairs {
        let is_wanted = has_hooks(hook_type);
        for finalizer in finalizers {
            let is_present = all.iter().any(|name| name == finalizer);
            if is_wanted && !is_present {
                all.push(finalizer.to_owned());
            } else if !is_wanted && is_present {
                all.retain(|name| name != finalizer);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(finalizers: &[&str]) -> Application {
        let mut app = Application::default();
        app.metadata.finalizers = finalizers.iter().map(|name| (*name).to_owned()).collect();
        app
    }

    #[test]
    fn ctl_78_the_stages_follow_each_other() {
        let mut app = with(ALL);
        let mut seen = Vec::new();
        loop {
            let stage = next_stage(&app);
            seen.push(stage);
            if stage == Stage::Done {
                break;
            }
            app.metadata.finalizers.retain(|name| !stage.finalizers().contains(&name.as_str()));
        }
        assert_eq!(
            seen,
            [
                Stage::Hooks(HookType::PreDelete),
                Stage::Cascade { in_background: false },
                Stage::Hooks(HookType::PostDelete),
                Stage::CleanUp(HookType::PreDelete),
                Stage::CleanUp(HookType::PostDelete),
                Stage::Done,
            ]
        );
        assert_eq!(next_stage(&with(&[CASCADE_BACKGROUND])), Stage::Cascade { in_background: true });
        assert_eq!(next_stage(&with(&["foregroundDeletion"])), Stage::Done);
    }

    #[test]
    fn ctl_76_finalizers_follow_the_hooks() {
        let found = [CASCADE.to_owned(), POST_DELETE.to_owned()];
        let wanted = with_hooks(&found, |hook| hook == HookType::PreDelete);
        assert_eq!(wanted, [CASCADE, PRE_DELETE, PRE_DELETE_CLEANUP]);
    }
}
