//! Calls about projects (REP-207..209).

use std::sync::Arc;

use tiphys_api::AppProject;
use tiphys_object::Object;
use tiphys_policy::permit::Own;

use super::reach::check_reach;
use super::{ProjectError, Surroundings, plan_create, plan_delete, plan_update, read};
use crate::access::{Access, Action, Caller, Resource};
use crate::change::Change;
use crate::error::Error;
use crate::planned::Planned;
use crate::store::{Guarded, Store};

/// Calls about the projects of an installation.
#[derive(Clone, Copy, Debug)]
pub struct Projects<'a> {
    store: &'a Store,
    caller: Caller<'a>,
}

impl<'a> Projects<'a> {
    /// Calls of somebody.
    pub fn new(store: &'a Store, caller: Caller<'a>) -> Self {
        Self { store, caller }
    }

    fn may(&self, action: Action, name: &str) -> Result<(), Error> {
        self.caller.may(&Access::named(Resource::Projects, action, name))
    }

    /// One project as it is stored.
    ///
    /// # Errors
    /// When there is none.
    pub async fn get(&self, name: &str) -> Result<Arc<Object>, Error> {
        self.may(Action::Get, name)?;
        let found = self.store.get(Own::Project, name).await?;
        Ok(found.ok_or_else(|| ProjectError::NotFound(name.to_owned()))?)
    }

    /// Creates a project; with `upsert` the spec of one that exists is replaced (REP-207).
    ///
    /// # Errors
    /// When it is not valid, or exists and is different.
    pub async fn create(
        &self,
        wanted: &AppProject,
        upsert: bool,
        around: &Surroundings<'_>,
    ) -> Result<(), Error> {
        self.may(Action::Create, wanted.name())?;
        let plan = |stored: Option<&Object>| -> Result<Planned, Error> {
            let change = plan_create(stored, wanted, upsert, around)?;
            match stored {
                None => Ok(Planned::created(wanted, change)),
                Some(_) if change == Change::Keep => Ok(Planned::created(wanted, change)),
                Some(object) => {
                    let stored = read(object)?;
                    check_reach(self.caller, &stored, wanted)?;
                    Ok(Planned::updated(&stored, wanted, change))
                }
            }
        };
        let target = (Guarded::Project, wanted.name());
        self.store.settle_guarded(target, self.caller, plan).await.map(drop)
    }

    /// Changes a project by an edit of what is stored at that moment; `None` leaves it (REP-208).
    ///
    /// # Errors
    /// Those of the edit, when there is none, when it is not valid then, or applications would be refused.
    pub async fn edit<E: From<Error>>(
        &self,
        name: &str,
        around: &Surroundings<'_>,
        edit: impl Fn(&AppProject) -> Result<Option<AppProject>, E>,
    ) -> Result<(), E> {
        self.may(Action::Update, name)?;
        let plan = |stored: Option<&Object>| -> Result<Planned, E> {
            let failed = |error: ProjectError| E::from(Error::from(error));
            let object = stored.ok_or_else(|| failed(ProjectError::NotFound(name.to_owned())))?;
            let stored = read(object).map_err(failed)?;
            let Some(wanted) = edit(&stored)? else {
                return Ok(Planned::updated(&stored, &stored, Change::Keep));
            };
            check_reach(self.caller, &stored, &wanted)?;
            let change = plan_update(object, &wanted, around).map_err(failed)?;
            Ok(Planned::updated(&stored, &wanted, change))
        };
        self.store.settle_guarded((Guarded::Project, name), self.caller, plan).await.map(drop)
    }

    /// Deletes a project that nobody uses (REP-209).
    ///
    /// # Errors
    /// When it is the default one, is used, or there is none.
    pub async fn delete(&self, name: &str, around: &Surroundings<'_>) -> Result<(), Error> {
        self.may(Action::Delete, name)?;
        let plan = |stored: Option<&Object>| -> Result<Planned, Error> {
            let change = plan_delete(stored, name, around.applications)?;
            let object = stored.ok_or_else(|| ProjectError::NotFound(name.to_owned()))?;
            Ok(Planned::deleted(&read(object)?, change))
        };
        self.store.settle_guarded((Guarded::Project, name), self.caller, plan).await.map(drop)
    }
}
