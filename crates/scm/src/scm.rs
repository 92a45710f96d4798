//! The handle: clients, tokens, and the order of questions.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use parking_lot::Mutex;
use reqwest::{Certificate, Client, NoProxy, Proxy, redirect};
use tiphys_api::secret::Secret;
use tiphys_cloud::Environment;
use tiphys_cloud::aws::Identity;

use crate::block::{CloneProtocol, Provider, RepositoryOptions};
use crate::filter::{FilterMode, RepositoryFilter, accepts_pull_request};
use crate::found::{Branch, Head, PullRequest, Repository};
use crate::http::{Limits, Login, Site};
use crate::observe::{Observed, Observer, SetName};
use crate::providers::{
    AppTokens, AppWhere, AzureDevOps, Bitbucket, BitbucketServer, CodeCommit, Gitea, Github, Gitlab, Host,
    address, azure_devops, bitbucket, bitbucket_server, gitea, github, gitlab,
};
use crate::rules::check_credentials;
use crate::{Credentials, Needs, PullRequestGenerator, ScmError, ScmGenerator};

/// Repositories that are asked about at the same time.
const AT_ONCE: usize = 8;
/// Sets of trusted certificates whose clients are kept.
const CLIENTS_MAX: usize = 32;
/// Bytes of certificates.
const CA_BYTES_MAX: usize = 1 << 20;

/// How an installation asks.
#[derive(Clone, Default)]
pub struct ScmOptions {
    /// A proxy for these questions (`--scm-proxy-url`); empty follows the environment.
    pub proxy: String,
    /// Hosts that are asked without it (`--scm-no-proxy`).
    pub no_proxy: String,
    /// Certificates that are trusted in addition to the system's, PEM (`scm.root.ca.path`).
    pub root_ca: Option<String>,
    /// How filters are combined (`scm.filters.mode`).
    pub filter_mode: FilterMode,
    /// What questions may take.
    pub limits: Limits,
    /// `GITHUB_TOKEN`, for generators that name neither a token nor an address.
    pub github_token: Option<Secret<String>>,
    /// Where our identity at AWS comes from.
    pub environment: Environment,
    /// Is told about questions to GitHub.
    pub observer: Option<Arc<dyn Observer>>,
}

/// A question of a set.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r, G> {
    /// The generator.
    pub generator: &'r G,
    /// What it logs in with.
    pub credentials: &'r Credentials,
    /// Whose it is.
    pub set: &'r SetName,
}

/// Asks providers.
pub struct Scm {
    options: ScmOptions,
    clients: Mutex<Vec<(Trust, Client)>>,
    tokens: AppTokens,
}

impl std::fmt::Debug for Scm {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Scm").field("tokens", &self.tokens).finish_non_exhaustive()
    }
}

/// Whom a client believes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Trust {
    insecure: bool,
    ca: Option<String>,
}

impl Scm {
    /// Asks with these options.
    pub fn new(options: ScmOptions) -> Self {
        Self { options, clients: Mutex::default(), tokens: AppTokens::default() }
    }

    /// The branches of repositories that a generator means, in the provider's order.
    ///
    /// # Errors
    /// When not all of them are known for certain.
    pub async fn repositories(
        &self,
        request: Request<'_, ScmGenerator>,
    ) -> Result<Vec<Repository>, ScmError> {
        let generator = request.generator;
        let asked = async {
            let wanted = Wanted {
                provider: &generator.provider,
                options: &generator.options,
                protocol: generator.protocol,
                insecure: generator.insecure,
                needs: &generator.needs,
            };
            let host = self.log_in(wanted, request.credentials, request.set).await?;
            self.wanted(&host, generator).await
        };
        self.in_time(&generator.provider, asked).await
    }

    /// The pull requests that a generator means, in the provider's order.
    ///
    /// # Errors
    /// When not all of them are known for certain.
    pub async fn pull_requests(
        &self,
        request: Request<'_, PullRequestGenerator>,
    ) -> Result<Vec<PullRequest>, ScmError> {
        let generator = request.generator;
        let asked = async {
            let options = RepositoryOptions::default();
            let wanted = Wanted {
                provider: &generator.provider,
                options: &options,
                protocol: CloneProtocol::Ssh,
                insecure: generator.insecure,
                needs: &generator.needs,
            };
            let host = self.log_in(wanted, request.credentials, request.set).await?;
            host.pull_requests(generator).await
        };
        let Some(mut found) = self.in_time(&generator.provider, asked).await? else {
            if generator.none_if_not_found {
                let (namespace, name) = (&request.set.namespace, &request.set.name);
                tracing::warn!(%namespace, %name, repository = %generator.repository, "repository not found");
                return Ok(Vec::new());
            }
            return Err(ScmError::RepositoryNotFound(generator.repository.clone()));
        };
        found.retain(|request| {
            accepts_pull_request(&generator.filters, &request.branch, &request.target_branch, &request.title)
        });
        Ok(found)
    }

    /// Waits for an answer as long as all questions may take.
    async fn in_time<T>(
        &self,
        provider: &Provider,
        asked: impl Future<Output = Result<T, ScmError>>,
    ) -> Result<T, ScmError> {
        let limit = self.options.limits.total;
        let late =
            |_elapsed| ScmError::Deadline { host: provider.word().to_owned(), seconds: limit.as_secs() };
        tokio::time::timeout(limit, asked).await.map_err(late)?
    }

    /// Asks for repositories and their branches, and keeps those that the filters accept (ASET-57).
    async fn wanted(&self, host: &Host, generator: &ScmGenerator) -> Result<Vec<Repository>, ScmError> {
        let filters: Vec<&RepositoryFilter> =
            generator.filters.iter().filter(|filter| !filter.is_empty()).collect();
        let mode = self.options.filter_mode;
        let heads = host.repositories().await?;
        let filters = filters.as_slice();
        // Boxed: a closure that gives futures of any lifetime is not known to be sent between threads.
        let mut found = stream::iter(
            heads
                .into_iter()
                .map(|head| -> BoxFuture<'_, _> { Box::pin(branches_of(host, head, filters, mode)) }),
        )
        .buffered(AT_ONCE);
        let limit = self.options.limits.items;
        let mut all = Vec::new();
        while let Some(some) = found.try_next().await? {
            all.extend(some);
            if all.len() > limit {
                let host = generator.provider.word().to_owned();
                return Err(ScmError::TooMany { host, doing: "listing branches", limit, what: "items" });
            }
        }
        Ok(all)
    }

    /// The provider with what we log in with.
    async fn log_in(
        &self,
        wanted: Wanted<'_>,
        credentials: &Credentials,
        set: &SetName,
    ) -> Result<Host, ScmError> {
        check_credentials(wanted.needs, credentials)?;
        let trust = Trust { insecure: wanted.insecure, ca: credentials.ca.clone() };
        let client = self.client(trust)?;
        let site = |base, login, headers| Site {
            client: client.clone(),
            base,
            login,
            headers,
            limits: self.options.limits,
            observed: None,
            requests: Arc::default(),
        };
        let (options, protocol) = (wanted.options.clone(), wanted.protocol);
        let bearer = |token: &Option<Secret<String>>| match token {
            Some(token) => Login::Token { scheme: "Bearer", token: token.clone() },
            None => Login::Nobody,
        };
        let basic = |username: &str| match (&credentials.token, &credentials.password) {
            (Some(token), _) => Login::Token { scheme: "Bearer", token: token.clone() },
            (None, Some(password)) => {
                Login::Basic { username: username.to_owned(), password: password.clone() }
            }
            (None, None) => Login::Nobody,
        };
        Ok(match wanted.provider {
            Provider::Github { owner, api } => {
                let observer = self.options.observer.clone();
                let observed = observer.map(|observer| Observed { observer, set: set.clone() });
                let (base, login) = match &credentials.github_app {
                    Some(app) => {
                        let place = AppWhere::of(app, api, owner)?;
                        let nobody = site(place.base().clone(), Login::Nobody, github::HEADERS);
                        let nobody = Site { observed: observed.clone(), ..nobody };
                        let token = self.tokens.token(nobody, app, &place, Timestamp::now()).await?;
                        (place.base().clone(), bearer(&Some(token)))
                    }
                    None if credentials.token.is_some() => (github::base(api)?, bearer(&credentials.token)),
                    // Deviation (ASET-58): an address that a generator names does not get a token of ours.
                    None if api.is_empty() && !credentials.without_own_identity => {
                        (github::base(api)?, bearer(&self.options.github_token))
                    }
                    None => (github::base(api)?, Login::Nobody),
                };
                let site = Site { observed, ..site(base, login, github::HEADERS) };
                Host::Github(Github { site, owner: owner.clone(), options, protocol })
            }
            Provider::Gitlab { group, api } => {
                let login = match &credentials.token {
                    Some(token) => Login::Header { name: "private-token", token: token.clone() },
                    None => Login::Nobody,
                };
                let site = site(gitlab::base(api)?, login, &[]);
                Host::Gitlab(Gitlab { site, group: group.clone(), options, protocol })
            }
            Provider::Gitea { owner, api } => {
                let login = match &credentials.token {
                    Some(token) => Login::Token { scheme: "token", token: token.clone() },
                    None => Login::Nobody,
                };
                let site = site(gitea::base(api)?, login, &[]);
                Host::Gitea(Gitea { site, owner: owner.clone(), options, protocol })
            }
            Provider::BitbucketServer { project, api, username } => {
                let site = site(bitbucket_server::base(api)?, basic(username), bitbucket_server::HEADERS);
                Host::BitbucketServer(BitbucketServer { site, project: project.clone(), options, protocol })
            }
            Provider::Bitbucket { owner, api, username } => {
                let site = site(bitbucket::base(api)?, basic(username), &[]);
                Host::Bitbucket(Bitbucket { site, owner: owner.clone(), options, protocol })
            }
            Provider::AzureDevOps { organization, project, api } => {
                let login = match &credentials.token {
                    Some(token) => Login::Basic { username: String::new(), password: token.clone() },
                    None => Login::Nobody,
                };
                let site = site(azure_devops::base(api, organization)?, login, &[]);
                let (organization, project) = (organization.clone(), project.clone());
                Host::AzureDevOps(AzureDevOps { site, organization, project, options })
            }
            Provider::CodeCommit { role, region, tags } => {
                let text = |text: &'_ str| (!text.is_empty()).then_some(text.to_owned());
                let (region, role) = (text(region), text(role));
                let environment = &self.options.environment;
                let now = Timestamp::now();
                let identity = Identity::find(environment, region.as_deref(), role.as_deref(), now).await?;
                let place = |service: &str| address(&identity.endpoint(environment, service));
                let service = site(place("codecommit")?, Login::Nobody, &[]);
                let tagging = Site {
                    requests: Arc::clone(&service.requests),
                    ..site(place("tagging")?, Login::Nobody, &[])
                };
                let tags = tags.clone();
                Host::CodeCommit(CodeCommit { site: service, tagging, identity, tags, options, protocol })
            }
        })
    }

    /// The client that believes these.
    fn client(&self, trust: Trust) -> Result<Client, ScmError> {
        let mut clients = self.clients.lock();
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == trust) {
            return Ok(client.clone());
        }
        tiphys_cloud::provide_crypto();
        let mut builder = Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(self.options.limits.request)
            .tls_danger_accept_invalid_certs(trust.insecure);
        if !self.options.proxy.is_empty() {
            let wrong = |_error| ScmError::Block("the proxy for providers is no address".to_owned());
            let proxy = Proxy::all(&self.options.proxy).map_err(wrong)?;
            builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(&self.options.no_proxy)));
        }
        let wrong = |_error| ScmError::Credentials("the trusted certificates are not valid".to_owned());
        for pem in self.options.root_ca.iter().chain(&trust.ca) {
            let certificates = Certificate::from_pem_bundle(pem.as_bytes()).map_err(wrong)?;
            if certificates.is_empty() || pem.len() > CA_BYTES_MAX {
                return Err(ScmError::Credentials("the trusted certificates are none".to_owned()));
            }
            builder = builder.tls_certs_merge(certificates);
        }
        let client = builder.build().map_err(wrong)?;
        if clients.len() >= CLIENTS_MAX {
            clients.remove(0);
        }
        clients.push((trust, client.clone()));
        Ok(client)
    }
}

/// What has to be known to log in.
struct Wanted<'w> {
    provider: &'w Provider,
    options: &'w RepositoryOptions,
    protocol: CloneProtocol,
    insecure: bool,
    needs: &'w Needs,
}

/// The branches of a repository that the filters accept.
async fn branches_of(
    host: &Host,
    mut head: Head,
    filters: &[&RepositoryFilter],
    mode: FilterMode,
) -> Result<Vec<Repository>, ScmError> {
    host.labels(&mut head).await?;
    if !may_be_wanted(&head, filters, mode) {
        return Ok(Vec::new());
    }
    let mut wanted = Vec::new();
    for branch in host.branches(&head).await? {
        if is_wanted(host, &head, &branch, filters, mode).await? {
            wanted.push(head.at(&branch));
        }
    }
    Ok(wanted)
}

/// Whether a repository may have branches that are wanted, before these are known.
fn may_be_wanted(head: &Head, filters: &[&RepositoryFilter], mode: FilterMode) -> bool {
    let accepts = |filter: &&&RepositoryFilter| filter.accepts_repository(&head.name, &head.labels);
    match mode {
        FilterMode::Separate => {
            let mut of_repositories = filters.iter().filter(|filter| !filter.is_of_branches()).peekable();
            of_repositories.peek().is_none() || of_repositories.any(|filter| accepts(&filter))
        }
        FilterMode::Documented => filters.is_empty() || filters.iter().any(|filter| accepts(&filter)),
    }
}

/// Whether a branch of a repository is wanted.
async fn is_wanted(
    host: &Host,
    head: &Head,
    branch: &Branch,
    filters: &[&RepositoryFilter],
    mode: FilterMode,
) -> Result<bool, ScmError> {
    let mut is_filtered = false;
    for filter in filters.iter().copied() {
        if mode == FilterMode::Separate && !filter.is_of_branches() {
            continue;
        }
        is_filtered = true;
        if filter.accepts_repository(&head.name, &head.labels)
            && filter.accepts_branch(&branch.name)
            && paths_are_right(host, head, branch, filter).await?
        {
            return Ok(true);
        }
    }
    Ok(!is_filtered)
}

async fn paths_are_right(
    host: &Host,
    head: &Head,
    branch: &Branch,
    filter: &RepositoryFilter,
) -> Result<bool, ScmError> {
    for path in &filter.paths_exist {
        if !host.has_path(head, branch, path).await? {
            return Ok(false);
        }
    }
    for path in &filter.paths_do_not_exist {
        if host.has_path(head, branch, path).await? {
            return Ok(false);
        }
    }
    Ok(true)
}
