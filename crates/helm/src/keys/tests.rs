use std::cell::Cell;

use jiff::Timestamp;

use super::*;

/// Charges nothing.
pub(super) struct Free;

impl Work for Free {
    fn charge(&mut self, _steps: usize) -> Result<(), tiphys_go::template::Failure> {
        Ok(())
    }
}

/// A result, or the problem.
fn told<T>(made: Result<T, KeyError>) -> Result<T, String> {
    made.map_err(|error| match error {
        KeyError::Problem(text) => text,
        KeyError::Stopped(failure) => format!("stopped: {failure:?}"),
    })
}

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
        let key = keys.private_key(KeyKind::Ed25519, &mut Free).unwrap();
        let authority = keys.certificate(&request("ca", Some(&key), None), &mut Free).unwrap();
        let signed =
            keys.certificate(&request("server", Some(&key), Some(authority.clone())), &mut Free).unwrap();
        (
            authority,
            signed,
            keys.private_key(KeyKind::Ecdsa, &mut Free).unwrap(),
            keys.bcrypt(b"secret", &mut Free).unwrap(),
        )
    };
    let (authority, signed, ecdsa, hash) = make();
    assert_eq!(make(), (authority, signed.clone(), ecdsa, hash.clone()));
    assert!(hash.starts_with("$2a$10$") && bcrypt::verify("secret", &hash).unwrap());
    let keys = NativeKeys { source: &|_: &mut [u8]| {}, is_repeatable: false };
    assert_eq!(told(keys.check(signed.certificate.as_bytes(), signed.key.as_bytes(), &mut Free)), Ok(()));
}

#[test]
fn rnd_199_keys_of_all_kinds_sign() {
    let taken = Cell::new(1);
    let source = counted(&taken);
    let keys = NativeKeys { source: &source, is_repeatable: false };
    let rsa = keys.certificate(&request("x", None, None), &mut Free).unwrap().key;
    assert!(rsa.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"), "{rsa}");
    let made = |kind| keys.private_key(kind, &mut Free).unwrap();
    for key in [made(KeyKind::Ecdsa), made(KeyKind::Ed25519), rsa] {
        let certificate = keys.certificate(&request("x", Some(&key), None), &mut Free).unwrap();
        assert_eq!(certificate.key, key);
        assert_eq!(told(keys.check(certificate.certificate.as_bytes(), key.as_bytes(), &mut Free)), Ok(()));
    }
    assert!(
        told(keys.private_key(KeyKind::Dsa, &mut Free))
            .unwrap_err()
            .starts_with("native helm renderer: unsupported")
    );
}

#[test]
fn rnd_199_what_is_no_key_is_told_as_sprig_does() {
    let keys = NativeKeys { source: &|_: &mut [u8]| {}, is_repeatable: false };
    let error = |key: &str| told(keys.certificate(&request("x", Some(key), None), &mut Free)).unwrap_err();
    assert_eq!(error("x"), "parsing private key: no PEM data in input");
    let other = pem::encode("CERTIFICATE", b"x");
    assert_eq!(error(&other), "parsing private key: no private key data in PEM block of type CERTIFICATE");
    let mut wrong = request("x", None, None);
    wrong.addresses = vec!["1.2".to_owned()];
    assert_eq!(told(keys.certificate(&wrong, &mut Free)).unwrap_err(), "error parsing ip: 1.2");
    assert_eq!(
        told(keys.bcrypt(&[b'x'; 73], &mut Free)).unwrap_err(),
        "bcrypt: password length exceeds 72 bytes"
    );
    assert_eq!(told(keys.check(b"x", b"x", &mut Free)).unwrap_err(), "unable to decode certificate");
}

/// B8: what a template may do is counted in steps of some forty nanoseconds, and keys take most of them.
#[test]
fn sec_07_keys_charge_what_they_take() {
    let taken = Cell::new(3);
    let source = counted(&taken);
    for is_repeatable in [false, true] {
        let keys = NativeKeys { source: &source, is_repeatable };
        let steps = |ask: &dyn Fn(&mut dyn Work)| {
            let mut steps = 0;
            ask(&mut |more: usize| {
                steps += more;
                Ok(())
            });
            steps
        };
        // Half of what was measured, at least: 60 ms, 0.05 ms and 0.06 ms.
        assert!(steps(&|work| drop(keys.bcrypt(b"secret", work))) >= 750_000);
        assert!(steps(&|work| drop(keys.private_key(KeyKind::Ed25519, work))) >= 300);
        assert!(steps(&|work| drop(keys.private_key(KeyKind::Ecdsa, work))) >= 600);
        let key = keys.private_key(KeyKind::Ed25519, &mut Free).unwrap();
        let signed = steps(&|work| drop(keys.certificate(&request("x", Some(&key), None), work)));
        assert!((500..50_000).contains(&signed), "{signed}");
        assert!(steps(&|work| drop(keys.check(b"x", key.as_bytes(), work))) >= 500);
    }
    // Of the machine's chance a library makes them at once; the average is charged before.
    let keys = NativeKeys { source: &source, is_repeatable: false };
    let mut asked = Vec::new();
    let stopped = keys.private_key(KeyKind::Rsa, &mut |steps: usize| {
        asked.push(steps);
        Err(tiphys_go::template::Failure::new("no more"))
    });
    assert!(matches!(stopped, Err(KeyError::Stopped(_))), "nothing is made of what cannot be paid");
    assert!(asked.iter().sum::<usize>() >= 5_000_000, "{asked:?}");
}
