//! Whether what was found out about signatures is enough (REP C12, RND-48..51). Pure: who asks `gpg` does not decide.

use tiphys_api::AppProject;
use tiphys_api::settings::Settings;
use tiphys_api::signature::{NextLook, Signature, SignatureMode, SignatureState, SignedKind, SignedObject};

use crate::project::{SignaturePolicy, SignaturePolicyError, signature_policy};

/// Problems that are told at most (REP-202).
const PROBLEMS_MAX: usize = 10;

/// What has to be signed in a repository, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureRule {
    /// How much is looked at.
    pub mode: SignatureMode,
    /// Key ids and fingerprints, upper case.
    keys: Vec<String>,
}

impl SignatureRule {
    /// The rule of a project for a repository, by its URL as written. There is none where signatures are switched off
    /// for the whole installation (REP-87).
    ///
    /// # Errors
    /// When several policies apply, or one is of a mode nobody knows: nothing passes then.
    pub fn of(
        project: &AppProject,
        settings: &Settings,
        url: &str,
    ) -> Result<Option<Self>, SignaturePolicyError> {
        if !settings.signatures_enabled() {
            return Ok(None);
        }
        let (mode, keys) = match signature_policy(project, url)? {
            SignaturePolicy::Unchecked => return Ok(None),
            SignaturePolicy::Head { keys } => (SignatureMode::Head, keys),
            SignaturePolicy::Strict { keys } => (SignatureMode::Strict, keys),
        };
        Ok(Some(Self { mode, keys: keys.iter().map(|key| key.to_ascii_uppercase()).collect() }))
    }

    /// What the results of this rule depend on, in a form that is equal for equal rules only.
    pub fn identity(&self) -> Vec<u8> {
        format!("{:?} {:?}", self.mode, self.keys).into_bytes()
    }

    /// Whether a signature is good and by somebody who is listed: the key that made it, or the one it belongs to, by
    /// the id or by the whole fingerprint.
    fn allows(&self, signature: &Signature) -> bool {
        let is_listed = |fingerprint: &String| {
            let means = |key: &String| matches!(key.len(), 16 | 40) && fingerprint.ends_with(key.as_str());
            self.keys.iter().any(means)
        };
        signature.state == SignatureState::Good && signature.fingerprints.iter().any(is_listed)
    }
}

/// Looks at one object after another, and remembers what is wrong.
#[derive(Clone, Debug)]
pub struct Verdict<'a> {
    rule: &'a SignatureRule,
    looked_at: usize,
    keys_told: Vec<(SignatureState, String)>,
    problems: Vec<String>,
}

impl<'a> Verdict<'a> {
    /// Nothing was looked at.
    pub fn new(rule: &'a SignatureRule) -> Self {
        Self { rule, looked_at: 0, keys_told: Vec::new(), problems: Vec::new() }
    }

    /// Takes an object, and says what is looked at next. A seal counts only when its own commit passes (REP-202).
    pub fn take(&mut self, object: &SignedObject) -> NextLook {
        self.looked_at += 1;
        let is_allowed = self.rule.allows(&object.signature);
        if !is_allowed {
            self.tell(object);
        }
        if self.problems.len() >= PROBLEMS_MAX {
            return NextLook::Nothing;
        }
        if self.rule.mode == SignatureMode::Head || (is_allowed && object.has_seal) {
            return NextLook::Beside;
        }
        NextLook::Before
    }

    fn tell(&mut self, object: &SignedObject) {
        let SignedObject { kind, name, author, signature, .. } = object;
        let Signature { state, key_id, .. } = signature;
        if *kind == SignedKind::Commit && !key_id.is_empty() {
            let told = (*state, key_id.clone());
            if self.keys_told.contains(&told) {
                return;
            }
            self.keys_told.push(told);
        }
        let reason = match state {
            SignatureState::Good => "signed with unallowed key",
            other => other.as_str(),
        };
        self.problems
            .push(format!("Failed verifying revision {name} by '{author}': {reason} (key_id={key_id})"));
    }

    /// The text of what is wrong; `None` when everything that was looked at passes. Nothing passes unlooked at.
    pub fn refusal(&self) -> Option<String> {
        if self.looked_at == 0 {
            return Some("Failed verifying the revision: nothing was found that could be signed".to_owned());
        }
        (!self.problems.is_empty()).then(|| self.problems.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tiphys_api::settings::SettingsData;

    use super::*;

    const ID: &str = "4AEE18F83AFDEB23";
    const FINGERPRINT: &str = "5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB23";
    const OTHER: &str = "0000000000000000000000000000000000000001";

    fn rule(mode: &str, key: &str) -> SignatureRule {
        let spec = format!(
            r#"{{"sourceIntegrity":{{"git":{{"policies":[{{"repos":[{{"url":"*"}}],
                "gpg":{{"mode":"{mode}","keys":["{key}"]}}}}]}}}}}}"#
        );
        of(&spec, &[]).unwrap().unwrap()
    }

    fn of(spec: &str, env: &[(&str, &str)]) -> Result<Option<SignatureRule>, SignaturePolicyError> {
        let project =
            serde_json::from_str(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#)).unwrap();
        let env: BTreeMap<String, String> =
            env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let settings = Settings::new(SettingsData { env, ..SettingsData::default() });
        SignatureRule::of(&project, &settings, "https://h/r")
    }

    fn object(state: SignatureState, fingerprints: [&str; 2]) -> SignedObject {
        SignedObject {
            kind: SignedKind::Commit,
            name: "c1".to_owned(),
            author: "Ada <ada@acme.test>".to_owned(),
            signature: Signature {
                state,
                key_id: fingerprints[0].chars().skip(24).collect(),
                fingerprints: fingerprints.map(str::to_owned),
            },
            has_seal: false,
        }
    }

    #[test]
    fn rep_87_200_rules_of_a_project() {
        let keys = r#"{"signatureKeys":[{"keyID":"4aee18f83afdeb23"}]}"#;
        let legacy = of(keys, &[]).unwrap().unwrap();
        assert_eq!(legacy, rule("head", ID));
        assert_eq!(of("{}", &[]), Ok(None));
        for value in ["false", "No"] {
            assert_eq!(of(keys, &[("ARGOCD_GPG_ENABLED", value)]), Ok(None));
        }
        let unknown =
            r#"{"sourceIntegrity":{"git":{"policies":[{"repos":[{"url":"*"}],"gpg":{"mode":"haed"}}]}}}"#;
        let text = of(unknown, &[]).unwrap_err().to_string();
        assert_eq!(text, "unknown GPG mode \"haed\" configured for GIT source integrity");
        assert_ne!(rule("head", ID).identity(), rule("strict", ID).identity());
        assert_ne!(rule("head", ID).identity(), rule("head", FINGERPRINT).identity());
    }

    #[test]
    fn rep_202_who_is_allowed() {
        let passes = |key: &str, fingerprints: [&str; 2]| {
            let rule = rule("head", key);
            let mut verdict = Verdict::new(&rule);
            assert_eq!(verdict.take(&object(SignatureState::Good, fingerprints)), NextLook::Beside);
            verdict.refusal().is_none()
        };
        for key in [ID, FINGERPRINT, "4aee18f83afdeb23"] {
            assert!(passes(key, [FINGERPRINT, FINGERPRINT]), "{key}");
            assert!(passes(key, [OTHER, FINGERPRINT]), "a subkey of {key}");
            assert!(!passes(key, [OTHER, OTHER]), "{key}");
        }
        for key in ["", "23", "3AFDEB23", "AEE18F83AFDEB23", "*"] {
            assert!(!passes(key, [FINGERPRINT, FINGERPRINT]), "{key:?} is no key");
        }
        let none = SignatureRule { mode: SignatureMode::Head, keys: Vec::new() };
        let mut verdict = Verdict::new(&none);
        verdict.take(&object(SignatureState::Good, [FINGERPRINT, FINGERPRINT]));
        assert!(verdict.refusal().is_some(), "a policy without keys lets nobody pass");
        assert!(Verdict::new(&rule("head", ID)).refusal().is_some(), "nothing was looked at");
    }

    #[test]
    fn rep_202_problems_have_their_texts() {
        let rule = rule("strict", ID);
        let tell = |objects: &[SignedObject]| {
            let mut verdict = Verdict::new(&rule);
            for object in objects {
                verdict.take(object);
            }
            verdict.refusal().unwrap_or_default()
        };
        let by = "Failed verifying revision c1 by 'Ada <ada@acme.test>':";
        for (state, words) in [
            (SignatureState::Bad, "bad signature"),
            (SignatureState::Untrusted, "signed with untrusted key"),
            (SignatureState::Expired, "expired signature"),
            (SignatureState::ExpiredKey, "signed with expired key"),
            (SignatureState::RevokedKey, "signed with revoked key"),
            (SignatureState::UnknownKey, "signed with key not in keyring"),
            (SignatureState::Good, "signed with unallowed key"),
        ] {
            let found = object(state, [OTHER, OTHER]);
            assert_eq!(tell(&[found.clone(), found]), format!("{by} {words} (key_id=0000000000000001)"));
        }
        let unsigned = object(SignatureState::Unsigned, ["", ""]);
        assert_eq!(tell(&[unsigned]), format!("{by} unsigned (key_id=)"));
    }

    #[test]
    fn rep_202_a_seal_counts_when_its_commit_passes() {
        let rule = rule("strict", ID);
        let mut verdict = Verdict::new(&rule);
        let sealed = |state| SignedObject { has_seal: true, ..object(state, [FINGERPRINT, FINGERPRINT]) };
        assert_eq!(verdict.take(&object(SignatureState::Good, [FINGERPRINT; 2])), NextLook::Before);
        assert_eq!(verdict.take(&sealed(SignatureState::Good)), NextLook::Beside);
        assert_eq!(verdict.take(&sealed(SignatureState::ExpiredKey)), NextLook::Before);
        let unsigned = object(SignatureState::Unsigned, ["", ""]);
        let looks: Vec<NextLook> = (0..20).map(|_| verdict.take(&unsigned)).collect();
        assert_eq!((looks[7], looks[8]), (NextLook::Before, NextLook::Nothing), "ten problems are enough");
    }
}
