#!/usr/bin/env python3
"""A small Git server on loopback: smart HTTP for every repository below a folder, for reading and pushing.

  githttp.py ROOT [--port N]     prints the address and serves until it is stopped

Requests are handed to `git http-backend`. There are no users: whoever reaches the port may push.
"""
import argparse
import gzip
import http.server
import os
import subprocess
import tempfile
import threading

CHUNK_BYTES = 1 << 16


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root = "."
    pushed = None

    def log_message(self, *_):
        pass

    def chunks(self):
        """The body as it arrives."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0].strip() or b"0", 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length") or 0)
        while left > 0:
            part = self.rfile.read(min(left, CHUNK_BYTES))
            if not part:
                return
            left -= len(part)
            yield part

    def answer(self):
        path, _, query = self.path.partition("?")
        with tempfile.TemporaryFile() as body:
            for part in self.chunks():
                body.write(part)
            if self.headers.get("Content-Encoding") == "gzip":
                body.seek(0)
                plain = gzip.decompress(body.read())
                body.seek(0)
                body.truncate()
                body.write(plain)
            length = body.tell()
            body.seek(0)
            environment = {
                "PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "/"), "GIT_PROJECT_ROOT": self.root,
                "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(length),
                "REMOTE_ADDR": "127.0.0.1", "REMOTE_USER": "demo", "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }
            out = subprocess.run(["git", "http-backend"], stdin=body, env=environment, stdout=subprocess.PIPE).stdout
        head, _, data = out.partition(b"\r\n\r\n")
        status, headers = 200, []
        for line in head.decode(errors="replace").split("\r\n"):
            key, _, value = line.partition(": ")
            if key == "Status":
                status = int(value.split()[0])
            elif key:
                headers.append((key, value))
        self.send_response(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        if self.pushed and status == 200 and self.command == "POST" and path.endswith("/git-receive-pack"):
            self.pushed(path.removesuffix("/git-receive-pack"))

    do_GET = do_POST = answer


class GitServer:
    """Serves `root` from threads of its own until `stop`; calls `pushed` with the path of a repository after a push."""

    def __init__(self, root, port=0, pushed=None):
        members = {"root": str(root), "pushed": staticmethod(pushed) if pushed else None}
        handler = type("RootedHandler", (Handler,), members)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root")
    parser.add_argument("--port", type=int, default=0)
    given = parser.parse_args()
    server = GitServer(os.path.abspath(given.root), given.port)
    print(server.url, flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        server.stop()


if __name__ == "__main__":
    main()
