use super::*;

fn config_map(name: &str, annotations: &Value) -> Value {
    object("v1", "ConfigMap", name, annotations)
}

fn object(api_version: &str, kind: &str, name: &str, annotations: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": annotations}})
}

fn live(mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!("web");
    object
}

fn job(name: &str, hook: &str, policy: &str) -> Value {
    let annotations =
        json!({"argocd.argoproj.io/hook": hook, "argocd.argoproj.io/hook-delete-policy": policy});
    object("batch/v1", "Job", name, &annotations)
}

fn wave(wave: &str) -> Value {
    json!({"argocd.argoproj.io/sync-wave": wave})
}

fn option(option: &str) -> Value {
    json!({"argocd.argoproj.io/sync-options": option})
}

fn input(sync: &Value, targets: &[Value]) -> Value {
    json!({
        "application": {"spec": {"destination": {"namespace": "web"}}},
        "operation": {"sync": sync, "startedAt": "2026-01-01T00:00:00Z"},
        "targets": targets,
    })
}

/// The passes, one line each: groups joined by ` | `, then phase and message.
fn passes(input: &Value) -> Vec<String> {
    let result = run(input).unwrap();
    let line = |pass: &Value| {
        let groups: Vec<String> = pass["operations"].as_array().unwrap().iter().map(group_text).collect();
        format!(
            "[{}] {}: {}",
            groups.join(" | "),
            pass["phase"].as_str().unwrap(),
            pass["message"].as_str().unwrap()
        )
    };
    result["passes"].as_array().unwrap().iter().map(line).collect()
}

fn group_text(group: &Value) -> String {
    let text = |operation: &Value| {
        format!(
            "{} {} {}{}",
            operation["op"].as_str().unwrap(),
            operation["key"].as_str().unwrap(),
            operation["phase"].as_str().unwrap(),
            operation["wave"]
        )
    };
    group.as_array().unwrap().iter().map(text).collect::<Vec<_>>().join(", ")
}

/// `key phase status/hookPhase message` of every result.
fn results(input: &Value) -> Vec<String> {
    let result = run(input).unwrap();
    let line = |entry: &Value| {
        let text = |name: &str| entry[name].as_str().unwrap().to_owned();
        format!(
            "{} {} {}/{} {}",
            text("key"),
            text("syncPhase"),
            text("status"),
            text("hookPhase"),
            text("message")
        )
    };
    result["results"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn eval_605_example() {
    let result = run(&json!({
        "application": {"spec": {"destination": {"namespace": "shop"}}},
        "operation": {"sync": {}},
        "targets": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"}}],
    }))
    .unwrap();
    let operation = json!({"op": "apply", "key": "/ConfigMap/shop/c", "phase": "Sync", "wave": 0});
    assert_eq!(result["passes"][0]["operations"], json!([[operation]]));
    assert_eq!(result["passes"].as_array().unwrap().len(), 1);
    let end = json!({"phase": "Succeeded", "message": "successfully synced (all tasks run)"});
    assert_eq!(result["final"], end);
    assert_eq!(result["dryRun"], json!(["/ConfigMap/shop/c"]));
}

#[test]
fn eng_194_worked_example() {
    let mut input = input(
        &json!({"prune": true}),
        &[
            job("mig", "PreSync", ""),
            object("v1", "Namespace", "web", &json!({})),
            config_map("c", &json!({})),
            object("apps/v1", "Deployment", "d", &json!({})),
            object("networking.k8s.io/v1", "Ingress", "i", &wave("1")),
        ],
    );
    input["liveObjects"] = json!([
        live(object("v1", "Secret", "old1", &json!({}))),
        live(object("v1", "Secret", "old2", &wave("2")))
    ]);
    assert_eq!(
        passes(&input),
        [
            "[apply /Namespace//web PreSync0] Running: waiting for healthy state of /Namespace/web",
            "[apply batch/Job/web/mig PreSync0] Running: waiting for completion of hook batch/Job/mig",
            "[remove-finalizer batch/Job/web/mig PreSync0 | prune /Secret/web/old2 Sync0 | apply /ConfigMap/web/c Sync0 | \
             apply apps/Deployment/web/d Sync0] Running: waiting for healthy state of /Secret/old2 and 2 more resources",
            "[prune /Secret/web/old1 Sync0] Running: waiting for healthy state of /Secret/old1",
            "[apply networking.k8s.io/Ingress/web/i Sync1] Succeeded: successfully synced (all tasks run)",
        ]
    );
    assert_eq!(
        run(&input).unwrap()["dryRun"],
        json!([
            "batch/Job/web/mig",
            "/ConfigMap/web/c",
            "apps/Deployment/web/d",
            "networking.k8s.io/Ingress/web/i"
        ])
    );
}

#[test]
fn eng_151_a_wave_runs_kind_by_kind_and_equal_kinds_together() {
    let targets = [
        object("apps/v1", "Deployment", "d", &json!({})),
        config_map("b", &json!({})),
        config_map("a", &json!({})),
        object("example.com/v1", "Widget", "w", &json!({})),
    ];
    assert_eq!(
        passes(&input(&json!({}), &targets)),
        [
            "[apply /ConfigMap/web/a Sync0, apply /ConfigMap/web/b Sync0 | apply apps/Deployment/web/d Sync0 | \
          apply example.com/Widget/web/w Sync0] Succeeded: successfully synced (all tasks run)"
        ]
    );
}

#[test]
fn eng_153_the_namespace_comes_before_cluster_scoped_objects_too() {
    let targets = [
        object("v1", "Namespace", "web", &wave("3")),
        object("rbac.authorization.k8s.io/v1", "ClusterRole", "r", &wave("-2")),
    ];
    let input = input(&json!({}), &targets);
    assert_eq!(
        passes(&input),
        [
            "[apply /Namespace//web Sync-2 | apply rbac.authorization.k8s.io/ClusterRole//r Sync-2] Succeeded: \
          successfully synced (all tasks run)"
        ]
    );
    assert_eq!(
        results(&input)[1],
        "rbac.authorization.k8s.io/ClusterRole//r Sync Synced/Running clusterrole.rbac.authorization.k8s.io/r created"
    );
}

#[test]
fn eng_152_a_crd_moves_before_its_first_object_and_skips_its_dry_run() {
    let mut crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "ws.example.com", &wave("5"));
    crd["spec"] = json!({"group": "example.com", "names": {"kind": "W"}});
    let mut input = input(&json!({}), &[crd, object("example.com/v1", "W", "w", &wave("1"))]);
    input["model"] = json!({"unservedKinds": ["example.com/W"]});
    let result = run(&input).unwrap();
    assert_eq!(result["dryRun"], json!(["apiextensions.k8s.io/CustomResourceDefinition//ws.example.com"]));
    assert_eq!(
        passes(&input),
        [
            "[apply apiextensions.k8s.io/CustomResourceDefinition//ws.example.com Sync1 | apply example.com/W/web/w Sync1] \
          Succeeded: successfully synced (all tasks run)"
        ]
    );
}

#[test]
fn eng_154_prune_last_comes_after_everything() {
    let mut input = input(&json!({"prune": true}), &[config_map("c", &wave("4"))]);
    input["liveObjects"] = json!([
        live(config_map("p", &option("PruneLast=true"))),
        live(config_map("q", &wave("7"))),
        live(config_map("r", &wave("-1"))),
    ]);
    assert_eq!(
        passes(&input).iter().map(|line| line.split(']').next().unwrap().to_owned()).collect::<Vec<_>>(),
        [
            // Waves -1, 0, 7 trade places: q runs at -1, r at 7, p last at 8.
            "[prune /ConfigMap/web/q Sync-1",
            // Only r and p are left, at -1 and 0: r moves to 0, p behind c.
            "[prune /ConfigMap/web/r Sync0",
            "[apply /ConfigMap/web/c Sync4",
            "[prune /ConfigMap/web/p Sync5",
        ]
    );
}

#[test]
fn eng_156_hooks_are_dropped_by_apply_strategy_and_partial_sync() {
    let targets = [job("h", "PreSync", ""), config_map("c", &json!({})), config_map("d", &json!({}))];
    let apply = input(&json!({"syncStrategy": {"apply": {"force": true}}}), &targets);
    assert_eq!(passes(&apply).len(), 1);
    assert_eq!(run(&apply).unwrap()["passes"][0]["operations"][0][0]["force"], json!(true));
    let partial = input(&json!({"resources": [{"kind": "ConfigMap", "name": "d"}]}), &targets);
    assert_eq!(
        passes(&partial),
        ["[apply /ConfigMap/web/d Sync0] Succeeded: successfully synced (all tasks run)"]
    );
}

#[test]
fn eng_157_a_created_namespace_is_no_task_of_the_next_pass() {
    let mut input = input(&json!({"syncOptions": ["CreateNamespace=true"]}), &[config_map("c", &json!({}))]);
    assert_eq!(
        passes(&input),
        [
            "[apply /Namespace//web PreSync0] Running: waiting for healthy state of /Namespace/web",
            "[apply /ConfigMap/web/c Sync0] Succeeded: successfully synced (all tasks run)",
        ]
    );
    input["untracked"] = json!([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}]);
    assert_eq!(passes(&input).len(), 1);
    input["application"]["spec"]["syncPolicy"] = json!({"managedNamespaceMetadata": {"labels": {"a": "b"}}});
    assert_eq!(
        passes(&input)[0],
        "[server-side-apply /Namespace//web PreSync0] Running: waiting for healthy state of /Namespace/web"
    );
}

#[test]
fn eng_158_unserved_and_denied_kinds_make_tasks_invalid() {
    let targets = [object("example.com/v1", "W", "w", &json!({})), config_map("c", &json!({}))];
    let mut input = input(&json!({}), &targets);
    input["model"] = json!({"unservedKinds": ["example.com/W"], "denied": {"/ConfigMap": "not here"}});
    assert_eq!(
        passes(&input),
        [
            "[] Failed: one or more synchronization tasks are not valid: not here; the server could not find the requested resource"
        ]
    );
    assert_eq!(
        results(&input),
        [
            "/ConfigMap/web/c Sync SyncFailed/ not here",
            "example.com/W/web/w Sync SyncFailed/ the server could not find the requested resource",
        ]
    );
    input["operation"]["sync"]["syncOptions"] = json!(["SkipDryRunOnMissingResource=true"]);
    input["model"] = json!({"unservedKinds": ["example.com/W"]});
    assert_eq!(run(&input).unwrap()["dryRun"], json!(["/ConfigMap/web/c"]));
}

#[test]
fn eng_160_a_failed_dry_run_ends_the_operation() {
    let mut input = input(
        &json!({}),
        &[config_map("a", &json!({})), config_map("b", &json!({})), job("f", "SyncFail", "")],
    );
    input["model"] = json!({"dryRunErrors": {"/ConfigMap/web/b": "bad"}});
    assert_eq!(passes(&input), ["[] Failed: one or more objects failed to apply (dry run)"]);
    assert_eq!(results(&input), ["/ConfigMap/web/b Sync SyncFailed/Failed bad"]);
    input["model"] = json!({"applyErrors": {"/Namespace//web": "quota"}});
    input["operation"]["sync"]["syncOptions"] = json!(["CreateNamespace=true"]);
    let lines = passes(&input);
    assert_eq!(
        lines,
        ["[apply /Namespace//web PreSync0] Failed: the namespace failed to apply, reason: quota"]
    );
}

#[test]
fn eng_162_a_vanished_hook_fails_the_sync() {
    let mut input = input(&json!({}), &[job("h", "PreSync", ""), config_map("c", &json!({}))]);
    input["model"] = json!({
        "health": {"batch/Job/web/h": ["Progressing"]},
        "removedAfterPass": {"batch/Job/web/h": 2}
    });
    let missing = "Resource batch/Job/h is missing, it might have been deleted";
    assert_eq!(
        passes(&input),
        [
            "[apply batch/Job/web/h PreSync0] Running: waiting for completion of hook batch/Job/h".to_owned(),
            "[] Running: waiting for completion of hook batch/Job/h".to_owned(),
            format!(
                "[] Failed: one or more synchronization tasks completed unsuccessfully, reason: {missing}"
            ),
        ]
    );
    assert_eq!(results(&input), [format!("batch/Job/web/h PreSync SyncFailed/Error {missing}")]);
}

#[test]
fn eng_163_pruned_objects_that_linger_are_awaited() {
    let mut input = input(&json!({"prune": true}), &[config_map("c", &wave("1"))]);
    input["liveObjects"] = json!([live(config_map("old", &json!({})))]);
    input["model"] = json!({"deletionPasses": {"/ConfigMap/web/old": 1}});
    assert_eq!(
        passes(&input),
        [
            "[prune /ConfigMap/web/old Sync0] Running: waiting for healthy state of /ConfigMap/old",
            "[] Running: waiting for deletion of /ConfigMap/old",
            "[apply /ConfigMap/web/c Sync1] Succeeded: successfully synced (all tasks run)",
        ]
    );
}

#[test]
fn eng_165_apply_out_of_sync_only_leaves_equal_objects_alone() {
    let sync = json!({"syncOptions": ["ApplyOutOfSyncOnly=true"]});
    let mut input = input(&sync, &[config_map("a", &json!({})), config_map("b", &json!({}))]);
    input["liveObjects"] = json!([live(config_map("a", &json!({}))), live(config_map("b", &json!({})))]);
    assert_eq!(passes(&input), ["[] Succeeded: successfully synced (no more tasks)"]);
    input["model"] = json!({"inSync": ["/ConfigMap/web/a"]});
    assert_eq!(
        passes(&input),
        ["[apply /ConfigMap/web/b Sync0] Succeeded: successfully synced (all tasks run)"]
    );
    assert_eq!(run(&input).unwrap()["dryRun"], json!(["/ConfigMap/web/b"]));
}

#[test]
fn eng_167_a_failure_beside_running_objects_ends_in_a_later_pass() {
    let targets = [
        config_map("c", &json!({})),
        object("apps/v1", "Deployment", "d", &json!({})),
        job("f", "SyncFail", ""),
    ];
    let mut input = input(&json!({}), &targets);
    input["model"] = json!({"applyErrors": {"apps/Deployment/web/d": "no quota"}});
    assert_eq!(
        passes(&input),
        [
            "[apply /ConfigMap/web/c Sync0 | apply apps/Deployment/web/d Sync0 | apply batch/Job/web/f SyncFail0] \
             Running: waiting for completion of hook batch/Job/f and 1 more resources",
            "[remove-finalizer batch/Job/web/f SyncFail0] Failed: one or more synchronization tasks completed \
             unsuccessfully, reason: no quota",
        ]
    );
    let error = &run(&input).unwrap()["passes"][0]["operations"][1][0]["error"];
    assert_eq!(error, &json!("no quota"));
}

#[test]
fn eng_168_degraded_objects_fail_only_after_the_others_ended() {
    let targets = [
        object("apps/v1", "Deployment", "a", &json!({})),
        object("apps/v1", "Deployment", "b", &json!({})),
        config_map("c", &wave("1")),
    ];
    let mut input = input(&json!({}), &targets);
    input["model"] = json!({"health": {
        "apps/Deployment/web/a": ["Degraded"],
        "apps/Deployment/web/b": ["Suspended", "Missing", "Healthy"]
    }});
    let lines = passes(&input);
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[1], "[] Running: waiting for healthy state of apps/Deployment/b");
    assert_eq!(lines[3], "[] Failed: one or more synchronization tasks completed unsuccessfully");
}

#[test]
fn eng_168_hooks_stay_until_the_whole_sync_ended() {
    let targets =
        [job("h", "PreSync", "HookSucceeded"), config_map("a", &json!({})), config_map("b", &wave("1"))];
    let mut input = input(&json!({}), &targets);
    assert_eq!(
        passes(&input)[2],
        "[apply /ConfigMap/web/b Sync1 | delete batch/Job/web/h PreSync0] Succeeded: successfully synced (all tasks run)"
    );
    input["model"] = json!({"applyErrors": {"/ConfigMap/web/b": "x"}});
    assert_eq!(
        passes(&input)[2],
        "[apply /ConfigMap/web/b Sync1] Failed: one or more objects failed to apply, reason: x"
    );
    input["targets"][0] = job("h", "PreSync", "HookFailed");
    assert_eq!(
        passes(&input)[2],
        "[apply /ConfigMap/web/b Sync1 | delete batch/Job/web/h PreSync0] Failed: one or more objects failed to apply, reason: x"
    );
}

#[test]
fn eng_172_an_existing_hook_is_deleted_and_created_anew() {
    let mut old = live(job("h", "PreSync", ""));
    old["metadata"]["finalizers"] = json!(["argocd.argoproj.io/hook-finalizer"]);
    let mut input = input(&json!({}), &[job("h", "PreSync", "")]);
    input["liveObjects"] = json!([old]);
    assert_eq!(
        passes(&input),
        [
            "[remove-finalizer batch/Job/web/h PreSync0 | delete batch/Job/web/h PreSync0] Running: \
             waiting for deletion of hook batch/Job/h",
            "[apply batch/Job/web/h PreSync0] Running: waiting for completion of hook batch/Job/h",
            "[remove-finalizer batch/Job/web/h PreSync0] Succeeded: successfully synced (no more tasks)",
        ]
    );
    assert_eq!(results(&input), ["batch/Job/web/h PreSync Synced/Succeeded job.batch/h created"]);
}

#[test]
fn eng_145_a_hook_of_two_phases_runs_twice() {
    let input = input(&json!({}), &[job("h", "PreSync,PostSync", ""), config_map("c", &json!({}))]);
    let lines = passes(&input);
    let applied: Vec<&String> = lines.iter().filter(|line| line.contains("apply batch/Job/web/h")).collect();
    assert_eq!(applied.len(), 2, "{lines:#?}");
    assert_eq!(results(&input).len(), 3);
}

#[test]
fn eng_149_nameless_hooks_are_named_after_the_operation() {
    let mut hook = job("", "PreSync", "");
    hook["metadata"].as_object_mut().unwrap().remove("name");
    hook["metadata"]["generateName"] = json!("migrate-");
    let mut input = input(&json!({"revision": "0a1b2c3d4e5f"}), &[hook]);
    input["operation"]["startedAt"] = json!("2023-11-14T22:13:20Z");
    assert!(
        passes(&input)[0].starts_with("[apply batch/Job/web/migrate-0a1b2c3-presync-1700000000 PreSync0]")
    );
}

/// CTL-62: objects that the server names are tasks of their own, in whatever wave, and nobody waits for what cannot
/// be found again.
#[test]
fn eng_162_objects_that_the_server_names_are_made_once_each_and_not_awaited() {
    let nameless = |prefix: &str, wave: &str| {
        let mut object = job("", "", "");
        object["metadata"] = json!({"generateName": prefix,
            "annotations": {"argocd.argoproj.io/sync-wave": wave, "argocd.argoproj.io/sync-options": "Replace=true"}});
        object
    };
    let targets = [nameless("a-", "0"), nameless("b-", "1"), config_map("c", &wave("2"))];
    let input = input(&json!({}), &targets);
    let lines = passes(&input);
    assert_eq!(
        lines.last().unwrap(),
        "[apply /ConfigMap/web/c Sync2] Succeeded: successfully synced (all tasks run)"
    );
    let made = lines.iter().filter(|line| line.contains("create batch/Job/web/")).count();
    assert_eq!(made, 2, "{lines:#?}");
    assert!(results(&input)[0].starts_with("batch/Job/web/a- Sync Synced/"), "{:#?}", results(&input));
}

#[test]
fn eng_173_unconfirmed_prunes_stop_the_wave_and_the_dry_run() {
    let targets = [config_map("c", &json!({}))];
    let mut input = input(&json!({"prune": true}), &targets);
    input["liveObjects"] = json!([live(config_map("old", &option("Prune=confirm")))]);
    input["model"] = json!({"maxPasses": 2});
    let waiting = "[] Running: waiting for pruning confirmation of /ConfigMap/old";
    assert_eq!(passes(&input), [waiting, waiting]);
    assert_eq!(run(&input).unwrap()["dryRun"], json!([]));
    input["application"]["metadata"] =
        json!({"annotations": {"argocd.argoproj.io/deletion-approved": "2026-01-01T00:00:00Z"}});
    assert_eq!(
        passes(&input),
        [
            "[prune /ConfigMap/web/old Sync0 | apply /ConfigMap/web/c Sync0] Succeeded: successfully synced (all tasks run)"
        ]
    );
}

#[test]
fn eng_174_prune_outcomes() {
    let mut input = input(&json!({"syncOptions": ["PrunePropagationPolicy=orphan", "Prune=false"]}), &[]);
    input["liveObjects"] =
        json!([live(config_map("a", &json!({}))), live(config_map("b", &option("Prune=true")))]);
    assert_eq!(
        results(&input),
        [
            "/ConfigMap/web/a Sync PruneSkipped/Succeeded ignored (requires pruning)",
            "/ConfigMap/web/b Sync PruneSkipped/Succeeded ignored (requires pruning)",
        ]
    );
    input["operation"]["sync"]["prune"] = json!(true);
    assert_eq!(
        results(&input),
        [
            "/ConfigMap/web/a Sync PruneSkipped/Succeeded ignored (no prune)",
            "/ConfigMap/web/b Sync Pruned/Succeeded pruned",
        ]
    );
    assert_eq!(run(&input).unwrap()["passes"][0]["operations"][0][0]["propagation"], json!("orphan"));
    input["operation"]["sync"]["dryRun"] = json!(true);
    assert_eq!(results(&input)[1], "/ConfigMap/web/b Sync Pruned/Succeeded pruned (dry run)");
}

#[test]
fn eng_175_operations_follow_the_options() {
    let op = |options: &str, exists: bool, kind: &str| {
        let target = object("v1", kind, "o", &option(options));
        let mut input = input(&json!({}), std::slice::from_ref(&target));
        if exists {
            input["liveObjects"] = json!([live(target)]);
        }
        let operation = run(&input).unwrap()["passes"][0]["operations"][0][0].clone();
        let force = if operation["force"] == true { " force" } else { "" };
        let unchecked = if operation["validate"] == false { " unchecked" } else { "" };
        format!("{}{force}{unchecked}", operation["op"].as_str().unwrap())
    };
    assert_eq!(op("Replace=true", false, "ConfigMap"), "create");
    assert_eq!(op("Replace=true,Force=true", true, "ConfigMap"), "replace force");
    assert_eq!(op("Replace=true,Force=true", true, "Namespace"), "update");
    assert_eq!(op("Replace=true,ServerSideApply=true", true, "ConfigMap"), "replace");
    assert_eq!(op("ServerSideApply=true,Force=true", true, "ConfigMap"), "server-side-apply");
    assert_eq!(op("Force=true,Validate=false", true, "ConfigMap"), "apply force unchecked");
}

#[test]
fn eng_184_sync_fail_hooks_run_and_may_fail() {
    let targets = [config_map("c", &json!({})), job("f", "SyncFail", ""), job("g", "SyncFail", "")];
    let mut input = input(&json!({}), &targets);
    input["model"] = json!({
        "applyErrors": {"/ConfigMap/web/c": "no", "batch/Job/web/g": "nor this"},
    });
    assert_eq!(
        passes(&input),
        [
            "[apply /ConfigMap/web/c Sync0 | apply batch/Job/web/f SyncFail0, apply batch/Job/web/g SyncFail0] Running: \
             waiting for completion of hook batch/Job/f",
            "[remove-finalizer batch/Job/web/f SyncFail0] Failed: one or more synchronization tasks completed \
             unsuccessfully, reason: no\none or more SyncFail hooks failed, reason: nor this",
        ]
    );
}

#[test]
fn eng_190_what_was_recorded_before_it_ran_has_no_phase_of_its_own() {
    let targets = [
        object("example.com/v1", "W", "w", &json!({})),
        job("h", "PreSync", ""),
        config_map("c", &json!({})),
        config_map("d", &json!({})),
    ];
    let mut input = input(&json!({}), &targets);
    input["model"] = json!({"unservedKinds": ["example.com/W"], "denied": {"batch/Job": "no jobs here"}});
    assert_eq!(
        results(&input),
        [
            "batch/Job/web/h PreSync SyncFailed/ no jobs here",
            "example.com/W/web/w Sync SyncFailed/ the server could not find the requested resource",
        ]
    );
    // What ran and failed has one, in a dry run and for real.
    input["targets"] = json!(targets[2..]);
    input["model"] = json!({"dryRunErrors": {"/ConfigMap/web/c": "bad"}});
    assert_eq!(results(&input), ["/ConfigMap/web/c Sync SyncFailed/Failed bad"]);
    input["model"] = json!({"applyErrors": {"/ConfigMap/web/c": "bad"}});
    assert_eq!(results(&input)[0], "/ConfigMap/web/c Sync SyncFailed/Failed bad");
}

#[test]
fn eng_184_hooks_that_ran_do_not_extend_the_text() {
    let targets = [config_map("c", &json!({})), job("f", "SyncFail", ""), job("g", "SyncFail", "")];
    let mut input = input(&json!({}), &targets);
    let text = "one or more synchronization tasks completed unsuccessfully, reason: no";
    let end = |input: &Value| run(input).unwrap()["final"]["message"].as_str().unwrap().to_owned();
    input["model"] = json!({"applyErrors": {"/ConfigMap/web/c": "no"}});
    assert_eq!(end(&input), text);
    input["model"]["health"] = json!({"batch/Job/web/f": ["Degraded"]});
    assert_eq!(end(&input), text, "a hook that ran and failed");
    input["model"]["health"] = json!({"batch/Job/web/f": ["Progressing"]});
    input["model"]["removedAfterPass"] = json!({"batch/Job/web/f": 2});
    assert_eq!(end(&input), text, "a hook that vanished");
}

#[test]
fn eng_187_termination_ends_running_hooks() {
    let targets = [job("h", "PreSync", ""), config_map("c", &json!({}))];
    let mut input = input(&json!({}), &targets);
    input["model"] = json!({"health": {"batch/Job/web/h": ["Progressing"]}, "terminateAtPass": 2});
    assert_eq!(
        passes(&input)[1],
        "[remove-finalizer batch/Job/web/h PreSync0 | delete batch/Job/web/h PreSync0] Failed: Operation terminated"
    );
    assert_eq!(results(&input), ["batch/Job/web/h PreSync Synced/Failed Terminated"]);
    input["model"] = json!({"terminateAtPass": 2});
    assert_eq!(passes(&input)[1], "[remove-finalizer batch/Job/web/h PreSync0] Failed: Operation terminated");
    input["model"] = json!({"terminateAtPass": 2, "removedAfterPass": {"batch/Job/web/h": 1}});
    assert_eq!(results(&input), ["batch/Job/web/h PreSync Synced/Succeeded Terminated"]);
}

#[test]
fn eng_191_a_dry_run_operation_changes_nothing() {
    let mut old = live(job("h", "PreSync", "HookSucceeded"));
    old["metadata"]["finalizers"] = json!(["argocd.argoproj.io/hook-finalizer"]);
    let targets = [job("h", "PreSync", "HookSucceeded"), config_map("c", &wave("1"))];
    let mut input = input(&json!({"dryRun": true, "syncOptions": ["CreateNamespace=true"]}), &targets);
    input["liveObjects"] = json!([old]);
    assert_eq!(passes(&input), ["[] Succeeded: successfully synced (no more tasks)"]);
    assert_eq!(
        run(&input).unwrap()["dryRun"],
        json!(["/Namespace//web", "batch/Job/web/h", "/ConfigMap/web/c"])
    );
    assert_eq!(results(&input)[2], "/ConfigMap/web/c Sync Synced/Succeeded configmap/c created (dry run)");
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    const KINDS: [(&str, &str); 5] = [
        ("v1", "ConfigMap"),
        ("v1", "Namespace"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "Job"),
        ("example.com/v1", "Widget"),
    ];

    fn any_object() -> impl Strategy<Value = Value> {
        let hooks = prop_oneof![
            Just(""),
            Just("PreSync"),
            Just("PostSync"),
            Just("SyncFail"),
            Just("PreSync,PostSync")
        ];
        let policies = prop_oneof![Just(""), Just("HookSucceeded"), Just("HookFailed")];
        (0..KINDS.len(), "[a-d]", -2..3_i64, hooks, policies).prop_map(|(kind, name, wave, hook, policy)| {
            let mut annotations = json!({"argocd.argoproj.io/sync-wave": wave.to_string()});
            if !hook.is_empty() {
                annotations["argocd.argoproj.io/hook"] = json!(hook);
                annotations["argocd.argoproj.io/hook-delete-policy"] = json!(policy);
            }
            object(KINDS[kind].0, KINDS[kind].1, &name, &annotations)
        })
    }

    fn any_input() -> impl Strategy<Value = Value> {
        let keys = prop::collection::vec(("[a-d]", 0..3_usize), 0..3);
        let parts = (
            prop::collection::vec(any_object(), 0..8),
            prop::collection::vec(any_object(), 0..5),
            keys,
            any::<bool>(),
        );
        parts.prop_map(|(targets, live_objects, failing, prune)| {
            let mut input = input(&json!({"prune": prune}), &targets);
            let plain = live_objects
                .into_iter()
                .filter(|object| object["metadata"]["annotations"].get(annotation::HOOK).is_none());
            input["liveObjects"] = plain.map(live).collect();
            let errors: Map<String, Value> = failing
                .into_iter()
                .map(|(name, kind)| {
                    (
                        ["/ConfigMap/web/", "apps/Deployment/web/", "batch/Job/web/"][kind].to_owned()
                            + &name,
                        json!("no"),
                    )
                })
                .collect();
            input["model"] = json!({"applyErrors": errors, "maxPasses": 60});
            input
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn sty_72_plans_end_and_never_start_a_task_twice(input in any_input()) {
            let result = run(&input).unwrap();
            prop_assert_ne!(&result["final"]["phase"], &json!("Running"));
            let mut started = BTreeSet::new();
            let groups = result["passes"].as_array().unwrap().iter().flat_map(|pass| pass["operations"].as_array().unwrap());
            for operation in groups.flat_map(|group| group.as_array().unwrap()) {
                if ["apply", "prune"].contains(&operation["op"].as_str().unwrap()) {
                    let task = format!("{} {}", operation["key"], operation["phase"]);
                    prop_assert!(started.insert(task.clone()), "{} started twice", task);
                }
            }
        }

        #[test]
        fn sty_72_plans_do_not_depend_on_the_order_of_targets(input in any_input()) {
            let mut reversed = input.clone();
            let mut targets = reversed["targets"].as_array().unwrap().clone();
            let mut seen = BTreeSet::new();
            // Of equal targets the last counts, so only distinct ones may trade places.
            prop_assume!(targets.iter().all(|target| seen.insert(format!("{}{}", target["kind"], target["metadata"]["name"]))));
            targets.reverse();
            reversed["targets"] = json!(targets);
            prop_assert_eq!(run(&input).unwrap(), run(&reversed).unwrap());
        }
    }
}
