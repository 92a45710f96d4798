#!/usr/bin/env python3
"""Writes random kustomizations, as input for comparisons with the real program.

    fuzz.py OUTPUT FIRST_SEED COUNT [--comments] > cases.tsv

Each seed makes one folder with bases, components and overlays. The lines of the output name root, directory and
options for the example `compare`:

    compare --program target/oracles/kustomize --answers DIR --texts < cases.tsv
"""

import pathlib
import random
import sys

NAMES = ["web", "api", "db", "cache", "web-v2", "a.b", "job-1"]
SPACES = ["", "", "", "team", "other", "default"]
TEXTS = ["x", "1", "true", "yes", "off", "null", "~", "0777", "0x1F", "1e3", "1.10", "a: b", "a #b", "- a", "", " lead",
         "trail ", "two\nlines", "two\nlines\n", "tab\tin", "quote'\"s", "2001-01-01", "é€", "😀", "{{ x }}", "*a", "&a", "!x",
         "%", "@x", "`x`", "a,b", "[x]", "<<", "=", ".5", "1_000", "0o17", "12:30:45", "long " * 30, "$(VAR_A)", "a$(VAR_B)c",
         "$$(VAR_A)", ".inf", "-1", "+1", "0b11", "y", "n", "None", "a:b:c", "http://h:80/p?q=1#f", "\\", "line\\n", "\u0085x", "a\u2028b"]
PLAIN = ["x", "abc", "v1", "8080", "true", "yes", "1.5", "0777", "1e3", "~", "null", "on", "2001-01-01", "2001-12-14t21:59:43.10-05:00",
         "0x1F", "1_000", "0b11", "0o17", "-5", "y", "No", "TRUE", "Null", ".5", "1.10", "+1", "01", "12:30", "a b", "a-b", "1e400", "9223372036854775808",
         "18446744073709551616", "-9223372036854775809", "0.1e-7", "100000000000000000000000", "1.0", "-0", "-0.0", "1E5", "12e03"]


COMMENTS = False


class Fuzz:
    def __init__(self, root, seed):
        self.r = random.Random(seed)
        self.root = root
        self.files = {}
        self.kinds_seen = []
        self.generated = []
        self.scope = []
        self.of_layer = {}

    def chance(self, p):
        return self.r.random() < p

    def pick(self, items):
        return self.r.choice(items)

    def text(self):
        return self.pick(TEXTS) if self.chance(0.5) else self.pick(["x", "y1", "val", "abc-d"])

    # --- YAML ---

    def scalar(self, value, flow=False):
        r = self.r
        if value is None:
            return self.pick(["null", "~", "null", ""]) if not flow else "null"
        if value is True or value is False:
            return self.pick([str(value).lower(), str(value).lower(), str(value)])
        if isinstance(value, (int, float)):
            return str(value)
        if isinstance(value, Plain):
            return value.text
        style = r.random()
        safe = value and all(c.isalnum() or c in "-./" for c in value) and value[0].isalpha() and value.lower() not in (
            "true", "false", "null", "yes", "no", "on", "off", "y", "n", "none", ".inf")
        if safe and style < 0.7:
            return value
        if "\n" not in value and "\t" not in value and all(ord(c) >= 32 and c not in "\u0085\u2028" for c in value) and style < 0.85:
            return "'" + value.replace("'", "''") + "'"
        out = ""
        for c in value:
            if c in '"\\':
                out += "\\" + c
            elif c == "\n":
                out += "\\n"
            elif c == "\t":
                out += "\\t"
            elif ord(c) < 32 or c in "\u0085\u2028":
                out += "\\u%04x" % ord(c)
            else:
                out += c
        return '"' + out + '"'

    def flow(self, value):
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.scalar(k, True)}: {self.flow(v)}" for k, v in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(self.flow(v) for v in value) + "]"
        text = self.scalar(value, True)
        return text if text else "null"

    def dump(self, value, indent=0, in_list=False):
        """Lines of a value; the first without indentation when it follows `- `."""
        pad = " " * indent
        lines = []
        if isinstance(value, dict) and value:
            for k, v in value.items():
                key = self.scalar(k)
                if isinstance(v, (dict, list)) and v and self.chance(0.93):
                    if isinstance(v, list) and self.chance(0.5):
                        lines.append(f"{pad}{key}:")
                        lines += self.dump(v, indent)
                    else:
                        lines.append(f"{pad}{key}:" + self.comment())
                        lines += self.dump(v, indent + 2)
                elif isinstance(v, str) and not isinstance(v, Plain) and "\n" in v and self.chance(0.6) and self.blocks(v):
                    lines += self.block(f"{pad}{key}: ", v, indent + 2)
                else:
                    lines.append(f"{pad}{key}: {self.flow(v) if isinstance(v, (dict, list)) else self.scalar(v)}".rstrip(" ") + self.comment())
            return lines
        if isinstance(value, list) and value:
            for v in value:
                if isinstance(v, dict) and v and self.chance(0.95):
                    inner = self.dump(v, indent + 2)
                    inner[0] = pad + "- " + inner[0][indent + 2:]
                    lines += inner
                elif isinstance(v, (dict, list)):
                    lines.append(f"{pad}- {self.flow(v)}")
                else:
                    lines.append(f"{pad}- {self.scalar(v)}".rstrip(" "))
            return lines
        return [pad + (self.flow(value) if isinstance(value, (dict, list)) else self.scalar(value))]

    def comment(self):
        # Comments make kustomize write what it cannot read again; they are not kept here.
        return "  # note" if COMMENTS and self.chance(0.02) else ""

    def blocks(self, text):
        return all(ord(c) >= 32 or c == "\n" for c in text) and "\u0085" not in text and "\u2028" not in text and not text.startswith((" ", "\n"))

    def block(self, head, text, indent):
        mark = self.pick(["|", "|", ">"]) if "\n\n" not in text else "|"
        body = text
        if text.endswith("\n"):
            body = text[:-1]
        else:
            mark += "-"
        if mark.startswith(">"):
            body = body.replace("\n", "\n\n")
        pad = " " * indent
        return [head + mark] + [(pad + line) if line else "" for line in body.split("\n")]

    def document(self, value):
        if self.chance(0.06):
            import json
            try:
                return json.dumps(unplain(value), indent=self.pick([None, 2])) + "\n"
            except TypeError:
                pass
        return "\n".join(self.dump(value)) + "\n"

    # --- objects ---

    def odd(self, value):
        """Sometimes a scalar that is written plainly and means something else."""
        return Plain(self.pick(PLAIN)) if self.chance(0.04) else value

    def pairs(self, most=3, keys=("app", "tier", "env", "team.io/x", "on", "1")):
        return {self.pick(keys): self.odd(self.text()) for _ in range(self.r.randint(0, most))}

    def labels(self):
        return {self.pick(["app", "tier", "env"]): self.pick(NAMES) for _ in range(self.r.randint(1, 2))}

    def container(self, name):
        c = {"name": name, "image": self.pick(["nginx", "nginx:1.2", "reg.io/app:v1", "h:5000/app@sha256:abc", "busybox:1@sha256:ff", "x/nginx:1"])}
        if self.chance(0.5):
            env = []
            for key in self.r.sample(["A", "B", "C", "D"], self.r.randint(1, 3)):
                e = {"name": key}
                form = self.r.random()
                if form < 0.5:
                    e["value"] = self.odd(self.text())
                elif form < 0.75:
                    e["valueFrom"] = {"configMapKeyRef": {"name": self.pick(NAMES), "key": "k"}}
                else:
                    e["valueFrom"] = {"secretKeyRef": {"name": self.pick(NAMES), "key": "k"}}
                env.append(e)
            c["env"] = env
        if self.chance(0.3):
            c["envFrom"] = [self.pick([{"configMapRef": {"name": self.pick(NAMES)}}, {"secretRef": {"name": self.pick(NAMES)}}])]
        if self.chance(0.4):
            c["ports"] = [{"containerPort": self.pick([80, 443, 8080]), **({"name": "p"} if self.chance(0.4) else {}),
                           **({"protocol": self.pick(["TCP", "UDP"])} if self.chance(0.4) else {})} for _ in range(self.r.randint(1, 2))]
        if self.chance(0.3):
            c["args"] = [self.text() for _ in range(self.r.randint(1, 3))]
        if self.chance(0.3):
            c["volumeMounts"] = [{"name": "v", "mountPath": self.pick(["/a", "/b", "/c"])}]
        if self.chance(0.2):
            c["resources"] = {"limits": {"cpu": self.odd("1"), "memory": "1Gi"}}
        return c

    def pod_spec(self):
        spec = {"containers": [self.container(n) for n in self.r.sample(["app", "side", "log"], self.r.randint(1, 2))]}
        if self.chance(0.2):
            spec["initContainers"] = [self.container("init")]
        if self.chance(0.4):
            spec["volumes"] = [self.pick([
                {"name": "v", "configMap": {"name": self.pick(NAMES)}},
                {"name": "v", "secret": {"secretName": self.pick(NAMES)}},
                {"name": "v", "persistentVolumeClaim": {"claimName": self.pick(NAMES)}},
                {"name": "v", "projected": {"sources": [{"configMap": {"name": self.pick(NAMES)}}, {"secret": {"name": self.pick(NAMES)}}]}},
                {"name": "v", "emptyDir": {}},
            ])]
        if self.chance(0.3):
            spec["serviceAccountName"] = self.pick(NAMES)
        if self.chance(0.2):
            spec["imagePullSecrets"] = [{"name": self.pick(NAMES)}]
        if self.chance(0.2):
            spec["tolerations"] = [{"key": "a", "operator": "Exists"}]
        if self.chance(0.15):
            spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"labelSelector": {"matchLabels": self.labels()}, "topologyKey": "k"}}]}}
        if self.chance(0.1):
            spec["hostAliases"] = [{"ip": "1.1.1.1", "hostnames": ["a"]}]
        return spec

    def template(self):
        meta = {}
        if self.chance(0.8):
            meta["labels"] = self.labels()
        if self.chance(0.2):
            meta["annotations"] = self.pairs(2)
        return {**({"metadata": meta} if meta or self.chance(0.3) else {}), "spec": self.pod_spec()}

    def kind(self):
        return self.pick(["Deployment", "Deployment", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "Service", "Service", "ConfigMap", "Secret",
                          "Ingress", "RoleBinding", "ClusterRoleBinding", "Role", "ClusterRole", "ServiceAccount", "HorizontalPodAutoscaler",
                          "PodDisruptionBudget", "NetworkPolicy", "Namespace", "Thing", "Thing", "CustomResourceDefinition", "PersistentVolumeClaim",
                          "ValidatingWebhookConfiguration", "APIService", "Pod", "StorageClass", "PersistentVolume", "Canary"])

    VERSIONS = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1", "Service": "v1",
                "ConfigMap": "v1", "Secret": "v1", "Ingress": "networking.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1",
                "ClusterRoleBinding": "rbac.authorization.k8s.io/v1", "Role": "rbac.authorization.k8s.io/v1", "ClusterRole": "rbac.authorization.k8s.io/v1",
                "ServiceAccount": "v1", "HorizontalPodAutoscaler": "autoscaling/v2", "PodDisruptionBudget": "policy/v1", "NetworkPolicy": "networking.k8s.io/v1",
                "Namespace": "v1", "Thing": "example.com/v1", "Canary": "flagger.app/v1beta1", "CustomResourceDefinition": "apiextensions.k8s.io/v1",
                "PersistentVolumeClaim": "v1", "PersistentVolume": "v1", "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
                "APIService": "apiregistration.k8s.io/v1", "Pod": "v1", "StorageClass": "storage.k8s.io/v1"}

    def spec(self, kind):
        r = self.r
        if kind in ("Deployment", "StatefulSet", "DaemonSet"):
            spec = {"template": self.template()}
            if self.chance(0.7):
                spec["selector"] = {"matchLabels": self.labels()}
            if kind != "DaemonSet" and self.chance(0.6):
                spec["replicas"] = self.odd(r.randint(0, 5))
            if kind == "StatefulSet":
                spec["serviceName"] = self.pick(NAMES)
                if self.chance(0.4):
                    spec["volumeClaimTemplates"] = [{"metadata": {"name": "d", **({"labels": self.labels()} if self.chance(0.5) else {})},
                                                     "spec": {"storageClassName": self.pick(NAMES)}}]
            return {"spec": spec}
        if kind == "Job":
            return {"spec": {"template": self.template()}}
        if kind == "CronJob":
            return {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": self.template()}}}}
        if kind == "Pod":
            return {"spec": self.pod_spec()}
        if kind == "Service":
            spec = {"ports": [{"port": p, **({"name": "n%d" % p} if self.chance(0.5) else {}), **({"targetPort": self.pick([80, "http"])} if self.chance(0.3) else {}),
                               **({"protocol": self.pick(["TCP", "UDP"])} if self.chance(0.3) else {})} for p in r.sample([80, 443, 8080], r.randint(1, 2))]}
            if self.chance(0.7):
                spec["selector"] = self.labels()
            return {"spec": spec}
        if kind in ("ConfigMap", "Secret"):
            body = {}
            if self.chance(0.9):
                body["data"] = {self.pick(["k", "a.yaml", "b.json", "c"]): self.pick([
                    self.odd(self.text()), "x: 1\ny:\n- name: a\n  v: 2\n- name: b\n  v: 3\n", '{"a": {"b": [1, 2]}, "c": "d"}', "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": \"x\"\n  }\n}",
                    "host: web\nurl: http://web:80\n"]) for _ in range(r.randint(0, 3))}
            if kind == "Secret" and self.chance(0.4):
                body["stringData"] = {"s": self.text()}
            if kind == "Secret" and self.chance(0.4):
                body["type"] = "Opaque"
            return body
        if kind == "Ingress":
            return {"spec": {"rules": [{"host": self.text(), "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": self.pick(NAMES), "port": {"number": 80}}}}]}}],
                             **({"tls": [{"hosts": ["h"], "secretName": self.pick(NAMES)}]} if self.chance(0.4) else {}),
                             **({"ingressClassName": self.pick(NAMES)} if self.chance(0.4) else {})}}
        if kind in ("RoleBinding", "ClusterRoleBinding"):
            return {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": self.pick(["Role", "ClusterRole"]), "name": self.pick(NAMES)},
                    "subjects": [{"kind": self.pick(["ServiceAccount", "ServiceAccount", "User", "Group"]), "name": self.pick(NAMES + ["default"]),
                                  **({"namespace": self.pick(["team", "other", "default"])} if self.chance(0.5) else {})} for _ in range(r.randint(1, 2))]}
        if kind in ("Role", "ClusterRole"):
            return {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], **({"resourceNames": [self.pick(NAMES), self.pick(NAMES)]} if self.chance(0.4) else {})}]}
        if kind == "ServiceAccount":
            return {"imagePullSecrets": [{"name": self.pick(NAMES)}]} if self.chance(0.4) else {}
        if kind == "HorizontalPodAutoscaler":
            return {"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": self.pick(["Deployment", "StatefulSet"]), "name": self.pick(NAMES)}, "maxReplicas": 3}}
        if kind == "PodDisruptionBudget":
            return {"spec": {"maxUnavailable": self.odd(1), **({"selector": {"matchLabels": self.labels()}} if self.chance(0.6) else {})}}
        if kind == "NetworkPolicy":
            return {"spec": {"podSelector": {"matchLabels": self.labels()} if self.chance(0.6) else {}, "ingress": [{"from": [{"podSelector": {"matchLabels": self.labels()}}]}]}}
        if kind == "CustomResourceDefinition":
            return {"spec": {"group": "example.com", "names": {"kind": "Thing", "plural": "things"}, **({"conversion": {"webhook": {"clientConfig": {"service": {"name": self.pick(NAMES), "namespace": "x", "path": "/"}}}}} if self.chance(0.5) else {})}}
        if kind == "ValidatingWebhookConfiguration":
            return {"webhooks": [{"name": "w", "clientConfig": {"service": {"name": self.pick(NAMES), "namespace": self.pick(["team", "default", "x"])}}}]}
        if kind == "APIService":
            return {"spec": {"service": {"name": self.pick(NAMES), **({"namespace": "x"} if self.chance(0.5) else {})}, "version": "v1"}}
        if kind == "PersistentVolumeClaim":
            return {"spec": {"storageClassName": self.pick(NAMES), **({"volumeName": self.pick(NAMES)} if self.chance(0.4) else {})}}
        if kind == "PersistentVolume":
            return {"spec": {"storageClassName": self.pick(NAMES)}}
        if kind == "Thing":
            return {"spec": {"list": [{"name": self.pick(NAMES), "v": self.odd(1)}, {"name": self.pick(NAMES)}], "scalars": [1, "a"], "replicas": 1, "ref": {"name": self.pick(NAMES)},
                             "containers": [{"image": "nginx"}], "host": self.odd(self.text()), "deep": {"a": {"b": self.odd(self.text())}}, "empty": {}, "none": None, "els": []}}
        if kind == "Canary":
            return {"spec": {"targetRef": {"name": self.pick(NAMES)}, "template": {"metadata": {}}}}
        return {}

    def identity(self, seen):
        for _ in range(20):
            kind, name, space = self.kind(), self.pick(NAMES), self.pick(SPACES)
            if (kind, name, space) not in seen:
                break
        seen.add((kind, name, space))
        return kind, name, space

    def object(self, seen):
        kind, name, space = self.identity(seen)
        meta = {"name": name}
        if space and kind not in ("Namespace", "CustomResourceDefinition") or space and self.chance(0.1):
            meta["namespace"] = space
        if self.chance(0.4):
            meta["labels"] = self.pairs(2)
        if self.chance(0.3):
            meta["annotations"] = self.pairs(2, ("note", "team.io/y", "on", "config.kubernetes.io/local-config") if self.chance(0.1) else ("note", "team.io/y", "a"))
        self.kinds_seen.append((kind, name, space))
        return {"apiVersion": self.VERSIONS[kind], "kind": kind, "metadata": meta, **self.spec(kind)}

    def anchors(self, text):
        """Puts an anchor at one value of a document, and an alias at another."""
        lines = text.split("\n")
        spots = [i for i, line in enumerate(lines) if line.endswith(": x") or line.endswith(": abc-d")]
        if len(spots) >= 2:
            a, b = sorted(self.r.sample(spots, 2))
            head, _, value = lines[a].rpartition(": ")
            lines[a] = f"{head}: &anc {value}"
            head, _, _ = lines[b].rpartition(": ")
            lines[b] = f"{head}: *anc"
        return "\n".join(lines)

    def resource_file(self, seen):
        documents = []
        for _ in range(self.r.randint(1, 3)):
            document = self.document(self.object(seen))
            if self.chance(0.1):
                document = self.anchors(document)
            documents.append(document)
        if self.chance(0.05):
            documents.insert(self.r.randint(0, len(documents)), self.pick(["", "# nothing\n", "null\n"]))
        if self.chance(0.05):
            return self.document({"apiVersion": "v1", "kind": "List", "items": [self.object(seen), self.object(seen)]})
        return "---\n".join(documents)

    # --- kustomizations ---

    def target(self):
        t = {}
        if self.kinds_seen and self.chance(0.8):
            kind, name, space = self.pick(self.kinds_seen)
            if self.chance(0.8):
                t["kind"] = kind
            if self.chance(0.6):
                t["name"] = self.pick([name, name, name[:1] + ".*", "web|api", "(web|db)", name + "$"])
            if space and self.chance(0.2):
                t["namespace"] = space
            if self.chance(0.1):
                t["version"] = "v1"
            if self.chance(0.1):
                t["group"] = self.VERSIONS[kind].rpartition("/")[0]
        if self.chance(0.1):
            t["labelSelector"] = self.pick(["app", "app=web", "app in (web,api)", "!tier", "app!=db"])
        if self.chance(0.05):
            t["annotationSelector"] = self.pick(["note", "note=x"])
        return t or {"kind": "Deployment"}

    def merge_body(self, kind):
        """A part of what an object of the kind has, changed."""
        full = self.spec(kind)

        def prune(value, depth):
            if isinstance(value, dict):
                out = {}
                for k, v in value.items():
                    if self.chance(0.75):
                        out[k] = None if depth > 0 and self.chance(0.06) else prune(v, depth + 1)
                if depth > 0 and self.chance(0.03):
                    out["$patch"] = self.pick(["delete", "replace", "merge"])
                return out
            if isinstance(value, list):
                out = [prune(v, depth + 1) for v in value if self.chance(0.85)]
                if out and isinstance(out[0], dict) and self.chance(0.08):
                    item = dict(value[0])
                    out.append({k: item[k] for k in list(item)[:1]} | {"$patch": "delete"})
                if self.chance(0.03):
                    out = []
                return out
            return value

        return prune(full, 0)

    def merge_patch(self, exact=None):
        kind, name, space = exact or (self.pick(self.scope or self.kinds_seen) if self.kinds_seen else ("Deployment", "web", ""))
        meta = {"name": name}
        if space:
            meta["namespace"] = space
        if self.chance(0.3):
            meta["labels"] = {self.pick(["app", "new", "tier"]): self.pick([None, self.text()])}
        if self.chance(0.3):
            meta["annotations"] = {self.pick(["note", "new"]): self.pick([None, self.text()])}
        patch = {"apiVersion": self.VERSIONS[kind], "kind": kind, "metadata": meta, **self.merge_body(kind)}
        if self.chance(0.04):
            patch["$patch"] = self.pick(["delete", "replace"])
        return patch

    def json_patch(self, kind=None):
        ops = []
        common = ["/metadata/labels", "/metadata/annotations", "/metadata/new"]
        paths = {
            "Deployment": ["/spec/replicas", "/spec/template/spec/containers/0/image", "/spec/template/spec/containers/0", "/spec/template/spec/x", "/spec/template/spec/containers/-"],
            "Service": ["/spec/ports/-", "/spec/ports/0/port", "/spec/selector", "/spec/type"],
            "ConfigMap": ["/data", "/new"],
            "Thing": ["/spec/list/0", "/spec/list/-", "/spec/scalars/1", "/spec/deep/a/b", "/spec/replicas", "/spec/host"],
            "Ingress": ["/spec/rules/0/host", "/spec/rules/-"],
        }.get(kind, ["/new"])
        if self.chance(0.8):
            for _ in range(self.r.randint(1, 3)):
                path = self.pick(paths + common)
                op = self.pick(["add", "add", "add", "replace"])
                value = self.pick(["new", 3, {"a": "b"}, [1], True, 1.5, None, self.odd("z")])
                if path.startswith("/metadata/l") or path.startswith("/metadata/a"):
                    value = {"a": "b"}
                ops.append({"op": op, "path": path, "value": value})
            return ops
        for _ in range(self.r.randint(1, 3)):
            op = self.pick(["add", "add", "replace", "remove", "test", "copy", "move"])
            path = self.pick(["/metadata/labels/new", "/metadata/annotations/team.io~1y", "/spec/replicas", "/spec/template/spec/containers/0/image", "/spec/ports/-",
                              "/metadata/name", "/spec/x", "/data/k", "/spec", "/spec/template/spec/containers/0/env/-", "/metadata/labels", "/spec/rules/0/host"])
            entry = {"op": op, "path": path}
            if op in ("add", "replace", "test"):
                entry["value"] = self.pick(["new", 3, {"a": 1}, [1], None, True, 1.5, self.odd("z")])
            if op in ("copy", "move"):
                entry["from"] = self.pick(["/metadata/name", "/spec/replicas", "/metadata/labels"])
            ops.append(entry)
        return ops

    def patch(self, d):
        p = {}
        if self.chance(0.6):
            text = self.document(self.merge_patch())
            if self.chance(0.08):
                text += "---\n" + self.document(self.merge_patch())
            if self.chance(0.4):
                p["target"] = self.target()
            if self.chance(0.1):
                p["options"] = {self.pick(["allowNameChange", "allowKindChange"]): True}
        else:
            target = self.target()
            ops = self.json_patch(target.get("kind"))
            if self.chance(0.2):
                import json
                text = json.dumps(unplain(ops))
            else:
                text = "\n".join(self.dump(ops)) + "\n"
            if self.chance(0.97):
                p["target"] = target
        if self.chance(0.5):
            name = f"patch{len(self.files)}.yaml"
            self.files[f"{d}/{name}"] = text
            p["path"] = name
        else:
            p["patch"] = text
        return p

    def generator(self, d, secret, overlay):
        known = [entry for entry in self.generated if entry[0] == secret]
        if overlay and known and self.chance(0.7):
            _, name, space = self.pick(known)
            g = {"name": name, **({"namespace": space} if space else {}), "behavior": self.pick(["merge", "replace", "merge", "merge"])}
        else:
            g = {"name": f"gen{len(self.generated)}" if self.chance(0.7) else self.pick(NAMES)}
            if self.chance(0.15):
                g["namespace"] = self.pick(["team", "other"])
            if self.chance(0.05):
                g["behavior"] = self.pick(["create", "merge"])
            self.generated.append((secret, g["name"], g.get("namespace", "")))
        if self.chance(0.8):
            g["literals"] = [f"{key}={self.text()}" for key in self.r.sample(["k", "a", "b", "c.d"], self.r.randint(1, 2))]
        if self.chance(0.4):
            name = f"file{len(self.files)}.txt"
            content = self.pick(["content\n", "a\nb\n\n", "", "x" * 200, b"\xff\xfe\x00bin", "é\n", "tab\there", " lead\n", "trail \nx\n", "a: 1\nb: 2\n"])
            self.files[f"{d}/{name}"] = content
            g["files"] = [self.pick([name, f"key={name}"])]
        if self.chance(0.2):
            name = f"vars{len(self.files)}.env"
            self.files[f"{d}/{name}"] = self.pick(["E=1\nF=two words\n", "# c\n\nG='q'\nH=\nI\n", "J=a=b\r\n"])
            g[self.pick(["envs", "env"])] = [name]
            if "env" in g:
                g["env"] = name
        if self.chance(0.2):
            g["options"] = self.options()
        if secret and self.chance(0.3):
            g["type"] = self.pick(["Opaque", "kubernetes.io/tls"])
        return g

    def options(self):
        o = {}
        if self.chance(0.5):
            o["disableNameSuffixHash"] = True
        if self.chance(0.4):
            o["labels"] = {"gen": self.text()}
        if self.chance(0.4):
            o["annotations"] = {"gen": self.text()}
        if self.chance(0.2):
            o["immutable"] = True
        return o or {"disableNameSuffixHash": False}

    def replacement(self, d):
        kind, name, space = self.pick(self.scope or self.kinds_seen) if self.kinds_seen else ("Service", "web", "")
        r = {"source": {"kind": kind, "name": name}}
        if space:
            r["source"]["namespace"] = space
        if self.chance(0.5):
            r["source"]["fieldPath"] = self.pick(["metadata.name", "kind", "apiVersion", "metadata"])
        elif self.chance(0.4):
            r["source"]["fieldPath"] = self.pick(["metadata.name", "metadata.namespace", "metadata.labels.app", "spec.replicas", "data.k", "metadata", "kind",
                                                  "spec.template.spec.containers.0.image", "spec.template.spec.containers.[name=app].image", "metadata.annotations.[team.io/y]",
                                                  "data.a\\.yaml", "spec.ports.0.port", "data"])
        if self.chance(0.15):
            r["source"]["options"] = {"delimiter": self.pick([":", "-", "/"]), "index": self.pick([0, 1, -1])}
        if self.chance(0.15):
            del r["source"]
            r["sourceValue"] = self.text()
        targets = []
        for _ in range(self.r.randint(1, 2)):
            t = {"select": self.target()}
            if self.chance(0.15):
                t["reject"] = [self.target()]
            t["fieldPaths"] = [self.pick(["metadata.labels.new", "metadata.annotations.note", "spec.template.spec.containers.0.image", "spec.template.spec.containers.*.image",
                                          "spec.template.spec.containers.[name=app].env.[name=A].value", "spec.replicas", "metadata.name", "metadata.namespace", "data.k", "data.b\\.json.a.b",
                                          "data.a\\.yaml.x", "spec.rules.0.host", "spec.list.[name=web].v", "spec.list.*.v", "spec.new.deep.x", "spec.ports.[port=80].targetPort",
                                          "spec.template.metadata.labels.app", "spec.scalars.0", "spec.scalars.5", "data.a\\.yaml.y.[name=a].v", "data.b\\.json.c"]) for _ in range(self.r.randint(1, 2))]
            if self.chance(0.85):
                o = {}
                if self.chance(0.93):
                    o["create"] = True
                if self.chance(0.3):
                    o["delimiter"] = self.pick([":", "-", "/"])
                if self.chance(0.3):
                    o["index"] = self.pick([0, 1, 2, -1, 5])
                if o:
                    t["options"] = o
            targets.append(t)
        r["targets"] = targets
        if self.chance(0.1):
            name = f"replacement{len(self.files)}.yaml"
            self.files[f"{d}/{name}"] = "\n".join(self.dump([r] if self.chance(0.5) else r)) + "\n"
            return {"path": name}
        return r

    def images(self):
        i = {"name": self.pick(["nginx", "reg.io/app", "busybox", "h:5000/app", "x/nginx", "ng.nx", "new"])}
        if self.chance(0.6):
            i["newTag"] = self.pick(["v2", "1.0", "latest"])
        if self.chance(0.4):
            i["newName"] = self.pick(["mirror/nginx", "new", "r.io:5000/x"])
        if self.chance(0.15):
            i["digest"] = "sha256:123"
        if self.chance(0.1):
            i["tagSuffix"] = "-s"
        return i

    def transformer(self, d):
        kind = self.pick(["AnnotationsTransformer", "LabelTransformer", "NamespaceTransformer", "PrefixTransformer", "SuffixTransformer", "PrefixSuffixTransformer", "ImageTagTransformer",
                          "ReplicaCountTransformer", "PatchTransformer", "PatchJson6902Transformer", "PatchStrategicMergeTransformer", "ValueAddTransformer", "ReplacementTransformer", "HashTransformer"])
        t = {"apiVersion": "builtin", "kind": kind, "metadata": {"name": "t"}}
        fields = [{"path": self.pick(["metadata/annotations", "metadata/labels", "spec/template/metadata/labels"]), "create": True}]
        if kind == "AnnotationsTransformer":
            t |= {"annotations": self.labels(), "fieldSpecs": fields}
        elif kind == "LabelTransformer":
            t |= {"labels": self.labels(), "fieldSpecs": fields}
        elif kind == "NamespaceTransformer":
            t["metadata"]["namespace"] = self.pick(["team", "nt"])
            t["fieldSpecs"] = [{"path": "metadata/namespace", "create": True}] + ([{"path": "metadata/name", "kind": "Namespace", "create": True}] if self.chance(0.5) else [])
            if self.chance(0.4):
                t["unsetOnly"] = True
            if self.chance(0.5):
                t["setRoleBindingSubjects"] = self.pick(["none", "defaultOnly", "allServiceAccounts"])
        elif kind in ("PrefixTransformer", "SuffixTransformer", "PrefixSuffixTransformer"):
            t |= {"prefix": "tp-", "suffix": "-ts"}
            if self.chance(0.9):
                t["fieldSpecs"] = [{"path": "metadata/name", **({"kind": "Deployment"} if self.chance(0.3) else {})}]
        elif kind == "ImageTagTransformer":
            t |= {"imageTag": self.images(), "fieldSpecs": [{"path": "spec/containers[]/image"}]}
        elif kind == "ReplicaCountTransformer":
            t |= {"replica": {"name": self.pick(NAMES), "count": 7}, "fieldSpecs": [{"path": "spec/replicas", "kind": "Deployment", "create": True}, {"path": "spec/replicas", "kind": "Thing"}]}
        elif kind == "PatchTransformer":
            t |= self.patch(d)
        elif kind == "PatchJson6902Transformer":
            import json
            t |= {"target": self.target() | {"name": self.pick(NAMES)}, "jsonOp": json.dumps(unplain(self.json_patch()))}
        elif kind == "PatchStrategicMergeTransformer":
            t["patches"] = self.document(self.merge_patch())
        elif kind == "ValueAddTransformer":
            t |= {"value": "added", "targets": [{"fieldPath": self.pick(["metadata/annotations/added", "metadata/namespace", "spec/path"]), **({"selector": self.target()} if self.chance(0.5) else {}),
                                                 **({"filePathPosition": 1} if self.chance(0.3) else {})}]}
        elif kind == "ReplacementTransformer":
            t["replacements"] = [self.replacement(d)]
        return t

    def configuration(self):
        c = {}
        for name in ("namePrefix", "nameSuffix", "namespace", "commonLabels", "commonAnnotations", "labels", "images", "replicas", "varReference", "templateLabels"):
            if self.chance(0.2):
                path = {"images": "spec/containers/image", "replicas": "spec/replicas", "varReference": "spec/host", "namespace": "spec/ns"}.get(name, self.pick(["spec/labels", "spec/ref/name", "metadata/labels", "metadata/name"]))
                c[name] = [{"path": path, **({"kind": self.pick(["Thing", "Canary", "Deployment"])} if self.chance(0.7) else {}), **({"create": True} if self.chance(0.4) else {})}]
        if self.chance(0.6):
            c["nameReference"] = [{"kind": self.pick(["Deployment", "ConfigMap", "Service", "Thing"]), "fieldSpecs": [
                {"path": self.pick(["spec/ref/name", "spec/ref", "spec/targetRef/name", "spec/list/name"]), "kind": self.pick(["Thing", "Canary"])}]}]
        return c or {"images": [{"path": "spec/x", "kind": "Thing"}]}

    def kustomization(self, d, bases, components, is_component=False):
        k = {}
        before = len(self.kinds_seen)
        if is_component:
            k |= {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
        elif self.chance(0.5):
            k |= {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
        resources = list(bases)
        seen = set()
        for number in range(self.r.randint(0 if bases or is_component else 1, 2)):
            name = f"r{number}.yaml"
            self.files[f"{d}/{name}"] = self.resource_file(seen)
            resources.append(name)
        self.scope = [entry for base in bases for entry in self.of_layer.get(base, [])] + self.kinds_seen[before:]
        self.of_layer[f"../{d}"] = self.scope
        if is_component:
            self.scope = self.scope or self.kinds_seen
        if resources:
            if self.chance(0.04) and bases:
                k["bases"] = list(bases)
                resources = [r for r in resources if r not in bases]
            if resources:
                k["resources"] = resources
        if components:
            k["components"] = components
        p = self.pick([0.1, 0.25, 0.4])
        if self.chance(p):
            k["namePrefix"] = self.pick(["p-", "o-", "x-"])
        if self.chance(p):
            k["nameSuffix"] = self.pick(["-s", "-z"])
        if self.chance(p):
            k["namespace"] = self.pick(["team", "prod", "default"])
        if self.chance(p * 0.6):
            k["commonLabels"] = {self.pick(["app", "env", "own"]): self.text()}
        if self.chance(p):
            k["labels"] = [{"pairs": {self.pick(["app", "env", "own"]): self.text()}, **({"includeSelectors": True} if self.chance(0.4) else {}),
                            **({"includeTemplates": True} if self.chance(0.4) else {}), **({"fields": [{"path": "spec/labels", "kind": "Thing", "create": True}]} if self.chance(0.2) else {})}
                           for _ in range(self.r.randint(1, 2))]
        if self.chance(p):
            k["commonAnnotations"] = {self.pick(["note", "own"]): self.text()}
        if self.chance(p):
            k["images"] = [self.images() for _ in range(self.r.randint(1, 2))]
        if self.chance(p * 0.5):
            names = [n for kind, n, _ in self.scope if kind in ("Deployment", "StatefulSet")]
            if not names and self.chance(0.95):
                names = None
            if names is not None:
                k["replicas"] = [{"name": self.pick(names or NAMES), "count": self.r.randint(0, 9)}]
        if self.chance(p * 2):
            k["patches"] = [self.patch(d) for _ in range(self.r.randint(1, 2))]
        if self.chance(p * 0.5) and self.kinds_seen:
            k["patchesStrategicMerge"] = [self.document(self.merge_patch())]
        if self.chance(p * 0.4) and self.kinds_seen:
            kind, name, space = self.pick(self.scope or self.kinds_seen)
            import json
            version = self.VERSIONS[kind].split("/")
            k["patchesJson6902"] = [{"target": {"version": version[-1], **({"group": version[0]} if len(version) > 1 else {}), "kind": kind, "name": name, **({"namespace": space} if space else {})},
                                     "patch": json.dumps(unplain(self.json_patch(kind)))}]
        if self.chance(p * 1.5):
            k["configMapGenerator"] = [self.generator(d, False, bool(bases) or is_component) for _ in range(self.r.randint(1, 2))]
        if self.chance(p * 0.7):
            k["secretGenerator"] = [self.generator(d, True, bool(bases) or is_component)]
        if self.chance(p * 0.5):
            k["generatorOptions"] = self.options()
        if self.chance(p) and self.kinds_seen:
            k["replacements"] = [self.replacement(d) for _ in range(self.r.randint(1, 2))]
        if self.chance(p * 0.5) and self.kinds_seen:
            kind, name, space = self.pick(self.scope or self.kinds_seen)
            version = self.VERSIONS[kind]
            k["vars"] = [{"name": self.pick(["VAR_A", "VAR_B"]), "objref": {"apiVersion": version, "kind": kind, "name": name, **({"namespace": space} if space and self.chance(0.7) else {})},
                          **({"fieldref": {"fieldPath": self.pick(["metadata.name", "metadata.namespace", "spec.replicas", "metadata.labels.app", "spec.ports[0].port"])}} if self.chance(0.6) else {})}]
        if self.chance(p * 0.4):
            self.files[f"{d}/config.yaml"] = "\n".join(self.dump(self.configuration())) + "\n"
            k["configurations"] = ["config.yaml"]
        if self.chance(p * 0.6):
            entries = []
            for _ in range(self.r.randint(1, 2)):
                text = self.document(self.transformer(d))
                if self.chance(0.5):
                    name = f"transformer{len(self.files)}.yaml"
                    self.files[f"{d}/{name}"] = text
                    entries.append(name)
                else:
                    entries.append(text)
            k["transformers"] = entries
        if self.chance(p * 0.2):
            generator = {"apiVersion": "builtin", "kind": self.pick(["ConfigMapGenerator", "SecretGenerator"]), "metadata": {"name": "gen"}, "literals": ["a=b"]}
            k["generators"] = [self.document(generator)]
        if self.chance(0.1):
            k["sortOptions"] = self.pick([{"order": "fifo"}, {"order": "legacy"}, {"order": "legacy", "legacySortOptions": {"orderFirst": ["Service", "Deployment"], "orderLast": ["ConfigMap"]}}])
        if self.chance(0.1):
            k["buildMetadata"] = self.r.sample(["originAnnotations", "transformerAnnotations", "managedByLabel"], self.r.randint(1, 3))
        if self.chance(0.03):
            self.files[f"{d}/schema.json"] = SCHEMA
            k["openapi"] = {"path": "schema.json"}
        self.files[f"{d}/kustomization.yaml"] = "\n".join(self.dump(k)) + "\n"

    def tree(self):
        layers = []
        for number in range(self.r.randint(1, 2)):
            self.kustomization(f"base{number}", [], [])
            layers.append(f"base{number}")
        components = []
        for number in range(self.pick([0, 0, 0, 1, 2])):
            self.kustomization(f"comp{number}", [], [], True)
            components.append(f"../comp{number}")
        for number in range(self.r.randint(0, 3)):
            bases = [f"../{name}" for name in self.r.sample(layers, self.pick([1, 1, 1, min(2, len(layers))]))]
            used = [c for c in components if self.chance(0.5)]
            self.kustomization(f"overlay{number}", bases, used)
            layers.append(f"overlay{number}")
        for path, content in self.files.items():
            place = self.root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return layers


class Plain(str):
    """Text that is written without quotes, whatever it then means."""

    def __new__(cls, text):
        made = super().__new__(cls, text)
        made.text = text
        return made


def unplain(value):
    if isinstance(value, dict):
        return {k: unplain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [unplain(v) for v in value]
    return str(value) if isinstance(value, Plain) else value


SCHEMA = """{"definitions": {"v1.Thing": {"type": "object",
 "x-kubernetes-group-version-kind": [{"group": "example.com", "kind": "Thing", "version": "v1"}],
 "properties": {"spec": {"type": "object", "properties": {"list": {"type": "array", "x-kubernetes-patch-merge-key": "name",
 "x-kubernetes-patch-strategy": "merge", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}}}}}}}
"""


def main():
    global COMMENTS
    COMMENTS = "--comments" in sys.argv
    output, first, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for seed in range(first, first + count):
        root = output / str(seed)
        fuzz = Fuzz(root, seed)
        layers = fuzz.tree()
        for name in layers[-2:]:
            options = random.Random(seed).choice(["", "", "", "", "--reorder none", "--load-restrictor LoadRestrictionsNone", "--enable-managedby-label"])
            print(f"{root}\t{name}\t{options}")


main()
