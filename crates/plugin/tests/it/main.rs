//! Plugins over real sockets: the server of this program, and doubles that misbehave.

mod answers;
mod doubles;
mod misbehaving;
mod served;
mod support;
