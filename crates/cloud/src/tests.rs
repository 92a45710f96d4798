//! Logins against a server of the test's own; signatures against ones that AWS' Python library made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::aws::{Origin, Sts, eks_token, origin};
use super::profile::Profiles;
use super::sigv4::{self, Keys, Scope};
use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::of_process(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

fn keys(session: &str) -> Keys {
    Keys {
        id: "AKIDEXAMPLE".to_owned(),
        secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
        session: session.into(),
    }
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn arguments(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// A server that answers by path and remembers what it was asked.
struct Server {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answers: &'static [(&'static str, &'static str)]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                let text = loop {
                    let mut part = [0; 4096];
                    let read = stream.read(&mut part).await.unwrap_or(0);
                    request.extend_from_slice(&part[..read]);
                    let text = String::from_utf8_lossy(&request).into_owned();
                    let length =
                        text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                    let is_whole = text
                        .split_once("\r\n\r\n")
                        .is_some_and(|(_, body)| body.len() >= length.unwrap_or(0));
                    if read == 0 || is_whole {
                        break text;
                    }
                };
                let first = text.lines().next().unwrap_or_default().to_owned();
                let answer = answers.iter().find(|(start, _)| first.starts_with(start));
                let (status, body) =
                    answer.map_or(("403 Forbidden", "hunter2"), |(_, body)| ("200 OK", *body));
                noted.lock().unwrap().push(text);
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

const STS_ANSWER: &str = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA</AccessKeyId>\
    <SecretAccessKey>s/k</SecretAccessKey><SessionToken>t+k=</SessionToken></Credentials></AssumeRoleResult></AssumeRoleResponse>";

fn url_in(token: &CloudToken) -> String {
    let text = token.token.expose().strip_prefix("k8s-aws-v1.").unwrap();
    String::from_utf8(URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
}

/// REP-106: the same signatures as those of AWS' own library.
#[test]
fn rep_106_tokens_are_signed_as_aws_wants_them() {
    let none = Environment::default();
    let sts = Sts::of(&none, Some("eu-central-1")).unwrap();
    let token = eks_token(&sts, &keys(""), "my cluster", now()).unwrap();
    assert_eq!(
        url_in(&token),
        "https://sts.eu-central-1.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15\
         &X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20260102%2Feu-central-1%2Fsts%2Faws4_request\
         &X-Amz-Date=20260102T030405Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id\
         &X-Amz-Signature=10f5f9303d4faa66acb98ee330fb2deadac10fd624c9d471bac91adcb827e04b"
    );
    assert_eq!(token.ends.to_string(), "2026-01-02T03:18:05Z");
    let sts = Sts::of(&none, None).unwrap();
    let url = url_in(&eks_token(&sts, &keys("tok/en+="), "c", now()).unwrap());
    assert!(url.contains("X-Amz-Security-Token=tok%2Fen%2B%3D&"), "{url}");
    assert!(url.ends_with("=32bcebb0e6c807292d5b3e754aaa9080fc7783a244a07b9f4a32fad6e112a24c"), "{url}");
}

/// REP-106: requests for a role too.
#[test]
fn rep_106_requests_for_a_role_are_signed() {
    let body =
        "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=s";
    let host = "sts.eu-central-1.amazonaws.com";
    let scope = Scope { host, region: "eu-central-1", service: "sts", now: now() };
    for (session, signature) in [
        ("", "6c8e80541d94b4d456e9f7bc8f06c268a2b499b25440a4b13f96b8c6f061cb9f"),
        ("tok/en+=", "8701890b8efd54fa248b09daaa319e33cb0117cb5b162c3cabd0fca4050f2b60"),
    ] {
        let headers = sigv4::signed_form(scope, &keys(session), body);
        let (_, authorization) = headers.iter().find(|(name, _)| *name == "authorization").unwrap();
        assert!(authorization.expose().ends_with(signature), "{}", authorization.expose());
    }
}

/// REP-106: where keys come from, in the order of AWS' own tools.
#[test]
fn rep_106_identity_is_found_as_by_the_providers_tools() {
    let mut profiles = Profiles::default();
    profiles.add(
        "# comment\n[default]\nregion = eu\n[profile base]\nrole_arn = arn:r # why\nsource_profile=keys\nexternal_id = e\n\
         s3 =\n  role_arn = other\n[sso-session x]\nrole_arn = no\n[profile loop]\nrole_arn = r\nsource_profile = pool\n\
         [profile pool]\nrole_arn = r\nsource_profile = loop\n[profile tool]\ncredential_process = /bin/x\n",
        true,
    );
    profiles.add("[keys]\naws_access_key_id = AKIDEXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY\n", false);
    let of = |variables: &[(&str, &str)], named| origin(&environment(variables), &profiles, named);
    let variables = [("AWS_ACCESS_KEY_ID", "i"), ("AWS_SECRET_ACCESS_KEY", "s")];
    assert!(matches!(of(&variables, None), Ok(Origin::Keys(found)) if found.id == "i"));
    let assumed = Origin::Assumed {
        role: "arn:r".to_owned(),
        session: "tiphys".to_owned(),
        external_id: "e".to_owned(),
        by: Box::new(Origin::Keys(keys(""))),
    };
    assert_eq!(of(&variables, Some("base")), Ok(assumed.clone()));
    assert_eq!(of(&[("AWS_PROFILE", "base")], None), Ok(assumed));
    let pod = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"), ("AWS_ROLE_ARN", "r")];
    assert!(matches!(of(&pod, None), Ok(Origin::WebIdentity { role, .. }) if role == "r"));
    assert_eq!(of(&[], None), Ok(Origin::Machine));
    assert_eq!(of(&[("AWS_EC2_METADATA_DISABLED", "true")], None), Err(CloudError::NoIdentity));
    assert_eq!(of(&[], Some("missing")), Err(CloudError::Profile));
    assert_eq!(of(&[], Some("loop")), Err(CloudError::Profile));
    assert_eq!(of(&[], Some("tool")), Err(CloudError::Unsupported));
    let far = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://evil.example/keys")];
    assert_eq!(of(&far, None), Err(CloudError::Value));
}

/// SEC-10, SEC-38: a region that would lead to another host is refused, and a Secret cannot say where we ask.
#[test]
fn sec_10_a_secret_cannot_send_our_identity_elsewhere() {
    for region in ["x.evil.example/", "a/b", "a@b", "", &"a".repeat(64)] {
        let sts = Sts::of(&Environment::default(), Some(region)).map(|sts| format!("{sts:?}"));
        assert!(region.is_empty() || sts == Err(CloudError::Value), "{region}: {sts:?}");
    }
    let ours = BTreeMap::from([("AWS_ROLE_ARN".to_owned(), "r".to_owned())]);
    for name in [
        "AWS_ENDPOINT_URL_STS",
        "AWS_ENDPOINT_URL",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONFIG_FILE",
        "AZURE_AUTHORITY_HOST",
        "AZURE_FEDERATED_TOKEN_FILE",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GCE_METADATA_HOST",
        "HOME",
        "HTTPS_PROXY",
    ] {
        let theirs = BTreeMap::from([(name.to_owned(), Secret::from("x"))]);
        assert!(Environment::of_plugin(&ours, &theirs).is_none(), "{name}");
    }
    let theirs = BTreeMap::from([("AWS_REGION".to_owned(), Secret::from("eu"))]);
    let both = Environment::of_plugin(&ours, &theirs).unwrap();
    assert_eq!((both.get("AWS_REGION"), both.get("AWS_ROLE_ARN")), (Some("eu"), Some("r")));
}

/// REP-106: the pod's web identity, then a role.
#[tokio::test]
async fn rep_106_a_pod_of_aws_logs_in_and_assumes_a_role() {
    let server = Server::start(&[("POST / ", STS_ANSWER)]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "web.identity\n").unwrap();
    let variables = environment(&[
        ("AWS_ENDPOINT_URL_STS", &server.address),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
        ("AWS_ROLE_ARN", "arn:pod"),
        ("AWS_REGION", "eu-west-1"),
    ]);
    let found = answer(&arguments("aws --cluster-name c --role-arn=arn:admin"), &variables).await.unwrap();
    let url = url_in(&found);
    assert!(url.starts_with("https://sts.eu-west-1.amazonaws.com/?Action=GetCallerIdentity"), "{url}");
    assert!(
        url.contains("X-Amz-Credential=ASIA%2F") && url.contains("X-Amz-Security-Token=t%2Bk%3D"),
        "{url}"
    );
    let asked = server.asked();
    assert!(
        asked[0].contains("Action=AssumeRoleWithWebIdentity")
            && asked[0].contains("WebIdentityToken=web.identity")
    );
    assert!(
        asked[1].contains("RoleArn=arn%3Aadmin") && asked[1].contains("Credential=ASIA/"),
        "{}",
        asked[1]
    );
}

/// REP-106: a machine of AWS tells who it is, to those that ask with its session.
#[tokio::test]
async fn rep_106_a_machine_of_aws_logs_in() {
    let server = Server::start(&[
        ("PUT /latest/api/token", "session"),
        (
            "GET /latest/meta-data/iam/security-credentials/node-role ",
            r#"{"AccessKeyId":"A","SecretAccessKey":"s","Token":"t"}"#,
        ),
        ("GET /latest/meta-data/iam/security-credentials/ ", "node-role\n"),
    ])
    .await;
    let variables = environment(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &server.address)]);
    let found = answer(&arguments("aws --cluster-name c"), &variables).await.unwrap();
    assert!(url_in(&found).contains("X-Amz-Credential=A%2F"));
    assert!(server.asked()[2].contains("x-aws-ec2-metadata-token: session"));
}

/// REP-106: GKE's metadata server, and a service account's key.
#[tokio::test]
async fn rep_106_gcp_logs_in_by_machine_and_by_key() {
    let granted = r#"{"access_token":"granted","expires_in":3599,"token_type":"Bearer"}"#;
    let answers = Box::leak(Box::new([
        ("GET /computeMetadata/v1/instance/service-accounts/default/token ", granted),
        ("POST /tokens ", granted),
    ]));
    let server = Server::start(answers).await;
    let host = server.address.trim_start_matches("http://");
    let found = answer(&arguments("gcp"), &environment(&[("GCE_METADATA_HOST", host)])).await.unwrap();
    assert_eq!(found.token.expose(), "granted");
    assert!(server.asked()[0].contains("metadata-flavor: Google"));

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.json");
    let pair = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let der = aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    let pem = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
    let key = serde_json::json!({"type": "service_account", "client_email": "me@x",
        "private_key": format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n"),
        "token_uri": format!("{}/tokens", server.address)});
    std::fs::write(&file, key.to_string()).unwrap();
    let variables = environment(&[("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap())]);
    assert_eq!(answer(&arguments("gcp"), &variables).await.unwrap().token.expose(), "granted");
    let asked = server.asked();
    let assertion = asked[1].split_once("assertion=").unwrap().1;
    let parts: Vec<&str> = assertion.split('.').collect();
    let claims = URL_SAFE_NO_PAD.decode(parts[1]).unwrap();
    assert!(String::from_utf8(claims).unwrap().contains(r#""iss":"me@x""#));
    let public = aws_lc_rs::signature::KeyPair::public_key(&pair);
    let algorithm = &aws_lc_rs::signature::RSA_PKCS1_2048_8192_SHA256;
    let proof = URL_SAFE_NO_PAD.decode(parts[2]).unwrap();
    aws_lc_rs::signature::UnparsedPublicKey::new(algorithm, public)
        .verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &proof)
        .unwrap();
}

/// REP-106: AKS' workload identity, principals and machines.
#[tokio::test]
async fn rep_106_azure_logs_in_by_workload_principal_and_machine() {
    let server = Server::start(&[
        ("POST /tenant/oauth2/v2.0/token ", r#"{"access_token":"granted","expires_in":3599}"#),
        ("GET /metadata/identity/oauth2/token?", r#"{"access_token":"machine","expires_in":"86399"}"#),
    ])
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "federated").unwrap();
    let common = [
        ("AZURE_AUTHORITY_HOST", server.address.as_str()),
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", &server.address),
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_CLIENT_ID", "me"),
    ];
    let workload = [&common[..], &[("AZURE_FEDERATED_TOKEN_FILE", file.to_str().unwrap())]].concat();
    let principal = [&common[..], &[("AZURE_CLIENT_SECRET", "hunter2")]].concat();
    for (variables, token, part) in [
        (workload, "granted", "client_assertion=federated"),
        (principal, "granted", "client_secret=hunter2"),
        (common.to_vec(), "machine", "resource=6dae42f8-4368-4678-94ff-3960e28e3630"),
    ] {
        let found = answer(&arguments("azure"), &environment(&variables)).await.unwrap();
        assert_eq!(found.token.expose(), token);
        assert!(server.asked().last().unwrap().contains(part), "{part}");
    }
    let other = environment(&[("AAD_LOGIN_METHOD", "devicecode")]);
    assert_eq!(answer(&arguments("azure"), &other).await, Err(CloudError::Unsupported));
    let outside =
        environment(&[("AZURE_TENANT_ID", "../x"), ("AZURE_CLIENT_ID", "i"), ("AZURE_CLIENT_SECRET", "s")]);
    assert_eq!(answer(&arguments("azure"), &outside).await, Err(CloudError::Value));
}

/// SEC-38: what a provider answers is in no error.
#[tokio::test]
async fn sec_38_errors_of_cloud_logins_are_fixed_texts() {
    let server = Server::start(&[("PUT /latest/api/token", "session")]).await;
    let variables = environment(&[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &server.address)]);
    let error = answer(&arguments("aws --cluster-name c"), &variables).await.unwrap_err();
    assert_eq!(error, CloudError::Refused(403));
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    for usage in ["", "oracle", "aws", "aws --cluster-name", "aws --other x", "gcp --cluster-name c", "aws c"]
    {
        assert_eq!(answer(&arguments(usage), &variables).await, Err(CloudError::Usage), "{usage:?}");
    }
}
