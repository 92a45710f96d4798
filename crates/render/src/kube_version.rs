//! Versions of Kubernetes in the form that tools are given (RND-5).

use crate::plan::RenderContext;
use crate::{Reason, RenderError};

/// The numbers of a version, without a leading `v` and what follows them; an empty text stays empty.
///
/// # Errors
/// When it begins with no numbers.
pub(crate) fn normalize(version: &str) -> Result<String, RenderError> {
    if version.is_empty() {
        return Ok(String::new());
    }
    let text = version.strip_prefix('v').unwrap_or(version);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let numbers = text.get(..end).unwrap_or_default().trim_end_matches('.');
    let parts: Vec<&str> = numbers.split('.').collect();
    let is_version = (1..=3).contains(&parts.len()) && parts.iter().all(|part| part.parse::<u64>().is_ok());
    if is_version {
        Ok(numbers.to_owned())
    } else {
        let text = format!("could not parse kubernetes version {version}: it is no version");
        Err(RenderError::new(Reason::KubeVersionParse, text))
    }
}

/// The version that a source is rendered for: its own, else the cluster's.
///
/// # Errors
/// Those of [`normalize`].
pub(crate) fn of_source(own: &str, context: &RenderContext) -> Result<String, RenderError> {
    normalize(if own.is_empty() { context.cluster.kube_version() } else { own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_5_only_the_numbers_count() {
        for (version, expected) in
            [("v1.30.11+IKS", "1.30.11"), ("1.31-rc1", "1.31"), ("1.36.0", "1.36.0"), ("v1", "1"), ("", "")]
        {
            assert_eq!(normalize(version).as_deref(), Ok(expected));
        }
        for version in ["latest", "v", "1..2", "1.2.3.4", "-1"] {
            let error = normalize(version).unwrap_err();
            assert!(error.message.starts_with("could not parse kubernetes version "), "{version}: {error}");
        }
    }
}
