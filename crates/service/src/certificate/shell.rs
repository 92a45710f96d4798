//! Calls about certificates and host keys (REP-82..85).

use tiphys_api::names::{KNOWN_HOSTS_CONFIG_MAP, TLS_CERTS_CONFIG_MAP};
use tiphys_api::trust::KnownHost;
use tiphys_policy::permit::Own;

use super::{Filter, Item, list, plan_create_ssh, plan_create_tls, plan_delete_ssh, plan_delete_tls};
use crate::access::{Access, Action, Caller, Resource};
use crate::error::Error;
use crate::store::{Record, Store};

/// Calls about the certificates of an installation.
#[derive(Clone, Copy, Debug)]
pub struct Certificates<'a> {
    store: &'a Store,
    caller: Caller<'a>,
}

impl<'a> Certificates<'a> {
    /// Calls of somebody.
    pub fn new(store: &'a Store, caller: Caller<'a>) -> Self {
        Self { store, caller }
    }

    fn may(&self, action: Action) -> Result<(), Error> {
        self.caller.may(&Access::named(Resource::Certificates, action, ""))
    }

    /// What is stored, as far as it is meant.
    ///
    /// # Errors
    /// When the cluster does not say.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Item>, Error> {
        self.may(Action::Get)?;
        let known_hosts = self.store.get(Own::Trust, KNOWN_HOSTS_CONFIG_MAP).await?;
        let tls = self.store.get(Own::Trust, TLS_CERTS_CONFIG_MAP).await?;
        Ok(list(known_hosts.as_deref(), tls.as_deref(), filter))
    }

    /// Stores the certificates of a host; answers with those that are new.
    ///
    /// # Errors
    /// Those of [`plan_create_tls`], and those of the cluster.
    pub async fn create_tls(&self, host: &str, pem: &str, upsert: bool) -> Result<Vec<Item>, Error> {
        self.may_create(upsert)?;
        let namespace = self.store.namespace();
        let plan = |stored: Option<&_>| {
            plan_create_tls((namespace, stored), (host, pem), upsert).map_err(Error::from)
        };
        Ok(self.store.settle_telling(Record::Trust, TLS_CERTS_CONFIG_MAP, plan).await?.1)
    }

    /// Stores host keys; answers with those that are new.
    ///
    /// # Errors
    /// Those of [`plan_create_ssh`], and those of the cluster.
    pub async fn create_ssh(&self, wanted: &[KnownHost], upsert: bool) -> Result<Vec<Item>, Error> {
        self.may_create(upsert)?;
        let namespace = self.store.namespace();
        let plan =
            |stored: Option<&_>| plan_create_ssh((namespace, stored), wanted, upsert).map_err(Error::from);
        Ok(self.store.settle_telling(Record::Trust, KNOWN_HOSTS_CONFIG_MAP, plan).await?.1)
    }

    fn may_create(&self, upsert: bool) -> Result<(), Error> {
        self.may(Action::Create)?;
        if upsert { self.may(Action::Update) } else { Ok(()) }
    }

    /// Removes what is meant; answers with it.
    ///
    /// # Errors
    /// Those of the cluster.
    pub async fn delete(&self, filter: &Filter) -> Result<Vec<Item>, Error> {
        self.may(Action::Delete)?;
        let namespace = self.store.namespace();
        let ssh = |stored: Option<&_>| Ok::<_, Error>(plan_delete_ssh((namespace, stored), filter));
        let mut removed = self.store.settle_telling(Record::Trust, KNOWN_HOSTS_CONFIG_MAP, ssh).await?.1;
        let tls = |stored: Option<&_>| Ok::<_, Error>(plan_delete_tls((namespace, stored), filter));
        removed.extend(self.store.settle_telling(Record::Trust, TLS_CERTS_CONFIG_MAP, tls).await?.1);
        Ok(removed)
    }
}
