//! What the programs share: charts from directories, and the time and chance of this machine.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use tiphys_go::template::{Environment, Keys};
use tiphys_helm::{Chart, HelmVersion, LoadLimits, NativeKeys, load_directory};
use tiphys_tree::{MemoryEntry, MemoryTree, TreePath};

pub(crate) type Failure = Box<dyn std::error::Error>;

/// The chart of a directory, or why there is none.
pub(crate) fn load(path: &Path, version: HelmVersion) -> Result<Result<Arc<Chart>, String>, Failure> {
    let mut entries = Vec::new();
    walk(path, "", &mut entries)?;
    let tree = MemoryTree::from_entries(entries)?;
    let chart = load_directory(&tree, &TreePath::root(), version, &LoadLimits::default());
    Ok(chart.map(Arc::new).map_err(|error| error.to_string()))
}

fn walk(path: &Path, name: &str, entries: &mut Vec<(String, MemoryEntry)>) -> Result<(), Failure> {
    for member in std::fs::read_dir(path)? {
        let member = member?;
        let own = member.file_name().to_string_lossy().into_owned();
        let name = if name.is_empty() { own } else { format!("{name}/{own}") };
        let kind = member.file_type()?;
        if kind.is_dir() {
            walk(&member.path(), &name, entries)?;
        } else if kind.is_symlink() {
            let target = std::fs::read_link(member.path())?;
            entries.push((name, MemoryEntry::Symlink(target.to_string_lossy().into_owned())));
        } else {
            entries.push((name, MemoryEntry::File(std::fs::read(member.path())?.into(), false)));
        }
    }
    Ok(())
}

/// The time and chance of this machine.
pub(crate) struct World;

impl Environment for World {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn random(&self, bytes: &mut [u8]) {
        // Enough for names: an address and the clock.
        let mut state = u64::from(Timestamp::now().subsec_nanosecond().unsigned_abs())
            ^ ((&raw const *bytes).cast::<u8>() as u64);
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = state.to_be_bytes()[0];
        }
    }

    fn keys(&self) -> Option<&dyn Keys> {
        const KEYS: NativeKeys<'static> =
            NativeKeys { source: &|bytes: &mut [u8]| World.random(bytes), is_repeatable: false };
        Some(&KEYS)
    }
}
