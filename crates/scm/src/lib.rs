//! Asks Git hosting services for repositories, branches and pull requests, for generators of `ApplicationSet`s
//! (ASET-55..65).
//!
//! A generator is read ([`ScmGenerator::read`], [`PullRequestGenerator::read`]) and says what has to be read for it
//! ([`Needs`]); whoever may read Secrets hands over [`Credentials`]; [`Scm`] asks. An answer is complete or an error:
//! a page that fails, is refused, is too large or cannot be read never makes a list shorter (INV-8).
//!
//! - pure: [`block`](ScmGenerator) and its filters, credentials ([`secret_value`]), reading answers, next pages,
//!   refusals;
//! - effects: `http` alone, through one client per set of trusted certificates.

mod block;
mod error;
mod fields;
mod filter;
mod found;
mod http;
mod item;
mod observe;
mod paging;
mod providers;
mod refusal;
mod rules;
mod scm;

pub use block::{ConfigMapKey, Needs, PullRequestGenerator, ScmGenerator, SecretKey};
pub use error::ScmError;
pub use filter::FilterMode;
pub use found::{PullRequest, Repository};
pub use http::Limits;
pub use observe::{GithubRequest, Observer, RateLimit, SetName};
pub use rules::{Credentials, GithubApp, secret_value};
pub use scm::{Request, Scm, ScmOptions};
