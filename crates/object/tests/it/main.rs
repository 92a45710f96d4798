//! Golden families and properties of the object crate.

#[cfg(test)]
mod custom;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod protobuf;
