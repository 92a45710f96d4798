//! Calls about clusters (REP-112..114).

use std::collections::BTreeMap;
use std::time::Duration;

use tiphys_api::cluster::{Cluster, Clusters as All};
use tiphys_api::names::{IN_CLUSTER_SERVER, annotation};
use tiphys_cluster::{Connection, Discovery, PluginPolicy, Writer, error_chain, server_version};

use super::{Answer, ClusterCallError, Selector, Update, access, plan_create, plan_delete, plan_update};
use crate::access::{Action, Caller};
use crate::error::Error;
use crate::planned::Guarded as _;
use crate::secrets::Secrets;
use crate::store::Store;

/// Time for a cluster to say its version.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster to create (REP-113).
#[derive(Clone, Debug)]
pub struct Create {
    /// As wanted.
    pub cluster: Cluster,
    /// Whether one that exists is changed.
    pub upsert: bool,
}

/// Calls about the clusters of an installation.
#[derive(Clone, Copy, Debug)]
pub struct Clusters<'a> {
    store: &'a Store,
    caller: Caller<'a>,
    /// `cluster.inClusterEnabled` (REP-110).
    in_cluster_enabled: bool,
}

impl<'a> Clusters<'a> {
    /// Calls of somebody.
    pub fn new(store: &'a Store, caller: Caller<'a>, in_cluster_enabled: bool) -> Self {
        Self { store, caller, in_cluster_enabled }
    }

    fn may(&self, action: Action, cluster: &Cluster) -> Result<(), Error> {
        cluster.needs(action).iter().try_for_each(|need| need.check(self.caller))
    }

    /// All that the caller may see, by name, then server (REP-112), the local one included (REP-110).
    pub fn list(&self, secrets: &Secrets) -> Vec<Cluster> {
        let all = All::new(secrets.clusters(), self.in_cluster_enabled);
        all.all().iter().filter(|cluster| self.may(Action::Get, cluster).is_ok()).cloned().collect()
    }

    /// What a selector means among those.
    ///
    /// # Errors
    /// When it means none; who may not see it learns nothing else (REP-112).
    pub fn select(
        &self,
        secrets: &Secrets,
        selector: Selector<'_>,
        action: Action,
    ) -> Result<Vec<Cluster>, Error> {
        let found = selector.among(self.list(secrets))?;
        for cluster in &found {
            self.may(action, cluster)?;
        }
        Ok(found)
    }

    /// Creates a cluster that answers (REP-113).
    ///
    /// # Errors
    /// When it may not be stored, does not answer, or exists and is different.
    pub async fn create(
        &self,
        secrets: &mut Secrets,
        call: &Create,
        policy: &PluginPolicy,
    ) -> Result<bool, Error> {
        let wanted = &call.cluster;
        super::check(wanted)?;
        self.may(Action::Create, wanted)?;
        // The decision comes first: nothing is sent to a server for a caller who may not, or whose entry exists.
        let plan = |secrets: &Secrets| plan_create(secrets, wanted, call.upsert, self.in_cluster_enabled);
        plan(secrets)?.for_caller(self.caller)?;
        if !is_local(wanted) {
            connect(wanted, policy).await?;
        }
        self.store.settle(secrets, self.caller, plan).await
    }

    /// Changes every cluster that is meant (REP-114). A change of the project needs the right in both.
    ///
    /// # Errors
    /// When none is meant, or what it would become may not be stored.
    pub async fn update(
        &self,
        secrets: &mut Secrets,
        selector: Selector<'_>,
        update: &Update,
    ) -> Result<(), Error> {
        for (cluster, _) in self.updated(secrets, selector, update)? {
            let plan = |secrets: &Secrets| plan_update(secrets, &cluster.secret_name, update);
            self.store.settle(secrets, self.caller, plan).await?;
        }
        Ok(())
    }

    /// Every cluster that is meant, as it is stored and as it would be, for a caller who may change it like that. Nothing is
    /// sent anywhere before this was asked.
    ///
    /// # Errors
    /// When none is meant, what it would become may not be stored, or the caller may not.
    pub fn updated(
        &self,
        secrets: &Secrets,
        selector: Selector<'_>,
        update: &Update,
    ) -> Result<Vec<(Cluster, Cluster)>, Error> {
        let mut found = Vec::new();
        for cluster in self.select(secrets, selector, Action::Update)? {
            let wanted = update.apply(&cluster);
            super::check(&wanted)?;
            // Whether another project has such a cluster is told to callers with the right there (SEC-25).
            self.may(Action::Update, &wanted)?;
            plan_update(secrets, &cluster.secret_name, update)?.for_caller(self.caller)?;
            found.push((cluster, wanted));
        }
        Ok(found)
    }

    /// Deletes every cluster that is meant (REP-114).
    ///
    /// # Errors
    /// When none is meant.
    pub async fn delete(&self, secrets: &mut Secrets, selector: Selector<'_>) -> Result<(), Error> {
        for cluster in self.select(secrets, selector, Action::Delete)? {
            let plan = |secrets: &Secrets| plan_delete(secrets, &cluster.secret_name);
            self.store.settle(secrets, self.caller, plan).await?;
        }
        Ok(())
    }

    /// Asks for a rebuild of what is known about a cluster (REP-103, REP-114). `now` is RFC 3339.
    ///
    /// # Errors
    /// When none is meant.
    pub async fn invalidate(
        &self,
        secrets: &mut Secrets,
        selector: Selector<'_>,
        now: &str,
    ) -> Result<(), Error> {
        for cluster in self.select(secrets, selector, Action::Update)? {
            let mut annotations: BTreeMap<String, String> = cluster.annotations.clone();
            annotations.insert(annotation::REFRESH.to_owned(), now.to_owned());
            let update = Update { annotations: Some(annotations), ..Update::default() };
            let plan = |secrets: &Secrets| plan_update(secrets, &cluster.secret_name, &update);
            self.store.settle(secrets, self.caller, plan).await?;
        }
        Ok(())
    }

    /// Gives a cluster a new token, and takes the old one out of it (REP-114).
    ///
    /// # Errors
    /// When it has no token of a service account, or does not give a new one.
    pub async fn rotate_auth(
        &self,
        secrets: &mut Secrets,
        selector: Selector<'_>,
        policy: &PluginPolicy,
    ) -> Result<(), Error> {
        for cluster in self.select(secrets, selector, Action::Update)? {
            let config = cluster.parse_config().map_err(ClusterCallError::from)?;
            if config.bearer_token.is_empty() {
                return Err(ClusterCallError::NoBearerToken(cluster.server).into());
            }
            let account = access::account_of(config.bearer_token.expose())
                .ok_or_else(|| ClusterCallError::ForeignToken(cluster.server.clone()))?;
            let writer = connect(&cluster, policy).await?;
            let token = access::new_token(&writer, &account).await?;
            let with_token = access::with_token(cluster.config.expose(), &token.value)
                .ok_or_else(|| ClusterCallError::ForeignToken(cluster.server.clone()))?;
            // What is stored has to work before the old one goes.
            let renewed = Cluster { config: with_token.clone(), ..cluster.clone() };
            let writer = connect(&renewed, policy).await?;
            let update = Update { config: Some(with_token), ..Update::default() };
            let plan = |secrets: &Secrets| plan_update(secrets, &cluster.secret_name, &update);
            self.store.settle(secrets, self.caller, plan).await?;
            access::remove_tokens(&writer, &account, &token.secret).await?;
        }
        Ok(())
    }
}

/// Asks a cluster for its version as its Secret says, the local one by the way of the program itself (REP-116).
pub async fn ask(cluster: &Cluster, home: &Connection, policy: &PluginPolicy) -> Answer {
    let config = cluster.config.expose();
    let asked = async {
        let connection = if is_local(cluster) && config.trim().is_empty() {
            home.clone()
        } else {
            let connection = Connection::from_cluster_secret(&cluster.server, config, policy).await;
            connection.map_err(|error| error_chain(&error))?
        };
        server_version(&connection).await.map_err(|error| error_chain(&error))
    };
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(version)) => Answer::Version(version.to_string()),
        Ok(Err(why)) => Answer::Failed(why),
        Err(_) => Answer::Failed(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())),
    }
}

/// The local cluster as the program itself reaches it, which needs no test.
fn is_local(cluster: &Cluster) -> bool {
    cluster.server == IN_CLUSTER_SERVER
}

/// Connects as the Secret of a cluster says, and asks for its version.
async fn connect(cluster: &Cluster, policy: &PluginPolicy) -> Result<Writer, Error> {
    let failed = |text: String| ClusterCallError::Connection(text);
    let connection = Connection::from_cluster_secret(&cluster.server, cluster.config.expose(), policy)
        .await
        .map_err(|error| failed(error_chain(&error)))?;
    let discovery = Discovery::new(connection.clone());
    discovery.kinds().await.map_err(|error| failed(error_chain(&error)))?;
    Ok(Writer::new(connection, discovery))
}
