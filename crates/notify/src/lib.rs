//! Decides which notifications an Application sends, and what they say.
//!
//! Everything here is a pure function of values: the configuration (a `ConfigMap` and a Secret), the Application, its
//! project, and the time. [`Config::read`] compiles a configuration; [`process`] is one look at one Application: which
//! triggers fired, what is delivered to whom, and the state afterwards, which stands in an annotation. Sending is a
//! function of the caller's.
//!
//! Not here yet: functions in templates that are reached with `call`, `include`, and the functions of `repo` that ask a
//! repository (they end in an error of the evaluation).

mod catalog;
mod condition;
mod config;
mod legacy;
mod message;
mod names;
mod process;
mod secrets;
mod state;
mod subscription;
mod variables;

pub use catalog::catalog;
pub use condition::{Condition, Outcome, evaluate};
pub use config::{Config, ConfigError, Service};
pub use message::{Notification, RenderError};
pub use names::Names;
pub use process::{Delivery, Failure, Processing, Request, SentTo, process, render, skip_reason};
pub use state::{NOTIFIED, Notified};
pub use subscription::{Destination, Subscriptions};
pub use variables::Variables;

/// `ConfigMap` with the configuration (NTF-1).
pub const CONFIG_MAP: &str = "argocd-notifications-cm";
/// Secret that services of the configuration refer to (NTF-1).
pub const SECRET: &str = "argocd-notifications-secret";
