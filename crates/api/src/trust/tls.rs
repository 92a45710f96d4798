//! The certificates that vouch for servers, by host (REP-80).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::pem::{PemError, certificates};

/// What `argocd-tls-certs-cm` says. A host with an entry is vouched for by nobody else; an entry that cannot be read
/// counts for its host, which then is not spoken to, and for no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsCertificates(BTreeMap<String, Result<Arc<str>, String>>);

impl TlsCertificates {
    /// Reads the data of the `ConfigMap`.
    pub fn read(data: &BTreeMap<String, String>) -> Self {
        let read = |text: &str| match readable(text) {
            Ok(pem) => Ok(pem.into()),
            Err(error) => Err(error.to_string()),
        };
        Self(data.iter().map(|(host, text)| (host.to_ascii_lowercase(), read(text))).collect())
    }

    /// The only certificates that vouch for a host, as PEM; `None` when those of the system do.
    ///
    /// # Errors
    /// With what is wrong with the entry of the host.
    pub fn of(&self, host: &str) -> Option<Result<&Arc<str>, &str>> {
        self.0.get(host).map(|entry| entry.as_ref().map_err(String::as_str))
    }

    /// Hosts whose entries cannot be read, with the reasons.
    pub fn problems(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|(host, entry)| Some((host.as_str(), entry.as_ref().err()?.as_str())))
    }
}

/// The certificates of an entry alone, each of which can be decoded.
fn readable(text: &str) -> Result<String, PemError> {
    let mut pem = String::new();
    for (at, found) in certificates(text)?.into_iter().enumerate() {
        found.certificate().map_err(|error| PemError::Content(at + 1, error))?;
        pem.push_str(&found.text());
    }
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use super::super::pem::tests::ECDSA;
    use super::*;

    #[test]
    fn rep_80_a_bad_entry_counts_for_its_host_alone() {
        let entry = |host: &str, text: &str| (host.to_owned(), text.to_owned());
        let found = TlsCertificates::read(&BTreeMap::from([
            entry("Git.acme.test", &format!("# ours\n{ECDSA}")),
            entry("empty.test", ""),
            entry("half.test", ECDSA.trim_end().strip_suffix("-----END CERTIFICATE-----").unwrap()),
            entry("other.test", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ]));
        assert_eq!(found.of("git.acme.test").unwrap().unwrap().as_ref(), ECDSA);
        assert_eq!(found.of("unknown.test"), None);
        let problems: Vec<_> = found.problems().collect();
        assert_eq!(
            problems,
            [
                ("empty.test", "no valid PEM data received"),
                ("half.test", "certificate 1 has no line \"-----END CERTIFICATE-----\""),
                ("other.test", "certificate 1: the data is no X.509 certificate"),
            ]
        );
    }
}
