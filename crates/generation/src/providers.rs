//! Providers of repositories, asked over HTTP with what a generator refers to (ASET-58..65).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tiphys_api::settings::ApplicationSets;
use tiphys_appset::params::Params;
use tiphys_cloud::Environment;
use tiphys_scm::{
    Credentials, FilterMode, GithubApp, Limits, Needs, PullRequestGenerator, Request, Scm, ScmError,
    ScmGenerator, ScmOptions, SecretKey, SecretObject, SetName, secret_value,
};
use tokio::io::AsyncReadExt as _;

use crate::services::{ProviderAsk, Providers};

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
    let mut credentials = Credentials::default();
    if let Some(reference) = &needs.token {
        credentials.token = Some(value_of(ask, reference).await?);
    }
    if let Some(reference) = &needs.password {
        credentials.password = Some(value_of(ask, reference).await?);
    }
    if let Some(reference) = &needs.ca {
        let (namespace, name, key) = (&ask.question.namespace, &reference.name, &reference.key);
        let found = ask.objects.config_map(namespace, name).await?;
        let found = found.ok_or_else(|| format!("error fetching ConfigMap {namespace}/{name}: not found"))?;
        let ca = found.data.get(key);
        let missing = || format!("key {key:?} in ConfigMap {namespace}/{name} not found");
        credentials.ca = Some(ca.cloned().ok_or_else(missing)?);
    }
    if let Some(name) = &needs.github_app {
        let namespace = &ask.control_plane;
        let found = ask.objects.secret(namespace, name).await?;
        let found = found.ok_or_else(|| format!("error fetching secret {namespace}/{name}: not found"))?;
        let project = found.data.get("project").map_or("", String::as_str);
        if let Some(refusal) = ask.question.access.refusal("Secret", name, project) {
            return Err(refusal);
        }
        credentials.github_app = Some(GithubApp::of_secret(name, &found.data).map_err(shown)?);
    }
    Ok(credentials)
}

async fn value_of(
    ask: &ProviderAsk,
    reference: &SecretKey,
) -> Result<tiphys_api::secret::Secret<String>, String> {
    let namespace = &ask.question.namespace;
    let found = ask.objects.secret(namespace, &reference.secret_name).await?;
    let found = found.as_ref().map(|found| SecretObject { labels: &found.labels, data: &found.data });
    secret_value(reference, namespace, found, ask.question.access.strict_token_refs).map_err(shown)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tiphys_appset::facts::{Access, ProviderQuestion};

    use super::*;
    use crate::services::{Referenced, References};

    /// Secrets and `ConfigMap`s by namespace and name.
    #[derive(Clone, Default)]
    struct Objects(BTreeMap<(&'static str, &'static str), Referenced>);

    impl Objects {
        fn find(&self, namespace: &str, name: &str) -> Option<Referenced> {
            let mut objects = self.0.iter();
            objects.find(|(key, _)| **key == (namespace, name)).map(|(_, found)| found.clone())
        }
    }

    impl References for Objects {
        fn secret<'a>(
            &'a self,
            namespace: &'a str,
            name: &'a str,
        ) -> BoxFuture<'a, Result<Option<Referenced>, String>> {
            Box::pin(async move { Ok(self.find(namespace, name)) })
        }

        fn config_map<'a>(
            &'a self,
            namespace: &'a str,
            name: &'a str,
        ) -> BoxFuture<'a, Result<Option<Referenced>, String>> {
            self.secret(namespace, name)
        }
    }

    fn referenced(labels: &[(&str, &str)], data: &[(&str, &str)]) -> Referenced {
        let texts = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        Referenced { labels: texts(labels), data: texts(data) }
    }

    fn ask(block: &Value, access: Access, objects: &Objects) -> ProviderAsk {
        let generator = json!({"github": block}).as_object().cloned().unwrap_or_default();
        let block = block.as_object().cloned().unwrap_or_default();
        ProviderAsk {
            question: ProviderQuestion {
                provider: "github",
                block,
                generator,
                namespace: "team".to_owned(),
                access,
            },
            set: "all".to_owned(),
            settings: Arc::default(),
            objects: Arc::new(objects.clone()),
            control_plane: "argocd".to_owned(),
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

    #[tokio::test]
    async fn aset_59_tokens_are_those_of_the_sets_namespace() {
        let block = json!({"organization": "o", "api": NOBODY, "tokenRef": {"secretName": "s", "key": "k"}});
        let mut objects = Objects::default();
        objects.0.insert(("argocd", "s"), referenced(&[], &[("k", "hunter2")]));
        let text = refused(&block, Access::default(), &objects).await;
        assert_eq!(text, "error fetching secret team/s: not found");
        objects.0.insert(("team", "s"), referenced(&[], &[("other", "hunter2")]));
        let text = refused(&block, Access::default(), &objects).await;
        assert_eq!(text, "key \"k\" in secret team/s not found");
        objects.0.insert(("team", "s"), referenced(&[], &[("k", "hunter2")]));
        let strict = Access { strict_token_refs: true, ..Access::default() };
        let text = refused(&block, strict.clone(), &objects).await;
        assert!(text.contains("team/s is not a valid SCM creds secret"), "{text}");
        let text = refused(&block, Access::default(), &objects).await;
        assert!(text.contains("cannot be reached") && !text.contains("hunter2"), "{text}");
        let marked = [("argocd.argoproj.io/secret-type", "scm-creds")];
        objects.0.insert(("team", "s"), referenced(&marked, &[("k", "hunter2")]));
        assert!(refused(&block, strict, &objects).await.contains("cannot be reached"));
    }

    #[tokio::test]
    async fn aset_275_a_github_app_is_one_of_the_installation_and_of_the_project() {
        let block = json!({"organization": "o", "api": NOBODY, "appSecretName": "app"});
        let mut objects = Objects::default();
        objects.0.insert(("team", "app"), referenced(&[], &[]));
        let text = refused(&block, Access::default(), &objects).await;
        assert_eq!(text, "error fetching secret argocd/app: not found");
        let of = |project: &'static str| {
            referenced(&[], &[("project", project), ("githubAppID", "1"), ("githubAppPrivateKey", "none")])
        };
        let red =
            |registered_only| Access { strict_token_refs: true, project: "red".to_owned(), registered_only };
        for (project, access, is_refused) in [
            ("blue", red(false), true),
            ("", red(true), true),
            ("", red(false), false),
            ("red", red(true), false),
            ("blue", Access::default(), false),
        ] {
            objects.0.insert(("argocd", "app"), of(project));
            let text = refused(&block, access, &objects).await;
            assert_eq!(
                text == "Secret app does not belong to project 'red'",
                is_refused,
                "{project}: {text}"
            );
        }
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
        let text = ScmProviders::default().repositories(asked).await.unwrap_err();
        assert_eq!(text, "error fetching ConfigMap team/ca: not found");
    }
}
