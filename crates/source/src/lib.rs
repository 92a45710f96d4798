//! Resolves, fetches and caches content of git repositories.
