//! Which certificates are trusted (REP-80).

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::sync::OnceCell;

use super::HttpError;
use super::direct::Roots;

/// Bytes of a file with trusted roots.
const ROOTS_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The settings of TLS by trusted roots.
#[derive(Debug, Default)]
pub(crate) struct Configurations {
    /// Reading the roots of the system takes milliseconds; they change with the image only.
    system: OnceCell<ClientConfig>,
}

impl Configurations {
    pub(crate) async fn of(&self, roots: &Roots) -> Result<ClientConfig, HttpError> {
        match roots {
            Roots::System => self.system.get_or_try_init(system).await.cloned(),
            Roots::Anybody => {
                let provider = Arc::new(aws_lc_rs::default_provider());
                let mut configuration = trusting(RootCertStore::empty())?;
                configuration.dangerous().set_certificate_verifier(Arc::new(Anybody(provider)));
                Ok(configuration)
            }
            Roots::Pem(pem) => trusting_pem(pem.as_bytes()),
            Roots::File(path) => {
                let unreadable = |_error| HttpError::Unusual("the trusted roots cannot be read".to_owned());
                let length = tokio::fs::metadata(path).await.map_err(unreadable)?.len();
                if length > ROOTS_BYTES_MAX {
                    return Err(HttpError::Unusual("the file of trusted roots is too large".to_owned()));
                }
                trusting_pem(&tokio::fs::read(path).await.map_err(unreadable)?)
            }
        }
    }

    /// Settings for connections without TLS.
    pub(super) fn none() -> Result<ClientConfig, HttpError> {
        trusting(RootCertStore::empty())
    }
}

/// The same settings for a client that shows a certificate (REP-71).
pub(crate) fn with_identity(
    configuration: ClientConfig,
    certificate: &str,
    key: &str,
) -> Result<ClientConfig, HttpError> {
    let invalid = |_error| HttpError::Unusual("the client certificate or its key is not valid".to_owned());
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>().map_err(invalid)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(invalid)?;
    let unusable = |_error| HttpError::Unusual("the client certificate does not fit its key".to_owned());
    let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).map_err(unusable)?;
    let mut with = configuration;
    with.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
    Ok(with)
}

async fn system() -> Result<ClientConfig, HttpError> {
    let failed = |_panic| HttpError::Unusual("the roots of the system cannot be read".to_owned());
    let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await.map_err(failed)?;
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        return Err(HttpError::Unusual("the system trusts nobody".to_owned()));
    }
    trusting(store)
}

fn trusting_pem(pem: &[u8]) -> Result<ClientConfig, HttpError> {
    let invalid = || HttpError::Unusual("the trusted roots are not valid".to_owned());
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        store.add(certificate.map_err(|_error| invalid())?).map_err(|_error| invalid())?;
    }
    if store.is_empty() { Err(invalid()) } else { trusting(store) }
}

fn trusting(store: RootCertStore) -> Result<ClientConfig, HttpError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|_error| HttpError::Unusual("TLS cannot be set up".to_owned()))?;
    Ok(builder.with_root_certificates(store).with_no_client_auth())
}

/// Accepts every certificate, for repositories whose servers nobody wants to be checked. Whoever shows one must
/// still have its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
