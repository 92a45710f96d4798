//! `scmProvider`.

use serde_json::{Map, Value};

use super::{
    CloneProtocol, Needs, Provider, RepositoryOptions, ScmGenerator, bitbucket_login, ca, needed_secret_key,
    own_block, pass_common, token_of,
};
use crate::ScmError;
use crate::fields::Fields;
use crate::filter::RepositoryFilter;

/// Blocks of providers; of several the first counts (ASET-55).
const PROVIDERS: [&str; 7] =
    ["github", "gitlab", "gitea", "bitbucketServer", "azureDevOps", "bitbucket", "awsCodeCommit"];

/// What a provider's block says.
struct Own {
    provider: Provider,
    options: RepositoryOptions,
    insecure: bool,
    needs: Needs,
}

impl ScmGenerator {
    /// Reads a generator; of several providers the first counts.
    ///
    /// # Errors
    /// When there is none, a field is missing, of a wrong type or unknown, or a filter does not compile.
    pub fn read(block: &Map<String, Value>) -> Result<Self, ScmError> {
        let (name, own) = own_block(block, &PROVIDERS)
            .ok_or_else(|| ScmError::Block("no SCM provider implementation configured".to_owned()))?;
        let mut own_fields = Fields::of(name, own);
        let own = match name {
            "github" => github(&mut own_fields),
            "gitlab" => gitlab(&mut own_fields),
            "gitea" => gitea(&mut own_fields),
            "bitbucketServer" => bitbucket_server(&mut own_fields),
            "azureDevOps" => azure_devops(&mut own_fields),
            "bitbucket" => bitbucket(&mut own_fields),
            _ => code_commit(&mut own_fields),
        }?;
        own_fields.end()?;
        let mut fields = Fields::of("scmProvider", block);
        pass_common(&mut fields, &PROVIDERS);
        let protocol = match (fields.text("cloneProtocol")?.as_str(), &own.provider) {
            ("" | "ssh", _) => CloneProtocol::Ssh,
            ("https", _) => CloneProtocol::Https,
            ("https-fips", Provider::CodeCommit { .. }) => CloneProtocol::HttpsFips,
            (other, _) => return Err(ScmError::Block(format!("unknown clone protocol {other}"))),
        };
        let filters = fields.objects("filters")?;
        let filters = filters.into_iter().map(RepositoryFilter::read).collect::<Result<_, _>>()?;
        fields.end()?;
        let Own { provider, options, insecure, needs } = own;
        Ok(Self { provider, options, filters, protocol, insecure, needs })
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

/// Options of which most blocks have one.
fn branches(fields: &mut Fields<'_>) -> Result<RepositoryOptions, ScmError> {
    Ok(RepositoryOptions { all_branches: fields.is_on("allBranches")?, ..RepositoryOptions::default() })
}

fn github(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    let app = fields.text("appSecretName")?;
    Ok(Own {
        provider: Provider::Github { owner: fields.needed("organization")?, api: fields.text("api")? },
        options: RepositoryOptions {
            without_archived: fields.is_on("excludeArchivedRepos")?,
            ..branches(fields)?
        },
        insecure: false,
        needs: Needs { github_app: (!app.is_empty()).then_some(app), ..token_of(fields)? },
    })
}

fn gitlab(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    Ok(Own {
        provider: Provider::Gitlab { group: fields.needed("group")?, api: fields.text("api")? },
        options: RepositoryOptions {
            without_archived: !fields.is_on("includeArchivedRepos")?,
            include_subgroups: fields.is_on("includeSubgroups")?,
            include_shared: fields.flag("includeSharedProjects")?.unwrap_or(true),
            topic: fields.text("topic")?,
            ..branches(fields)?
        },
        insecure: fields.is_on("insecure")?,
        needs: Needs { ca: ca(fields)?, ..token_of(fields)? },
    })
}

fn gitea(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    Ok(Own {
        provider: Provider::Gitea { owner: fields.needed("owner")?, api: fields.needed("api")? },
        options: RepositoryOptions {
            without_archived: fields.is_on("excludeArchivedRepos")?,
            ..branches(fields)?
        },
        insecure: fields.is_on("insecure")?,
        needs: token_of(fields)?,
    })
}

fn bitbucket_server(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    let (username, needs) = bitbucket_login(fields)?;
    Ok(Own {
        provider: Provider::BitbucketServer {
            project: fields.needed("project")?,
            api: fields.needed("api")?,
            username,
        },
        options: branches(fields)?,
        insecure: fields.is_on("insecure")?,
        needs: Needs { ca: ca(fields)?, ..needs },
    })
}

fn azure_devops(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    Ok(Own {
        provider: Provider::AzureDevOps {
            organization: fields.needed("organization")?,
            project: fields.needed("teamProject")?,
            api: fields.text("api")?,
        },
        options: branches(fields)?,
        insecure: false,
        needs: Needs { token: Some(needed_secret_key(fields, "accessTokenRef")?), ..Needs::default() },
    })
}

fn bitbucket(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    Ok(Own {
        provider: Provider::Bitbucket {
            owner: fields.needed("owner")?,
            api: String::new(),
            username: fields.needed("user")?,
        },
        options: branches(fields)?,
        insecure: false,
        needs: Needs { password: Some(needed_secret_key(fields, "appPasswordRef")?), ..Needs::default() },
    })
}

fn code_commit(fields: &mut Fields<'_>) -> Result<Own, ScmError> {
    let mut tags = Vec::new();
    for tag in fields.objects("tagFilters")? {
        let mut tag = Fields::of("tagFilters", tag);
        tags.push((tag.needed("key")?, tag.text("value")?));
        tag.end()?;
    }
    Ok(Own {
        provider: Provider::CodeCommit { role: fields.text("role")?, region: fields.text("region")?, tags },
        options: branches(fields)?,
        insecure: false,
        needs: Needs::default(),
    })
}
