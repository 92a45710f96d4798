//! Prints `docs/settings.md`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(tiphys_api::support::markdown().as_bytes())
}
