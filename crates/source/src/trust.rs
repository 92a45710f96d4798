//! Who vouches for servers, and which may be asked, as the installation says at this moment (REP-80, REP-81).

use std::borrow::Cow;
use std::sync::Arc;

use tiphys_api::names::TLS_CERTS_CONFIG_MAP;
use tiphys_api::trust::TlsCertificates;

use crate::repository::Transport;
use crate::{Repository, SourceError};

/// Certificates and host keys of an installation. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Certificates by host.
    pub tls: Arc<TlsCertificates>,
    /// Text of the known hosts; `None` means the file that the options name.
    pub known_hosts: Option<Arc<str>>,
    /// Whether what a source names may be on this machine and its network link; repositories that the project's rules
    /// permit may always be.
    pub local_addresses: bool,
}

impl Trust {
    /// A repository together with what vouches for its server now. What is asked, and what is remembered of the
    /// answer, depends on both.
    ///
    /// # Errors
    /// When the entry of its host cannot be read: then nobody vouches for it.
    pub(crate) fn apply<'a>(&self, repository: &'a Repository) -> Result<Cow<'a, Repository>, SourceError> {
        if repository.insecure {
            return Ok(Cow::Borrowed(repository));
        }
        match repository.transport()? {
            Transport::Ssh => Ok(match &self.known_hosts {
                Some(known) => {
                    Cow::Owned(Repository { known_hosts: Some(Arc::clone(known)), ..repository.clone() })
                }
                None => Cow::Borrowed(repository),
            }),
            Transport::Http if repository.tls.roots.is_empty() => {
                let host = repository.host();
                let Some(entry) = self.tls.of(&host) else { return Ok(Cow::Borrowed(repository)) };
                let roots = entry.map_err(|why| Self::unreadable(&host, why))?;
                let mut with_roots = repository.clone();
                with_roots.tls.roots = Arc::clone(roots);
                Ok(Cow::Owned(with_roots))
            }
            Transport::Http | Transport::Git | Transport::Local => Ok(Cow::Borrowed(repository)),
        }
    }

    /// The entry of a host cannot be read, so nobody vouches for it.
    pub(crate) fn unreadable(host: &str, why: impl std::fmt::Display) -> SourceError {
        SourceError::InvalidRepository {
            text: format!(
                "the certificates for host {host:?} in ConfigMap {TLS_CERTS_CONFIG_MAP} cannot be read: {why}; \
                 replace the entry with `cert add-tls {host} --upsert`, or remove it with `cert rm {host}`"
            ),
        }
    }
}
