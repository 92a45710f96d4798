//! Passwords: bcrypt, and what settings want of them (API-47, API-56).

use tiphys_api::secret::Secret;
use tiphys_go::regexp::Regexp;

use super::AccountError;

/// The cost of new hashes.
pub const HASH_COST: u32 = 10;
/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;
/// Bytes that bcrypt looks at.
const PASSWORD_BYTES_MAX: usize = 72;
/// What settings want where they say nothing.
const DEFAULT_PATTERN: &str = "^.{8,32}$";

/// A hash as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct PasswordHash(Secret<String>);

impl PasswordHash {
    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        self.0.expose()
    }
}

/// Hashes a password with a salt. Takes tens of milliseconds.
///
/// # Errors
/// When it is longer than what bcrypt looks at: a part of it would not count.
pub fn hash(password: &Secret<String>, salt: [u8; SALT_BYTES]) -> Result<PasswordHash, AccountError> {
    if password.expose().len() > PASSWORD_BYTES_MAX {
        return Err(AccountError::Password("password length exceeds 72 bytes"));
    }
    let parts = bcrypt::hash_with_salt(password.expose(), HASH_COST, salt)
        .map_err(|_refused| AccountError::Password("the password cannot be stored"))?;
    // `$2a$`, which everything that reads these Secrets knows.
    Ok(PasswordHash(Secret::new(parts.format_for_version(bcrypt::Version::TwoA))))
}

/// A hash that stands for the one of somebody who does not exist: comparing with it takes the same time.
const NOBODY: &str = "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy";

/// Whether a password is the one that was hashed. Takes as long as the cost of the hash wants; where none is stored, or
/// something that is none, as long as a usual one.
pub fn verify(password: &Secret<String>, stored: &Secret<String>) -> bool {
    match bcrypt::verify(password.expose(), stored.expose()) {
        Ok(is_right) => is_right,
        Err(_no_hash) => verify_nobody(password),
    }
}

/// Takes the time of [`verify`] for somebody who does not exist (SEC-13); always no.
pub fn verify_nobody(password: &Secret<String>) -> bool {
    drop(std::hint::black_box(bcrypt::verify(password.expose(), NOBODY)));
    false
}

/// Whether a new password is as the settings want it; `pattern` is that of the settings, if they have one.
///
/// # Errors
/// With the pattern. One that does not compile matches nothing.
pub fn check_pattern(password: &Secret<String>, pattern: Option<&str>) -> Result<(), AccountError> {
    let pattern = pattern.filter(|pattern| !pattern.is_empty()).unwrap_or(DEFAULT_PATTERN);
    match Regexp::new(pattern) {
        Ok(regexp) if regexp.is_match(password.expose()) => Ok(()),
        _ => Err(AccountError::Pattern(pattern.to_owned())),
    }
}
