//! Speaks from a terminal: straight to Kubernetes, or to the pure crates.
