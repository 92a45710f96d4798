"""The commands of hack/argocd-cli, in chapters. A chapter takes the stage, an administrator and a developer."""
import base64
import json
import pathlib
import re
import ssl
import urllib.error
import urllib.request

SERVER = "https://kubernetes.default.svc"
POLICY = """p, role:dev, applications, *, dev/*, allow
p, role:dev, applicationsets, *, dev/*, allow
p, role:dev, repositories, *, dev/*, allow
p, role:dev, logs, get, dev/*, allow
p, role:dev, projects, get, dev, allow
g, dev, role:dev
"""
UUID = r"[0-9a-f]{8}-[0-9a-f-]{27}"
DENIED = "code = PermissionDenied desc = permission denied"


def ask(kubeconfig, method, path, body=None, kind="application/merge-patch+json"):
    """One request to the embedded API server, as its administrator."""
    text = pathlib.Path(kubeconfig).read_text()
    part = lambda name: re.search(rf"{name}: (\S+)", text).group(1)
    tls = ssl.create_default_context(cadata=base64.b64decode(part("certificate-authority-data")).decode())
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(part("server") + path, data, method=method, headers={
        "Authorization": f"Bearer {part('token')}", "Content-Type": kind if method == "PATCH" else "application/json"})
    try:
        with urllib.request.urlopen(request, context=tls, timeout=30) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        if method == "DELETE" or error.code == 409:
            return None
        raise SystemExit(f"{method} {path}: {error.read().decode()[:500]}") from error


def people(stage):
    """A developer with rights in one project, and what the commands work on."""
    core = "/api/v1/namespaces/argocd"
    changes = {"argocd-cm": {"accounts.dev": "login, apiKey", "server.rbac.log.enforce.enable": "true"}, "argocd-rbac-cm": {"policy.csv": POLICY}}
    for name, data in changes.items():
        labels = {"app.kubernetes.io/part-of": "argocd"}
        stage.kubectl("POST", f"{core}/configmaps", stdin={"metadata": {"name": name, "labels": labels}, "data": {}})
        stage.kubectl("PATCH", f"{core}/configmaps/{name}", stdin={"metadata": {"labels": labels}, "data": data})
    spec = {"sourceRepos": ["*"], "destinations": [{"server": SERVER, "namespace": "dev*"}],
            "clusterResourceWhitelist": [{"group": "", "kind": "Namespace"}]}
    for name in ("dev", "other"):
        stage.kubectl("POST", "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects", stdin={
            "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": name}, "spec": spec})


def session(stage, admin, dev):
    host, password = stage.demo.address, stage.demo.password
    admin("login", host, "--plaintext", "--username", "admin", "--password", "wrong-password", code=20,
          err="code = Unauthenticated desc = Invalid username or password")
    admin("login", host, "--plaintext", "--username", "admin", "--password", password,
          out=["'admin:login' logged in successfully", f"Context '{host}' updated"])
    admin("account", "get-user-info", out=["Logged In: true", "Username: admin", "Issuer: argocd"])
    admin("version", out=["^argocd: v", "^argocd-server: v3.6.0", "Kustomize Version:", "Helm Version:"])
    admin("version", "-o", "json", out='"server": {')
    admin("version", "--short", out="^argocd-server: v3.6.0")
    admin("context", out=r"\*\s+" + re.escape(host))
    admin("account", "update-password", "--account", "dev", "--current-password", password, "--new-password", "developer-1",
          out="Password updated")
    dev("login", host, "--plaintext", "--username", "dev", "--password", "developer-1", patient=True,
        out="'dev:login' logged in successfully")


def account(stage, admin, dev):
    admin("account", "list", out=[r"^NAME\s+ENABLED\s+CAPABILITIES", r"^admin\s+true\s+login", r"^dev\s+true\s+login, apiKey"])
    admin("account", "list", "-o", "json", out='"name": "dev"')
    admin("account", "get", "--account", "dev", out=[r"^Name:\s+dev", r"^Capabilities:\s+login, apiKey", "^Tokens:\nNONE"])
    admin("account", "can-i", "sync", "applications", "*/*", out="^yes$")
    dev("account", "can-i", "sync", "applications", "dev/*", out="^yes$")
    dev("account", "can-i", "delete", "clusters", "*", out="^no$")
    dev("account", "can-i", "fly", "clusters", "*", code=20, err="does not contain fly")
    dev("account", "update-password", "--current-password", "wrong-password", "--new-password", "developer-2", code=20,
        err="current password does not match")
    dev("account", "update-password", "--current-password", "developer-1", "--new-password", "short", code=20,
        err="new password does not match the following expression")
    dev("account", "update-password", "--current-password", "developer-1", "--new-password", "developer-2",
        out=["Password updated", "Context '.*' updated"])
    dev("account", "get-user-info", out="Username: dev")
    token = admin("account", "generate-token", "--account", "dev", "--id", "ci", "--expires-in", "1h", out=r"^ey\S+$").strip()
    admin("account", "generate-token", "--account", "dev", "--id", "ci", code=20, err="account already has token with id 'ci'")
    admin("account", "generate-token", code=20, err="account 'admin' does not have apiKey capability")
    admin("account", "get", "--account", "dev", out=r"^ci\s+\S+\s+\S+")
    dev("app", "list", "--auth-token", token, out="^NAME", why="with a token")
    admin("account", "delete-token", "--account", "dev", "ci")
    dev("app", "list", "--auth-token", token, code=20, err="code = Unauthenticated", why="a token that was deleted")
    admin("account", "get", "--account", "nobody", code=20, err="rpc error: code = ")
    dev("account", "get", "--account", "admin", code=20, err=DENIED)
    dev("account", "list", out=r"^dev\s+true")


CM = """apiVersion: v1
kind: ConfigMap
metadata: {name: cli}
data: {step: "%s"}
"""
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: cli}
spec:
  replicas: 1
  selector: {matchLabels: {app: cli}}
  template:
    metadata: {labels: {app: cli}}
    spec: {containers: [{name: main, image: "registry.example/cli:1"}]}
"""


def app(stage, admin, dev):
    git, path = stage.demo.git, f"cli-{stage.way}"
    first = stage.demo.push({f"{path}/cm.yaml": CM % "one", f"{path}/deployment.yaml": DEPLOYMENT}, "The first state")
    create = ["app", "create", "web", "--repo", git, "--path", path, "--dest-server", SERVER, "--dest-namespace", "dev-web"]
    options = ["--project", "dev", "--sync-option", "CreateNamespace=true", "--revision", "main"]
    dev(*create, code=20, err="permission denied: applications, create, default/web")
    dev(*create, *options, out="application 'web' created")
    dev(*create, *options, out="application 'web' unchanged")
    dev(*create, *options, "--label", "a=b", code=20, err="existing application spec is different, use upsert flag to force update")
    dev(*create, *options, "--label", "a=b", "--upsert", out="application 'web' updated")
    dev("app", "create", "bad", *create[3:6], "no/such/path", *create[7:], *options, code=20,
        err=["code = InvalidArgument desc = application spec for bad is invalid: .*no/such/path"])
    dev("app", "create", "bad", "--repo", git + "x", *create[5:], *options, code=20,
        err="code = InvalidArgument desc = application spec for bad is invalid: InvalidSpecError: repository not accessible: repositories not accessible: .*Repository{Repo: ")
    dev("app", "create", "bad", *create[3:8], "https://nowhere.example", *create[9:], *options, code=20,
        err="code = InvalidArgument desc = application destination spec for bad is invalid: ")
    dev("app", "list", out=[r"^NAME\s+CLUSTER\s+NAMESPACE\s+PROJECT\s+STATUS\s+HEALTH", r"^argocd/web\s+" + SERVER + r"\s+dev-web\s+dev\s"])
    dev("app", "list", "-o", "name", out="\\Aargocd/web\n\\Z", why="nothing of others")
    dev("app", "list", "-l", "a=b", "-o", "name", out="^argocd/web$")
    dev("app", "get", "web", "--refresh", out=[r"^Name:\s+argocd/web", r"^Project:\s+dev", r"^Sync Status:\s+OutOfSync from main \(" + first[:7],
                                              r"^apps\s+Deployment\s+dev-web\s+cli\s+OutOfSync\s+Missing", r"^SyncWindow:\s+Sync Allowed"])
    dev("app", "get", "web", "--hard-refresh", "-o", "json", out='"status": "OutOfSync"')
    dev("app", "get", "web", "-o", "tree", out=r"Deployment/cli\s+OutOfSync")
    dev("app", "get", "guestbook", code=20, err=DENIED)
    dev("app", "get", "nothing", code=20, err=DENIED)
    dev("app", "diff", "web", code=1, out="===== apps/Deployment dev-web/cli ======")
    dev("app", "manifests", "web", out=["kind: ConfigMap", "kind: Deployment"])
    dev("app", "sync", "web", "--dry-run", out=r"^Phase:\s+Succeeded")
    dev("app", "sync", "web", out=[r"^Phase:\s+Succeeded", r"^Sync Revision:\s+" + first, r"deployment.apps/cli created"])
    dev("app", "wait", "web", "--timeout", "60", out=r"^Health Status:\s+Healthy")
    dev("app", "diff", "web", out=r"\A\Z")
    dev("app", "manifests", "web", "--source", "live", out="uid: " + UUID)
    dev("app", "resources", "web", out=[r"^GROUP\s+KIND\s+NAMESPACE\s+NAME\s+ORPHANED", r"^apps\s+Deployment\s+dev-web\s+cli\s+No"])
    dev("app", "resources", "web", "--orphaned", out=r"\AGROUP[^\n]*\n\Z")
    dev("app", "get", "web", "-o", "tree=detailed", out="ReplicaSet/cli-")
    second = stage.demo.push({f"{path}/cm.yaml": CM % "two"}, "The second state")
    dev("app", "get", "web", "--refresh", out=r"^Sync Status:\s+OutOfSync from main \(" + second[:7])
    dev("app", "diff", "web", code=1, out=["===== /ConfigMap dev-web/cli ======", "two"])
    dev("app", "diff", "web", "--exit-code=false", out="===== /ConfigMap dev-web/cli ======")
    dev("app", "diff", "web", "--revision", first, out=r"\A\Z")
    dev("app", "manifests", "web", "--revision", first, out="step: one")
    dev("app", "sync", "web", "--resource", ":ConfigMap:cli", out=[r"^Phase:\s+Succeeded", "configmap/cli configured"])
    dev("app", "sync", "web", "--prune", "--apply-out-of-sync-only", "--info", "a=b", "-o", "json", out='"phase": "Succeeded"')
    dev("app", "history", "web", out=[r"^ID\s+DATE\s+REVISION", first[:7], second[:7]])
    ids = dev("app", "history", "web", "-o", "id", out=r"^\d+$").split()
    dev("app", "rollback", "web", ids[0] if ids else "0", out=r"^Phase:\s+Succeeded")
    dev("app", "rollback", "web", "999", code=20, err="application 'web' does not have deployment id '999' in history")
    dev("app", "terminate-op", "web", code=20, err="code = InvalidArgument desc = Unable to terminate operation. No operation is in progress")
    dev("app", "set", "web", "--sync-policy", "auto", "--auto-prune", "--self-heal")
    dev("app", "wait", "web", "--sync", "--timeout", "60", out=r"^Sync Status:\s+Synced")
    dev("app", "rollback", "web", code=20, err="code = FailedPrecondition desc = rollback cannot be initiated when auto-sync is enabled")
    dev("app", "set", "web", "--sync-policy", "none")
    dev("app", "set", "web", "--project", "other", code=20, err="permission denied: applications, create, other/web", why="REP-217")
    dev("app", "set", "web", "--dest-namespace", "elsewhere", code=20, err="code = InvalidArgument desc = application spec for web is invalid")
    dev("app", "set", "web", "--nameprefix", "x-", "--validate=false")
    dev("app", "unset", "web", "--nameprefix")
    dev("app", "patch", "web", "--type", "merge", "--patch", '{"metadata": {"labels": {"c": "d"}}}', out="c: d")
    dev("app", "patch", "web", "--patch", '[{"op": "replace", "path": "/spec/source/path", "value": "%s"}]' % path, out=f"path: {path}")
    dev("app", "patch", "web", "--patch", "[]", "--type", "strategic", code=20, err="Patch type 'strategic' is not supported")
    dev("app", "edit", "web", editor=stage.editor("targetRevision", first))
    dev("app", "get", "web", "-o", "json", out=f'"targetRevision": "{first}"')
    dev("app", "set", "web", "--revision", "main")
    dev("app", "actions", "list", "web", "--kind", "Deployment", out=[r"^GROUP\s+KIND\s+NAME\s+ACTION\s+DISABLED", r"apps\s+Deployment\s+cli\s+restart\s+false"])
    dev("app", "actions", "run", "web", "restart", "--kind", "Deployment")
    dev("app", "actions", "run", "web", "fly", "--kind", "Deployment", code=20, err="rpc error: code = ")
    dev("app", "actions", "list", "web", "--kind", "Deployment", "-o", "json", out='"Action": "scale"')
    dev("app", "wait", "web", "--health", "--timeout", "60", out=r"^Health Status:\s+Healthy")
    dev("app", "patch-resource", "web", "--kind", "ConfigMap", "--resource-name", "cli", "--patch", '{"data": {"more": "x"}}', err="patched")
    dev("app", "manifests", "web", "--source", "live", out="more: x")
    dev("app", "delete-resource", "web", "--kind", "ConfigMap", "--resource-name", "cli", err="deleted", stdin="y\n")
    dev("app", "logs", "web", "--kind", "Deployment", "--name", "cli", "--group", "apps", "--tail", "5", out=r"\S")
    dev("app", "logs", "web", "--kind", "Deployment", "--name", "cli", "--previous", out="previous terminated container", why="API-151")
    dev("app", "logs", "web", "--kind", "Deployment", "--name", "cli", "--filter", "no such words", out=r"\A\Z")
    dev("app", "get", "web", "--show-operation", out=r"^Operation:\s+Sync")
    dev("app", "sync", "web", "--async")
    dev("app", "wait", "web", "--operation", "--timeout", "60", out="^Name:")
    dev("app", "confirm-deletion", "web", out="Application 'web' updated successfully")
    dev("app", "sync", "web", "--revision", "no-such-branch", code=20, err="code = FailedPrecondition")
    admin("app", "sync", "web", "--local", str(stage.demo.folder / "clone" / path), "--local-repo-root", str(stage.demo.folder / "clone"), out=r"^Phase:\s+Succeeded")
    admin("app", "diff", "web", "--local", str(stage.demo.folder / "clone" / path), "--local-repo-root", str(stage.demo.folder / "clone"))
    dev("app", "delete", "guestbook", "-y", code=20, err=DENIED)
    dev("app", "delete", "web", "-y", "--propagation-policy", "foreground", out="application 'web' deleted")
    dev("app", "get", "web", code=20, err=DENIED, patient=True)
    dev("app", "create", *create[2:], *options, "--set-finalizer", "--sync-policy", "auto", out="application 'web' created")
    dev("app", "wait", "web", "--timeout", "60", out=r"^Sync Status:\s+Synced")
    dev("app", "delete", "web", "-y", "--wait", out="application 'web' deleted")


def sources(stage, admin, dev):
    git = stage.demo.git
    two = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "many"}, "spec": {
        "project": "dev", "destination": {"server": SERVER, "namespace": "dev-many"}, "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
        "sources": [{"repoURL": git, "path": "guestbook", "targetRevision": "main"},
                    {"repoURL": git, "path": "shop/cart", "targetRevision": "main", "name": "cart"}]}}
    dev("app", "create", "-f", stage.file("many.json", two), out="application 'many' created")
    dev("app", "sync", "many", "--revisions", "main", "--source-positions", "1", out=r"^Phase:\s+Succeeded")
    dev("app", "manifests", "many", "--revisions", "main", "--source-positions", "2", out="name: cart")
    dev("app", "get", "many", out=["^Sources:", "Path:\\s+shop/cart"])
    dev("app", "set", "many", "--source-position", "1", "--path", "guestbook")
    dev("app", "add-source", "many", "--repo", git, "--path", "shop/web", out="Application 'many' updated successfully")
    dev("app", "remove-source", "many", "--source-position", "3", out="Application 'many' updated successfully")
    dev("app", "history", "many", out=r"^SOURCE\s+" + git)
    dev("app", "delete", "many", "-y", "--wait", out="application 'many' deleted")


def appset(stage, admin, dev):
    git = stage.demo.git
    def text(name, project, template="dev"):
        return {"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": name}, "spec": {
            **({"project": project} if project else {}), "goTemplate": True, "generators": [{"list": {"elements": [{"n": "a"}, {"n": "b"}]}}],
            "template": {"metadata": {"name": name + "-{{.n}}"}, "spec": {"project": template,
                "source": {"repoURL": git, "path": "guestbook", "targetRevision": "main"}, "destination": {"server": SERVER, "namespace": "dev-{{.n}}"}}}}}
    mine = stage.file("mine.json", text("mine", "dev"))
    dev("appset", "generate", mine, out=[r"^NAME\s+CLUSTER", "mine-a", "mine-b"])
    dev("appset", "create", mine, "--dry-run", "-o", "json", out='"mine-b"')
    dev("appset", "create", mine, err="ApplicationSet 'mine' created", out=r"^Project:\s+dev")
    dev("appset", "create", mine, err="ApplicationSet 'mine' unchanged")
    dev("appset", "list", out=[r"^NAME\s+PROJECT", r"^argocd/mine\s+dev"])
    dev("appset", "get", "mine", out=[r"^Name:\s+argocd/mine", r"^Project:\s+dev"])
    dev("appset", "get", "mine", "-o", "yaml", out="name: mine")
    dev("app", "list", "-o", "name", out=["argocd/mine-a", "argocd/mine-b"], patient=True)
    dev("appset", "create", stage.file("foreign.json", text("foreign", "", "default")), code=20,
        err="permission denied: applicationsets, create, default/foreign")
    dev("appset", "create", stage.file("templated.json", text("templated", "", "{{.n}}")), code=20,
        err="does not currently support creating ApplicationSets with templated")
    admin("appset", "create", stage.file("none.json", text("none", "", "nowhere")), code=20,
          err="ApplicationSet references project nowhere which does not exist")
    # Issue 15: where sets without a project are restricted, a developer has one with `spec.project` alone. The unmodified
    # program does not know that field and leaves it out, so the set is sent as JSON.
    restrict = lambda policy: stage.kubectl("PATCH", "/api/v1/namespaces/argocd/configmaps/argocd-cm",
                                            stdin={"data": {"applicationset.unscoped.policy": policy}})
    restrict("restrict")
    dev("appset", "create", stage.file("unscoped.json", text("unscoped", "")), code=20, patient=True,
        err="code = PermissionDenied desc = .*applicationsets, unscoped", why="without spec.project")
    scoped = text("scoped", "dev", "{{.n}}")
    status, answer = stage.rest(dev, "POST", "/api/v1/applicationsets", scoped)
    stage.check("POST applicationsets with spec.project: dev, as the developer", status == 200 and '"project":"dev"' in answer, answer)
    scoped["spec"]["project"], scoped["metadata"]["name"] = "other", "foreign"
    status, answer = stage.rest(dev, "POST", "/api/v1/applicationsets", scoped)
    stage.check("the same with spec.project: other is refused", status == 403, answer)
    restrict("allow")
    dev("appset", "get", "scoped", out=r"^Name:\s+argocd/scoped")
    dev("appset", "delete", "scoped", "-y", out="applicationset '(argocd/)?scoped' deleted")
    dev("appset", "get", "nothing", code=20, err="rpc error: code = ")
    dev("appset", "delete", "mine", "-y", out="applicationset '(argocd/)?mine' deleted")
    dev("app", "list", "-o", "name", out=r"\A\s*\Z", patient=True)


def proj(stage, admin, dev):
    admin("proj", "create", "cli", "--description", "made", "-d", f"{SERVER},cli", "-s", "https://git.example/*")
    admin("proj", "create", "cli", code=20, err="existing project spec is different; use upsert flag to force update; difference in keys")
    admin("proj", "list", out=[r"^NAME\s+DESCRIPTION\s+DESTINATIONS", r"^cli\s+made"])
    admin("proj", "get", "cli", out=[r"^Name:\s+cli", r"^Description:\s+made", r"^Repositories:\s+https://git.example/\*"])
    admin("proj", "add-source", "cli", "https://more.example/*")
    admin("proj", "add-source", "cli", "https://more.example/*", out="already allowed in project")
    admin("proj", "remove-source", "cli", "https://more.example/*")
    admin("proj", "add-destination", "cli", SERVER, "more")
    admin("proj", "add-destination", "cli", SERVER, "more", code=1, err="Specified destination is already defined in project")
    admin("proj", "remove-destination", "cli", SERVER, "more")
    admin("proj", "set", "cli", "--description", "changed")
    admin("proj", "edit", "cli", editor=stage.editor("description", "edited"))
    admin("proj", "get", "cli", "-o", "json", out='"description": "edited"')
    admin("proj", "allow-cluster-resource", "cli", "", "Namespace")
    admin("proj", "deny-namespace-resource", "cli", "", "Secret")
    admin("proj", "add-source-namespace", "cli", "teams")
    admin("proj", "windows", "add", "cli", "--kind", "deny", "--schedule", "0 0 * * *", "--duration", "1h", "--applications", "*")
    admin("proj", "windows", "list", "cli", out=r"deny\s+0 0 \* \* \*\s+1h")
    admin("proj", "windows", "delete", "cli", "0")
    admin("proj", "role", "create", "cli", "ci", out="Role 'ci' created")
    admin("proj", "role", "add-policy", "cli", "ci", "-a", "get", "-p", "allow", "-o", "*")
    admin("proj", "role", "add-group", "cli", "ci", "team", out="Group 'team' added to role 'ci'")
    admin("proj", "role", "list", "cli", out=r"^ci")
    admin("proj", "role", "get", "cli", "ci", out=["Role Name:\\s+ci", "p, proj:cli:ci, applications, get, cli/\\*, allow"])
    token = admin("proj", "role", "create-token", "cli", "ci", "-e", "1h", "-t", out=r"^ey\S+$").strip()
    admin("proj", "role", "list-tokens", "cli", "ci", out=r"^ID\s+ISSUED AT\s+EXPIRES AT")
    admin("app", "list", "--auth-token", token, out="^NAME", why="with the token of a role")
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "==")) if token.count(".") == 2 else {}
    admin("proj", "role", "delete-token", "cli", "ci", str(claims.get("iat", 0)))
    admin("app", "list", "--auth-token", token, code=20, err="code = Unauthenticated", why="a token that was deleted")
    admin("proj", "role", "remove-policy", "cli", "ci", "-a", "get", "-p", "allow", "-o", "*")
    admin("proj", "role", "remove-group", "cli", "ci", "team", out="Group 'team' removed from role 'ci'")
    admin("proj", "role", "delete", "cli", "ci", out="Role 'ci' deleted")
    dev("proj", "list", "-o", "name", out=r"\Adev\n\Z")
    dev("proj", "get", "other", code=20, err="permission denied: projects, get, other")
    dev("proj", "remove-source", "dev", "*", code=20, err="permission denied: projects, update, dev")
    admin("proj", "delete", "default", code=20, err="code = InvalidArgument desc = name 'default' is reserved and cannot be deleted")
    admin("proj", "delete", "cli")
    admin("proj", "get", "cli", code=20, err='code = NotFound desc = appprojects.argoproj.io .*cli.* not found')


def repo(stage, admin, dev):
    git = stage.demo.git
    admin("repo", "add", git, "--name", "demo", out=f"Repository '{git}' added")
    admin("repo", "add", git, "--name", "demo", out=f"Repository '{git}' added")
    admin("repo", "add", git, "--name", "renamed", code=20, err="existing repository spec is different; use upsert flag to force update")
    admin("repo", "add", git, "--name", "renamed", "--upsert", out=f"Repository '{git}' added")
    admin("repo", "list", out=[r"^TYPE\s+NAME\s+REPO\s+INSECURE\s+OCI\s+LFS\s+CREDS\s+STATUS\s+MESSAGE\s+PROJECT", r"^git\s+renamed\s+" + git + r"\s+false\s+false\s+false\s+false\s+Successful"])
    admin("repo", "list", "-o", "json", out='"repo": "' + git)
    admin("repo", "list", "--refresh", "hard", out="Successful")
    admin("repo", "list", "-o", "url", out="^" + git + "$")
    admin("repo", "get", git, out=r"^git\s+renamed")
    admin("repo", "get", git, "--refresh", "hard", "-o", "json", out='"status": "Successful"')
    admin("repo", "add", git + "x", code=20, err="error testing repository connectivity: ")
    admin("repo", "rm", git, out=f"Repository '{git}' removed")
    admin("repo", "get", git, code=20, err=DENIED)
    admin("repo", "rm", git, code=20, err=DENIED)
    # Issue 15: a repository of one project, which exists in another, too.
    admin("repo", "add", git, "--project", "other", out=f"Repository '{git}' added")
    dev("repo", "list", out=r"\ATYPE[^\n]*\n\Z", why="that of another project is not seen")
    dev("repo", "get", git, code=20, err=DENIED)
    dev("repo", "add", git, code=20, err="permission denied: repositories, create, " + git)
    dev("repo", "add", git, "--project", "other", code=20, err="permission denied: repositories, create, other/" + git)
    dev("repo", "add", git, "--project", "dev", out=f"Repository '{git}' added")
    dev("repo", "get", git, out=r"\s+dev$")
    dev("repo", "get", git, "--project", "dev", out=r"\s+dev$")
    dev("repo", "get", git, "--project", "other", code=20, err="repository not found for url .* and project .*other")
    dev("repo", "rm", git, "--project", "other", code=20, err="repository not found for url .* and project .*other")
    admin("repo", "get", git, code=20, err="repository not found for url", why="two projects have it")
    dev("repo", "rm", git, out=f"Repository '{git}' removed", why="without --project")
    dev("repo", "add", git, "--project", "dev", out=f"Repository '{git}' added")
    dev("repo", "rm", git, "--project", "dev", out=f"Repository '{git}' removed")
    admin("repo", "get", git, "--project", "other", out=r"\s+other$", why="it is still there")
    admin("repo", "rm", git, "--project", "other", out=f"Repository '{git}' removed")


def repocreds(stage, admin, dev):
    url = "https://creds.example/org"
    admin("repocreds", "add", url, "--username", "u", "--password", "p", out=f"Repository credentials for '{url}' added")
    admin("repocreds", "add", url, "--username", "v", "--password", "p", code=20, err="code = InvalidArgument")
    admin("repocreds", "add", url, "--username", "v", "--password", "p", "--upsert", out=f"Repository credentials for '{url}' added")
    admin("repocreds", "list", out=[r"^URL PATTERN\s+USERNAME\s+SSH_CREDS\s+TLS_CREDS", r"^" + url + r"\s+v\s"])
    dev("repocreds", "list", out=r"\AURL PATTERN[^\n]*\n\Z")
    dev("repocreds", "rm", url, code=20, err="permission denied")
    admin("repocreds", "rm", url, out=f"Repository credentials for '{url}' removed")


def cluster(stage, admin, dev):
    admin("cluster", "list", out=[r"^SERVER\s+NAME\s+VERSION\s+STATUS\s+MESSAGE\s+PROJECT", SERVER + r"\s+in-cluster"])
    admin("cluster", "get", "in-cluster", out="server: " + SERVER)
    admin("cluster", "get", SERVER, "-o", "wide", out=r"Server URL:\s+" + SERVER)
    dev("cluster", "list", out=r"\ASERVER[^\n]*\n\Z")
    dev("cluster", "get", "in-cluster", code=20, err=DENIED)
    kubeconfig = stage.demo.data / "kubeconfig"
    context = re.search(r"current-context: (\S+)", kubeconfig.read_text()).group(1)
    stage.give_tokens()
    admin("cluster", "add", context, "-y", "--name", "self", out="Cluster 'https://.*' added", why="makes a ServiceAccount")
    admin("cluster", "list", out=r"^https://127.*\s+self\s")
    admin("cluster", "set", "self", "--label", "a=b", out="Cluster 'self' updated.")
    admin("cluster", "get", "self", "-o", "json", out='"a": "b"')
    admin("cluster", "rotate-auth", "self", code=20, err="names no service account, so it cannot be rotated", why="the token is an administrator's")
    admin("cluster", "rm", "self", "-y", out="Cluster 'self' removed", code=20, err="self", why="CLI-814: no context of that name")
    admin("cluster", "get", "self", code=20, err=DENIED)


def cert(stage, admin, dev):
    import subprocess
    pem = stage.folder / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "/dev/null", "-out", str(pem), "-subj", "/CN=git.example", "-days", "30"],
                   check=True, stderr=subprocess.DEVNULL)
    admin("cert", "add-tls", "git.example", "--from", str(pem), out="repository server git.example")
    admin("cert", "list", out=[r"^HOSTNAME\s+TYPE\s+SUBTYPE\s+INFO", r"^git.example\s+https\s+rsa\s+CN=git.example"])
    line = "ssh.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIFmZ2o8sUYhrZp9TNmkbFG8FnDXL9Dn6cMOsSTFkAvM\n"
    admin("cert", "add-ssh", "--batch", stdin=line, out="Successfully created 1 SSH known host entries")
    admin("cert", "list", "--cert-type", "ssh", out=r"^ssh.example\s+ssh\s+ssh-ed25519\s+SHA256:")
    dev("cert", "add-ssh", "--batch", stdin=line, code=20, err="permission denied: certificates, create")
    admin("cert", "rm", "ssh.example", "--cert-type", "ssh", out="Removed cert for 'ssh.example' of type 'ssh'")
    admin("cert", "rm", "git.example", out="Removed cert for 'git.example' of type 'https'")
    admin("cert", "rm", "git.example", out="No certificates were removed")


def gpg(stage, admin, dev):
    import subprocess
    home = stage.folder / "gnupg"
    home.mkdir(mode=0o700)
    keys = ["gpg", "--homedir", str(home), "--batch", "--quiet"]
    made = subprocess.run([*keys, "--passphrase", "", "--quick-gen-key", "cli@example.com", "rsa2048"], stderr=subprocess.DEVNULL)
    if made.returncode != 0:
        print("skip gpg: there is no gpg that makes a key")
        return
    key = subprocess.run([*keys, "--armor", "--export"], stdout=subprocess.PIPE, text=True, check=True).stdout
    shown = subprocess.run([*keys, "--with-colons", "--list-keys"], stdout=subprocess.PIPE, text=True, check=True).stdout
    name = re.search(r"^pub:(?:[^:]*:){3}([0-9A-F]{16})", shown, re.M).group(1)
    admin("gpg", "add", "--from", stage.file("key.asc", key), out=r"Created 1 key\(s\) from input file")
    admin("gpg", "add", "--from", stage.file("key.asc", key), out=r"1 key\(s\) were skipped")
    admin("gpg", "list", out=[r"^KEYID\s+TYPE\s+IDENTITY", f"^{name}\\s+RSA2048\\s+cli@example.com"])
    admin("gpg", "get", name, out=[f"Key ID:\\s+{name}", "BEGIN PGP PUBLIC KEY BLOCK"])
    dev("gpg", "rm", name, code=20, err="permission denied: gpgkeys, delete")
    admin("gpg", "rm", name, out=f"Deleted key with key ID {name}")
    admin("gpg", "get", name, code=20, err="rpc error: code = ")


def leave(stage, admin, dev):
    dev("logout", stage.demo.address, out=f"Logged out from '{stage.demo.address}'")
    dev("app", "list", code=20, err="code = Unauthenticated desc = no session information")
    admin("account", "update-password", "--account", "dev", "--current-password", stage.demo.password, "--new-password", "developer-1",
          out="Password updated")


CHAPTERS = [account, app, sources, appset, proj, repo, repocreds, cluster, cert, gpg]


def run(stage, only):
    """All chapters, or some."""
    people(stage)
    admin, dev = stage.person("admin"), stage.person("dev")
    session(stage, admin, dev)
    for chapter in CHAPTERS:
        if not only or chapter.__name__ in only:
            chapter(stage, admin, dev)
    leave(stage, admin, dev)
