//! `gpg` and signatures against an API server (CLI-835, REP-86).

use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE};

const RSA: &str = include_str!("../../../api/src/trust/testdata/rsa.asc");
const ED25519: &str = include_str!("../../../api/src/trust/testdata/ed25519.asc");

#[test]
fn cli_835_keys_from_creation_to_removal() {
    let bed = Embedded::start();
    let path = bed.directory.path().join("keys.asc");
    let file = path.to_str().unwrap();
    std::fs::write(&path, RSA).unwrap();
    let (message, code) = bed.fails(&["gpg", "add"]);
    assert_eq!((message.as_str(), code), ("--from is mandatory", 20));
    assert_eq!(bed.succeeds(&["gpg", "add", "--from", file]), "Created 1 key(s) from input file.\n");
    std::fs::write(&path, format!("{RSA}{ED25519}")).unwrap();
    assert_eq!(
        bed.succeeds(&["gpg", "add", "--from", file]),
        "Created 1 key(s) from input file, and 1 key(s) were skipped because they exist already.\n"
    );
    let keys = tiphys_api::trust::public_keys(&format!("{RSA}{ED25519}")).unwrap();
    let (rsa, edda) = (keys[0].key_id(), keys[1].key_id());
    assert_eq!(
        bed.succeeds(&["gpg", "list"]),
        format!(
            "KEYID             TYPE     IDENTITY\n{rsa}  RSA2048  Rita <rita@acme.test>\n\
             {edda}  ED25519  Edda <edda@acme.test>\n"
        )
    );
    let shown: Value = serde_json::from_str(&bed.succeeds(&["gpg", "list", "-o", "json"])).unwrap();
    assert_eq!(shown[0]["keyID"], rsa);
    assert!(shown[0].get("keyData").is_none(), "{shown}");
    let fingerprint = &keys[0].fingerprint;
    assert_eq!(
        bed.succeeds(&["gpg", "get", &rsa.to_lowercase()]),
        format!(
            "Key ID:          {rsa}\nKey fingerprint: {fingerprint}\nKey subtype:     rsa2048\n\
             Key owner:       Rita <rita@acme.test>\nKey data follows until EOF:\n{RSA}"
        )
    );
    let stored = bed.object(("", "v1"), "ConfigMap", NAMESPACE, "argocd-gpg-keys-cm").unwrap();
    assert_eq!(stored["data"][rsa], RSA);
    assert_eq!(stored["metadata"]["labels"]["app.kubernetes.io/part-of"], "argocd");
    assert_eq!(bed.succeeds(&["gpg", "rm", rsa]), format!("Deleted key with key ID {rsa}\n"));
    let (message, code) = bed.fails(&["gpg", "rm", rsa]);
    assert_eq!(
        (message, code),
        (format!("rpc error: code = NotFound desc = no such key configured: {rsa}"), 20)
    );
    let (message, _) = bed.fails(&["gpg", "get", rsa]);
    assert_eq!(message, format!("rpc error: code = NotFound desc = no such key: {rsa}"));
    let (message, _) = bed.fails(&["gpg", "get", "x"]);
    assert_eq!(message, "rpc error: code = InvalidArgument desc = 'x' is not a valid GnuPG key ID");
}

/// REP-202: what the command line renders is signed as the project wants it, or not rendered.
#[test]
fn rep_202_commands_render_nothing_that_is_not_signed() {
    let bed = Embedded::start();
    let url = bed.repository("app");
    let project = |name: &str, keys: &Value| {
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
                "signatureKeys": keys}})
    };
    bed.put(&project("signed", &json!([{"keyID": "4AEE18F83AFDEB23"}])));
    bed.put(&project("open", &json!([])));
    for name in ["signed", "open"] {
        bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"project": name, "source": {"repoURL": url, "path": ".", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"}}}));
    }
    let manifests = |name: &str| bed.run(&["app", "manifests", name, "--source", "git"]);
    let (_, message, code) = manifests("signed");
    assert_eq!(code, 20, "{message}");
    assert!(message.contains("by 't <t@t>': unsigned (key_id=)"), "{message}");
    let (_, message, code) = manifests("open");
    assert_eq!(code, 0, "{message}");
}
