//! `hash/fnv`: FNV-1a.

/// The 64-bit FNV-1a hash of a text.
///
/// ```
/// assert_eq!(tiphys_go::fnv::fnv1a_64(""), 0xcbf2_9ce4_8422_2325);
/// assert_eq!(tiphys_go::fnv::fnv1a_64("a"), 0xaf63_dc4c_8601_ec8c);
/// ```
pub fn fnv1a_64(text: &str) -> u64 {
    let fold = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, fold)
}
