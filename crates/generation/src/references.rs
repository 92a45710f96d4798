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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Objects;

    const PART: [(&str, &str); 1] = [("app.kubernetes.io/part-of", "argocd")];

    fn red() -> Access {
        Access { project: "red".to_owned(), registered_only: false }
    }

    async fn token_of(objects: &Objects, access: &Access, plugin_name: &str) -> Result<String, String> {
        let config = plugin(objects, access, ("argocd", plugin_name)).await?;
        let token = config.data.get("token").cloned().unwrap_or_default();
        let token = match token.trim_start_matches('$').split_once(':') {
            Some((secret, key)) => TokenReference::Of { secret: secret.to_owned(), key: key.to_owned() },
            None => TokenReference::Own { key: token.trim_start_matches('$').to_owned() },
        };
        plugin_token(objects, access, ("argocd", &config, &token)).await
    }

    #[tokio::test]
    async fn sec_plugins_and_their_tokens_are_of_the_project() {
        let base = ("baseUrl", "http://h");
        let objects = Objects::default()
            .with("shared", &[], &[base, ("token", "$shared-token:t")])
            .with("ours", &[], &[base, ("token", "$our-token:t"), ("project", "red")])
            .with("theirs", &[], &[base, ("token", "$their-token:t"), ("project", "blue")])
            .with("takes-theirs", &[], &[base, ("token", "$their-token:t"), ("project", "red")])
            .with("takes-cluster", &[], &[base, ("token", "$cluster:t")])
            .with("takes-key", &[], &[base, ("token", "$server.secretkey")])
            .with("takes-key-too", &[], &[base, ("token", "$argocd-secret:server.secretkey")])
            .with("takes-plugin-key", &[], &[base, ("token", "$plugin.t")])
            .with("ours-takes-plugin-key", &[], &[base, ("token", "$plugin.t"), ("project", "red")])
            .with("shared-token", &PART, &[("t", "1 ")])
            .with("our-token", &PART, &[("t", "2"), ("project", "red")])
            .with("their-token", &PART, &[("t", "3"), ("project", "blue")])
            .with("cluster", &[("argocd.argoproj.io/secret-type", "cluster"), PART[0]], &[("t", "4")])
            .with("argocd-secret", &PART, &[("server.secretkey", "5"), ("plugin.t", "6")]);
        let unscoped = Access::default();
        for (name, of_red, of_none) in [
            ("shared", Some("1"), Some("1")),
            ("ours", Some("2"), None),
            ("theirs", None, None),
            ("takes-theirs", None, None),
            ("takes-cluster", None, None),
            ("takes-key", None, None),
            ("takes-key-too", None, None),
            ("takes-plugin-key", Some("6"), Some("6")),
            ("ours-takes-plugin-key", None, None),
            ("argocd-secret", None, None),
            ("missing", None, None),
        ] {
            assert_eq!(token_of(&objects, &red(), name).await.ok().as_deref(), of_red, "{name}");
            assert_eq!(token_of(&objects, &unscoped, name).await.ok().as_deref(), of_none, "{name}");
        }
        // SEC-26: a plugin of another project, something else and nothing look alike.
        let text = async |name: &str| {
            let error = plugin(&objects, &red(), ("argocd", name)).await.unwrap_err();
            error.replace(name, "NAME")
        };
        let missing = text("missing").await;
        assert_eq!((text("theirs").await, text("their-token").await), (missing.clone(), missing));
    }

    #[tokio::test]
    async fn sec_decisions_are_described_by_the_project() {
        let data = [("apiVersion", "g/v1"), ("kind", "placements")];
        let of = |project| [data[0], data[1], ("project", project)];
        let objects = Objects::default()
            .with("shared", &[], &data)
            .with("ours", &[], &of("red"))
            .with("theirs", &[], &of("blue"))
            .with("argocd-cm", &[], &data)
            .with("other", &[], &[("a", "b")]);
        for (name, of_red, of_none) in [
            ("shared", true, true),
            ("ours", true, false),
            ("theirs", false, false),
            ("argocd-cm", false, false),
            ("other", false, false),
            ("missing", false, false),
        ] {
            assert_eq!(decision(&objects, &red(), ("argocd", name)).await.is_ok(), of_red, "{name}");
            assert_eq!(
                decision(&objects, &Access::default(), ("argocd", name)).await.is_ok(),
                of_none,
                "{name}"
            );
        }
    }
}
