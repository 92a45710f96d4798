//! `pullRequest`.

use serde_json::{Map, Value};

use super::{Needs, Provider, PullRequestGenerator, bitbucket_login, ca, own_block, pass_common, token_of};
use crate::ScmError;
use crate::fields::Fields;
use crate::filter::PullRequestFilter;

/// Blocks of providers; of several the first counts (ASET-62).
const PROVIDERS: [&str; 6] = ["github", "gitlab", "gitea", "bitbucketServer", "bitbucket", "azuredevops"];

/// What a provider's block says.
struct Own {
    provider: Provider,
    repository: String,
    labels: Vec<String>,
    state: String,
    insecure: bool,
    needs: Needs,
}

impl PullRequestGenerator {
    /// Reads a generator; of several providers the first counts.
    ///
    /// # Errors
    /// When there is none, a field is missing, of a wrong type or unknown, or a filter does not compile.
    pub fn read(block: &Map<String, Value>) -> Result<Self, ScmError> {
        let (name, own) = own_block(block, &PROVIDERS).ok_or_else(|| {
            ScmError::Block("no Pull Request provider implementation configured".to_owned())
        })?;
        let mut own_fields = Fields::of(name, own);
        let own = match name {
            "github" => github(&mut own_fields),
            "gitlab" => gitlab(&mut own_fields),
            "gitea" => gitea(&mut own_fields),
            "bitbucketServer" => bitbucket_server(&mut own_fields),
            "bitbucket" => bitbucket(&mut own_fields),
            _ => azure_devops(&mut own_fields),
        }?;
        own_fields.end()?;
        let mut fields = Fields::of("pullRequest", block);
        pass_common(&mut fields, &PROVIDERS);
        let none_if_not_found = fields.is_on("continueOnRepoNotFoundError")?;
        let filters = fields.objects("filters")?;
        let filters = filters.into_iter().map(PullRequestFilter::read).collect::<Result<_, _>>()?;
        fields.end()?;
        let Own { provider, repository, labels, state, insecure, needs } = own;
        Ok(Self { provider, repository, labels, state, filters, none_if_not_found, insecure, needs })
    }

    /// What has to be read for it.
    pub fn needs(&self) -> &Needs {
        &self.needs
    }

    /// The address of the provider's API that it names; empty where it names none.
    pub fn api(&self) -> &str {
        self.provider.api()
    }
}

fn own(provider: Provider, repository: String, needs: Needs) -> Own {
    Own { provider, repository, labels: Vec::new(), state: String::new(), insecure: false, needs }
}

fn github(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    let app = fields.text("appSecretName")?;
    let provider = Provider::Github { owner: fields.needed("owner")?, api: fields.text("api")? };
    let needs = Needs { github_app: (!app.is_empty()).then_some(app), ..token_of(fields)? };
    let repository = fields.needed("repo")?;
    Ok(Own { labels: fields.texts("labels")?, ..own(provider, repository, needs) })
}

fn gitlab(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    let provider = Provider::Gitlab { group: String::new(), api: fields.text("api")? };
    let needs = Needs { ca: ca(fields)?, ..token_of(fields)? };
    let repository = fields.needed("project")?;
    Ok(Own {
        labels: fields.texts("labels")?,
        state: fields.text("pullRequestState")?,
        insecure: fields.is_on("insecure")?,
        ..own(provider, repository, needs)
    })
}

fn gitea(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    let provider = Provider::Gitea { owner: fields.needed("owner")?, api: fields.needed("api")? };
    let (needs, repository) = (token_of(fields)?, fields.needed("repo")?);
    Ok(Own {
        labels: fields.texts("labels")?,
        insecure: fields.is_on("insecure")?,
        ..own(provider, repository, needs)
    })
}

fn bitbucket_server(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    let (username, needs) = bitbucket_login(fields)?;
    let provider = Provider::BitbucketServer {
        project: fields.needed("project")?,
        api: fields.needed("api")?,
        username,
    };
    let needs = Needs { ca: ca(fields)?, ..needs };
    let repository = fields.needed("repo")?;
    Ok(Own { insecure: fields.is_on("insecure")?, ..own(provider, repository, needs) })
}

fn bitbucket(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    let (username, needs) = bitbucket_login(fields)?;
    let provider = Provider::Bitbucket { owner: fields.needed("owner")?, api: fields.text("api")?, username };
    Ok(own(provider, fields.needed("repo")?, needs))
}

fn azure_devops(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    let provider = Provider::AzureDevOps {
        organization: fields.needed("organization")?,
        project: fields.needed("project")?,
        api: fields.text("api")?,
    };
    let (needs, repository) = (token_of(fields)?, fields.needed("repo")?);
    Ok(Own { labels: fields.texts("labels")?, ..own(provider, repository, needs) })
}
