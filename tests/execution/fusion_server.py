"""A small HTTP server that answers as a Sandbox Fusion server does, from records and by running the shim.

What it runs is the project's own test programs, with the limits of a child process.
"""

import json
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def finished(stdout="", stderr="", code=0, seconds=0.01, status="Finished"):
    result = {
        "status": status,
        "return_code": code,
        "stdout": stdout,
        "stderr": stderr,
        "execution_time": seconds,
    }
    good = status == "Finished" and code == 0
    return {"status": "Success" if good else "Failed", "compile_result": None, "run_result": result}


def run_for_real(request):
    """Handling of a Python program by the server: a process, its output, its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", "-c", request["code"]], input=request["stdin"], text=True,
                capture_output=True, timeout=request["run_timeout"], cwd=folder,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return finished(status="TimeLimitExceeded", code=None)
    return finished(done.stdout, done.stderr, done.returncode)


class FusionServer:
    """Serves on a free port; ``answers`` are given first, one a request: a status number or a content."""

    def __init__(self, answers=(), answer=run_for_real):
        self.requests = []
        self.busy = self.max_busy = 0
        self._lock = threading.Lock()
        self._answers = list(answers)
        self._answer = answer
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                outer.handle(self)

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def handle(self, handler):
        request = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            self.requests.append((handler.path, request))
            self.busy += 1
            self.max_busy = max(self.max_busy, self.busy)
            answer = self._answers.pop(0) if self._answers else None
        try:
            content = self._answer(request) if answer is None else answer
        finally:
            with self._lock:
                self.busy -= 1
        if content == "hang up":
            handler.connection.close()
            handler.close_connection = True
            return
        status = content if isinstance(content, int) else 200
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        if status == 429:
            handler.send_header("Retry-After", "0.01")
        handler.end_headers()
        handler.wfile.write(body)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
