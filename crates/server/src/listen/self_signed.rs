//! A certificate for a port that nobody made one for (API-4).

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
    PKCS_RSA_SHA256, RsaKeySize,
};
use tiphys_api::secret::Secret;
use tiphys_service::port_certificate::Pair;

/// Days that it is valid.
const DAYS: i32 = 365;

/// Makes a certificate of 2048 bits of RSA that vouches for itself, valid for 365 days from today on (UTC), for the names
/// that Argo CD's Service has in a namespace. Takes a tenth of a second.
///
/// # Errors
/// When the system gives no randomness, or the clock is out of range.
pub(crate) fn self_signed(namespace: &str, now: Timestamp) -> Result<Pair, String> {
    let mut names = vec!["localhost".to_owned(), "argocd-server".to_owned()];
    names.extend(["", ".svc", ".svc.cluster.local"].map(|rest| format!("argocd-server.{namespace}{rest}")));
    let failed = |error: rcgen::Error| error.to_string();
    let mut params = CertificateParams::new(names).map_err(failed)?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, "Argo CD");
    params.distinguished_name = subject;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = now.to_zoned(TimeZone::UTC).date();
    let last = today.checked_add(DAYS.days()).map_err(|error| error.to_string())?;
    let day = |date: Date| {
        let (month, day) = (u8::try_from(date.month()).ok()?, u8::try_from(date.day()).ok()?);
        Some(rcgen::date_time_ymd(i32::from(date.year()), month, day))
    };
    let (Some(from), Some(to)) = (day(today), day(last)) else {
        return Err("the clock is out of range".to_owned());
    };
    (params.not_before, params.not_after) = (from, to);
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(Pair { certificate: certificate.pem(), key: Secret::new(key.serialize_pem()) })
}
