//! Credential templates: what a call would change, and what it shows (REP A5).

use serde_json::{Map, Value, json};
use tiphys_api::repo_url;
use tiphys_api::repository::{
    CredentialTemplate, FieldError, Selection, differing_keys, template_mutation_target,
};

use crate::access::{Action, Caller};
use crate::change::Change;
use crate::error::{Code, Error};
use crate::managed::{self, SecretError};
use crate::planned::{Need, Planned};
use crate::purpose::Purpose;
use crate::repository::Removal;
use crate::secrets::Secrets;
use crate::store::Store;

/// Why a call about a template fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// There is no URL (REP-34).
    #[error("must specify URL")]
    MissingUrl,
    /// It exists with other content.
    #[error(
        "existing repository credentials spec is different; use upsert flag to force update; difference in keys \"{}\"", .0.join(",")
    )]
    Different(Vec<&'static str>),
    /// There is none with exactly this URL (REP-35).
    #[error("repository credentials '{0}' not found")]
    NotFound(String),
    /// The values cannot be stored.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Nothing is pushed in this installation (REP-50).
    #[error("hydrator is disabled")]
    HydratorDisabled,
}

impl TemplateError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::MissingUrl | Self::Different(_) => Code::InvalidArgument,
            Self::NotFound(_) => Code::NotFound,
            Self::Secret(error) => error.code(),
            Self::HydratorDisabled => Code::Unimplemented,
        }
    }
}

/// What creating a template changes: nothing when it exists as wanted, the existing one with `upsert`. A repository
/// with the same URL is no obstacle (REP-34).
///
/// # Errors
/// When it exists and is different, or cannot be stored.
pub fn plan_create(
    secrets: &Secrets,
    purpose: Purpose,
    wanted: &CredentialTemplate,
    upsert: bool,
) -> Result<Planned, TemplateError> {
    if wanted.url.trim().is_empty() {
        return Err(TemplateError::MissingUrl);
    }
    let fields = wanted.fields();
    managed::check(&fields)?;
    let kind = purpose.templates();
    let (stored, made) = (secrets.templates(kind), (purpose, wanted));
    let Some(Selection { chosen, .. }) = template_mutation_target(&stored, &wanted.url) else {
        return Ok(Planned::created(&made, managed::create(secrets, kind, (&wanted.url, ""), &fields)?));
    };
    let mut differing = differing_keys(&chosen.fields(), &fields);
    if let Some(FieldError::Bool { field, .. } | FieldError::Integer { field, .. }) = &chosen.problem
        && !differing.contains(field)
    {
        differing.push(field);
    }
    if differing.is_empty() {
        return Ok(Planned::created(&made, Change::Keep));
    }
    if !upsert {
        return Err(TemplateError::Different(differing));
    }
    let object = secrets.get(&chosen.secret_name);
    let change = object.map_or(Change::Keep, |object| managed::update(object, &fields));
    Ok(Planned::updated(&(purpose, chosen), &made, change))
}

/// What updating a template changes: the one with exactly this URL (REP-35).
///
/// # Errors
/// When there is none.
pub fn plan_update(
    secrets: &Secrets,
    purpose: Purpose,
    wanted: &CredentialTemplate,
) -> Result<Planned, TemplateError> {
    let fields = wanted.fields();
    managed::check(&fields)?;
    let stored = secrets.templates(purpose.templates());
    let missing = || not_found(&wanted.url);
    let chosen = template_mutation_target(&stored, &wanted.url).ok_or_else(missing)?.chosen;
    let object = secrets.get(&chosen.secret_name).ok_or_else(missing)?;
    Ok(Planned::updated(&(purpose, chosen), &(purpose, wanted), managed::update(object, &fields)))
}

/// What deleting a template changes: the one with exactly this URL goes, never a shorter prefix (REP-35).
///
/// # Errors
/// When there is none.
pub fn plan_delete(secrets: &Secrets, purpose: Purpose, url: &str) -> Result<Removal, TemplateError> {
    let stored = secrets.templates(purpose.templates());
    let target = template_mutation_target(&stored, url).ok_or_else(|| not_found(url))?.chosen;
    let object = secrets.get(&target.secret_name).ok_or_else(|| not_found(url))?;
    let is_other = |other: &&CredentialTemplate| {
        repo_url::same(&other.url, url) && other.secret_name != target.secret_name
    };
    let left = stored.iter().filter(is_other).map(|other| other.secret_name.clone()).collect();
    Ok(Removal { planned: Planned::deleted(&(purpose, target), managed::delete(object)), left })
}

fn not_found(url: &str) -> TemplateError {
    TemplateError::NotFound(repo_url::redact(url))
}

/// The template of a request; its members are the keys of a Secret.
pub fn read(members: &Map<String, Value>) -> CredentialTemplate {
    let data = crate::repository::view::texts(members);
    CredentialTemplate::from_secret(&tiphys_api::application::Metadata::default(), &data)
}

/// The members of a request about a template: the counterpart of [`read`].
pub fn sent(template: &CredentialTemplate) -> Value {
    Value::Object(crate::repository::view::set_members(&template.fields()))
}

/// The members of an answer (REP-13).
pub fn shown(template: &CredentialTemplate) -> Value {
    let credentials = &template.credentials;
    let mut members = Map::new();
    members.insert("url".to_owned(), repo_url::mask_password(&template.url).into());
    for (key, text) in [("username", credentials.username.as_str()), ("type", template.effective_type())] {
        if !text.is_empty() {
            members.insert(key.to_owned(), text.into());
        }
    }
    if credentials.enable_oci {
        members.insert("enableOCI".to_owned(), json!(true));
    }
    Value::Object(members)
}

/// Calls about the templates of an installation: those to read with, or those to push with (REP-23).
#[derive(Clone, Copy, Debug)]
pub struct Templates<'a> {
    store: &'a Store,
    caller: Caller<'a>,
    purpose: Purpose,
}

impl<'a> Templates<'a> {
    /// Calls of somebody.
    pub fn new(store: &'a Store, caller: Caller<'a>) -> Self {
        Self { store, caller, purpose: Purpose::Read }
    }

    /// The same about those that hydrated manifests are pushed with (REP-36).
    ///
    /// # Errors
    /// When nothing is hydrated in this installation.
    pub fn to_push(store: &'a Store, caller: Caller<'a>, is_hydrator_enabled: bool) -> Result<Self, Error> {
        if !is_hydrator_enabled {
            return Err(TemplateError::HydratorDisabled.into());
        }
        Ok(Self { store, caller, purpose: Purpose::Push })
    }

    fn may(&self, action: Action, url: &str) -> Result<(), Error> {
        Need::located(self.purpose.resource(), action, ("", url)).check(self.caller)
    }

    /// All that the caller may see, by URL.
    pub fn list(&self, secrets: &Secrets) -> Vec<CredentialTemplate> {
        let mut found = secrets.templates(self.purpose.templates());
        found.retain(|template| self.may(Action::Get, &template.url).is_ok());
        found.sort_by(|a, b| (&a.url, &a.secret_name).cmp(&(&b.url, &b.secret_name)));
        found
    }

    /// Creates a template (REP-34); with `upsert` one that exists is changed.
    ///
    /// # Errors
    /// When it exists and is different.
    pub async fn create(
        &self,
        secrets: &mut Secrets,
        wanted: &CredentialTemplate,
        upsert: bool,
    ) -> Result<bool, Error> {
        self.may(Action::Create, &wanted.url)?;
        let purpose = self.purpose;
        self.store.settle(secrets, self.caller, |secrets| plan_create(secrets, purpose, wanted, upsert)).await
    }

    /// Changes a template (REP-35).
    ///
    /// # Errors
    /// When there is none with this URL.
    pub async fn update(&self, secrets: &mut Secrets, wanted: &CredentialTemplate) -> Result<bool, Error> {
        self.may(Action::Update, &wanted.url)?;
        let purpose = self.purpose;
        self.store.settle(secrets, self.caller, |secrets| plan_update(secrets, purpose, wanted)).await
    }

    /// Deletes a template (REP-35). Answers with the names of other Secrets that declare the same one.
    ///
    /// # Errors
    /// When there is none with this URL.
    pub async fn delete(&self, secrets: &mut Secrets, url: &str) -> Result<Vec<String>, Error> {
        self.may(Action::Delete, url)?;
        let purpose = self.purpose;
        let Removal { left, .. } = plan_delete(secrets, purpose, url)?;
        let plan = |secrets: &Secrets| plan_delete(secrets, purpose, url).map(|removal| removal.planned);
        self.store.settle(secrets, self.caller, plan).await?;
        Ok(left)
    }
}
