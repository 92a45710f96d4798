//! `tiphys eval` from outside: every example of the table, every golden row; and the examples of the pages in `docs`.

mod appset;
mod documents;
mod examples;
mod golden;
#[expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]
mod isolation;
mod launch;
mod names;
mod offline;
mod pages;
mod rbac;
mod rehearse;
mod render;
mod scripts;
mod simulate;
