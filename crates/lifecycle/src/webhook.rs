//! Push webhooks: what was pushed, and which applications it concerns (API section 7).
//!
//! GitHub-shaped payloads (GitHub, Gitea, Gogs and everything that imitates them), pushes of GitLab, Bitbucket and Azure
//! DevOps, and tags of registries are read.
//! Everything here is pure: the shell passes headers and bytes and gets a push or an answer.

mod others;
mod payload;
mod registry;
mod sets;
#[cfg(test)]
mod table;

use tiphys_api::Application;
use tiphys_api::application::{ApplicationSource, Hydrator};
use tiphys_api::names::annotation;
use tiphys_go::steps::{Steps, TooManySteps};
use tiphys_render::refresh::{ChangedFiles, RefreshPaths};

use others::Read;
use payload::Payload;
pub use registry::TagPush;
pub use sets::{PullRequestEvent, SetDelivery, SetEvent, host_of, receive_for_sets, set_body_bytes_max};

/// A push to a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Push {
    /// Addresses of the repository's page.
    pub web_urls: Vec<String>,
    /// Branch or tag, without `refs/heads/`.
    pub revision: String,
    /// Whether the default branch moved.
    pub touched_head: bool,
    /// Changed files; empty means "unknown".
    pub files: Vec<String>,
    /// Commit before the push, when the payload says.
    pub before: String,
    /// Commit after the push, when the payload says.
    pub after: String,
}

/// What a delivery is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Pushes to act on: one for each reference that moved, at least one (API-202).
    Pushes(Vec<Push>),
    /// A tag in a registry to act on.
    Tag(TagPush),
    /// Accepted, nothing to do.
    Ignored,
    /// Refused.
    Refused {
        /// HTTP status.
        status: u16,
        /// Answer body.
        body: String,
    },
}

/// Who sent a delivery (API-195).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// GitHub.
    GitHub,
    /// Gogs and Gitea.
    Gogs,
    /// GitLab.
    GitLab,
    /// Azure DevOps.
    AzureDevOps,
    /// Bitbucket Cloud.
    BitbucketCloud,
    /// Bitbucket Server, and Data Center.
    BitbucketServer,
    /// The registry of GitHub.
    Ghcr,
    /// Harbor.
    Harbor,
}

impl Provider {
    /// Key of its secret in `argocd-secret`.
    fn secret_key(self) -> &'static str {
        match self {
            Self::GitHub | Self::Ghcr => "webhook.github.secret",
            Self::Gogs => "webhook.gogs.secret",
            Self::GitLab => "webhook.gitlab.secret",
            Self::AzureDevOps => sets::AZURE_USER,
            Self::BitbucketCloud => "webhook.bitbucket.uuid",
            Self::BitbucketServer => "webhook.bitbucketserver.secret",
            Self::Harbor => HARBOR_SECRET,
        }
    }

    /// What its deliveries are checked with; empty where nothing is set.
    fn own_secret(self, secret: impl Fn(&str) -> String) -> String {
        match self {
            Self::AzureDevOps => [sets::AZURE_USER, sets::AZURE_PASSWORD].map(secret).concat(),
            _ => secret(self.secret_key()),
        }
    }

    /// Name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::Gogs => "gogs",
            Self::GitLab => "gitlab",
            Self::AzureDevOps => "azuredevops",
            Self::BitbucketCloud => "bitbucket",
            Self::BitbucketServer => "bitbucketserver",
            Self::Ghcr => "ghcr",
            Self::Harbor => "harbor",
        }
    }

    /// Picks the provider by its header (API-195). Harbor has none of its own: its secret says who it is.
    fn detect<'a>(header: impl Fn(&str) -> Option<&'a str>, secret: impl Fn(&str) -> String) -> Option<Self> {
        let is_harbor = || {
            let own = secret(HARBOR_SECRET);
            !own.is_empty() && same_secret(header("authorization").unwrap_or(""), &own)
        };
        if header(sets::AZURE_HEADER).is_some() {
            Some(Self::AzureDevOps)
        } else if header("x-gogs-event").is_some() {
            Some(Self::Gogs)
        } else if header("x-github-event").is_some_and(|event| event != "package") {
            Some(Self::GitHub)
        } else if header("x-gitlab-event").is_some() {
            Some(Self::GitLab)
        } else if header("x-hook-uuid").is_some() {
            Some(Self::BitbucketCloud)
        } else if header("x-event-key").is_some() {
            Some(Self::BitbucketServer)
        } else if header("x-github-event").is_some() {
            Some(Self::Ghcr)
        } else {
            is_harbor().then_some(Self::Harbor)
        }
    }
}

/// Keys of all secrets of senders. Once one is there, a sender without a secret of its own is refused, or the
/// secrets would protect nothing: whoever has none names another sender (A7).
const SECRET_KEYS: [&str; 8] = [
    "webhook.github.secret",
    "webhook.gitlab.secret",
    "webhook.gogs.secret",
    "webhook.bitbucket.uuid",
    "webhook.bitbucketserver.secret",
    sets::AZURE_USER,
    sets::AZURE_PASSWORD,
    HARBOR_SECRET,
];
/// Key of the secret of Harbor.
const HARBOR_SECRET: &str = "webhook.harbor.secret";
/// Key of `argocd-cm` that accepts senders without a secret beside others that have one.
pub const ALLOW_WITHOUT_SECRET: &str = "webhook.allowProvidersWithoutSecret";
/// What a Bitbucket Server asks when somebody tries a webhook out.
const BITBUCKET_PING: &str = "diagnostics:ping";
/// Where Azure DevOps shows its repositories.
const AZURE_HOST: &str = "dev.azure.com";
const FAILED: &str = "Webhook processing failed";
const MEGABYTE: usize = 1024 * 1024;
/// Bytes of a body that are read before anything speaks for its sender (SEC-48).
pub const UNVERIFIED_BYTES_MAX: usize = MEGABYTE;

/// One request to the webhook address.
pub struct Request<'a, H, S> {
    /// HTTP method.
    pub method: &'a str,
    /// Looks a header up by its name in lower case.
    pub header: H,
    /// Body, as sent.
    pub body: &'a [u8],
    /// The value of a key of `argocd-secret`; empty when there is none.
    pub secret: S,
    /// `webhook.maxPayloadSizeMB` as written in the settings, if it is.
    pub megabytes_max: Option<&'a str>,
    /// Whether [`ALLOW_WITHOUT_SECRET`] is `true`.
    pub allow_without_secret: bool,
}

fn megabytes(written: Option<&str>) -> usize {
    written.and_then(|text| text.parse::<usize>().ok()).filter(|n| *n > 0).unwrap_or(50)
}

/// Bytes of a body that are worth reading: those of `webhook.maxPayloadSizeMB` (50 MB) where the headers prove
/// the sender or carry a signature over the body that may; one megabyte for everybody else (SEC-48).
pub fn body_bytes_max<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    secret: impl Fn(&str) -> String,
    megabytes_max: Option<&str>,
) -> usize {
    let all = megabytes(megabytes_max).saturating_mul(MEGABYTE);
    let few = all.min(UNVERIFIED_BYTES_MAX);
    let Some(provider) = Provider::detect(&header, &secret) else { return few };
    let own = provider.own_secret(&secret);
    let may_be_proven = !own.is_empty()
        && match provider {
            Provider::GitLab => same_secret(header("x-gitlab-token").unwrap_or(""), &own),
            Provider::AzureDevOps => sets::is_azure_user(&header, &secret),
            Provider::BitbucketCloud => same_secret(header("x-hook-uuid").unwrap_or(""), &own),
            // It would not be it otherwise.
            Provider::Harbor => true,
            Provider::GitHub | Provider::Ghcr | Provider::Gogs | Provider::BitbucketServer => {
                signature(provider, &header)
                    .is_some_and(|text| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            }
        };
    if may_be_proven { all } else { few }
}

/// Reads one request completely: method, sender, size, signature, payload (API-195..197).
pub fn receive<'a, H, S>(request: &Request<'a, H, S>) -> (Option<Provider>, Delivery)
where
    H: Fn(&str) -> Option<&'a str>,
    S: Fn(&str) -> String,
{
    let refuse = |status: u16, body: String| Delivery::Refused { status, body };
    let provider = Provider::detect(&request.header, &request.secret);
    let secret = provider.map(|sender| sender.own_secret(&request.secret)).unwrap_or_default();
    let is_azure = provider == Some(Provider::AzureDevOps);
    if is_azure && !secret.is_empty() && !sets::is_azure_user(&request.header, &request.secret) {
        return (provider, refuse(400, FAILED.to_owned()));
    }
    if request.method != "POST" {
        return (provider, refuse(405, FAILED.to_owned()));
    }
    let Some(sender) = provider else { return (None, refuse(400, "Unknown webhook event".to_owned())) };
    let Some(event) = event(sender, &request.header, &secret) else {
        return (provider, refuse(400, FAILED.to_owned()));
    };
    if sender == Provider::BitbucketServer && event == BITBUCKET_PING {
        return (provider, Delivery::Ignored);
    }
    let bytes_max = body_bytes_max(&request.header, &request.secret, request.megabytes_max);
    let no_payload =
        || refuse(400, format!("{FAILED}: payload must be valid JSON under {} MB", bytes_max / MEGABYTE));
    if request.body.is_empty() || request.body.len() > bytes_max {
        return (provider, no_payload());
    }
    let is_unproven = secret.is_empty() && !request.allow_without_secret;
    if is_unproven && SECRET_KEYS.iter().any(|key| !(request.secret)(key).is_empty()) {
        return (provider, refuse(400, FAILED.to_owned()));
    }
    if is_azure {
        let delivery = match others::azure(request.body) {
            Read::Delivery(delivery) => delivery,
            Read::Unsupported => refuse(400, FAILED.to_owned()),
            Read::Unreadable => no_payload(),
        };
        return (provider, delivery);
    }
    let verify = |signature: &str| verify(secret.as_bytes(), request.body, signature);
    let is_ghcr = sender == Provider::Ghcr;
    if is_ghcr && !secret.is_empty() && !signature(sender, &request.header).is_some_and(verify) {
        return (provider, refuse(401, "Unauthorized".to_owned()));
    }
    if is_ghcr || sender == Provider::Harbor {
        let found = if is_ghcr { registry::ghcr(request.body) } else { registry::harbor(request.body) };
        return (provider, found.unwrap_or_else(|| refuse(400, FAILED.to_owned())));
    }
    (provider, read((sender, event), &request.header, request.body, &secret, verify))
}

/// The signature over the body, where a provider sends one.
fn signature<'a>(provider: Provider, header: impl Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    match provider {
        Provider::GitHub | Provider::Ghcr => {
            header("x-hub-signature-256").and_then(|text| text.strip_prefix("sha256="))
        }
        Provider::Gogs => header("x-gogs-signature"),
        Provider::BitbucketServer => header("x-hub-signature").and_then(|text| text.strip_prefix("sha256=")),
        Provider::GitLab | Provider::AzureDevOps | Provider::BitbucketCloud | Provider::Harbor => None,
    }
}

/// The event of a delivery, empty where it stands in the body; `None` when it is none that is taken, or the token of GitLab,
/// which comes before it, is another one (API-196).
fn event<'a>(provider: Provider, header: impl Fn(&str) -> Option<&'a str>, secret: &str) -> Option<&'a str> {
    let named = |name: &str, taken: &[&str]| {
        let event = header(name).unwrap_or("");
        taken.contains(&event).then_some(event)
    };
    match provider {
        Provider::GitHub => named("x-github-event", &["push", "ping"]),
        Provider::Gogs => named("x-gogs-event", &["push"]),
        Provider::GitLab if !same_secret(header("x-gitlab-token").unwrap_or(""), secret) => None,
        Provider::GitLab => named("x-gitlab-event", &["Push Hook", "Tag Push Hook", "System Hook"]),
        Provider::BitbucketCloud => named("x-event-key", &["repo:push"]),
        Provider::BitbucketServer => named("x-event-key", &["repo:refs_changed", BITBUCKET_PING]),
        Provider::AzureDevOps | Provider::Ghcr | Provider::Harbor => Some(""),
    }
}

/// Checks and reads one delivery of an event that is taken; `secret` empty means "not configured" (API-196, API-197).
///
/// `verify` computes whether a hexadecimal HMAC-SHA256 of the body under the secret equals a text, in constant
/// time.
fn read<'a>(
    (provider, event): (Provider, &str),
    header: impl Fn(&str) -> Option<&'a str>,
    body: &[u8],
    secret: &str,
    verify: impl Fn(&str) -> bool,
) -> Delivery {
    let refuse = || Delivery::Refused { status: 400, body: FAILED.to_owned() };
    if provider == Provider::BitbucketCloud
        && !secret.is_empty()
        && !same_secret(header("x-hook-uuid").unwrap_or(""), secret)
    {
        return refuse();
    }
    let is_signed = matches!(provider, Provider::GitHub | Provider::Gogs | Provider::BitbucketServer);
    let is_signed = is_signed && !secret.is_empty();
    if is_signed && !signature(provider, &header).is_some_and(verify) {
        return refuse();
    }
    if !is_object(body) {
        return refuse();
    }
    let of_bitbucket = match provider {
        Provider::BitbucketCloud => Some(others::cloud(body)),
        Provider::BitbucketServer => Some(others::server(body)),
        _ => None,
    };
    if let Some(found) = of_bitbucket {
        let Read::Delivery(delivery) = found else { return refuse() };
        return delivery;
    }
    let Ok(payload) = serde_json::from_slice::<Payload>(body) else { return refuse() };
    if provider == Provider::GitLab {
        let kind = [&payload.object_kind, &payload.event_name].into_iter().find(|kind| !kind.is_empty());
        match kind.map_or("", String::as_str) {
            "push" | "tag_push" => {}
            kind if event == "System Hook" && kind != "merge_request" && !kind.is_empty() => {
                return Delivery::Ignored;
            }
            _ => return refuse(),
        }
    }
    if event == "ping" { Delivery::Ignored } else { Delivery::Pushes(vec![push(provider, payload)]) }
}

/// Whether a text may be an object; a list would be read as a struct too.
fn is_object(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// Equality of two secrets whose time does not depend on where they differ.
pub(crate) fn same_secret(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |seen, (x, y)| seen | (x ^ y)) == 0
}

/// Whether a hexadecimal text is the HMAC-SHA256 of the body under the key, in constant time.
fn verify(key: &[u8], body: &[u8], signature: &str) -> bool {
    same_secret(&hmac_sha256(key, body), &signature.to_ascii_lowercase())
}

/// The HMAC-SHA256 of the body under the key, in hexadecimal digits (RFC 2104).
pub(crate) fn hmac_sha256(key: &[u8], body: &[u8]) -> String {
    use std::fmt::Write;

    use sha2::{Digest, Sha256};
    const BLOCK_BYTES: usize = 64;
    let mut block = [0_u8; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        for (to, from) in block.iter_mut().zip(Sha256::digest(key)) {
            *to = from;
        }
    } else {
        for (to, from) in block.iter_mut().zip(key) {
            *to = *from;
        }
    }
    let inner = Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(body).finalize();
    let outer = Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize();
    let mut expected = String::with_capacity(2 * outer.len());
    for byte in outer {
        let _ = write!(expected, "{byte:02x}");
    }
    expected
}

fn push(provider: Provider, payload: Payload) -> Push {
    let home = if provider == Provider::GitLab { payload.project } else { payload.repository };
    let home = home.unwrap_or_default();
    let web_url = if provider == Provider::GitLab { home.web_url } else { home.html_url };
    let revision = short_revision(&payload.r#ref).to_owned();
    Push {
        web_urls: if web_url.is_empty() { Vec::new() } else { vec![web_url] },
        touched_head: home.default_branch == revision,
        revision,
        files: payload.commits.into_names(),
        before: payload.before,
        after: payload.after,
    }
}

/// The part behind the second `/`, or the text itself (API-201).
pub fn short_revision(text: &str) -> &str {
    let mut parts = text.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (_, _, Some(rest)) => rest,
        (_, Some(rest), None) => rest,
        _ => text,
    }
}

/// How a push concerns an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// Not at all.
    None,
    /// Its revision moved, its files did not (API-207): manifests stay what they are.
    RevisionOnly,
    /// It has to be compared anew.
    Files,
}

/// Steps that one application's sources and paths may take for one push; an ordinary one takes some thousands.
pub const STEPS_MAX: u64 = 4_000_000;
/// Steps that stand for reading one byte of a range of versions.
const RANGE_STEPS: usize = 32;

/// How a push concerns an application: the strongest concern over its sources (API-204..207).
///
/// What takes too long to find out counts as a change of files: the application is compared, which is right
/// whatever the answer would have been (SEC-07).
pub fn concern(push: &Push, app: &Application) -> Concern {
    concern_within(push, app, &mut Steps::new(STEPS_MAX)).unwrap_or(Concern::Files)
}

/// Whether a push changes what an application is hydrated from (API-203, API-208).
pub fn hydrates(push: &Push, app: &Application) -> bool {
    let Some(hydrator) = &app.spec.source_hydrator else { return false };
    let dry = std::slice::from_ref(hydrator.dry_source());
    let found = concern_of(push, app, dry, &mut Steps::new(STEPS_MAX));
    found.unwrap_or(Concern::Files) == Concern::Files
}

fn concern_within(push: &Push, app: &Application, steps: &mut Steps) -> Result<Concern, TooManySteps> {
    let dry = app.spec.source_hydrator.as_ref().map(Hydrator::dry_source);
    let of_dry = concern_of(push, app, dry.map_or(&[], std::slice::from_ref), steps)?;
    if of_dry == Concern::Files { Ok(of_dry) } else { concern_of(push, app, app.sources(), steps) }
}

fn concern_of(
    push: &Push,
    app: &Application,
    sources: &[ApplicationSource],
    steps: &mut Steps,
) -> Result<Concern, TooManySteps> {
    let mut found = Concern::None;
    let changed = ChangedFiles::new(&push.files);
    for source in sources {
        steps.spend(source.repo_url.len())?;
        if !push.web_urls.iter().any(|url| repository_matches(url, &source.repo_url)) {
            continue;
        }
        if !revision_matches(push, &source.target_revision, steps)? {
            continue;
        }
        if source_paths(app, source)?.concern(&changed, steps)? {
            return Ok(Concern::Files);
        }
        found = Concern::RevisionOnly;
    }
    Ok(found)
}

/// Whether a push moves what a source follows (API-205).
///
/// # Errors
/// When the steps do not suffice.
pub fn revision_matches(push: &Push, target: &str, steps: &mut Steps) -> Result<bool, TooManySteps> {
    steps.spend(target.len().saturating_mul(RANGE_STEPS))?;
    let short = short_revision(target);
    if target.is_empty() || short == "HEAD" {
        return Ok(push.touched_head);
    }
    let qualified = target.starts_with("refs/heads/") || target.starts_with("refs/tags/");
    let wanted = if qualified { short } else { target };
    Ok(push.revision == wanted || tiphys_go::semver::satisfies(wanted, &push.revision).unwrap_or(false))
}

/// What of its repository concerns a source (API-207).
///
/// # Errors
/// When finding that out takes too long.
pub fn source_paths(app: &Application, source: &ApplicationSource) -> Result<RefreshPaths, TooManySteps> {
    if app.spec.source_hydrator.as_ref().is_some_and(|hydrator| hydrator.sync_source() == source) {
        // The annotation is about what is rendered; a branch of manifests has those of an application in one directory.
        return RefreshPaths::of(".", &source.path, &mut Steps::new(STEPS_MAX));
    }
    match app.annotation(annotation::MANIFEST_GENERATE_PATHS) {
        Some(paths) => RefreshPaths::of(paths, &source.path, &mut Steps::new(STEPS_MAX)),
        None => Ok(RefreshPaths::Everything),
    }
}

/// Whether a source's URL is the repository that a web address shows (API-206).
pub fn repository_matches(web_url: &str, repo_url: &str) -> bool {
    let Some((host, path)) = web_parts(web_url) else { return false };
    let repo = repo_url.to_ascii_lowercase();
    let rest = ["https://", "http://", "ssh://"].iter().find_map(|s| repo.strip_prefix(s)).unwrap_or(&repo);
    let rest = match rest.split_once('@') {
        Some((user, after)) if is_user(user) => after,
        _ => rest,
    };
    if azure_ssh(rest).is_some_and(|paths| host == AZURE_HOST && paths.contains(&path)) {
        return true;
    }
    let candidates = [rest.strip_prefix("ssh."), rest.strip_prefix("altssh."), Some(rest)];
    candidates.into_iter().flatten().any(|rest| {
        let Some(after) = rest.strip_prefix(host.as_str()) else { return false };
        let after = strip_port(after);
        [after, rest.strip_prefix(host.as_str()).unwrap_or("")].into_iter().any(|after| {
            after
                .strip_prefix([':', '/'])
                .is_some_and(|found| found == path || found.strip_suffix(".git") == Some(path.as_str()))
        })
    })
}

/// Paths under which Azure DevOps shows a repository that is cloned over SSH, whose address names organisation, project and
/// repository in another way; a repository with the name of its project is shown without it, too (API-202).
fn azure_ssh(rest: &str) -> Option<[String; 2]> {
    let after = strip_port(rest.strip_prefix("ssh.")?.strip_prefix(AZURE_HOST)?);
    let path = after.strip_prefix([':', '/'])?.strip_prefix("v3/")?;
    let mut parts = path.split('/');
    let (organisation, project, repository) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let whole = format!("{organisation}/{project}/_git/{repository}");
    let short =
        if project == repository { format!("{organisation}/_git/{repository}") } else { whole.clone() };
    Some([whole, short])
}

fn web_parts(web_url: &str) -> Option<(String, String)> {
    let lower = web_url.to_ascii_lowercase();
    let (_, rest) = lower.split_once("://")?;
    let (authority, path) = rest.split_once('/')?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let path = path.strip_suffix(".git").unwrap_or(path);
    Some((host.to_owned(), path.to_owned()))
}

fn is_user(text: &str) -> bool {
    let body = text.strip_suffix('$').unwrap_or(text);
    !text.is_empty()
        && text.len() <= 32
        && body.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | ' '))
}

fn strip_port(text: &str) -> &str {
    match text.strip_prefix(':') {
        Some(rest) => {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            if end == 0 { text } else { rest.get(end..).unwrap_or("") }
        }
        None => text,
    }
}

#[cfg(test)]
mod support {
    use super::*;

    /// What becomes of a delivery by POST, with these headers and with these secrets set.
    pub(super) fn deliver(
        headers: &[(&str, &str)],
        secrets: &[(&str, &str)],
        body: &[u8],
    ) -> (Option<Provider>, Delivery) {
        let find = |list: &[(&str, &str)], name: &str| {
            list.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        receive(&Request {
            method: "POST",
            header: |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value),
            body,
            secret: |key: &str| find(secrets, key).unwrap_or_default(),
            megabytes_max: None,
            allow_without_secret: false,
        })
    }
}

#[cfg(test)]
mod tests;
