//! `tiphys eval` from outside: every example of the table, every example of the rules, every golden row.

mod documents;
mod examples;
mod golden;
mod launch;
mod names;
mod scripts;
mod simulate;
