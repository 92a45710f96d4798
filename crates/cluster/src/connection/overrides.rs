//! What a command line says in place of a kubeconfig (CLI-101).

use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster};
use tiphys_api::secret::Secret;

use super::ConnectError;

/// Parts of a kubeconfig, by other words of its owner; those that are empty stay as the file has them.
///
/// Whoever gives credentials gives all of them: those of the file, a credential plugin among them, do not count beside.
#[derive(Clone, Debug, Default)]
pub struct KubeOverrides {
    /// Name of the cluster entry.
    pub cluster: String,
    /// Name of the user entry.
    pub user: String,
    /// User name of basic authentication.
    pub username: String,
    /// Its password.
    pub password: Secret<String>,
    /// Bearer token.
    pub token: Secret<String>,
    /// File with the client certificate.
    pub client_certificate: String,
    /// File with its key.
    pub client_key: String,
    /// User that requests are made as.
    pub impersonate: String,
    /// Its groups.
    pub impersonate_groups: Vec<String>,
    /// Its unique id.
    pub impersonate_uid: String,
    /// File with the authorities that vouch for the server.
    pub certificate_authority: String,
    /// Whether nobody has to.
    pub insecure_skip_tls_verify: Option<bool>,
    /// The name in its certificate.
    pub tls_server_name: String,
    /// Proxy.
    pub proxy_url: String,
}

fn filled(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

impl KubeOverrides {
    fn has_credentials(&self) -> bool {
        let texts = [&self.username, &self.client_certificate, &self.client_key];
        texts.into_iter().any(|text| !text.is_empty())
            || !self.password.expose().is_empty()
            || !self.token.expose().is_empty()
    }

    /// Puts them into a kubeconfig, for a context.
    ///
    /// # Errors
    /// When there is no user entry of the name that is given.
    pub(super) fn apply(
        &self,
        kubeconfig: &mut Kubeconfig,
        options: &mut KubeConfigOptions,
    ) -> Result<(), ConnectError> {
        let current = options.context.clone().or_else(|| kubeconfig.current_context.clone());
        let context = kubeconfig.contexts.iter().find(|named| Some(&named.name) == current.as_ref());
        let context = context.and_then(|named| named.context.as_ref());
        let cluster = filled(&self.cluster)
            .or_else(|| context.map(|context| context.cluster.clone()))
            .unwrap_or_default();
        let user = filled(&self.user).or_else(|| context.and_then(|context| context.user.clone()));
        options.cluster = filled(&self.cluster);
        options.user = filled(&self.user);
        for NamedCluster { name, cluster: entry, .. } in &mut kubeconfig.clusters {
            if *name == cluster
                && let Some(entry) = entry
            {
                self.change_cluster(entry);
            }
        }
        let known = kubeconfig.auth_infos.iter().find(|named| Some(&named.name) == user.as_ref());
        if known.is_none() && !self.user.is_empty() {
            return Err(ConnectError::User { name: self.user.clone() });
        }
        if !self.has_credentials()
            && self.impersonate.is_empty()
            && self.impersonate_groups.is_empty()
            && self.impersonate_uid.is_empty()
        {
            return Ok(());
        }
        let mut person = known.and_then(|named| named.auth_info.clone()).unwrap_or_default();
        self.change_person(&mut person);
        // Under a name of its own: entries may be shared.
        let name = "given on the command line".to_owned();
        kubeconfig.auth_infos.push(NamedAuthInfo {
            name: name.clone(),
            auth_info: Some(person),
            other: std::collections::BTreeMap::default(),
        });
        options.user = Some(name);
        Ok(())
    }

    fn change_cluster(&self, cluster: &mut Cluster) {
        if !self.certificate_authority.is_empty() {
            cluster.certificate_authority = filled(&self.certificate_authority);
            cluster.certificate_authority_data = None;
        }
        if let Some(is_insecure) = self.insecure_skip_tls_verify {
            cluster.insecure_skip_tls_verify = Some(is_insecure);
        }
        if !self.tls_server_name.is_empty() {
            cluster.tls_server_name = filled(&self.tls_server_name);
        }
        if !self.proxy_url.is_empty() {
            cluster.proxy_url = filled(&self.proxy_url);
        }
    }

    fn change_person(&self, person: &mut AuthInfo) {
        if self.has_credentials() {
            *person = AuthInfo {
                username: filled(&self.username),
                password: filled(self.password.expose()).map(Into::into),
                token: filled(self.token.expose()).map(Into::into),
                client_certificate: filled(&self.client_certificate),
                client_key: filled(&self.client_key),
                impersonate: person.impersonate.take(),
                impersonate_groups: person.impersonate_groups.take(),
                impersonate_uid: person.impersonate_uid.take(),
                impersonate_user_extra: person.impersonate_user_extra.take(),
                ..AuthInfo::default()
            };
        }
        if !self.impersonate.is_empty() {
            person.impersonate = filled(&self.impersonate);
        }
        if !self.impersonate_groups.is_empty() {
            person.impersonate_groups = Some(self.impersonate_groups.clone());
        }
        if !self.impersonate_uid.is_empty() {
            person.impersonate_uid = filled(&self.impersonate_uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r"
apiVersion: v1
kind: Config
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters:
- {name: c, cluster: {server: https://c, certificate-authority-data: Y2E=}}
- {name: d, cluster: {server: https://d}}
users:
- {name: u, user: {exec: {command: plugin, apiVersion: v1}, as: jane}}
- {name: v, user: {token: t}}
";

    async fn config(overrides: &KubeOverrides) -> kube::Config {
        let mut kubeconfig = Kubeconfig::from_yaml(FILE).unwrap();
        let mut options = KubeConfigOptions::default();
        overrides.apply(&mut kubeconfig, &mut options).unwrap();
        kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()
    }

    #[tokio::test]
    async fn cli_101_what_is_given_takes_the_place_of_the_file() {
        let plain = config(&KubeOverrides::default()).await;
        assert_eq!((plain.cluster_url.host(), plain.auth_info.exec.is_some()), (Some("c"), true));
        let given = KubeOverrides {
            cluster: "d".into(),
            token: Secret::from("other"),
            impersonate_groups: vec!["ops".into()],
            impersonate_uid: "7".into(),
            insecure_skip_tls_verify: Some(true),
            tls_server_name: "name".into(),
            ..KubeOverrides::default()
        };
        let changed = config(&given).await;
        assert_eq!(changed.cluster_url.host(), Some("d"));
        assert!(
            changed.auth_info.exec.is_none() && changed.auth_info.token.is_some(),
            "the plugin does not run"
        );
        assert_eq!(changed.auth_info.impersonate.as_deref(), Some("jane"));
        assert_eq!(changed.auth_info.impersonate_groups, Some(vec!["ops".to_owned()]));
        assert_eq!(changed.auth_info.impersonate_uid.as_deref(), Some("7"));
        assert!(changed.accept_invalid_certs);
        assert_eq!(changed.tls_server_name.as_deref(), Some("name"));
        let user = config(&KubeOverrides { user: "v".into(), ..KubeOverrides::default() }).await;
        assert!(user.auth_info.exec.is_none() && user.auth_info.token.is_some());
        let nobody = KubeOverrides { user: "nobody".into(), ..KubeOverrides::default() };
        let refused =
            nobody.apply(&mut Kubeconfig::from_yaml(FILE).unwrap(), &mut KubeConfigOptions::default());
        assert_eq!(refused.unwrap_err().to_string(), "auth info \"nobody\" does not exist");
        assert!(!format!("{given:?}").contains("other"), "no token is printed");
    }
}
