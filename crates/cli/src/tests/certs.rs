//! `cert` against an API server (CLI-830, CLI-831).

use base64::Engine as _;
use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE};

const PEM: &str = include_str!("../../../api/src/trust/testdata/ecdsa.pem");
const RSA: &str = include_str!("../../../api/src/trust/testdata/rsa.pem");
const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
const FINGERPRINT: &str = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU";

fn file(bed: &Embedded, name: &str, text: &str) -> String {
    let path = bed.directory.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn data(bed: &Embedded, name: &str) -> Value {
    let found = bed.object(("", "v1"), "ConfigMap", NAMESPACE, name).unwrap();
    assert_eq!(found["metadata"]["labels"]["app.kubernetes.io/part-of"], "argocd", "it counts");
    found["data"].clone()
}

#[test]
fn cli_830_certificates_from_creation_to_removal() {
    let bed = Embedded::start();
    let (one, two) = (file(&bed, "one.pem", PEM), file(&bed, "two.pem", &format!("{RSA}{PEM}{RSA}")));
    let created = |n: usize| {
        format!(
            "Created/updated TLS certificate entry for repository server git.acme.test with {n} unique PEM \
             certificates\n"
        )
    };
    assert_eq!(bed.succeeds(&["cert", "add-tls", "git.acme.test", "--from", &one]), created(1));
    assert_eq!(bed.succeeds(&["cert", "add-tls", "git.acme.test", "--from", &one]), created(1), "unchanged");
    let (message, code) = bed.run_failing(&["cert", "add-tls", "git.acme.test", "--from", &two]);
    assert_eq!(
        (message.as_str(), code),
        (
            "rpc error: code = AlreadyExists desc = TLS certificate for server 'git.acme.test' already exists, and \
             upsert was not specified",
            20
        )
    );
    let out = bed.succeeds(&["cert", "add-tls", "git.acme.test", "--from", &two, "--upsert"]);
    assert!(out.starts_with("WARNING: Duplicate certificate detected (SHA256 fingerprint "), "{out}");
    assert!(out.contains(", subject 'CN=rsa.test'), skipping.\n") && out.ends_with(&created(2)), "{out}");
    assert_eq!(data(&bed, "argocd-tls-certs-cm"), json!({"git.acme.test": format!("{RSA}{PEM}")}));

    let none = file(&bed, "none.pem", "nothing");
    assert_eq!(
        bed.succeeds(&["cert", "add-tls", "h", "--from", &none]),
        "No valid certificates have been detected in the stream.\n"
    );
    let (message, _) = bed.fails(&["cert", "add-tls", "a/b", "--from", &one]);
    assert_eq!(message, "rpc error: code = InvalidArgument desc = invalid hostname in request: a/b");

    let known = file(&bed, "known", &format!("# ours\ngit.acme.test ssh-ed25519 {KEY} comment\n"));
    let (message, code) = bed.fails(&["cert", "add-ssh", "--from", &known]);
    assert_eq!(
        (message.as_str(), code),
        ("you need to specify --batch or specify --help for usage instructions", 20)
    );
    assert_eq!(
        bed.succeeds(&["cert", "add-ssh", "--batch", "--from", &known]),
        "Successfully created 1 SSH known host entries\n"
    );
    assert_eq!(
        bed.succeeds(&["cert", "add-ssh", "--batch", "--from", &known]),
        "Successfully created 0 SSH known host entries\n"
    );
    assert_eq!(
        data(&bed, "argocd-ssh-known-hosts-cm"),
        json!({"ssh_known_hosts": format!("git.acme.test ssh-ed25519 {KEY}\n")})
    );

    let list = bed.succeeds(&["cert", "list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines[0], "HOSTNAME       TYPE   SUBTYPE      INFO");
    assert_eq!(lines[1], format!("git.acme.test  ssh    ssh-ed25519  {FINGERPRINT}"));
    assert_eq!(lines[2], "git.acme.test  https  rsa          CN=rsa.test");
    assert!(lines[3].starts_with("git.acme.test  https  ecdsa        CN=git.acme.test,"), "{list}");
    let shown: Value = serde_json::from_str(&bed.succeeds(&[
        "cert",
        "list",
        "--cert-type",
        "ssh",
        "--hostname-pattern",
        "*.acme.test",
        "-o",
        "json",
    ]))
    .unwrap();
    assert_eq!(
        shown,
        json!([{"serverName": "git.acme.test", "certType": "ssh", "certSubType": "ssh-ed25519",
            "certInfo": FINGERPRINT}])
    );

    let (message, code) = bed.fails(&["cert", "rm", "*"]);
    assert_eq!((message.as_str(), code), ("A single wildcard is not allowed as REPOSERVER name.", 20));
    let (message, _) = bed.fails(&["cert", "rm", "h", "--cert-type", "gpg"]);
    assert_eq!(message, "rpc error: code = InvalidArgument desc = unknown certificate type: gpg");
    assert_eq!(
        bed.succeeds(&["cert", "rm", "other.test"]),
        "No certificates were removed (none matched the given pattern)\n"
    );
    assert_eq!(
        bed.succeeds(&["cert", "rm", "git.*"]),
        "Removed cert for 'git.acme.test' of type 'ssh' (subtype 'ssh-ed25519')\n\
         Removed cert for 'git.acme.test' of type 'https' (subtype 'rsa')\n\
         Removed cert for 'git.acme.test' of type 'https' (subtype 'ecdsa')\n"
    );
    assert_eq!(bed.succeeds(&["cert", "list", "-o", "json"]), "[]\n");
}

/// REP-80: what `cert` changes counts for the next command: the server here has a certificate of its own CA, and is no
/// git server, which it can only say once it is trusted.
#[test]
fn rep_80_commands_trust_what_the_installation_trusts() {
    let bed = Embedded::start();
    let url = format!("{}/repo.git", bed.server());
    let add = ["repo", "add", url.as_str()];
    let untrusted =
        |message: &str| message.contains("host \"127.0.0.1\"") && message.contains("argocd-tls-certs-cm");
    let (message, _) = bed.fails(&add);
    assert!(untrusted(&message), "{message}");

    let root = file(&bed, "root.pem", &bed.root());
    bed.succeeds(&["cert", "add-tls", "127.0.0.1", "--from", &root]);
    let (message, _) = bed.fails(&add);
    assert!(!untrusted(&message) && message.contains("error testing repository connectivity"), "{message}");

    let other = file(&bed, "other.pem", PEM);
    bed.succeeds(&["cert", "add-tls", "127.0.0.1", "--from", &other, "--upsert"]);
    let (message, _) = bed.fails(&add);
    assert!(message.contains("do not vouch for it"), "{message}");
    bed.succeeds(&["cert", "rm", "127.0.0.1"]);
    let (message, _) = bed.fails(&add);
    assert!(untrusted(&message), "{message}");
}

impl Embedded {
    /// Message and exit code of a command that prints something and fails.
    fn run_failing(&self, args: &[&str]) -> (String, u8) {
        let (_, message, code) = self.run(args);
        (message, code)
    }

    /// The certificate that vouches for the server.
    fn root(&self) -> String {
        let config: Value =
            serde_json::from_str(&std::fs::read_to_string(self.directory.path().join("kubeconfig")).unwrap())
                .unwrap();
        let encoded = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).unwrap()).unwrap()
    }
}
