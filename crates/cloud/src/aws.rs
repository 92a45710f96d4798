//! Our keys at AWS, and tokens for EKS: a signed question "who am I" that the cluster asks AWS in our name (REP-106).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tiphys_api::secret::Secret;

use crate::http::{self, Http};
use crate::profile::Profiles;
use crate::sigv4::{self, Keys, Scope};
use crate::{CloudError, CloudToken, Environment, read_file};

/// Seconds for which the question is signed. The cluster takes the token for 15 minutes all the same.
const SIGNED_SECONDS: u32 = 60;
const TOKEN_LASTS: SignedDuration = SignedDuration::from_mins(14);
/// Profiles that refer to each other.
const PROFILES_DEEP_MAX: usize = 5;
const STS_VERSION: (&str, &str) = ("Version", "2011-06-15");
/// Where the machine tells who it is.
const METADATA: &str = "http://169.254.169.254";
/// Where the container's agent tells who it is.
const CONTAINER: &str = "http://169.254.170.2";

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Keys(Keys),
    /// A token of the pod's service account for a role.
    WebIdentity {
        role: String,
        file: String,
        session: String,
    },
    /// An agent beside the container.
    Container {
        url: String,
    },
    /// The machine's metadata server.
    Machine,
    /// A role that somebody may assume.
    Assumed {
        role: String,
        session: String,
        external_id: String,
        by: Box<Self>,
    },
}

/// The order of AWS' own tools: a named profile, keys of the environment, the pod's identity, the default profile, the
/// container's agent, the machine.
pub(crate) fn origin(
    environment: &Environment,
    profiles: &Profiles,
    named: Option<&str>,
) -> Result<Origin, CloudError> {
    let session = environment.get("AWS_ROLE_SESSION_NAME").unwrap_or("tiphys").to_owned();
    if let Some(named) = named.or_else(|| environment.get("AWS_PROFILE")) {
        if !profiles.has(named) {
            return Err(CloudError::Profile);
        }
        return of_profile(environment, profiles, named, PROFILES_DEEP_MAX);
    }
    if let Some(keys) = keys_of(|name| environment.get(&name.to_ascii_uppercase())) {
        return Ok(Origin::Keys(keys));
    }
    if let Some(file) = environment.get("AWS_WEB_IDENTITY_TOKEN_FILE") {
        let role = environment.get("AWS_ROLE_ARN").ok_or(CloudError::NoIdentity)?.to_owned();
        return Ok(Origin::WebIdentity { role, file: file.to_owned(), session });
    }
    of_profile(environment, profiles, "default", PROFILES_DEEP_MAX)
}

fn of_profile(
    environment: &Environment,
    profiles: &Profiles,
    name: &str,
    deep: usize,
) -> Result<Origin, CloudError> {
    let get = |member: &str| profiles.get(name, member);
    let text = |member: &str| get(member).unwrap_or_default().to_owned();
    let session = get("role_session_name").unwrap_or("tiphys").to_owned();
    let by = match (get("source_profile"), get("credential_source")) {
        // A profile may name itself: its own keys assume its role.
        (Some(source), _) if source != name => {
            let deep = deep.checked_sub(1).ok_or(CloudError::Profile)?;
            if !profiles.has(source) {
                return Err(CloudError::Profile);
            }
            of_profile(environment, profiles, source, deep)?
        }
        (None, Some("Environment")) => {
            let keys = keys_of(|name| environment.get(&name.to_ascii_uppercase()));
            Origin::Keys(keys.ok_or(CloudError::NoIdentity)?)
        }
        (None, Some("Ec2InstanceMetadata")) => Origin::Machine,
        (None, Some("EcsContainer")) => container(environment)?.ok_or(CloudError::NoIdentity)?,
        (None, Some(_)) => return Err(CloudError::Profile),
        _ => {
            if let Some(keys) = keys_of(get) {
                Origin::Keys(keys)
            } else if let Some(file) = get("web_identity_token_file") {
                let role = text("role_arn");
                return Ok(Origin::WebIdentity { role, file: file.to_owned(), session });
            } else if ["sso_session", "sso_account_id", "credential_process"].iter().any(|m| get(m).is_some())
            {
                return Err(CloudError::Unsupported);
            } else if let Some(container) = container(environment)? {
                container
            } else if environment
                .get("AWS_EC2_METADATA_DISABLED")
                .is_some_and(|it| it.eq_ignore_ascii_case("true"))
            {
                return Err(CloudError::NoIdentity);
            } else {
                Origin::Machine
            }
        }
    };
    if get("role_arn").is_none() {
        return Ok(by);
    }
    if get("mfa_serial").is_some() {
        return Err(CloudError::Unsupported);
    }
    Ok(Origin::Assumed {
        role: text("role_arn"),
        session,
        external_id: text("external_id"),
        by: Box::new(by),
    })
}

fn keys_of<'a>(get: impl Fn(&'static str) -> Option<&'a str>) -> Option<Keys> {
    Some(Keys {
        id: get("aws_access_key_id")?.to_owned(),
        secret: get("aws_secret_access_key")?.into(),
        session: get("aws_session_token").unwrap_or_default().into(),
    })
}

/// The agent's address: fixed, or one that cannot be reached by anybody else.
fn container(environment: &Environment) -> Result<Option<Origin>, CloudError> {
    if let Some(path) = environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        return Ok(Some(Origin::Container { url: format!("{CONTAINER}{path}") }));
    }
    let Some(url) = environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") else { return Ok(None) };
    let parsed = reqwest::Url::parse(url).map_err(|_error| CloudError::Value)?;
    let is_near = match parsed.host_str() {
        Some("localhost" | "169.254.170.2" | "169.254.170.23" | "[fd00:ec2::23]" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    };
    if !is_near && parsed.scheme() != "https" {
        return Err(CloudError::Value);
    }
    Ok(Some(Origin::Container { url: url.to_owned() }))
}

/// The token for a cluster.
pub(crate) async fn token(
    http: &Http,
    environment: &Environment,
    cluster: &str,
    role: Option<&str>,
    profile: Option<&str>,
    now: Timestamp,
) -> Result<CloudToken, CloudError> {
    let profiles = profiles(environment).await?;
    let named = profile.or_else(|| environment.get("AWS_PROFILE")).unwrap_or("default");
    let region =
        environment.first(&["AWS_REGION", "AWS_DEFAULT_REGION"]).or_else(|| profiles.get(named, "region"));
    let sts = Sts::of(environment, region)?;
    let origin = origin(environment, &profiles, profile)?;
    let mut keys = Box::pin(keys(http, environment, &sts, &origin, now)).await?;
    if let Some(role) = role {
        keys = sts.assume(http, &keys, role, "tiphys", "", now).await?;
    }
    eks_token(&sts, &keys, cluster, now)
}

/// Who we are at AWS, and in which region.
#[derive(Clone, Debug)]
pub struct Identity {
    /// With what requests are signed.
    pub keys: Keys,
    /// The region, a part of host names.
    pub region: String,
}

impl Identity {
    /// Our identity as the environment gives it, or a role that it may assume (ASET-58).
    ///
    /// # Errors
    /// When there is none, or no region.
    pub async fn find(
        environment: &Environment,
        region: Option<&str>,
        role: Option<&str>,
        now: Timestamp,
    ) -> Result<Self, CloudError> {
        let http = Http::default();
        let profiles = profiles(environment).await?;
        let named = environment.get("AWS_PROFILE").unwrap_or("default");
        let region = region
            .or_else(|| environment.first(&["AWS_REGION", "AWS_DEFAULT_REGION"]))
            .or_else(|| profiles.get(named, "region"))
            .ok_or(CloudError::NoRegion)?;
        let sts = Sts::of(environment, Some(region))?;
        let origin = origin(environment, &profiles, None)?;
        let mut keys = Box::pin(keys(&http, environment, &sts, &origin, now)).await?;
        if let Some(role) = role {
            keys = sts.assume(&http, &keys, role, "tiphys", "", now).await?;
        }
        Ok(Self { keys, region: region.to_owned() })
    }

    /// Where a service of AWS is in the region: as our environment says, or at AWS.
    pub fn endpoint(&self, environment: &Environment, service: &str) -> String {
        let own = format!("AWS_ENDPOINT_URL_{}", service.to_ascii_uppercase());
        match environment.first(&[&own, "AWS_ENDPOINT_URL"]) {
            Some(url) => format!("{}/", url.trim_end_matches('/')),
            None => format!("https://{service}.{}.{}/", self.region, domain(&self.region)),
        }
    }
}

/// The domain of AWS for a region.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

/// The token with these keys.
pub(crate) fn eks_token(
    sts: &Sts,
    keys: &Keys,
    cluster: &str,
    now: Timestamp,
) -> Result<CloudToken, CloudError> {
    if cluster.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(CloudError::Value);
    }
    let action = [("Action", "GetCallerIdentity"), STS_VERSION];
    let query = sigv4::presigned(sts.scope(now), keys, &action, ("x-k8s-aws-id", cluster), SIGNED_SECONDS);
    let url = Secret::from(format!("https://{}/?{}", sts.host, query.expose()));
    let token = Secret::from(format!("k8s-aws-v1.{}", URL_SAFE_NO_PAD.encode(url.expose())));
    let ends = now.checked_add(TOKEN_LASTS).map_err(|_error| CloudError::Answer)?;
    Ok(CloudToken { token, ends })
}

/// Reads the files of profiles; a file that is not there has none.
async fn profiles(environment: &Environment) -> Result<Profiles, CloudError> {
    let mut profiles = Profiles::default();
    let files = [("AWS_CONFIG_FILE", "config", true), ("AWS_SHARED_CREDENTIALS_FILE", "credentials", false)];
    for (variable, name, is_configuration) in files {
        let path = match (environment.get(variable), environment.get("HOME")) {
            (Some(path), _) => path.into(),
            (None, Some(home)) => std::path::Path::new(home).join(".aws").join(name),
            (None, None) => continue,
        };
        if tokio::fs::try_exists(&path).await.map_err(|_error| CloudError::File)? {
            profiles.add(read_file(&path).await?.expose(), is_configuration);
        }
    }
    Ok(profiles)
}

/// The keys of an origin.
async fn keys(
    http: &Http,
    environment: &Environment,
    sts: &Sts,
    origin: &Origin,
    now: Timestamp,
) -> Result<Keys, CloudError> {
    match origin {
        Origin::Keys(keys) => Ok(keys.clone()),
        Origin::WebIdentity { role, file, session } => {
            let token = read_file(file).await?;
            let members = [
                ("Action", "AssumeRoleWithWebIdentity"),
                STS_VERSION,
                ("RoleArn", role.as_str()),
                ("RoleSessionName", session.as_str()),
                ("WebIdentityToken", token.expose().trim()),
            ];
            let answer = http::text_of(http::form(http.public()?.post(&sts.url), &members)).await?;
            keys_in(answer.expose())
        }
        Origin::Container { url } => {
            let mut request = http.local()?.get(url);
            let file = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
            if let Some(file) = file {
                request = request.header("authorization", read_file(file).await?.expose().trim());
            } else if let Some(token) = environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN") {
                request = request.header("authorization", token);
            }
            Ok(http::json_of::<Told>(request).await?.into())
        }
        Origin::Machine => {
            let address = environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT").unwrap_or(METADATA);
            let address = address.trim_end_matches('/');
            let local = http.local()?;
            let session = local.put(format!("{address}/latest/api/token"));
            let session = session.header("x-aws-ec2-metadata-token-ttl-seconds", "300");
            let session = http::text_of(session).await?;
            let get = |path: &str| {
                let url = format!("{address}/latest/meta-data/iam/security-credentials/{path}");
                local.get(url).header("x-aws-ec2-metadata-token", session.expose())
            };
            let roles = http::text_of(get("")).await?;
            let role = roles.expose().lines().next().unwrap_or_default();
            let is_role = |byte: u8| byte.is_ascii_alphanumeric() || b"+=,.@_-".contains(&byte);
            if role.is_empty() || !role.bytes().all(is_role) {
                return Err(CloudError::Answer);
            }
            Ok(http::json_of::<Told>(get(role)).await?.into())
        }
        Origin::Assumed { role, session, external_id, by } => {
            let own = Box::pin(keys(http, environment, sts, by, now)).await?;
            sts.assume(http, &own, role, session, external_id, now).await
        }
    }
}

/// Keys as agents and metadata servers tell them.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Told {
    access_key_id: String,
    secret_access_key: Secret<String>,
    #[serde(default)]
    token: Secret<String>,
}

impl From<Told> for Keys {
    fn from(told: Told) -> Self {
        Self { id: told.access_key_id, secret: told.secret_access_key, session: told.token }
    }
}

/// AWS' service of tokens in a region.
#[derive(Debug)]
pub(crate) struct Sts {
    host: String,
    region: String,
    url: String,
}

impl Sts {
    pub(crate) fn of(environment: &Environment, region: Option<&str>) -> Result<Self, CloudError> {
        let region = region.unwrap_or("us-east-1");
        // It becomes a part of a host name.
        if region.len() > 63 || !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(CloudError::Value);
        }
        let host = format!("sts.{region}.{}", domain(region));
        let own = environment.first(&["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"]);
        let url =
            own.map_or_else(|| format!("https://{host}/"), |url| format!("{}/", url.trim_end_matches('/')));
        Ok(Self { host, region: region.to_owned(), url })
    }

    fn scope(&self, now: Timestamp) -> Scope<'_> {
        Scope { host: &self.host, region: &self.region, service: "sts", now }
    }

    async fn assume(
        &self,
        http: &Http,
        keys: &Keys,
        role: &str,
        session: &str,
        external_id: &str,
        now: Timestamp,
    ) -> Result<Keys, CloudError> {
        let mut members =
            vec![("Action", "AssumeRole"), STS_VERSION, ("RoleArn", role), ("RoleSessionName", session)];
        if !external_id.is_empty() {
            members.push(("ExternalId", external_id));
        }
        let body = sigv4::query(members);
        let url = reqwest::Url::parse(&self.url).map_err(|_error| CloudError::Value)?;
        let host = match (url.host_str(), url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(host), None) => host.to_owned(),
            (None, _) => return Err(CloudError::Value),
        };
        let mut request = http.public()?.post(url);
        for (name, value) in sigv4::signed_form(Scope { host: &host, ..self.scope(now) }, keys, &body) {
            // The client names the host itself.
            if name != "host" {
                request = request.header(name, value.expose());
            }
        }
        keys_in(http::text_of(request.body(body)).await?.expose())
    }
}

/// The keys in an answer of the service: four leaves of an XML document whose values need no escaping.
fn keys_in(answer: &str) -> Result<Keys, CloudError> {
    let leaf = |name: &str| {
        let (_, rest) = answer.split_once(&format!("<{name}>"))?;
        let (value, _) = rest.split_once(&format!("</{name}>"))?;
        (!value.is_empty() && !value.contains(['<', '&'])).then_some(value)
    };
    let keys = || {
        Some(Keys {
            id: leaf("AccessKeyId")?.to_owned(),
            secret: leaf("SecretAccessKey")?.into(),
            session: leaf("SessionToken")?.into(),
        })
    };
    keys().ok_or(CloudError::Answer)
}
