//! The source hydrator: when manifests are rendered into a branch ([`check`]), which applications go together and
//! whether they may ([`group`]), whose a directory is ([`ownership`]), what their status says ([`record`]), and what is
//! committed ([`commit`]); CTL-106..119.

pub mod check;
pub mod commit;
pub mod group;
pub mod ownership;
pub mod record;
