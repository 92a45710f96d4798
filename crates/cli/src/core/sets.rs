//! `ApplicationSet`s, read, written and followed: straight in Kubernetes, or by way of a server.

use std::sync::Arc;

use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_api::names::{GROUP, VERSION};
use tiphys_cluster::{DeleteOptions, Deleted, ObjectEvent, Propagation, Target};
use tiphys_object::{Gvk, Object, access};
use tiphys_policy::permit::{Own, Permit};

use super::{ATTEMPTS_MAX, AppName, Core, value_of};
use crate::failure::Failure;

/// A set as it was read: typed, and whole.
#[derive(Clone, Debug)]
pub(crate) struct StoredSet {
    pub(crate) set: ApplicationSet,
    pub(crate) object: Arc<Object>,
}

impl StoredSet {
    pub(super) fn new(object: Arc<Object>) -> Result<Self, Failure> {
        let set = serde_json::from_slice(&object.raw()).map_err(|error| {
            Failure::generic(format!("ApplicationSet {} cannot be read: {error}", object.name()))
        })?;
        Ok(Self { set, object })
    }

    /// A set as it would be stored.
    pub(crate) fn of(value: &Value) -> Result<Self, Failure> {
        let object = Object::from_value(value).map_err(|error| Failure::generic(error.to_string()))?;
        Self::new(Arc::new(object))
    }

    /// The set as the API shows it.
    pub(crate) fn value(&self) -> Result<Value, Failure> {
        value_of(&self.object).map(crate::output::as_api)
    }

    /// Its identity.
    pub(crate) fn name(&self) -> AppName {
        AppName { namespace: self.object.namespace().to_owned(), name: self.object.name().to_owned() }
    }
}

impl Core {
    /// Reads a set that may not exist.
    pub(crate) async fn find_set(&self, name: &AppName) -> Result<Option<StoredSet>, Failure> {
        if let Some(server) = self.server() {
            return server.find_set(name).await;
        }
        self.kubernetes()?.writer.get(&target(name)).await?.map(StoredSet::new).transpose()
    }

    /// Reads a set.
    pub(crate) async fn application_set(&self, name: &AppName) -> Result<StoredSet, Failure> {
        self.find_set(name).await?.ok_or_else(|| not_found(name))
    }

    /// Reads all sets of a namespace (all namespaces when empty) that match a label selector, by name.
    pub(crate) async fn application_sets(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<StoredSet>, Failure> {
        let mut sets = if let Some(server) = self.server() {
            server.application_sets(namespace, selector).await?
        } else {
            let objects = self.list(&gvk(), namespace, selector).await?;
            objects.into_iter().map(StoredSet::new).collect::<Result<Vec<_>, _>>()?
        };
        sets.sort_by_key(StoredSet::name);
        Ok(sets)
    }

    /// Creates a set.
    pub(crate) async fn create_set(&self, desired: &Value) -> Result<StoredSet, Failure> {
        let permit = Permit::own(Own::ApplicationSet, access::namespace(desired), access::name(desired));
        StoredSet::new(self.kubernetes()?.writer.create(&permit, desired).await?)
    }

    /// Reads a set, changes it and writes it back, again when somebody else was faster (ASET-301).
    pub(crate) async fn change_set(
        &self,
        name: &AppName,
        edit: impl Fn(&StoredSet) -> Result<Option<Value>, Failure>,
    ) -> Result<StoredSet, Failure> {
        let mut attempt = 1;
        loop {
            let stored = self.application_set(name).await?;
            let Some(value) = edit(&stored)? else { return Ok(stored) };
            match self.kubernetes()?.writer.update(&permit(name), &value).await {
                Ok(object) => return StoredSet::new(object),
                Err(error) if error.is_conflict() && attempt < ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes a set; its finalizers and the garbage collector decide about its Applications (ASET-240). Answers with
    /// the uid that it had.
    pub(crate) async fn delete_set(&self, name: &AppName) -> Result<String, Failure> {
        if let Some(server) = self.server() {
            return server.delete_set(name).await;
        }
        let uid = self.application_set(name).await?.set.metadata.uid;
        let options = DeleteOptions {
            propagation: Propagation::Background,
            uid: Some(uid.as_str().into()),
            ..DeleteOptions::default()
        };
        match self.kubernetes()?.writer.delete(&permit(name), &target(name), &options).await? {
            Deleted::Accepted => Ok(uid),
            Deleted::Absent => Err(not_found(name)),
        }
    }

    /// Follows a set until it is as wanted. `look` is told each state, `None` when it is gone.
    pub(crate) async fn follow_set<T>(
        &self,
        name: &AppName,
        mut look: impl AsyncFnMut(Option<&StoredSet>) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        if let Some(server) = self.server() {
            let mut stream = server.follow_set(name);
            loop {
                let now = stream.next().await?.map(super::remote_sets::stored).transpose()?;
                if let Some(done) = look(now.as_ref()).await? {
                    return Ok(done);
                }
            }
        }
        let selector = format!("metadata.name={}", name.name);
        let (mut events, _guard) = self.watch(&gvk(), &name.namespace, "", &selector).await?;
        let mut was_there = false;
        loop {
            let now = match events.recv().await {
                Some(ObjectEvent::Upsert(received)) => {
                    was_there = true;
                    let object = received.read().map_err(|bad| Failure::generic(bad.to_string()))?;
                    Some(StoredSet::new(object)?)
                }
                Some(ObjectEvent::Delete(_)) => None,
                Some(ObjectEvent::Synced) if !was_there => None,
                // The watch goes on by itself once the cluster answers again.
                Some(ObjectEvent::Synced | ObjectEvent::Failed(_)) => continue,
                None => return Err(Failure::generic("the watch of the ApplicationSet ended")),
            };
            if let Some(done) = look(now.as_ref()).await? {
                return Ok(done);
            }
        }
    }
}

fn gvk() -> Gvk {
    Gvk::new(GROUP, VERSION, "ApplicationSet")
}

fn target(name: &AppName) -> Target {
    Target::new(gvk(), &name.namespace, &name.name)
}

fn permit(name: &AppName) -> Permit {
    Permit::own(Own::ApplicationSet, &name.namespace, &name.name)
}

fn not_found(name: &AppName) -> Failure {
    Failure::status("NotFound", format!("applicationsets.{GROUP} \"{}\" not found", name.name)).hint(format!(
        "look in another namespace than {:?} with `-N NAMESPACE`, or see `appset list`",
        name.namespace
    ))
}
