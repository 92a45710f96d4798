use std::cell::Cell;

use jiff::Timestamp;

use super::*;

fn request<'r>(name: &'r str, key: Option<&'r str>, signer: Option<Certificate>) -> CertificateRequest<'r> {
    CertificateRequest {
        common_name: name,
        addresses: vec!["10.0.0.1".to_owned(), "::1".to_owned()],
        names: vec!["x.svc".to_owned()],
        days: 365,
        authority: signer.is_none(),
        key,
        signer,
        now: Timestamp::UNIX_EPOCH,
    }
}

/// Bytes that follow from how many were taken before.
fn counted(taken: &Cell<u64>) -> impl Fn(&mut [u8]) + '_ {
    |bytes: &mut [u8]| {
        for byte in bytes {
            taken.set(taken.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            *byte = taken.get().to_be_bytes()[0];
        }
    }
}

/// The way from bytes to RSA keys is tested with short ones, see `number.rs`: those in use take seconds without
/// optimisation.
#[test]
fn rnd_163_the_same_bytes_give_the_same_keys_and_certificates() {
    let make = || {
        let taken = Cell::new(7);
        let source = counted(&taken);
        let keys = NativeKeys { source: &source, is_repeatable: true };
        let key = keys.private_key(KeyKind::Ed25519).unwrap();
        let authority = keys.certificate(&request("ca", Some(&key), None)).unwrap();
        let signed = keys.certificate(&request("server", Some(&key), Some(authority.clone()))).unwrap();
        (authority, signed, keys.private_key(KeyKind::Ecdsa).unwrap(), keys.bcrypt(b"secret").unwrap())
    };
    let (authority, signed, ecdsa, hash) = make();
    assert_eq!(make(), (authority, signed.clone(), ecdsa, hash.clone()));
    assert!(hash.starts_with("$2a$10$") && bcrypt::verify("secret", &hash).unwrap());
    let keys = NativeKeys { source: &|_: &mut [u8]| {}, is_repeatable: false };
    assert_eq!(keys.check(signed.certificate.as_bytes(), signed.key.as_bytes()), Ok(()));
}

#[test]
fn rnd_199_keys_of_all_kinds_sign() {
    let taken = Cell::new(1);
    let source = counted(&taken);
    let keys = NativeKeys { source: &source, is_repeatable: false };
    let rsa = keys.certificate(&request("x", None, None)).unwrap().key;
    assert!(rsa.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"), "{rsa}");
    let made = |kind| keys.private_key(kind).unwrap();
    for key in [made(KeyKind::Ecdsa), made(KeyKind::Ed25519), rsa] {
        let certificate = keys.certificate(&request("x", Some(&key), None)).unwrap();
        assert_eq!(certificate.key, key);
        assert_eq!(keys.check(certificate.certificate.as_bytes(), key.as_bytes()), Ok(()));
    }
    assert!(keys.private_key(KeyKind::Dsa).unwrap_err().starts_with("native helm renderer: unsupported"));
}

#[test]
fn rnd_199_what_is_no_key_is_told_as_sprig_does() {
    let keys = NativeKeys { source: &|_: &mut [u8]| {}, is_repeatable: false };
    let error = |key: &str| keys.certificate(&request("x", Some(key), None)).unwrap_err();
    assert_eq!(error("x"), "parsing private key: no PEM data in input");
    let other = pem::encode("CERTIFICATE", b"x");
    assert_eq!(error(&other), "parsing private key: no private key data in PEM block of type CERTIFICATE");
    let mut wrong = request("x", None, None);
    wrong.addresses = vec!["1.2".to_owned()];
    assert_eq!(keys.certificate(&wrong).unwrap_err(), "error parsing ip: 1.2");
    assert_eq!(keys.bcrypt(&[b'x'; 73]).unwrap_err(), "bcrypt: password length exceeds 72 bytes");
    assert_eq!(keys.check(b"x", b"x").unwrap_err(), "unable to decode certificate");
}
