//! What `cluster list` and `cluster get` print (CLI-813).

use std::fmt::Write as _;

use tiphys_api::printable::line;
use tiphys_object::access::{text, text_at};

use super::Found;
use crate::failure::Failure;
use crate::table::Table;

/// The table of `cluster list`.
pub(super) fn table(found: &[Found]) -> String {
    let mut table = Table::new(&["SERVER", "NAME", "VERSION", "STATUS", "MESSAGE", "PROJECT"]);
    for Found { cluster, value } in found {
        let server = match cluster.namespaces.len() {
            0 => cluster.server.clone(),
            several => format!("{} ({several} namespaces)", cluster.server),
        };
        table.row(vec![
            server,
            cluster.name.clone(),
            text(value, "serverVersion").to_owned(),
            text_at(value, &["connectionState", "status"]).to_owned(),
            text_at(value, &["connectionState", "message"]).to_owned(),
            cluster.project.clone(),
        ]);
    }
    table.print()
}

/// The layout of `cluster get -o wide`.
pub(super) fn details(Found { cluster, value }: &Found) -> Result<String, Failure> {
    let config = cluster.parse_config().map_err(|error| Failure::status("FailedPrecondition", error))?;
    let or_hyphen = |text: &str| if text.is_empty() { "-".to_owned() } else { line(text).into_owned() };
    let namespaces =
        if cluster.namespaces.is_empty() { "*".to_owned() } else { cluster.namespaces.join(",") };
    let parts: [(&str, Vec<(&str, String)>); 3] = [
        (
            "Cluster information",
            vec![
                ("Server URL:", line(&cluster.server).into_owned()),
                ("Server Name:", or_hyphen(&cluster.name)),
                ("Server Version:", line(text(value, "serverVersion")).into_owned()),
                ("Namespaces:", line(&namespaces).into_owned()),
            ],
        ),
        (
            "TLS configuration",
            vec![
                ("Client cert:", (!config.tls_client_config.cert_data.is_empty()).to_string()),
                ("Cert validation:", (!config.tls_client_config.insecure).to_string()),
            ],
        ),
        (
            "Authentication",
            vec![
                ("Basic authentication:", (!config.username.is_empty()).to_string()),
                ("oAuth authentication:", (!config.bearer_token.is_empty()).to_string()),
                ("AWS authentication:", config.aws_auth_config.is_some().to_string()),
            ],
        ),
    ];
    let mut out = String::new();
    for (title, rows) in parts {
        // Writing to a string cannot fail.
        let _written = writeln!(out, "{title}\n");
        for (label, value) in rows {
            let _written = writeln!(out, "  {label:23}{value}");
        }
        out.push('\n');
    }
    let _written = writeln!(out, "Disable compression: {}\n", config.disable_compression);
    let _written = writeln!(out, "Use proxy: {}", !config.proxy_url.is_empty());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use tiphys_api::cluster::Cluster;
    use tiphys_service::cluster::{Answer, State, shown};

    use super::*;

    #[test]
    fn cli_813_a_cluster_is_shown_without_its_credentials() {
        let config = r#"{"bearerToken":"t0ken","tlsClientConfig":{"insecure":true,"certData":"Yw=="}}"#;
        let cluster = Cluster {
            server: "https://eu".into(),
            namespaces: vec!["a".into(), "b".into()],
            config: config.into(),
            ..Cluster::default()
        };
        let state = State { answer: Answer::Version("v1.36.1".into()), ..State::not_asked(1) };
        let found = Found { value: shown(&cluster, &state), cluster };
        let text = details(&found).unwrap();
        assert!(
            text.starts_with(
                "Cluster information\n\n  Server URL:            https://eu\n  Server Name:           -\n"
            ),
            "{text}"
        );
        assert!(text.contains("  Client cert:           true\n  Cert validation:       false\n"), "{text}");
        assert!(text.contains("  oAuth authentication:  true\n") && !text.contains("t0ken"), "{text}");
        assert!(text.contains("  Server Version:        v1.36.1\n"), "{text}");
        let text = table(&[found]);
        assert!(text.contains("https://eu (2 namespaces)") && text.contains("v1.36.1"), "{text}");
    }
}
