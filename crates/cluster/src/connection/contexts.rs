//! What a kubeconfig says about the clusters it knows.

use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use kube::config::{Kubeconfig, KubeconfigError};

use super::ConnectError;

/// Bytes of a file with authorities.
const CA_BYTES_MAX: u64 = 1 << 20;

/// A context, with what it says about its server. Nothing here is a credential.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeContext {
    /// Its name.
    pub name: String,
    /// Name of the cluster it leads to.
    pub cluster: String,
    /// URL of the API server.
    pub server: String,
    /// Whether it is the one in use.
    pub is_current: bool,
    /// Whether the server's certificate is not verified.
    pub insecure: bool,
    /// Name in the server's certificate.
    pub server_name: String,
    /// Authorities, base64 of PEM.
    pub ca_data: String,
    /// Proxy.
    pub proxy_url: String,
}

/// All contexts of a kubeconfig, by name; without a path the usual places are searched.
///
/// # Errors
/// When the kubeconfig, or a file with authorities that it names, cannot be read.
pub fn contexts(path: Option<&Path>) -> Result<Vec<KubeContext>, ConnectError> {
    let read = match path {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let read = read.map_err(|error| ConnectError::Kubeconfig(Box::new(error)))?;
    let mut found = Vec::with_capacity(read.contexts.len());
    for named in &read.contexts {
        let Some(context) = &named.context else { continue };
        let cluster = read.clusters.iter().find(|cluster| cluster.name == context.cluster);
        let cluster = cluster.and_then(|cluster| cluster.cluster.clone()).unwrap_or_default();
        let ca_data = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
            (Some(data), _) if !data.is_empty() => data.clone(),
            (_, Some(file)) if !file.is_empty() => read_authorities(file)?,
            _ => String::new(),
        };
        found.push(KubeContext {
            name: named.name.clone(),
            cluster: context.cluster.clone(),
            server: cluster.server.unwrap_or_default(),
            is_current: read.current_context.as_ref() == Some(&named.name),
            insecure: cluster.insecure_skip_tls_verify.unwrap_or(false),
            server_name: cluster.tls_server_name.unwrap_or_default(),
            ca_data,
            proxy_url: cluster.proxy_url.unwrap_or_default(),
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn read_authorities(file: &str) -> Result<String, ConnectError> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|opened| opened.take(CA_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| {
        ConnectError::Kubeconfig(Box::new(KubeconfigError::ReadConfig(error, Path::new(file).to_owned())))
    })?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_811_contexts_say_where_they_lead() {
        let directory = tempfile::tempdir().unwrap();
        let (path, authorities) = (directory.path().join("config"), directory.path().join("ca"));
        std::fs::write(&authorities, "PEM").unwrap();
        let text = format!(
            "current-context: b\ncontexts:\n- name: b\n  context: {{cluster: two, user: u}}\n\
             - name: a\n  context: {{cluster: one, user: u}}\nclusters:\n\
             - name: one\n  cluster: {{server: 'https://one', certificate-authority: {}}}\n\
             - name: two\n  cluster: {{server: 'https://two', certificate-authority-data: Y2E=, tls-server-name: n, proxy-url: 'http://p'}}\n",
            authorities.display()
        );
        std::fs::write(&path, text).unwrap();
        let found = contexts(Some(&path)).unwrap();
        let names: Vec<_> =
            found.iter().map(|it| (it.name.as_str(), it.server.as_str(), it.is_current)).collect();
        assert_eq!(names, [("a", "https://one", false), ("b", "https://two", true)]);
        assert_eq!((found[0].ca_data.as_str(), found[1].ca_data.as_str()), ("UEVN", "Y2E="));
        assert_eq!((found[1].server_name.as_str(), found[1].proxy_url.as_str()), ("n", "http://p"));
        assert!(contexts(Some(&directory.path().join("none"))).is_err());
    }
}
