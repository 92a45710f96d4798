//! Runs the controllers: refresh, operations, deletion; writes status.
