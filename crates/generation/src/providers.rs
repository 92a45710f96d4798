//! Providers of repositories, asked over HTTP with what a generator refers to (ASET-58..65).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tiphys_api::secret::Secret;
use tiphys_api::settings::ApplicationSets;
use tiphys_appset::generator::Kind;
use tiphys_appset::params::Params;
use tiphys_appset::references::{Namespaces, Purpose, Reference};
use tiphys_cloud::Environment;
use tiphys_scm::{
    ConfigMapKey, Credentials, FilterMode, GithubApp, Limits, Needs, PullRequestGenerator, Request, Scm,
    ScmError, ScmGenerator, ScmOptions, SecretKey, SetName, secret_value,
};
use tokio::io::AsyncReadExt as _;

use crate::references;
use crate::services::{ProviderAsk, Providers, Referenced};

/// Bytes of a file with certificates.
const CA_BYTES_MAX: u64 = 1 << 20;
/// The variable with a token for GitHub (ASET-58).
const GITHUB_TOKEN: &str = "GITHUB_TOKEN";

/// What a way to providers depends on. The environment has secrets in it.
#[derive(Clone, PartialEq, Eq)]
struct Settled {
    proxy: String,
    no_proxy: String,
    root_ca: Option<String>,
    is_documented: bool,
    is_observed: bool,
    environment: Arc<BTreeMap<String, String>>,
}

impl Settled {
    async fn of(ask: &ProviderAsk) -> Result<Self, String> {
        let settings = &ask.settings;
        Ok(Self {
            proxy: settings.scm_proxy_url.clone(),
            no_proxy: settings.scm_no_proxy.clone(),
            root_ca: root_ca(settings).await?,
            is_documented: settings.scm_filters_documented,
            is_observed: settings.github_api_metrics && ask.observer.is_some(),
            environment: Arc::clone(&ask.environment),
        })
    }

    fn options(&self, ask: &ProviderAsk) -> ScmOptions {
        let variables = self.environment.iter().map(|(name, value)| (name.clone(), value.clone()));
        let token = self.environment.get(GITHUB_TOKEN).filter(|token| !token.is_empty());
        ScmOptions {
            proxy: self.proxy.clone(),
            no_proxy: self.no_proxy.clone(),
            root_ca: self.root_ca.clone(),
            filter_mode: if self.is_documented { FilterMode::Documented } else { FilterMode::Separate },
            limits: Limits::default(),
            github_token: token.map(|token| token.as_str().into()),
            environment: Environment::of_process(variables),
            observer: ask.observer.clone().filter(|_| self.is_observed),
        }
    }
}

/// The certificates of `scm.root.ca.path`. A file that cannot be read is an error: without it a server that it vouches
/// for would look like one that nobody knows.
async fn root_ca(settings: &ApplicationSets) -> Result<Option<String>, String> {
    let path = &settings.scm_root_ca_path;
    if path.is_empty() {
        return Ok(None);
    }
    let wrong = |why: String| format!("applicationsetcontroller.scm.root.ca.path: {path}: {why}");
    let file = tokio::fs::File::open(path).await.map_err(|error| wrong(error.to_string()))?;
    let mut text = String::new();
    let read = file.take(CA_BYTES_MAX + 1).read_to_string(&mut text).await;
    read.map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > CA_BYTES_MAX {
        return Err(wrong(format!("the file has more than {CA_BYTES_MAX} bytes")));
    }
    Ok(Some(text))
}

/// The providers of the network.
#[derive(Default)]
pub struct ScmProviders {
    /// The way that was used last; its clients and tokens are used again while the settings stay as they are.
    way: Mutex<Option<(Settled, Arc<Scm>)>>,
}

impl fmt::Debug for ScmProviders {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ScmProviders").finish_non_exhaustive()
    }
}

impl ScmProviders {
    /// What a provider would be sent that proves who asks. A simulation looks at it in place of the provider.
    ///
    /// # Errors
    /// When the generator cannot be read, or names what must not be used.
    pub async fn secrets(ask: &ProviderAsk) -> Result<Vec<Secret<String>>, String> {
        let generator = &ask.question.generator;
        let credentials = if ask.question.kind == Kind::PullRequest {
            let generator = PullRequestGenerator::read(generator).map_err(shown)?;
            credentials(ask, generator.needs()).await?
        } else {
            let generator = ScmGenerator::read(generator).map_err(shown)?;
            credentials(ask, generator.needs()).await?
        };
        Ok([credentials.token, credentials.password].into_iter().flatten().collect())
    }

    async fn way(&self, ask: &ProviderAsk) -> Result<Arc<Scm>, String> {
        let settled = Settled::of(ask).await?;
        let mut way = self.way.lock();
        if let Some((_, scm)) = way.as_ref().filter(|(known, _)| *known == settled) {
            return Ok(Arc::clone(scm));
        }
        let scm = Arc::new(Scm::new(settled.options(ask)));
        *way = Some((settled, Arc::clone(&scm)));
        Ok(scm)
    }

    async fn find_repositories(&self, ask: ProviderAsk) -> Result<Vec<Params>, String> {
        let generator = ScmGenerator::read(&ask.question.generator).map_err(shown)?;
        let credentials = credentials(&ask, generator.needs()).await?;
        let set = set_name(&ask);
        let request = Request { generator: &generator, credentials: &credentials, set: &set };
        let found = self.way(&ask).await?.repositories(request).await.map_err(shown)?;
        Ok(found.iter().map(tiphys_scm::Repository::parameters).collect())
    }

    async fn find_pull_requests(&self, ask: ProviderAsk) -> Result<Vec<Params>, String> {
        let generator = PullRequestGenerator::read(&ask.question.generator).map_err(shown)?;
        let credentials = credentials(&ask, generator.needs()).await?;
        let set = set_name(&ask);
        let request = Request { generator: &generator, credentials: &credentials, set: &set };
        let found = self.way(&ask).await?.pull_requests(request).await.map_err(shown)?;
        Ok(found.iter().map(|found| found.parameters(ask.is_go)).collect())
    }
}

impl Providers for ScmProviders {
    fn repositories(&self, ask: ProviderAsk) -> BoxFuture<'_, Result<Vec<Params>, String>> {
        Box::pin(self.find_repositories(ask))
    }

    fn pull_requests(&self, ask: ProviderAsk) -> BoxFuture<'_, Result<Vec<Params>, String>> {
        Box::pin(self.find_pull_requests(ask))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where errors are mapped")]
fn shown(error: ScmError) -> String {
    error.to_string()
}

fn set_name(ask: &ProviderAsk) -> SetName {
    SetName { namespace: ask.question.namespace.clone(), name: ask.set.clone() }
}

/// Reads what a generator refers to: Secrets and `ConfigMap`s of the set's namespace, and the Secret of a GitHub App,
/// which is one of the installation's (ASET-59, ASET-275).
async fn credentials(ask: &ProviderAsk, needs: &Needs) -> Result<Credentials, String> {
    let access = &ask.question.access;
    let mut credentials =
        Credentials { without_own_identity: !access.may_use_own_identity(), ..Credentials::default() };
    if let Some(reference) = &needs.token {
        credentials.token = Some(value_of(ask, reference).await?);
    }
    if let Some(reference) = &needs.password {
        credentials.password = Some(value_of(ask, reference).await?);
    }
    if let Some(ConfigMapKey { name, key }) = &needs.ca {
        let (_, found) = read(ask, Purpose::Certificates, name, key).await?;
        credentials.ca = found.data.get(key).cloned();
    }
    if let Some(name) = &needs.github_app {
        let (_, found) = read(ask, Purpose::GithubApp, name, "").await?;
        credentials.github_app = Some(GithubApp::of_secret(name, &found.data).map_err(shown)?);
    }
    Ok(credentials)
}

/// Reads an object that may be used where the provider is.
async fn read(
    ask: &ProviderAsk,
    purpose: Purpose,
    name: &str,
    key: &str,
) -> Result<(Reference, Referenced), String> {
    let question = &ask.question;
    let namespaces = Namespaces { set: &question.namespace, control_plane: &question.control_plane };
    let reference = Reference::new(purpose, &namespaces, name, key);
    let found = references::read(&*ask.objects, &question.access, &reference).await?;
    match question.address_refusal(&reference, &found.data, &ask.settings.allowed_scm_providers) {
        None => Ok((reference, found)),
        Some(refusal) => Err(refusal),
    }
}

async fn value_of(ask: &ProviderAsk, reference: &SecretKey) -> Result<Secret<String>, String> {
    let SecretKey { secret_name, key } = reference;
    let (named, found) = read(ask, Purpose::ProviderToken, secret_name, key).await?;
    secret_value(reference, &named.namespace, &found.data).map_err(shown)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tiphys_appset::facts::{Access, ProviderQuestion};

    use super::*;
    use crate::fixtures::{Objects, referenced};

    fn ask(block: &Value, access: Access, objects: &Objects) -> ProviderAsk {
        let generator = json!({"github": block}).as_object().cloned().unwrap_or_default();
        let block = block.as_object().cloned().unwrap_or_default();
        ProviderAsk {
            question: ProviderQuestion {
                provider: "github",
                block,
                generator,
                kind: Kind::ScmProvider,
                namespace: "team".to_owned(),
                control_plane: "argocd".to_owned(),
                access,
            },
            set: "all".to_owned(),
            settings: Arc::default(),
            objects: Arc::new(objects.clone()),
            environment: Arc::default(),
            is_go: true,
            observer: None,
        }
    }

    /// An address where nobody listens: what gets there has everything it needs.
    const NOBODY: &str = "http://127.0.0.1:9";

    async fn refused(block: &Value, access: Access, objects: &Objects) -> String {
        ScmProviders::default().repositories(ask(block, access, objects)).await.unwrap_err()
    }

    const MARKED: [(&str, &str); 1] = [("argocd.argoproj.io/secret-type", "scm-creds")];

    fn of_project(project: &str, registered_only: bool) -> Access {
        Access { project: project.to_owned(), registered_only }
    }

    /// Settings that list [`NOBODY`] as an address for shared credentials.
    fn listed(mut ask: ProviderAsk) -> ProviderAsk {
        let allowed_scm_providers = vec![NOBODY.to_owned()];
        ask.settings = Arc::new(ApplicationSets { allowed_scm_providers, ..<_>::default() });
        ask
    }

    #[tokio::test]
    async fn aset_59_tokens_are_those_of_the_sets_namespace() {
        let block = json!({"organization": "o", "api": NOBODY, "tokenRef": {"secretName": "s", "key": "k"}});
        let ask_with = |objects: &Objects| listed(ask(&block, Access::default(), objects));
        let refused = async |objects: &Objects| {
            ScmProviders::default().repositories(ask_with(objects)).await.unwrap_err()
        };
        let mut objects = Objects::default();
        objects.0.insert(("argocd", "s"), referenced(&MARKED, &[("k", "hunter2")]));
        let missing = refused(&objects).await;
        assert!(missing.starts_with("secret team/s is not a valid SCM creds secret"), "{missing}");
        objects.0.insert(("team", "s"), referenced(&[], &[("k", "hunter2")]));
        assert_eq!(refused(&objects).await, missing, "SEC-26: missing and not usable look alike");
        objects.0.insert(("team", "s"), referenced(&MARKED, &[("other", "hunter2")]));
        assert_eq!(refused(&objects).await, "key \"k\" in secret team/s not found");
        objects.0.insert(("team", "s"), referenced(&MARKED, &[("k", "hunter2")]));
        let text = refused(&objects).await;
        assert!(text.contains("cannot be reached") && !text.contains("hunter2"), "{text}");
    }

    #[tokio::test]
    async fn aset_275_a_github_app_is_one_of_the_installation_and_of_the_project() {
        let block = json!({"organization": "o", "api": NOBODY, "appSecretName": "app"});
        let mut objects = Objects::default();
        objects.0.insert(("team", "app"), referenced(&MARKED, &[]));
        let missing = refused(&block, Access::default(), &objects).await;
        assert!(missing.starts_with("secret argocd/app is not a GitHub App"), "{missing}");
        let of = |project: &'static str| {
            let labels = [("argocd.argoproj.io/secret-type", "repo-creds")];
            referenced(
                &labels,
                &[("project", project), ("githubAppID", "1"), ("githubAppPrivateKey", "none")],
            )
        };
        for (project, access, is_refused) in [
            ("blue", of_project("red", false), true),
            ("", of_project("red", true), true),
            ("", of_project("red", false), false),
            ("red", of_project("red", true), false),
            ("blue", Access::default(), true),
            ("", Access::default(), false),
        ] {
            objects.0.insert(("argocd", "app"), of(project));
            let asked = listed(ask(&block, access, &objects));
            let text = ScmProviders::default().repositories(asked).await.unwrap_err();
            assert_eq!(text.contains("is not a GitHub App"), is_refused, "{project}: {text}");
        }
    }

    #[tokio::test]
    async fn sec_shared_tokens_stay_with_listed_addresses() {
        let block =
            |api: &str| json!({"organization": "o", "api": api, "tokenRef": {"secretName": "s", "key": "k"}});
        let mut objects = Objects::default();
        let secret = |project| referenced(&MARKED, &[("k", "hunter2"), ("project", project)]);
        for access in [Access::default(), of_project("red", false)] {
            objects.0.insert(("team", "s"), secret(""));
            let text = refused(&block(NOBODY), access.clone(), &objects).await;
            assert!(text.contains("is sent to listed addresses only"), "{text}");
            let listed = listed(ask(&block(NOBODY), access, &objects));
            let text = ScmProviders::default().repositories(listed).await.unwrap_err();
            assert!(text.contains("cannot be reached"), "{text}");
        }
        objects.0.insert(("team", "s"), secret("red"));
        let text = refused(&block(NOBODY), of_project("red", false), &objects).await;
        assert!(text.contains("cannot be reached"), "a project's own token goes where it says: {text}");
    }

    #[tokio::test]
    async fn aset_59_certificates_that_cannot_be_read_are_errors() {
        let block = json!({"organization": "o", "api": NOBODY});
        let mut with_root = ask(&block, Access::default(), &Objects::default());
        let settings = ApplicationSets { scm_root_ca_path: "/nowhere/ca.pem".to_owned(), ..<_>::default() };
        with_root.settings = Arc::new(settings);
        let text = ScmProviders::default().repositories(with_root).await.unwrap_err();
        assert!(text.starts_with("applicationsetcontroller.scm.root.ca.path: /nowhere/ca.pem: "), "{text}");

        let gitlab = json!({"group": "g", "api": NOBODY, "caRef": {"configMapName": "ca", "key": "pem"}});
        let mut asked = ask(&gitlab, Access::default(), &Objects::default());
        asked.question.generator = json!({"gitlab": gitlab}).as_object().cloned().unwrap_or_default();
        let missing = ScmProviders::default().repositories(asked.clone()).await.unwrap_err();
        assert!(missing.starts_with("ConfigMap team/ca has no certificates"), "{missing}");
        // SEC-26: other keys, and what is no certificate, tell nothing about the ConfigMap.
        for data in [("other", "x"), ("pem", "no certificate")] {
            let mut objects = Objects::default();
            objects.0.insert(("team", "ca"), referenced(&[], &[data]));
            asked.objects = Arc::new(objects);
            assert_eq!(ScmProviders::default().repositories(asked.clone()).await.unwrap_err(), missing);
        }
    }
}
