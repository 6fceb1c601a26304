"""A server of the OpenAI API on this machine, which behaves as a test tells it."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal


@dataclass(frozen=True)
class Reply:
    """What the server does with a request.

    Attributes:
        body: The body.
        status: The status.
        headers: Headers over the usual ones.
        act: ``hang`` says nothing, ``close`` breaks off in the middle of the body, ``drip`` sends a byte at a time.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    act: Literal["", "hang", "close", "drip"] = ""


def completion(text: Any, *, finish: str = "stop", logprobs: Any = None, **message: Any) -> Reply:
    """Return a chat completion, 7 prompt tokens and as many of the answer as it has words."""
    choice = {
        "message": {"role": "assistant", "content": text, **message},
        "finish_reason": finish,
        "logprobs": logprobs,
    }
    usage = {"prompt_tokens": 7, "completion_tokens": len(str(text).split())}
    return Reply(json.dumps({"choices": [choice], "usage": usage}).encode())


def refusal(status: int, message: str, **more: Any) -> Reply:
    """Return an error as the API words it; ``headers`` go into the headers, the rest into the body."""
    headers = more.pop("headers", {})
    return Reply(json.dumps({"error": {"message": message, **more}}).encode(), status, headers)


def prompt_of(body: dict[str, Any]) -> str:
    """Return the instruction of a request."""
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


Behaviour = Callable[[dict[str, Any], int], Reply]
"""The request's body, and how often its prompt was asked before, to what is done."""


@dataclass
class ChatServer:
    """A running server.

    Attributes:
        url: What ``base_url`` is to be.
        bodies: The requests so far.
        headers: Their headers.
    """

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def prompts(self) -> Counter[str]:
        """How often each instruction was asked."""
        return Counter(prompt_of(body) for body in self.bodies)


@contextmanager
def chat_server(behave: Behaviour) -> Iterator[ChatServer]:
    """Run a server while the block does; at its end hanging requests are let go."""
    closing = threading.Event()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                before = running.prompts[prompt_of(body)]
                running.bodies.append(body)
                running.headers.append(dict(self.headers))
            reply = behave(body, before) if self.path == "/v1/chat/completions" else refusal(404, self.path)
            if reply.act == "hang":
                closing.wait(30)
                self.close_connection = True
                return
            self.send_response(reply.status)
            headers = {"Content-Type": "application/json", "Content-Length": str(len(reply.body))}
            for name, value in (headers | reply.headers).items():
                self.send_header(name, value)
            self.end_headers()
            if reply.act == "close":
                self.wfile.write(reply.body[: len(reply.body) // 2])
                self.close_connection = True
            elif reply.act == "drip":
                for byte in reply.body:
                    if closing.wait(0.05):
                        break
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
            else:
                self.wfile.write(reply.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of clients that hung up."""

    server = Server(("127.0.0.1", 0), Handler)
    running = ChatServer(f"http://127.0.0.1:{server.server_port}/v1")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield running
    finally:
        closing.set()
        server.shutdown()
        server.server_close()
        thread.join()
