//! What every process of the program has, whichever verb started it: its arguments, its runtime and log, the children that
//! run users' expressions, and the API server beside a controller.

pub mod api_server;
pub mod arguments;
mod program_pages;
pub mod runtime;
pub mod worker;
