//! Passwords are kept as bcrypt (API-47).

use tiphys_api::secret::Secret;

use super::AccountCallError;

/// The cost of new hashes.
pub const HASH_COST: u32 = 10;
/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;
/// Bytes that bcrypt looks at.
const PASSWORD_BYTES_MAX: usize = 72;

/// A hash as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordHash(Secret<String>);

impl PasswordHash {
    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.expose()
    }
}

/// Hashes a password with a salt. Takes tens of milliseconds.
///
/// # Errors
/// When it has a byte that ends it early, or is longer than what bcrypt looks at: a part of it would count for nothing,
/// and nobody would notice.
pub fn hash(password: &Secret<String>, salt: [u8; SALT_BYTES]) -> Result<PasswordHash, AccountCallError> {
    let text = password.expose();
    if text.contains('\0') {
        return Err(AccountCallError::Hash("it has a null character"));
    }
    if text.len() > PASSWORD_BYTES_MAX {
        return Err(AccountCallError::Hash("password length exceeds 72 bytes"));
    }
    let parts = bcrypt::hash_with_salt(text, HASH_COST, salt)
        .map_err(|_refused| AccountCallError::Hash("its hash cannot be made"))?;
    // `$2a$`, which everything that reads these Secrets knows.
    Ok(PasswordHash(Secret::new(parts.format_for_version(bcrypt::Version::TwoA))))
}

/// The same with a salt of the system's.
///
/// # Errors
/// Those of [`hash`], and when the system gives no randomness.
pub fn hashed(password: &Secret<String>) -> Result<PasswordHash, AccountCallError> {
    let mut salt = [0; SALT_BYTES];
    aws_lc_rs::rand::fill(&mut salt)
        .map_err(|_none| AccountCallError::Chance("the system gives no randomness"))?;
    hash(password, salt)
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
