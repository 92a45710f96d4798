//! Every provider against servers of the test's own that answer as its documentation says.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::format_push_string,
    reason = "helpers of tests count as no tests"
)]

mod access;
mod aws;
mod azure_devops;
mod bitbucket;
mod bitbucket_server;
mod double;
mod gitea;
mod gitea_server;
mod github;
mod gitlab;
mod hostile;
mod trust;
