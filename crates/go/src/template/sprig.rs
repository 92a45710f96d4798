//! sprig 3.3.
use super::functions::Function;
pub(super) fn tables() -> [&'static [Function]; 1] {
    [strings::FUNCTIONS]
}
mod strings;
