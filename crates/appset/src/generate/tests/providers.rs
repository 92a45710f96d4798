#![expect(clippy::needless_pass_by_value, reason = "JSON is written where it is used")]

use super::*;
use crate::facts::{Access, Decisions, PluginQuestion, TextMap};
use crate::fixtures::params_of;

#[test]
fn aset_56_repositories_give_parameters() {
    let mut repository = Repository {
        organization: "o".to_owned(),
        repository: "r".to_owned(),
        repository_id: json!(12_345_678),
        url: "https://h/o/r.git".to_owned(),
        branch: "feat/X".to_owned(),
        sha: "0123456789abcdef".to_owned(),
        labels: vec!["a".to_owned(), "b".to_owned()],
    };
    let set = repository.parameters();
    assert_eq!(
        Value::Object(set),
        json!({"organization": "o", "repository": "r", "repository_id": 12_345_678, "url": "https://h/o/r.git",
            "branch": "feat/X", "branchNormalized": "feat-x", "sha": "0123456789abcdef", "short_sha": "01234567",
            "short_sha_7": "0123456", "labels": "a,b"})
    );
    repository.sha = "abc".to_owned();
    assert_eq!(repository.parameters()["short_sha"], "abc");
    // In go mode the id prints as an integer, in fast mode it is no text.
    let given = json!([repository.parameters()]);
    let world = World::default().with_given("github", given);
    let block =
        json!([{"scmProvider": {"github": {"organization": "o"}, "values": {"id": "{{ .repository_id }}"}}}]);
    let world_sets = World {
        given: [("github".to_owned(), Ok(vec![Value::Object(repository.parameters())]))].into(),
        ..World::default()
    };
    drop(world);
    let sets = world_sets.parameters(&go_set(block)).unwrap();
    assert_eq!(sets[0]["values"]["id"], "1.2345678e+07", "what is given as JSON is a float");
}

#[test]
fn aset_63_pull_requests_give_parameters() {
    let request = PullRequest {
        number: "12".to_owned(),
        title: "t".to_owned(),
        branch: "Feature/ABC_123".to_owned(),
        target_branch: "main".to_owned(),
        head_sha: "0123456789".to_owned(),
        author: "kim".to_owned(),
        labels: vec!["x".to_owned()],
    };
    assert_eq!(
        Value::Object(request.parameters(true)),
        json!({"number": "12", "title": "t", "branch": "Feature/ABC_123", "branch_slug": "feature-abc-123",
            "target_branch": "main", "target_branch_slug": "main", "head_sha": "0123456789",
            "head_short_sha": "01234567", "head_short_sha_7": "0123456", "author": "kim", "labels": ["x"]})
    );
    assert!(!request.parameters(false).contains_key("labels"));
}

fn provider(kind: &str, block: Value) -> Value {
    json!([{kind: block}])
}

#[test]
fn aset_55_62_the_first_provider_counts() {
    let world = World::default().with_given("gitlab", json!([{"repository": "r"}]));
    let both = provider("scmProvider", json!({"bitbucket": {}, "gitlab": {"group": "g"}, "github": null}));
    assert_eq!(world.sets_of(&go_set(both)).unwrap().len(), 1);
    assert_eq!(
        world.sets_of(&go_set(provider("scmProvider", json!({})))).unwrap_err(),
        "no SCM provider implementation configured"
    );
    assert_eq!(
        world.sets_of(&go_set(provider("pullRequest", json!({"azureDevOps": {}})))).unwrap_err(),
        "no Pull Request provider implementation configured"
    );
}

#[test]
fn aset_59_providers_may_be_off_or_listed() {
    let block =
        |api: &str| provider("pullRequest", json!({"github": {"owner": "o", "repo": "r", "api": api}}));
    let given = |world: World| world.with_given("github", json!([{"number": "1"}]));
    let off = given(World::default().with_params(&[("enable.scm.providers", "false")]));
    assert_eq!(off.sets_of(&go_set(block(""))).unwrap_err(), "scm providers are disabled");
    let listed = given(World::default().with_params(&[("allowed.scm.providers", "https://a, https://b")]));
    assert!(listed.sets_of(&go_set(block(""))).is_ok());
    assert!(listed.sets_of(&go_set(block("https://b"))).is_ok());
    assert_eq!(
        listed.sets_of(&go_set(block("https://b/"))).unwrap_err(),
        "scm provider not allowed: scm provider \"https://b/\" not allowed, must use one of the following: https://a, \
         https://b"
    );
    assert!(given(World::default()).sets_of(&go_set(block("https://any"))).is_ok());
}

fn data(entries: &[(&str, &str)]) -> TextMap {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn aset_68_where_a_plugin_is() {
    let read =
        |entries: &[(&str, &str)]| PluginConfig::read(&data(entries)).map_err(|error| error.to_string());
    assert_eq!(read(&[("token", "$a")]).unwrap_err(), "baseUrl not found in ConfigMap");
    assert_eq!(read(&[("baseUrl", "u")]).unwrap_err(), "token not found in ConfigMap");
    for token in ["", "plain", "$"] {
        let error = read(&[("baseUrl", "u"), ("token", token)]).unwrap_err();
        assert!(
            error.contains("token is empty, or does not reference a secret key starting with '$'")
                && !error.contains("plain"),
            "{error}"
        );
    }
    let found = read(&[("baseUrl", "http://h"), ("token", "$key")]).unwrap();
    assert_eq!(found.token, TokenReference::Own { key: "key".to_owned() });
    assert_eq!(found.timeout, Duration::from_secs(30));
    let found = read(&[("baseUrl", "http://h"), ("token", "$s:k"), ("requestTimeout", "5")]).unwrap();
    assert_eq!(found.token, TokenReference::Of { secret: "s".to_owned(), key: "k".to_owned() });
    assert_eq!(found.timeout, Duration::from_secs(5));
    assert!(read(&[("baseUrl", "u"), ("token", "$a"), ("requestTimeout", "1s")]).is_err());
}

#[test]
fn aset_69_what_a_plugin_is_sent_and_answers() {
    for base in ["http://h", "http://h/", "http://h//"] {
        assert_eq!(plugin_url(base), "http://h/api/v1/getparams.execute");
    }
    assert_eq!(plugin_url("http://h/x/"), "http://h/x/api/v1/getparams.execute");
    let question = PluginQuestion {
        config_map: "c".to_owned(),
        set: "s".to_owned(),
        parameters: params_of(json!({"a": "<&>", "n": 1_000_000})),
        access: Access::default(),
    };
    assert_eq!(
        plugin_body(&question),
        r#"{"applicationSetName":"s","input":{"parameters":{"a":"<&>","n":1000000}}}"#
    );
    let answer = |status: u16, body: &str| {
        let answer = plugin_parameters(status, body.as_bytes());
        answer.map(|sets| sets.len()).map_err(|error| error.to_string())
    };
    assert_eq!(answer(200, r#"{"output":{"parameters":[{"a":1},{}]}}"#), Ok(2));
    for body in
        ["", " \n", "{}", "null", r#"{"output":null}"#, r#"{"output":{}}"#, r#"{"output":{"parameters":[]}}"#]
    {
        assert_eq!(answer(201, body), Ok(0), "{body}");
    }
    assert_eq!(
        answer(500, r#"{"message":"broken"}"#),
        Err("API error with status code 500: broken".to_owned())
    );
    assert_eq!(answer(404, r#"{"error":"gone"}"#), Err("API error with status code 404: gone".to_owned()));
    assert_eq!(answer(302, "moved"), Err("API error with status code 302: moved".to_owned()));
    for body in
        ["x", "[]", r#"{"output":[]}"#, r#"{"output":{"parameters":{}}}"#, r#"{"output":{"parameters":[1]}}"#]
    {
        assert!(answer(200, body).is_err(), "{body}");
    }
    let long = answer(500, &"x".repeat(100_000)).unwrap_err();
    assert!(long.len() < 2_000);
}

#[test]
fn aset_70_a_plugin_echoes_its_input() {
    let world = World::default().with_given("c", json!([{"a": {"b": 1}, "generator": "lost"}]));
    let block = |value: &str| {
        json!([{"plugin": {"configMapRef": {"name": "c"}, "input": {"parameters": {"map": {"k": "x"}, "n": 2}},
            "values": {"v": value}}}])
    };
    let echo = r#"{"input":{"parameters":{"map":{"k":"x"},"n":2}}}"#;
    assert_eq!(
        world.sets_of(&go_set(block("{{index .generator.input.parameters.map \"k\"}}"))).unwrap(),
        texts(&[&format!(r#"{{"a":{{"b":1}},"generator":{echo},"values":{{"v":"x"}}}}"#)])
    );
    assert_eq!(
        world.sets_of(&fast_set(block("{{a.b}}{{generator}}"))).unwrap(),
        texts(&[&format!(r#"{{"a.b":"1","generator":{echo},"values.v":"1{{{{generator}}}}"}}"#)])
    );
    assert_eq!(world.asked.borrow()[0], r#"plugin c {"map":{"k":"x"},"n":2}"#);
}

#[test]
fn aset_42_which_resource_decides() {
    let read = |entries: &[(&str, &str)]| DecisionConfig::read(&data(entries));
    let found = read(&[("apiVersion", "g/v1"), ("kind", "placements"), ("matchKey", "clusterName")]).unwrap();
    assert_eq!(
        (found.group.as_str(), found.resource.as_str(), found.status_list_key.as_str()),
        ("g", "placements", "clusters")
    );
    for entries in [&[("apiVersion", "v1"), ("kind", "x")][..], &[("apiVersion", "g/v1")], &[("kind", "x")]] {
        assert_eq!(
            read(entries).unwrap_err().to_string(),
            "there is a problem with the apiVersion, kind or resourceName provided"
        );
    }
    let resource = |status: Value| json!({"metadata": {"name": "r"}, "status": status});
    assert_eq!(decisions_of(&found, &[]).unwrap_err().to_string(), "no clusterDecisionResources found");
    let some =
        [resource(Value::Null), resource(json!({"clusters": [{"clusterName": "a"}]})), resource(json!({}))];
    let Decisions::Found { decisions, .. } = decisions_of(&found, &some).unwrap() else { panic!() };
    assert_eq!(decisions.len(), 1);
    for status in [json!({"clusters": {}}), json!({"clusters": ["a"]})] {
        let error = decisions_of(&found, &[resource(status)]).unwrap_err().to_string();
        assert_eq!(error, "status.clusters of r is no list of objects");
    }
}

#[test]
fn aset_43_decisions_that_name_a_cluster_give_parameters() {
    let decisions = [
        json!({"clusterName": "a", "weight": 1_000_000, "server": "other"}),
        json!({"clusterName": "gone"}),
        json!({"x": 1}),
    ];
    let world = World {
        decisions: Some(Decisions::Found {
            match_key: "clusterName".to_owned(),
            decisions: decisions.into_iter().map(|decision| decision.as_object().unwrap().clone()).collect(),
        }),
        ..World::default().with_clusters(vec![cluster("a", &[])])
    };
    let block =
        json!([{"clusterDecisionResource": {"configMapRef": "c", "name": "r", "values": {"v": "{{name}}"}}}]);
    assert_eq!(
        world.sets_of(&fast_set(block.clone())).unwrap(),
        texts(&[r#"{"clusterName":"a","name":"a","server":"other","values.v":"{{name}}","weight":"1e+06"}"#])
    );
    assert_eq!(
        world.sets_of(&go_set(block)).unwrap(),
        texts(&[
            r#"{"clusterName":"a","name":"a","server":"other","values":{"v":"{{name}}"},"weight":"1e+06"}"#
        ])
    );
    for wrong in
        [json!({"configMapRef": "c"}), json!({"configMapRef": "c", "name": "r", "labelSelector": {}})]
    {
        assert_eq!(
            world.sets_of(&go_set(json!([{"clusterDecisionResource": wrong}]))).unwrap_err(),
            "there is a problem with the definition of the ClusterDecisionResource generator"
        );
    }
}
