//! Ends of projects: the finalizer of a project that is being deleted goes when no application uses it (REP-123).

use std::sync::Arc;

use tiphys_api::{AppProject, names};
use tiphys_cluster::Target;
use tiphys_policy::permit::{Own, Permit};
use tiphys_policy::project::{namespace_enabled, namespace_permitted};

use crate::app_key::AppKey;
use crate::context::Context;
use crate::control_plane::project_gvk;
use crate::world::World;

/// Whether a project waits for somebody to say that nobody uses it.
fn is_ending(project: &AppProject) -> bool {
    let metadata = &project.metadata;
    metadata.deletion_timestamp.is_some()
        && metadata.finalizers.iter().any(|name| name == names::finalizer::CASCADE)
}

/// Whether an application that may use the project names it.
fn is_used(context: &Context, world: &World, project: &AppProject) -> bool {
    let may_use = |key: &AppKey| {
        namespace_enabled(&world.settings, &key.namespace, &context.namespace)
            && namespace_permitted(project, &key.name, &key.namespace, &context.namespace).permitted
    };
    context.store.by_project(project.name()).iter().any(may_use)
}

/// Lets go of the projects that are being deleted and that nobody uses; called whenever a project or the set of
/// applications changed. Nothing is let go of before all applications are known and can be read (law 3).
pub(crate) async fn release(context: &Context) {
    if context.read_only || !context.store.is_listed() || context.store.holds_any() {
        return;
    }
    let world = context.world.load_full();
    let unused: Vec<Arc<AppProject>> = world
        .projects
        .values()
        .filter(|project| is_ending(project) && !is_used(context, &world, project))
        .cloned()
        .collect();
    for project in unused {
        let target = Target::new(project_gvk(), &context.namespace, project.name());
        let permit = Permit::own(Own::Project, &context.namespace, project.name());
        match context.home.remove_finalizer(&permit, &target, names::finalizer::CASCADE).await {
            Ok(true) => tracing::info!(project = project.name(), "the project is not used any more and goes"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(project = project.name(), %error, "the project's finalizer cannot be removed");
            }
        }
    }
}
