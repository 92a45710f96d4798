//! Reads Secrets and `ConfigMaps` that generators name. Nothing else in this crate reads them, so that none is used
//! before [`tiphys_appset::references`] has decided about it.

use tiphys_api::names;
use tiphys_appset::facts::Access;
use tiphys_appset::generate::TokenReference;
use tiphys_appset::references::{Found, Namespaces, Purpose, Reference, project_of};

use crate::services::{Referenced, References};

/// Reads an object for a set.
///
/// # Errors
/// When it cannot be read, or must not be used; a missing object gets the text of one that must not be used.
pub(crate) async fn read(
    objects: &dyn References,
    access: &Access,
    reference: &Reference,
) -> Result<Referenced, String> {
    if let Some(refusal) = access.refusal(reference, Found::Unread) {
        return Err(refusal);
    }
    let Reference { namespace, name, .. } = reference;
    let found = if reference.purpose.is_secret() {
        objects.secret(namespace, name).await?
    } else {
        objects.config_map(namespace, name).await?
    };
    let facts = found
        .as_ref()
        .map_or(Found::Missing, |object| Found::Object { labels: &object.labels, data: &object.data });
    match (access.refusal(reference, facts), found) {
        (None, Some(object)) => Ok(object),
        (refusal, _) => Err(refusal.unwrap_or_else(|| reference.to_string())),
    }
}

/// The `ConfigMap` of a plugin.
///
/// # Errors
/// As [`read`].
pub(crate) async fn plugin(
    objects: &dyn References,
    access: &Access,
    (namespace, name): (&str, &str),
) -> Result<Referenced, String> {
    read(objects, access, &of_control_plane(Purpose::PluginConfig, namespace, name)).await
}

/// The `ConfigMap` that describes decision resources.
///
/// # Errors
/// As [`read`].
pub(crate) async fn decision(
    objects: &dyn References,
    access: &Access,
    (namespace, name): (&str, &str),
) -> Result<Referenced, String> {
    read(objects, access, &of_control_plane(Purpose::DecisionConfig, namespace, name)).await
}

/// The token of a plugin, named by its `ConfigMap`.
///
/// # Errors
/// As [`read`], and when the Secret does not have the key.
pub(crate) async fn plugin_token(
    objects: &dyn References,
    access: &Access,
    (namespace, config, token): (&str, &Referenced, &TokenReference),
) -> Result<String, String> {
    let (secret, key) = match token {
        TokenReference::Own { key } => (names::SECRET, key),
        TokenReference::Of { secret, key } => (secret.as_str(), key),
    };
    let found = if secret == names::SECRET {
        if let Some(refusal) = access.own_key_refusal(key, project_of(&config.data)) {
            return Err(refusal);
        }
        objects.secret(namespace, secret).await?.unwrap_or_default()
    } else {
        read(objects, access, &of_control_plane(Purpose::PluginToken, namespace, secret)).await?
    };
    let value = found.data.get(key).map(|token| token.trim().to_owned());
    // The user of a plugin need not see where its token is.
    value.ok_or_else(|| "the Secret of the plugin does not have the key that its ConfigMap names".to_owned())
}

fn of_control_plane(purpose: Purpose, namespace: &str, name: &str) -> Reference {
    Reference::new(purpose, &Namespaces { set: namespace, control_plane: namespace }, name, "")
}
