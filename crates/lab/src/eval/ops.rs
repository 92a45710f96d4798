//! The table of operations: one row per decision, one file per area.
//!
//! A row adapts: it reads the checked input, calls the function that the product itself calls, and shapes the answer.
//! Where an adapter seems to need an `if` about the domain, the function below it is missing something.

pub(in crate::eval) mod appset;
mod engine;
mod go;
mod notifications;
mod projects;
mod rbac;
mod render;
mod repos;
mod tracking;
mod webhook;
mod world;

use super::operation::Operation;
use std::sync::LazyLock;

static TABLE: LazyLock<Vec<&'static Operation>> = LazyLock::new(|| {
    let areas = [
        appset::ROWS,
        engine::ROWS,
        notifications::ROWS,
        projects::ROWS,
        rbac::ROWS,
        render::ROWS,
        repos::ROWS,
        tracking::ROWS,
        webhook::ROWS,
    ];
    let mut rows: Vec<&'static Operation> = areas.into_iter().flatten().chain(go::rows()).collect();
    rows.sort_by_key(|row| row.name);
    rows
});

/// All operations, sorted by name.
pub fn operations() -> &'static [&'static Operation] {
    &TABLE
}
