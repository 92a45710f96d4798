//! Every provider against servers of the test's own that answer as its documentation says.

mod access;
mod aws;
mod azure_devops;
mod bitbucket;
mod bitbucket_server;
mod double;
mod gitea;
mod github;
mod gitlab;
mod hostile;
mod trust;
