//! The three answers a look can give (STY-43).

/// What a look at a cluster showed. "Could not look" is never the same as "nothing there".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// The thing is there.
    Present(T),
    /// It was witnessed not to be there.
    Absent,
    /// It could not be found out, and why.
    Unknown(String),
}

impl<T> Seen<T> {
    /// The same answer with the thing turned into another.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Present(thing) => Seen::Present(change(thing)),
            Self::Absent => Seen::Absent,
            Self::Unknown(why) => Seen::Unknown(why),
        }
    }
}
