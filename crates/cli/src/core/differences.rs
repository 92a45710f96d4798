//! What differs between desired and live objects, by one comparison for both ways (CLI-500..502).

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::Value;
use tiphys_api::Application;
use tiphys_api::application::Condition;
use tiphys_api::codes::{ConditionType, HealthCode};
use tiphys_api::names::LAST_APPLIED;
use tiphys_cluster::Scope as ClusterScope;
use tiphys_engine::app_health::{AppIdentity, AppResource, app_health};
use tiphys_engine::compare::{
    CompareInput, ComparedResource, Comparison, DiffMemo, Scope, SyncStatusCode, builtin_scope, compare,
    managed_namespace_changed,
};
use tiphys_engine::diff::{DiffOptions, DiffSettings, diff};
use tiphys_engine::health::{Health, HealthOverrides, evaluate_with};
use tiphys_engine::mask::SecretMask;
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::seen::Seen;
use tiphys_engine::tracking::Ownership;
use tiphys_object::{GroupKind, Object, ResourceKey, access};

use super::{Core, Destination, World};
use crate::failure::Failure;
use crate::scripts;

/// Objects read at a time.
const READS_MAX: usize = 16;

/// One object that differs: both sides as they are shown; null where there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Difference {
    pub(crate) key: ResourceKey,
    pub(crate) live: Value,
    pub(crate) target: Value,
}

/// What the controller would say of an application.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) status: SyncStatusCode,
    pub(crate) health: Health,
    pub(crate) conditions: Vec<Condition>,
}

/// What is compared, and how what lives is seen.
struct Sides<'a> {
    targets: &'a [Arc<Object>],
    managed: &'a [Arc<Object>],
    by_key: &'a dyn Fn(&ResourceKey) -> Seen<Arc<Object>>,
    scope: &'a dyn Fn(&GroupKind) -> Option<Scope>,
    ignore: &'a IgnoreRules,
}

impl Core {
    /// Compares rendered objects with what lives in the cluster, and gives the pairs that differ, ordered by key
    /// (CLI-501, CLI-502).
    pub(crate) async fn differences(
        &self,
        app: &Application,
        world: &World,
        targets: &[Arc<Object>],
    ) -> Result<Vec<Difference>, Failure> {
        let destination = Destination::of(app, self, world).await?;
        let ignore = ignore_rules(app, world)?;
        let managed = self.managed(app, &destination, &ignore).await?;
        let by_key = look_up(app, &destination, targets, &ignore).await;
        self.compared(
            app,
            world,
            &Sides {
                targets,
                managed: &managed,
                by_key: &|key| by_key.get(key).cloned().unwrap_or(Seen::Absent),
                scope: &|kind| scope(&destination, kind),
                ignore: &ignore,
            },
        )
    }

    /// Compares rendered objects with what lives in the cluster, and says what the controller would say of the
    /// application: its status, its health and its conditions (CLI-921).
    pub(crate) async fn verdict(
        &self,
        app: &Application,
        world: &World,
        targets: &[Arc<Object>],
    ) -> Result<Verdict, Failure> {
        let overrides = HealthOverrides::from_settings(world.settings.cm())
            .map_err(|error| Failure::generic(error.to_string()))?;
        let destination = Destination::of(app, self, world).await?;
        let ignore = ignore_rules(app, world)?;
        let managed = self.managed(app, &destination, &ignore).await?;
        let by_key = look_up(app, &destination, targets, &ignore).await;
        let sides = Sides {
            targets,
            managed: &managed,
            by_key: &|key| by_key.get(key).cloned().unwrap_or(Seen::Absent),
            scope: &|kind| scope(&destination, kind),
            ignore: &ignore,
        };
        let comparison = self.comparison(app, world, &sides)?;
        let resources: Vec<AppResource<'_>> = comparison
            .resources
            .iter()
            .map(|resource| AppResource {
                target: resource.target.as_deref(),
                live: resource.live.as_deref(),
            })
            .collect();
        let identity = AppIdentity { namespace: &app.metadata.namespace, name: &app.metadata.name };
        let scripts = scripts::runner(&app.metadata.name, &world.settings);
        let judged = app_health(&resources, identity, |live| match live.to_value() {
            Ok(value) => evaluate_with(&value, &overrides, &scripts),
            // It was read before; whoever cannot read it again knows nothing of it.
            Err(_) => Ok(Some(Health::new(HealthCode::Unknown, ""))),
        });
        let mut conditions = comparison.conditions.clone();
        conditions.extend(judged.error.map(|text| Condition::new(ConditionType::ComparisonError, text)));
        Ok(Verdict { status: comparison.status, health: judged.health, conditions })
    }

    /// The same with what a server says lives: objects of whole kinds are in a namespace where one of them is.
    pub(crate) fn differences_from(
        &self,
        app: &Application,
        world: &World,
        (targets, live): (&[Arc<Object>], &[Arc<Object>]),
    ) -> Result<Vec<Difference>, Failure> {
        let by_key: HashMap<ResourceKey, &Arc<Object>> =
            live.iter().map(|object| (object.key(), object)).collect();
        let scopes: HashMap<GroupKind, Scope> = live
            .iter()
            .map(|object| {
                let is_cluster = object.namespace().is_empty();
                let scope = if is_cluster { Scope::Cluster } else { Scope::Namespaced };
                (object.gvk().group_kind(), scope)
            })
            .collect();
        self.compared(
            app,
            world,
            &Sides {
                targets,
                managed: live,
                by_key: &|key| {
                    by_key.get(key).map_or(Seen::Absent, |object| Seen::Present(Arc::clone(object)))
                },
                scope: &|kind| scopes.get(kind).copied().or_else(|| builtin_scope(kind)),
                ignore: &ignore_rules(app, world)?,
            },
        )
    }

    fn comparison(&self, app: &Application, world: &World, sides: &Sides<'_>) -> Result<Comparison, Failure> {
        let tracking = world.tracking_of(app);
        let namespace =
            if app.metadata.namespace.is_empty() { &self.namespace } else { &app.metadata.namespace };
        let instance = tracking.instance_name(namespace, &app.metadata.name);
        let previous = world.previous_tracking_of(app, &tracking);
        let cm = world.settings.cm();
        let settings =
            DiffSettings::from_settings(cm).map_err(|error| Failure::generic(error.to_string()))?;
        let policy = app.spec.sync_policy.as_ref();
        let input = CompareInput {
            application_namespace: namespace,
            application_name: &app.metadata.name,
            destination_namespace: &app.spec.destination.namespace,
            targets: sides.targets,
            managed: sides.managed,
            by_key: sides.by_key,
            scope: sides.scope,
            excluded: &|_| false,
            permitted_live: &|_| true,
            permitted_kind: &|_| true,
            // The command line shows no warnings about shared objects.
            ownership: Ownership {
                current: &tracking,
                previous: &previous,
                instance: &instance,
                others: &(),
            },
            ignore: sides.ignore,
            diff: &settings,
            sync_options: app.sync_options(),
            managed_namespace: policy.and_then(|policy| policy.managed_namespace_metadata.as_ref()),
            managed_namespace_changed: managed_namespace_changed(app),
        };
        let comparison = compare(&input, &mut DiffMemo::default());
        match comparison.failed {
            Some(why) => Err(Failure::generic(why)),
            None => Ok(comparison),
        }
    }

    fn compared(
        &self,
        app: &Application,
        world: &World,
        sides: &Sides<'_>,
    ) -> Result<Vec<Difference>, Failure> {
        let comparison = self.comparison(app, world, sides)?;
        let cm = world.settings.cm();
        let settings =
            DiffSettings::from_settings(cm).map_err(|error| Failure::generic(error.to_string()))?;
        let tracking = world.tracking_of(app);
        let options =
            DiffOptions { ignore: sides.ignore, settings: settings.for_application(app.sync_options()) };
        let mask = SecretMask::from_settings(cm);
        let mut differences = Vec::new();
        for resource in comparison.resources.iter().filter(|resource| !resource.hook) {
            differences.extend(difference(resource, &options, &mask, &tracking.annotation_key)?);
        }
        Ok(differences)
    }

    /// The live objects that the status names, as far as they exist, with what the field managers own that the
    /// rules name.
    pub(crate) async fn managed(
        &self,
        app: &Application,
        destination: &Destination,
        ignore: &IgnoreRules,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        let reads = app.status.resources.iter().filter(|resource| !resource.hook).map(|resource| {
            let key = ResourceKey::new(&resource.group, &resource.kind, &resource.namespace, &resource.name);
            let target = Self::target_of(&key, &resource.version);
            let managers = ignore.managers_of(&target.gvk, &key.namespace, &key.name);
            async move { destination.read(&target, &managers).await }
        });
        let read: Vec<_> = futures::stream::iter(reads).buffered(READS_MAX).collect().await;
        let mut objects = Vec::with_capacity(read.len());
        for result in read {
            objects.extend(result?);
        }
        Ok(objects)
    }
}

fn ignore_rules(app: &Application, world: &World) -> Result<IgnoreRules, Failure> {
    let scripts = scripts::runner(&app.metadata.name, &world.settings);
    IgnoreRules::compile_with(&app.spec.ignore_differences, world.settings.cm(), scripts)
        .map_err(|error| Failure::generic(error.to_string()))
}

fn scope(destination: &Destination, kind: &GroupKind) -> Option<Scope> {
    destination.kinds.scope(kind).map(|scope| match scope {
        ClusterScope::Namespaced => Scope::Namespaced,
        ClusterScope::Cluster => Scope::Cluster,
    })
}

/// Reads the live object of each desired one.
async fn look_up(
    app: &Application,
    destination: &Destination,
    targets: &[Arc<Object>],
    ignore: &IgnoreRules,
) -> HashMap<ResourceKey, Seen<Arc<Object>>> {
    let looks = targets.iter().map(|object| {
        let key = match scope(destination, &object.gvk().group_kind()) {
            Some(Scope::Cluster) => object.key().in_namespace(""),
            _ if object.namespace().is_empty() => object.key().in_namespace(&app.spec.destination.namespace),
            _ => object.key(),
        };
        let version = object.gvk().version.clone();
        let managers = ignore.managers_of(object.gvk(), &key.namespace, &key.name);
        async move { (key.clone(), destination.look(&key, &version, &managers).await) }
    });
    futures::stream::iter(looks).buffered(READS_MAX).collect().await
}

fn difference(
    resource: &ComparedResource,
    options: &DiffOptions<'_>,
    mask: &SecretMask,
    mark: &str,
) -> Result<Option<Difference>, Failure> {
    let is_pair = resource.target.is_some() && resource.live.is_some();
    if is_pair && !resource.modified || resource.status.is_none() && !is_pair {
        return Ok(None);
    }
    let target = resource.target.as_deref().map(super::value_of).transpose()?;
    let live = resource.live.as_deref().map(super::value_of).transpose()?;
    let result = diff(target.as_ref(), live.as_ref(), options)
        .map_err(|error| Failure::generic(format!("{}: {error}", resource.key)))?;
    let (mut live, mut target) = (result.normalized_live, result.predicted_live);
    mask.hide(&mut [&mut target, &mut live])
        .map_err(|error| Failure::generic(format!("{}: {error}", resource.key)))?;
    // Beside the objects themselves these tell nothing. A pair that differs in its mark alone keeps it.
    let mut bare = (live.clone(), target.clone());
    // A side that is missing stays empty (CLI-501).
    for side in [&mut bare.0, &mut bare.1].into_iter().filter(|side| side.is_object()) {
        access::remove_annotation(side, LAST_APPLIED);
        access::remove_annotation(side, mark);
        access::metadata_mut(side).remove("managedFields");
    }
    if bare.0 != bare.1 {
        (live, target) = bare;
    }
    Ok(Some(Difference { key: resource.key.clone(), live, target }))
}
