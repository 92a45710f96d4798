//! scrypt (RFC 7914) with the parameters of `derivePassword`, and HMAC (RFC 2104).

use sha2::{Digest as _, Sha256};

const BLOCK_BYTES: usize = 64;
/// Cost, block size and lanes that sprig uses: 32 MiB for a moment.
const COST: usize = 32_768;
const SIZE: usize = 8;
const LANES: u32 = 2;
const LANE_BYTES: usize = 128 * SIZE;
/// Bytes of memory for a moment.
pub(super) const MEMORY_BYTES: usize = COST * LANE_BYTES;
/// Words of a lane.
const WORDS: usize = 32 * SIZE;

/// HMAC with SHA-256.
pub(super) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    let hashed: [u8; 32] = Sha256::digest(key).into();
    let key = if key.len() > BLOCK_BYTES { &hashed } else { key };
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

/// PBKDF2 with one round.
fn stretched(password: &[u8], salt: &[u8], bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 32);
    let mut block: u32 = 1;
    while out.len() < bytes {
        out.extend(hmac(password, &[salt, &block.to_be_bytes()].concat()));
        block += 1;
    }
    out.truncate(bytes);
    out
}

/// A key of 64 bytes.
pub(super) fn scrypt(password: &[u8], salt: &[u8]) -> Vec<u8> {
    let lanes = usize::try_from(LANES).unwrap_or(1);
    let mut mixed = Vec::with_capacity(lanes * LANE_BYTES);
    for lane in stretched(password, salt, lanes * LANE_BYTES).chunks(LANE_BYTES) {
        let (words, _) = lane.as_chunks::<4>();
        let mut words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        mix(&mut words);
        mixed.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    stretched(password, &mixed, 64)
}

/// `ROMix`: fills memory, then reads it in an order that only the content knows.
fn mix(lane: &mut Vec<u32>) {
    let mut memory: Vec<u32> = Vec::with_capacity(COST * WORDS);
    let mut other = vec![0; WORDS];
    for _ in 0..COST {
        memory.extend_from_slice(lane);
        block_mix(lane, &mut other);
        std::mem::swap(lane, &mut other);
    }
    for _ in 0..COST {
        // The first word of the last block, modulo a power of two.
        let at = lane.get(WORDS - 16).map_or(0, |word| *word as usize % COST);
        let row = memory.get(at * WORDS..(at + 1) * WORDS).unwrap_or_default();
        for (word, with) in lane.iter_mut().zip(row) {
            *word ^= with;
        }
        block_mix(lane, &mut other);
        std::mem::swap(lane, &mut other);
    }
}

fn block_mix(lane: &[u32], out: &mut [u32]) {
    let mut state = [0; 16];
    for (to, from) in state.iter_mut().zip(lane.get(WORDS - 16..).unwrap_or_default()) {
        *to = *from;
    }
    for (place, block) in lane.chunks(16).enumerate() {
        for (word, with) in state.iter_mut().zip(block) {
            *word ^= with;
        }
        salsa(&mut state);
        // Even blocks first, odd ones behind them.
        let to = place / 2 + place % 2 * SIZE;
        if let Some(to) = out.get_mut(to * 16..to * 16 + 16) {
            to.copy_from_slice(&state);
        }
    }
}

/// Salsa20/8.
#[expect(clippy::many_single_char_names, reason = "the names of the specification")]
fn salsa(state: &mut [u32; 16]) {
    fn quarter(a: u32, b: u32, c: u32, d: u32) -> (u32, u32, u32, u32) {
        let b = b ^ a.wrapping_add(d).rotate_left(7);
        let c = c ^ b.wrapping_add(a).rotate_left(9);
        let d = d ^ c.wrapping_add(b).rotate_left(13);
        let a = a ^ d.wrapping_add(c).rotate_left(18);
        (a, b, c, d)
    }
    let [
        mut a,
        mut b,
        mut c,
        mut d,
        mut e,
        mut f,
        mut g,
        mut h,
        mut i,
        mut j,
        mut k,
        mut l,
        mut m,
        mut n,
        mut o,
        mut p,
    ] = *state;
    for _ in 0..4 {
        (a, e, i, m) = quarter(a, e, i, m);
        (f, j, n, b) = quarter(f, j, n, b);
        (k, o, c, g) = quarter(k, o, c, g);
        (p, d, h, l) = quarter(p, d, h, l);
        (a, b, c, d) = quarter(a, b, c, d);
        (f, g, h, e) = quarter(f, g, h, e);
        (k, l, i, j) = quarter(k, l, i, j);
        (p, m, n, o) = quarter(p, m, n, o);
    }
    for (word, added) in state.iter_mut().zip([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]) {
        *word = word.wrapping_add(added);
    }
}
