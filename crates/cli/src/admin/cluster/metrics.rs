//! What the controller tells of clusters in its metrics (CTL-120): the place where Argo CD's controller uses Redis.

use std::collections::BTreeMap;

use smol_str::SmolStr;
use tiphys_api::cluster::ClusterKey;

use crate::core::Core;
use crate::failure::Failure;
use crate::forward;
use crate::remote;
use crate::session::Session;

/// The port of the controller's metrics in its pod.
const PORT: u16 = 8082;

/// What is known of clusters, by their identity. Clusters that nobody deploys to are not watched, and not in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Objects that are watched.
    pub(super) objects: BTreeMap<ClusterKey, u64>,
    connected: BTreeMap<ClusterKey, bool>,
}

impl Known {
    /// The state of the connection, in the words of the API.
    pub(super) fn connection(&self, cluster: &ClusterKey) -> &'static str {
        match self.connected.get(cluster) {
            Some(true) => "Successful",
            Some(false) => "Failed",
            None => "Unknown",
        }
    }

    fn parse(text: &str) -> Self {
        let mut known = Self::default();
        for line in text.lines() {
            let Some((name, labels, value)) = sample(line) else { continue };
            let label = |wanted: &str| {
                labels.iter().find(|(name, _)| name == wanted).map(|(_, text)| SmolStr::new(text))
            };
            let Some(server) = label("server") else { continue };
            // What belongs to no project has no such label.
            let cluster = ClusterKey { server, project: label("project").unwrap_or_default() };
            match name {
                "argocd_cluster_api_resource_objects" => {
                    known.objects.insert(cluster, value.parse().unwrap_or_default());
                }
                "argocd_cluster_connection_status" => {
                    known.connected.insert(cluster, value != "0");
                }
                _ => {}
            }
        }
        known
    }
}

/// Asks the controller.
pub(super) async fn read(session: &Session<'_>, core: &Core) -> Result<Known, Failure> {
    let given = session.flags.text("metrics");
    let url = if given.is_empty() {
        if !session.flags.is_on("port-forward-redis") {
            return Err(Failure::generic("without a port-forward, say where the metrics are with --metrics"));
        }
        let name = session.flags.text("controller-name");
        let port = forward::open_to(core.connection()?.clone(), &core.namespace, name, PORT).await;
        let port = port.map_err(|failure| {
            failure.hint(
                "is the controller running there? name the address of its metrics with --metrics HOST:PORT",
            )
        })?;
        format!("http://127.0.0.1:{port}/metrics")
    } else if given.contains("://") {
        given.to_owned()
    } else {
        format!("http://{given}/metrics")
    };
    let text = remote::read_directly(&url).await?;
    Ok(Known::parse(&text))
}

/// Name, labels and value of a line of the text format.
type Sample<'t> = (&'t str, Vec<(String, String)>, &'t str);

/// Reads a line; `None` where it is none with labels.
fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (name, mut rest) = line.split_once('{')?;
    let mut labels = Vec::new();
    while let Some((label, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, letter) => value.push(letter),
            }
        };
        labels.push((label.trim_start_matches(',').to_owned(), value));
        rest = after.get(end + 1..)?;
        if let Some(value) = rest.strip_prefix('}') {
            // A time may follow.
            return Some((name, labels, value.split_whitespace().next()?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_923_metrics_are_read_by_server() {
        let text = "# HELP argocd_cluster_api_resource_objects Number\n\
                    argocd_cluster_api_resource_objects{server=\"https://a\"} 12\n\
                    argocd_cluster_api_resource_objects{server=\"https://b\\\"}\"} 3 1700000000\n\
                    argocd_cluster_connection_status{server=\"https://a\",k8s_version=\"1.34\"} 1\n\
                    argocd_cluster_connection_status{k8s_version=\"\",project=\"red\",server=\"https://a\"} 0\n\
                    argocd_cluster_connection_status{k8s_version=\"\",server=\"https://c\"} 0\n\
                    other 1\nargocd_cluster_api_resource_objects{server=\"broken\n";
        let known = Known::parse(text);
        assert_eq!(
            known.objects,
            BTreeMap::from([(ClusterKey::shared("https://a"), 12), (ClusterKey::shared("https://b\"}"), 3)])
        );
        assert_eq!(
            ["https://a", "https://b", "https://c"]
                .map(|server| known.connection(&ClusterKey::shared(server))),
            ["Successful", "Unknown", "Failed"]
        );
        let of_project = ClusterKey { project: "red".into(), ..ClusterKey::shared("https://a") };
        assert_eq!(known.connection(&of_project), "Failed", "another entry of the same server");
    }
}
