//! The policy in force while somebody edits it (API-89).

use super::RbacConfig;
use super::enforce::Rbac;
use super::lines::PolicyError;

/// The last good policy, and what is wrong with the one that should replace it. The shell that watches the `ConfigMap`
/// compiles what it reads and hands over the outcome; it logs the problem and writes an Event about it.
#[derive(Clone, Debug)]
pub struct InForce {
    policy: Rbac,
    problem: Option<PolicyError>,
}

impl InForce {
    /// The first policy; the built-in one alone where it cannot be read, without any default role.
    pub fn begin(compiled: Result<Rbac, PolicyError>) -> Self {
        match compiled {
            Ok(policy) => Self { policy, problem: None },
            Err(problem) => Self { policy: builtin_alone(), problem: Some(problem) },
        }
    }

    /// What replaces it once the `ConfigMap` was edited: the new policy, or this one as long as that cannot be read.
    #[must_use]
    pub fn after(self, compiled: Result<Rbac, PolicyError>) -> Self {
        match compiled {
            Ok(policy) => Self { policy, problem: None },
            Err(problem) => Self { problem: Some(problem), ..self },
        }
    }

    /// The policy to ask.
    pub fn policy(&self) -> &Rbac {
        &self.policy
    }

    /// The policy, for changes of its projects: they count whatever is wrong with the `ConfigMap`.
    pub fn policy_mut(&mut self) -> &mut Rbac {
        &mut self.policy
    }

    /// What is wrong with the `ConfigMap`.
    pub fn problem(&self) -> Option<&PolicyError> {
        self.problem.as_ref()
    }
}

/// The built-in policy has no line that could be wrong; without any line nobody may anything.
fn builtin_alone() -> Rbac {
    Rbac::compile(&RbacConfig::default()).unwrap_or_else(|_| Rbac::closed())
}
