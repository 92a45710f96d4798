//! Does what Go's libraries do, bit for bit: YAML, globs, versions, durations.
