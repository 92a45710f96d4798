//! AWS `CodeCommit`.

use serde_json::{Value, json};
use tiphys_cloud::Environment;
use tiphys_scm::{Credentials, ScmError, ScmOptions};

use crate::double::{Asked, Double, Reply, ok, options, repositories_with, shown};

fn refused(kind: &str) -> Reply {
    Reply { status: 400, body: json!({"__type": kind, "message": "no"}).to_string(), ..Reply::default() }
}

fn account(asked: &Asked) -> Reply {
    let question: Value = serde_json::from_str(&asked.body).unwrap_or_default();
    let target = asked.headers.get("x-amz-target").map(String::as_str).unwrap_or_default();
    let name = question["repositoryName"].as_str().unwrap_or_default();
    match (target, question["nextToken"].as_str(), name) {
        ("CodeCommit_20150413.ListRepositories", None, _) => {
            ok(json!({"repositories": [{"repositoryName": "one"}], "nextToken": "n"}))
        }
        ("CodeCommit_20150413.ListRepositories", Some("n"), _) => {
            ok(json!({"repositories": [{"repositoryName": "empty"}, {"repositoryName": "two"}]}))
        }
        ("ResourceGroupsTaggingAPI_20170126.GetResources", ..) => {
            assert_eq!(
                question["TagFilters"],
                json!([{"Key": "env", "Values": ["prod", "stage"]}, {"Key": "team", "Values": []}])
            );
            assert_eq!(question["ResourceTypeFilters"], json!(["codecommit"]));
            ok(
                json!({"ResourceTagMappingList": [{"ResourceARN": "arn:aws:codecommit:eu-west-1:1234:two"}], "PaginationToken": ""}),
            )
        }
        ("CodeCommit_20150413.GetRepository", _, "broken") => {
            refused("com.amazonaws#EncryptionKeyAccessDeniedException")
        }
        ("CodeCommit_20150413.GetRepository", ..) => {
            let branch = if name == "empty" { Value::Null } else { json!("main") };
            ok(json!({"repositoryMetadata": {
                "accountId": "1234", "repositoryId": format!("id-{name}"), "repositoryName": name, "defaultBranch": branch,
                "cloneUrlHttp": format!("https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/{name}"),
                "cloneUrlSsh": format!("ssh://git-codecommit.eu-west-1.amazonaws.com/v1/repos/{name}")}}))
        }
        ("CodeCommit_20150413.ListBranches", None, "one") => {
            ok(json!({"branches": ["main"], "nextToken": "b"}))
        }
        ("CodeCommit_20150413.ListBranches", Some("b"), "one") => ok(json!({"branches": ["x/y"]})),
        ("CodeCommit_20150413.ListBranches", ..) => ok(json!({"branches": []})),
        ("CodeCommit_20150413.GetFolder", _, "one") => {
            assert_eq!(question["commitSpecifier"], json!("main"));
            match question["folderPath"].as_str() {
                Some("/") => ok(
                    json!({"files": [{"absolutePath": "README.md"}], "subFolders": [{"absolutePath": "deploy"}]}),
                ),
                Some("/deploy") => {
                    ok(json!({"files": [{"absolutePath": "deploy/a.yaml"}], "subFolders": []}))
                }
                _ => refused("FolderDoesNotExistException"),
            }
        }
        _ => refused("FolderDoesNotExistException"),
    }
}

fn ours(server: &Double) -> ScmOptions {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "session"),
        ("AWS_ENDPOINT_URL", &server.url),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    ScmOptions { environment: Environment::of_process(variables), ..options() }
}

#[tokio::test]
async fn aset_58_repositories_of_code_commit() {
    let server = Double::start(account).await;
    let none = Credentials::default();
    let with = |own: Value, filters: Value, protocol: &str| json!({"cloneProtocol": protocol, "filters": filters, "awsCodeCommit": own});
    let region = json!({"region": "eu-west-1"});
    let found = repositories_with(ours(&server), &with(region.clone(), json!([]), ""), &none).await.unwrap();
    assert_eq!(shown(&found), ["one@main", "two@main"]);
    let one = found.first().unwrap();
    assert_eq!((one.organization.as_str(), one.sha.as_str()), ("1234", ""));
    assert_eq!(one.repository_id, json!("id-one"));
    assert_eq!(one.url, "ssh://git-codecommit.eu-west-1.amazonaws.com/v1/repos/one");
    let first = server.asked().first().unwrap().clone();
    let authorization = &first.headers["authorization"];
    assert!(authorization.contains("/eu-west-1/codecommit/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target"), "{authorization}");
    assert_eq!(first.headers.get("x-amz-security-token").map(String::as_str), Some("session"));

    let tagged = json!({"region": "eu-west-1", "tagFilters": [
        {"key": "team"}, {"key": "env", "value": "prod"}, {"key": "env", "value": "stage"}]});
    let found =
        repositories_with(ours(&server), &with(tagged, json!([]), "https-fips"), &none).await.unwrap();
    assert_eq!(shown(&found), ["two@main"]);
    assert_eq!(
        found.first().unwrap().url,
        "https://git-codecommit-fips.eu-west-1.amazonaws.com/v1/repos/two"
    );

    let all = json!({"region": "eu-west-1", "allBranches": true});
    let found = repositories_with(ours(&server), &with(all, json!([]), "https"), &none).await.unwrap();
    assert_eq!(shown(&found), ["one@main", "one@x/y"]);
    for (path, expected) in
        [("deploy", 1), ("deploy/a.yaml", 1), ("deploy/b.yaml", 0), ("none/a", 0), ("README.md", 1)]
    {
        let filters = json!([{"repositoryMatch": "one", "pathsExist": [path]}]);
        let found =
            repositories_with(ours(&server), &with(region.clone(), filters, ""), &none).await.unwrap();
        assert_eq!(found.len(), expected, "{path}");
    }
}

#[tokio::test]
async fn f24_code_commit_fails_as_a_whole() {
    let none = Credentials::default();
    let block = json!({"awsCodeCommit": {"region": "eu-west-1"}});
    let server = Double::start(|asked| {
        let target = asked.headers.get("x-amz-target").map(String::as_str).unwrap_or_default();
        if target.ends_with("ListRepositories") {
            ok(json!({"repositories": [{"repositoryName": "broken"}]}))
        } else {
            account(asked)
        }
    })
    .await;
    let error = repositories_with(ours(&server), &block, &none).await.unwrap_err();
    assert!(error.to_string().contains("EncryptionKeyAccessDeniedException"), "{error}");
    let server = Double::start(|_| refused("ThrottlingException")).await;
    let error = repositories_with(ours(&server), &block, &none).await.unwrap_err();
    assert!(matches!(error, ScmError::RateLimited { .. }), "{error}");
    let server = Double::start(|_| refused("AccessDeniedException")).await;
    let error = repositories_with(ours(&server), &block, &none).await.unwrap_err();
    assert!(matches!(error, ScmError::Denied { .. }), "{error}");
    // The same page again and again is no list.
    let server = Double::start(|_| ok(json!({"repositories": [], "nextToken": "n"}))).await;
    let error = repositories_with(ours(&server), &block, &none).await.unwrap_err();
    assert!(error.to_string().contains("same one"), "{error}");
    let error = repositories_with(ours(&server), &json!({"awsCodeCommit": {}}), &none).await.unwrap_err();
    assert!(error.to_string().contains("region"), "{error}");
}
