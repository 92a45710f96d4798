//! Which signatures a repository needs (REP C12).

use tiphys_api::AppProject;
use tiphys_api::project::GitIntegrityPolicy;

use crate::pattern;

/// What must be signed, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SignaturePolicy {
    /// Nothing.
    #[default]
    Unchecked,
    /// The annotated tag, or else the commit.
    Head {
        /// Key IDs as written.
        keys: Vec<String>,
    },
    /// Tag and ancestors up to a sealed commit.
    Strict {
        /// Key IDs as written.
        keys: Vec<String>,
    },
}

/// Why there is no policy to follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignaturePolicyError {
    /// Several policies apply.
    #[error("multiple ({count}) git source integrity policies found for repo URL: {url}")]
    Several {
        /// How many.
        count: usize,
        /// URL as written in the Application.
        url: String,
    },
    /// A mode nobody knows; nothing may pass unchecked because of a typing error.
    #[error("unknown GPG mode {0:?} configured for GIT source integrity")]
    UnknownMode(String),
}

/// The policy for a git repository, by its URL as written (REP-200, 201).
pub fn signature_policy(project: &AppProject, url: &str) -> Result<SignaturePolicy, SignaturePolicyError> {
    let Some(git) = project.spec.source_integrity.as_ref().and_then(|integrity| integrity.git.as_ref())
    else {
        let keys: Vec<String> = project.spec.signature_keys.iter().map(|key| key.key_id.clone()).collect();
        return Ok(if keys.is_empty() { SignaturePolicy::Unchecked } else { SignaturePolicy::Head { keys } });
    };
    let applicable: Vec<_> = git.policies.iter().filter(|policy| applies(policy, url)).collect();
    let policy = match applicable.as_slice() {
        [] => return Ok(SignaturePolicy::Unchecked),
        [policy] => policy,
        several => return Err(SignaturePolicyError::Several { count: several.len(), url: url.to_owned() }),
    };
    let Some(gpg) = &policy.gpg else { return Ok(SignaturePolicy::Unchecked) };
    match gpg.mode.as_str() {
        "none" => Ok(SignaturePolicy::Unchecked),
        "head" => Ok(SignaturePolicy::Head { keys: gpg.keys.clone() }),
        "strict" => Ok(SignaturePolicy::Strict { keys: gpg.keys.clone() }),
        other => Err(SignaturePolicyError::UnknownMode(other.to_owned())),
    }
}

fn applies(policy: &GitIntegrityPolicy, url: &str) -> bool {
    let mut included = false;
    for repo in &policy.repos {
        match repo.url.strip_prefix('!') {
            Some(denied) if pattern::glob(denied, url) => return false,
            Some(_) => {}
            None => included |= pattern::glob(&repo.url, url),
        }
    }
    included
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(spec: &str, url: &str) -> Result<SignaturePolicy, SignaturePolicyError> {
        let text = format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#);
        signature_policy(&serde_json::from_str(&text).unwrap(), url)
    }

    #[test]
    fn rep_200_one_policy_decides() {
        let spec = r#"{"sourceIntegrity":{"git":{"policies":[
            {"repos":[{"url":"https://h/*"},{"url":"!https://h/free"}],"gpg":{"mode":"strict","keys":["A"]}},
            {"repos":[{"url":"https://h/two"}],"gpg":{"mode":"head","keys":["B"]}},
            {"repos":[{"url":"https://none/*"}],"gpg":{"mode":"none"}}]}}}"#;
        assert_eq!(policy(spec, "https://h/a/b"), Ok(SignaturePolicy::Strict { keys: vec!["A".into()] }));
        assert_eq!(policy(spec, "https://h/free"), Ok(SignaturePolicy::Unchecked));
        assert_eq!(policy(spec, "https://none/a"), Ok(SignaturePolicy::Unchecked));
        assert_eq!(policy(spec, "https://other"), Ok(SignaturePolicy::Unchecked));
        assert_eq!(
            policy(spec, "https://h/two").unwrap_err().to_string(),
            "multiple (2) git source integrity policies found for repo URL: https://h/two"
        );
    }

    #[test]
    fn rep_201_legacy_keys_check_the_head_of_everything() {
        let head = Ok(SignaturePolicy::Head { keys: vec!["A".into()] });
        assert_eq!(policy(r#"{"signatureKeys":[{"keyID":"A"}]}"#, "https://any"), head);
        assert_eq!(policy("{}", "https://any"), Ok(SignaturePolicy::Unchecked));
        let both = r#"{"signatureKeys":[{"keyID":"A"}],"sourceIntegrity":{"git":{"policies":[]}}}"#;
        assert_eq!(policy(both, "https://any"), Ok(SignaturePolicy::Unchecked));
    }
}
