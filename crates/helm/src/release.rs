//! The name of the release.

/// Longest name, so that names made of it have room.
const NAME_BYTES_MAX: usize = 53;
/// What Helm says a name has to match.
const PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Why a text is no name of a release.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReleaseNameError {
    /// The empty text.
    #[error("release name \"\": no name provided")]
    Missing,
    /// A text that is too long or has other characters.
    #[error(
        "release name {name:?}: invalid release name, must match regex {PATTERN} and the length must not be longer than {NAME_BYTES_MAX}"
    )]
    Invalid {
        /// The text.
        name: String,
    },
}

/// Checks the name of a release as Helm does before it renders.
pub fn check_release_name(name: &str) -> Result<(), ReleaseNameError> {
    if name.is_empty() {
        return Err(ReleaseNameError::Missing);
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |label: &str| {
        label.starts_with(plain) && label.ends_with(plain) && label.chars().all(|c| plain(c) || c == '-')
    };
    if name.len() <= NAME_BYTES_MAX && name.split('.').all(label) {
        return Ok(());
    }
    Err(ReleaseNameError::Invalid { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_91_names_of_releases_are_checked() {
        for name in ["a", "a-b.c-1", "0", &"x".repeat(53)] {
            assert_eq!(check_release_name(name), Ok(()), "{name}");
        }
        for name in ["A", "-a", "a-", "a..b", "a_b", "a.", &"x".repeat(54)] {
            assert!(matches!(check_release_name(name), Err(ReleaseNameError::Invalid { .. })), "{name}");
        }
        assert_eq!(check_release_name(""), Err(ReleaseNameError::Missing));
    }
}
