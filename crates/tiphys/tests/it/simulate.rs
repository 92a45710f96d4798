//! Whole installations from seeds: some that are always the same, and some that nobody has seen (STY-73).

use std::hash::{BuildHasher as _, RandomState};

use tiphys::simulate::seeds;

#[test]
fn sty_73_fixed_seeds_break_no_invariant() {
    let totals = seeds(1, 12, false);
    assert_eq!((totals.seeds, totals.failed), (12, 0), "a replay is named above");
    // A world in which nothing happens proves nothing.
    assert!(totals.applies > 50 && totals.deletions > 5 && totals.crashes > 5, "{totals:?}");
}

#[test]
fn sty_73_fresh_seeds_break_no_invariant() {
    let from = RandomState::new().hash_one(0_u8) >> 16;
    println!("fresh seeds from {from}");
    assert_eq!(seeds(from, 10, false).failed, 0, "a replay is named above");
}

#[test]
fn sty_73_the_same_seed_gives_the_same_history() {
    assert_eq!(seeds(1000, 6, true).failed, 0);
}
