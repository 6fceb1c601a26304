"""A bucket on the loopback: moto's S3, behind what answers 503 when it is told to, and counts requests."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

BUCKET = "results"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "AKIATESTTESTTESTTEST",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-this-test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass
class S3Server:
    """The server.

    Attributes:
        url: Where it listens.
        requests: Method and path of each request.
        answers: What is answered to requests of a method, each once, before the bucket is asked: a status.
        answers_after: The same, after the bucket has done what was asked: its own answer is lost.
        always: What is answered to every request.
        deaf_to: A header that is not heard.
    """

    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    answers: dict[str, list[int]] = field(default_factory=dict)
    answers_after: dict[str, list[int]] = field(default_factory=dict)
    always: int = 0
    deaf_to: str = ""

    def reset(self) -> None:
        """Answer as a bucket does."""
        self.requests.clear()
        self.answers.clear()
        self.answers_after.clear()
        self.always, self.deaf_to = 0, ""

    def wrap(self, bucket: Application) -> Application:
        """Return an application that stands before another one."""
        # A bucket decides of two writes which is first; moto looks and writes, and another thread may come between.
        one_at_a_time = threading.Lock()

        def application(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
            method = environment["REQUEST_METHOD"]
            self.requests.append((method, environment["PATH_INFO"]))
            environment.pop(self.deaf_to, None)
            status = self.always or self._next(self.answers, method)
            if status:
                # What is sent is read, or the connection breaks before the answer.
                environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
                return self._say(status, start)
            with one_at_a_time:
                status = self._next(self.answers_after, method)
                answer = list(bucket(environment, (lambda *_: None) if status else start))
            return self._say(status, start) if status else answer

        return application

    @staticmethod
    def _next(answers: dict[str, list[int]], method: str) -> int:
        return answers[method].pop(0) if answers.get(method) else 0

    @staticmethod
    def _say(status: int, start: Callable[..., Any]) -> Iterable[bytes]:
        code = {403: "AccessDenied", 404: "NoSuchBucket", 409: "ConditionalRequestConflict", 503: "SlowDown"}[status]
        body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>As told.</Message></Error>".encode()
        start(f"{status} {code}", [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
        return [body]


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Serve one empty bucket."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_: object) -> None:
            pass

    server = S3Server()
    application = server.wrap(DomainDispatcherApplication(create_backend_app))
    listening = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    server.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
