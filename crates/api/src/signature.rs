//! Signatures of commits and tags, as they were found (RND-50). What follows from them is decided by
//! `tiphys_policy::signature`.

/// What was found out about the signature of one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureState {
    /// It is good, and its key is one of the installation.
    Good,
    /// It does not fit the object, or cannot be understood.
    Bad,
    /// Nobody vouches for its key.
    Untrusted,
    /// Its time is over.
    Expired,
    /// The time of its key is over.
    ExpiredKey,
    /// Its key was revoked.
    RevokedKey,
    /// Its key is none of the installation.
    UnknownKey,
    /// There is none.
    Unsigned,
    /// It is one of SSH or X.509.
    OtherKind,
}

impl SignatureState {
    /// The words of a result (RND-50).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "signed",
            Self::Bad => "bad signature",
            Self::Untrusted => "signed with untrusted key",
            Self::Expired => "expired signature",
            Self::ExpiredKey => "signed with expired key",
            Self::RevokedKey => "signed with revoked key",
            Self::UnknownKey => "signed with key not in keyring",
            Self::Unsigned => "unsigned",
            Self::OtherKind => "signed, but not with GnuPG",
        }
    }
}

/// The signature of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What was found out.
    pub state: SignatureState,
    /// Id of the key that made it, 16 hex digits in upper case; empty when there is none.
    pub key_id: String,
    /// Fingerprints of that key and of the key it belongs to, upper case; both empty unless the state is good.
    pub fingerprints: [String; 2],
}

impl Signature {
    /// A state without a key.
    pub fn without_key(state: SignatureState) -> Self {
        Self { state, key_id: String::new(), fingerprints: Default::default() }
    }
}

/// What kind of object is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedKind {
    /// An annotated tag.
    Tag,
    /// A commit.
    Commit,
}

/// A commit or tag with its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedObject {
    /// What it is.
    pub kind: SignedKind,
    /// Name of the tag, or id of the commit.
    pub name: String,
    /// `Name <email>` of the author, or of who made the tag.
    pub author: String,
    /// Its signature.
    pub signature: Signature,
    /// Whether it says that what came before it was looked at (`Argocd-gpg-seal`).
    pub has_seal: bool,
}

/// How much is looked at (REP-202).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureMode {
    /// The annotated tag, or else the commit.
    Head,
    /// The tag, and every commit up to one with a seal.
    Strict,
}

/// What a look goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextLook {
    /// What came before this object, where the mode wants that.
    Before,
    /// Not with what came before it.
    Beside,
    /// Nothing: enough was found.
    Nothing,
}
