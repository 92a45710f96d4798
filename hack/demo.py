"""A demo that runs, for the programs of this folder."""
import base64
import re
import ssl
import subprocess
import time

READY_MAX = 60


class Demo:
    """`tiphys demo` with a folder of its own: `address` and `password` of its API, `git`, and `server`, `token` and `tls` of
    its Kubernetes API. What it says is in the file `log`."""

    def __init__(self, program, folder, *arguments):
        self.folder, self.data, self.log = folder, folder / "data", folder / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([program, "demo", "--data", str(self.data), *arguments],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            self.ready()
        except BaseException:
            self.stop()
            raise
        self.git = f"http://{self.address}/git/demo.git"
        text = (self.data / "kubeconfig").read_text()
        self.server, self.token = (re.search(rf"{name}: (\S+)", text).group(1) for name in ("server", "token"))
        authority = base64.b64decode(re.search(r"certificate-authority-data: (\S+)", text).group(1)).decode()
        self.tls = ssl.create_default_context(cadata=authority)

    def ready(self):
        """Waits until it says how one logs in; ends everything when it never does."""
        why = f"was not ready after {READY_MAX} s"
        for _ in range(10 * READY_MAX):
            found = re.search(r"argocd login (\S+) .* --password (\S+)", self.said())
            if found:
                self.address, self.password = found.groups()
                return
            if self.process.poll() is not None:
                why = f"ended with exit code {self.process.returncode} before it was ready"
                break
            time.sleep(0.1)
        raise SystemExit(f"the demo {why}. The end of what it said:\n{self.said()[-2000:]}")

    def said(self):
        """Everything it has said."""
        return self.log.read_text(errors="replace")

    def push(self, files, message):
        """Commits files to the demo's repository; gives the commit."""
        clone = self.folder / "clone"
        git = lambda *words: subprocess.run(["git", "-C", str(clone), *words], check=True, stdout=subprocess.PIPE,
                                            stderr=subprocess.DEVNULL, text=True).stdout.strip()
        if not clone.exists():
            subprocess.run(["git", "clone", "-q", self.git, str(clone)], check=True)
            git("config", "user.name", "hack")
            git("config", "user.email", "hack@example.com")
        git("pull", "-q")
        for path, content in files.items():
            target = clone / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        git("add", "-A")
        git("commit", "-q", "--allow-empty", "-m", message)
        git("push", "-q")
        return git("rev-parse", "HEAD")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
