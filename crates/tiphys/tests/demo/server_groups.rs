//! Projects, repositories, clusters, certificates and sets by way of the API server, by somebody who may do everything and
//! by somebody with rights in one project (CLI-600..605, 700..720, 800..814, 830, 831).

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::api::CONFIG_MAPS;
use crate::person::Person;
use crate::process::{Demo, Place};

const HERE: &str = "https://kubernetes.default.svc";
const POLICY: &str = "\
p, role:dev, applications, *, dev/*, allow
p, role:dev, applicationsets, *, dev/*, allow
p, role:dev, repositories, *, dev/*, allow
p, role:dev, projects, get, dev, allow
g, dev, role:dev
";

/// Somebody who may do everything, and a developer with rights in one project.
async fn people<'a>(place: &'a Place, demo: &Demo) -> (Person<'a>, Person<'a>) {
    let labels = json!({"app.kubernetes.io/part-of": "argocd"});
    for (name, data) in
        [("argocd-cm", json!({"accounts.dev": "login"})), ("argocd-rbac-cm", json!({"policy.csv": POLICY}))]
    {
        let metadata = json!({"name": name, "namespace": "argocd", "labels": labels});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
        demo.api.apply(CONFIG_MAPS, &object).await;
    }
    let (admin, dev) = (Person::new(place, "admin"), Person::new(place, "dev"));
    let server = format!("127.0.0.1:{}", demo.port());
    let password = demo.ready[4].rsplit(' ').next().unwrap();
    let login = ["login", &server, "--plaintext", "--username"];
    admin.does(&[&login[..], &["admin", "--password", password]].concat()).await;
    let own = ["--account", "dev", "--current-password", password, "--new-password", "developer-1"];
    admin.until(&[&["account", "update-password"][..], &own].concat()).await;
    dev.until(&[&login[..], &["dev", "--password", "developer-1"]].concat()).await;
    (admin, dev)
}

/// A file with a set of two applications.
fn set(place: &Place, name: &str, project: &str, git: &str) -> String {
    let of = if project.is_empty() { "default" } else { project };
    set_at(place, name, (project, of), git, "dev-{{.n}}")
}

/// The same, with applications that go to a namespace.
fn set_at(place: &Place, name: &str, (project, of): (&str, &str), git: &str, namespace: &str) -> String {
    let own = if project.is_empty() { Value::Null } else { project.into() };
    let value = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": name},
        "spec": {"project": own, "goTemplate": true, "generators": [{"list": {"elements": [{"n": "a"}, {"n": "b"}]}}],
            "template": {"metadata": {"name": format!("{name}-{{{{.n}}}}")}, "spec": {"project": of,
                "source": {"repoURL": git, "path": "guestbook", "targetRevision": "main"},
                "destination": {"server": HERE, "namespace": namespace}}}}});
    let path = place.path().join(format!("{name}.json"));
    std::fs::write(&path, value.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn cli_700_what_belongs_to_a_project_goes_by_way_of_the_server() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    let git = demo.git();
    let (admin, dev) = people(&place, &demo).await;

    // Projects, roles and tokens.
    for name in ["dev", "other"] {
        let destination = format!("{HERE},dev*");
        assert_eq!(admin.does(&["proj", "create", name, "-s", "*", "-d", &destination]).await, "");
    }
    let text = admin.refused(20, &["proj", "create", "dev", "--description", "d"]).await;
    assert!(text.contains("use upsert flag to force update; difference in keys"), "{text}");
    admin.does(&["proj", "set", "dev", "--description", "Ours"]).await;
    admin
        .does(&[
            "proj",
            "windows",
            "add",
            "dev",
            "-k",
            "allow",
            "--schedule",
            "* * * * *",
            "--duration",
            "1h",
            "--applications",
            "*",
        ])
        .await;
    assert!(admin.does(&["proj", "windows", "list", "dev"]).await.contains("\n0   Active  allow"));
    assert_eq!(admin.does(&["proj", "windows", "delete", "dev", "0"]).await, "");
    assert_eq!(admin.does(&["proj", "role", "create", "dev", "ci"]).await, "Role 'ci' created\n");
    admin.does(&["proj", "role", "add-policy", "dev", "ci", "-a", "get", "-o", "*"]).await;
    let made = admin.does(&["proj", "role", "create-token", "dev", "ci", "-i", "one"]).await;
    assert!(made.starts_with("Create token succeeded for proj:dev:ci.\n  ID: one\n  Issued At: "), "{made}");
    assert!(made.contains("\n  Expires At: Never\n  Token: ey"), "{made}");
    let token = made.rsplit(' ').next().unwrap().trim().to_owned();
    let with_token = ["app", "list", "-o", "name", "--auth-token", &token];
    assert_eq!(admin.does(&with_token).await, "", "nothing of other projects");
    let tokens = admin.does(&["proj", "role", "list-tokens", "dev", "ci", "-u"]).await;
    let row: Vec<&str> = tokens.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[0], "one", "{tokens}");
    admin.does(&["proj", "role", "delete-token", "dev", "ci", row[1]]).await;
    assert_eq!(admin.does(&["proj", "role", "list-tokens", "dev", "ci"]).await, "No tokens for dev.ci\n");
    let text = admin.refused(20, &with_token).await;
    assert!(text.starts_with("rpc error: code = Unauthenticated"), "{text}");

    // A developer sees their project, and changes nothing of it.
    assert_eq!(dev.does(&["proj", "list", "-o", "name"]).await, "dev\n");
    let text = dev.refused(20, &["proj", "get", "other"]).await;
    assert!(text.contains("PermissionDenied desc = permission denied: projects, get, other"), "{text}");
    let text = dev.refused(20, &["proj", "add-source", "dev", "https://h/x"]).await;
    assert!(text.contains("permission denied: projects, update, dev"), "{text}");

    // One repository in two projects.
    let added = format!("Repository '{git}' added\n");
    assert_eq!(admin.does(&["repo", "add", &git, "--project", "other"]).await, added);
    assert_eq!(dev.does(&["repo", "list", "-o", "url"]).await, "");
    let text = dev.refused(20, &["repo", "add", &git]).await;
    assert!(text.contains(&format!("permission denied: repositories, create, {git}")), "{text}");
    let text = dev.refused(20, &["repo", "add", &git, "--project", "other"]).await;
    assert!(text.contains(&format!("repositories, create, other/{git}")), "{text}");
    assert_eq!(dev.does(&["repo", "add", &git, "--project", "dev"]).await, added);
    let shown = dev.does(&["repo", "get", &git, "-o", "json"]).await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["project"], &shown["connectionState"]["status"]),
        (&"dev".into(), &"Successful".into())
    );
    assert!(
        admin.does(&["proj", "get", "dev"]).await.contains(&format!("Scoped Repositories:         {git}\n"))
    );
    let text = admin.refused(20, &["repo", "get", &git]).await;
    assert!(text.contains("matching projects: dev, other"), "{text}");
    let text = dev.refused(20, &["repo", "rm", &git, "--project", ""]).await;
    assert!(text.ends_with("and project \"\""), "CLI-803: {text}");
    assert_eq!(dev.does(&["repo", "rm", &git]).await, format!("Repository '{git}' removed\n"));
    assert!(admin.does(&["repo", "get", &git]).await.contains(" other\n"), "that of the others stays");
    let broken = format!("{git}x");
    let text = admin.refused(20, &["repo", "add", &broken]).await;
    assert!(text.contains("error testing repository connectivity: "), "{text}");
    let template = ["repocreds", "add", "https://h/org", "--username", "u", "--password", "hunter2"];
    admin.does(&template).await;
    assert!(admin.does(&["repocreds", "list"]).await.contains("\nhttps://h/org  u         false"));
    assert_eq!(dev.does(&["repocreds", "list", "-o", "url"]).await, "");

    // Clusters and certificates.
    assert_eq!(admin.does(&["cluster", "list", "-o", "server"]).await, format!("{HERE}\n"));
    assert!(admin.does(&["cluster", "list"]).await.contains("  in-cluster  v"));
    assert_eq!(dev.does(&["cluster", "list", "-o", "server"]).await, "");
    let text = dev.refused(20, &["cluster", "get", "in-cluster"]).await;
    assert_eq!(text, "rpc error: code = PermissionDenied desc = permission denied");
    let kubeconfig = demo.directory().join("kubeconfig").to_str().unwrap().to_owned();
    let add = ["cluster", "add", "tiphys", "--kubeconfig", &kubeconfig, "--name", "again"];
    let text = dev.refused(20, &add).await;
    assert!(text.contains("PermissionDenied desc = permission denied: clusters, create, http"), "{text}");
    let account = demo.api.get("v1/serviceaccounts", "kube-system", "argocd-manager").await;
    assert!(account.is_none(), "CLI-812: nothing is made before the server was asked");
    let hosts = place.path().join("hosts");
    let key = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    std::fs::write(&hosts, format!("ssh.example ssh-ed25519 {key}\n")).unwrap();
    let add = ["cert", "add-ssh", "--batch", "--from", hosts.to_str().unwrap()];
    assert_eq!(admin.does(&add).await, "Successfully created 1 SSH known host entries\n");
    assert!(admin.does(&["cert", "list", "--cert-type", "ssh"]).await.contains("ssh-ed25519  SHA256:"));
    let text = dev.refused(20, &add).await;
    assert!(text.contains("permission denied: certificates, create"), "{text}");
    assert_eq!(
        admin.does(&["cert", "rm", "ssh.example"]).await,
        "Removed cert for 'ssh.example' of type 'ssh' (subtype 'ssh-ed25519')\n"
    );
    assert_eq!(admin.does(&["gpg", "list"]).await, "KEYID  TYPE  IDENTITY\n");

    // Sets.
    let (mine, free, foreign) = (
        set(&place, "mine", "dev", &git),
        set(&place, "free", "", &git),
        set(&place, "foreign", "other", &git),
    );
    assert!(dev.does(&["appset", "generate", &mine]).await.contains("argocd/mine-b"));
    assert_eq!(
        dev.does(&["appset", "generate", &mine, "--output-parameters"]).await,
        "{\"n\":\"a\"}\n{\"n\":\"b\"}\n"
    );
    let outside = set_at(&place, "outside", ("dev", "dev"), &git, "elsewhere-{{.n}}");
    let refusal = "application 'argocd/outside-a': ";
    for command in [&["generate"][..], &["create", "--dry-run"]] {
        let said = dev.says(&[&["appset"], command, &[&outside]].concat()).await;
        assert!(said.code == Some(0) && said.stderr.contains(refusal), "CLI-607: {said:?}");
    }
    let preview = dev.does(&["appset", "preview", &mine]).await;
    assert_eq!(preview, "+ argocd/mine-a\n+ argocd/mine-b\n2 added, 0 changed, 0 removed, 0 unchanged\n");
    let text = dev.refused(20, &["appset", "preview", &free]).await;
    assert!(text.contains("permission denied: applicationsets, create, default/free"), "{text}");
    let said = dev.says(&["appset", "create", &mine, "--dry-run", "-o", "json"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let dry: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(dry["status"]["resources"][1]["name"], "mine-b");
    let said = dev.says(&["appset", "create", &mine, "--wait"]).await;
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (Some(0), "ApplicationSet 'mine' created\nApplicationSet 'mine' resources are up to date\n")
    );
    let said = dev.says(&["appset", "create", &mine, "-o", "json"]).await;
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), "ApplicationSet 'mine' unchanged\n"));
    assert!(dev.does(&["appset", "list"]).await.contains("\nargocd/mine  dev"));
    assert!(dev.does(&["appset", "get", "mine"]).await.contains("Scoped Project:     dev\n"));
    assert_eq!(dev.does(&["app", "list", "-o", "name"]).await, "argocd/mine-a\nargocd/mine-b\n");
    let preview = dev.does(&["appset", "preview", "mine"]).await;
    assert_eq!(preview, "0 added, 0 changed, 0 removed, 2 unchanged\n", "CLI-606");
    let moved = set_at(&place, "mine", ("dev", "dev"), &git, "dev-x-{{.n}}");
    let preview = dev.does(&["appset", "preview", &moved]).await;
    assert!(preview.contains("0 added, 2 changed, 0 removed, 0 unchanged\n"), "{preview}");
    assert!(preview.contains("\n>     namespace: dev-x-a\n"), "{preview}");
    for (file, what) in [(&free, "default/free"), (&foreign, "other/foreign")] {
        let text = dev.refused(20, &["appset", "create", file]).await;
        assert!(text.contains(&format!("permission denied: applicationsets, create, {what}")), "{text}");
    }
    assert_eq!(dev.does(&["appset", "delete", "mine", "--wait"]).await, "applicationset 'mine' deleted\n");
    let text = dev.refused(20, &["appset", "get", "mine"]).await;
    assert!(text.contains("code = NotFound"), "{text}");

    admin.does(&["repo", "rm", &git]).await;
    assert_eq!(admin.does(&["proj", "delete", "other"]).await, "");
    demo.stop(Signal::INT).await;
}
