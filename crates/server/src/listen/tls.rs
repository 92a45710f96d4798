//! TLS of the port: versions, ciphers, and a certificate from PEM (API-3, API-5).

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion, version};
use tiphys_api::secret::Secret;

/// Ciphers where nothing else is set.
pub const DEFAULT_CIPHERS: &str = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";

/// What is set about TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// The oldest version.
    pub version_min: TlsVersion,
    /// The newest version.
    pub version_max: TlsVersion,
    /// Ciphers of TLS 1.2 in Go's names, with colons between.
    pub ciphers: String,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            version_min: TlsVersion::V12,
            version_max: TlsVersion::V13,
            ciphers: DEFAULT_CIPHERS.to_owned(),
        }
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// 1.2.
    V12,
    /// 1.3.
    V13,
}

impl TlsVersion {
    /// Reads `1.2` or `1.3`.
    ///
    /// # Errors
    /// When it is another version; older ones are not spoken.
    pub fn parse(text: &str) -> Result<Self, TlsError> {
        match text {
            "1.2" => Ok(Self::V12),
            "1.3" => Ok(Self::V13),
            _ => Err(TlsError::Version(text.to_owned())),
        }
    }

    /// Reads the oldest version that is allowed: whoever allows 1.0 or 1.1, too, gets 1.2, which is safer.
    ///
    /// # Errors
    /// When it is no version.
    pub fn lowest(text: &str) -> Result<Self, TlsError> {
        if ["1.0", "1.1"].contains(&text) {
            tracing::warn!(version = text, "this version of TLS is not spoken; the oldest one is 1.2");
            return Ok(Self::V12);
        }
        Self::parse(text)
    }
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No such version.
    #[error("TLS version {0:?} is not supported; 1.2 and 1.3 are")]
    Version(String),
    /// The oldest is newer than the newest.
    #[error("the minimum TLS version is above the maximum")]
    Order,
    /// No such cipher.
    #[error("TLS cipher {0:?} is not supported; these are: {names}", names = cipher_names().collect::<Vec<_>>().join(", "))]
    Cipher(String),
    /// No certificate.
    #[error("the certificate cannot be read")]
    Certificate,
    /// No key.
    #[error("the key of the certificate cannot be read")]
    Key,
    /// They do not belong together, or cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Unusable(rustls::Error),
}

/// Ciphers of TLS 1.2 in Go's names.
const CIPHERS: [(&str, SupportedCipherSuite); 6] = [
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", aws_lc_rs::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", aws_lc_rs::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        aws_lc_rs::cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// The names of ciphers that can be set.
pub fn cipher_names() -> impl Iterator<Item = &'static str> {
    CIPHERS.iter().map(|(name, _)| *name)
}

impl TlsOptions {
    /// Whether they can be used at all; asked once at the start (API-5).
    ///
    /// # Errors
    /// With what is wrong.
    pub fn check(&self) -> Result<(), TlsError> {
        self.versions()?;
        self.suites().map(drop)
    }

    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
        if self.version_min > self.version_max {
            return Err(TlsError::Order);
        }
        let all = [(TlsVersion::V13, &version::TLS13), (TlsVersion::V12, &version::TLS12)];
        let wanted = all.into_iter().filter(|(it, _)| (self.version_min..=self.version_max).contains(it));
        Ok(wanted.map(|(_, version)| version).collect())
    }

    /// The suites of both versions; which of TLS 1.3 are used is not set by anybody.
    fn suites(&self) -> Result<Vec<SupportedCipherSuite>, TlsError> {
        let mut suites: Vec<SupportedCipherSuite> = aws_lc_rs::ALL_CIPHER_SUITES
            .iter()
            .filter(|suite| suite.version().version == rustls::ProtocolVersion::TLSv1_3)
            .copied()
            .collect();
        if self.version_min > TlsVersion::V12 {
            return Ok(suites);
        }
        for name in self.ciphers.split(':').map(str::trim).filter(|name| !name.is_empty()) {
            match CIPHERS.iter().find(|(known, _)| *known == name) {
                Some((_, suite)) => suites.push(*suite),
                None => return Err(TlsError::Cipher(name.to_owned())),
            }
        }
        Ok(suites)
    }

    /// The configuration of a server with a certificate and its key, both PEM.
    ///
    /// # Errors
    /// When something of it cannot be used.
    pub fn server(&self, certificate: &str, key: &Secret<String>) -> Result<Arc<ServerConfig>, TlsError> {
        let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(TlsError::Certificate)?;
        let key =
            PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).map_err(|_unreadable| TlsError::Key)?;
        let mut provider = aws_lc_rs::default_provider();
        provider.cipher_suites = self.suites()?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&self.versions()?)
            .map_err(TlsError::Unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(TlsError::Unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
