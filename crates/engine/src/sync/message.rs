//! Part of the sync engine.
