"""A hub on this machine that speaks as the Hugging Face hub does, filled with small repositories.

It has models and data sets with commits, redirects of large files and of old names, gated and private repositories,
tokens, and faults that can be switched on. ``Hub.environment`` is what a process needs to ask it.
"""

import base64
import fnmatch
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = 1_000_000
"""Bytes from which on a file is redirected to another path, as files of LFS are."""
_DATE = "2026-01-01T00:00:00.000Z"
_CODES = {401: "", 403: "", 404: "EntryNotFound", 429: "", 500: ""}

Kind = Literal["model", "dataset"]
Fault = Literal[401, 403, 404, 429, 500, "slow", "cut"]


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class File:
    """A file of a commit: where its bytes are."""

    path: Path

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    @cached_property
    def oid(self) -> str:
        """Its name in git."""
        return _sha1(b"blob %d\0" % self.size + self.path.read_bytes())

    @cached_property
    def size(self) -> int:
        return self.path.stat().st_size

    @property
    def is_large(self) -> bool:
        return self.size >= LARGE

    def entry(self, name: str) -> dict[str, Any]:
        lfs = {"lfs": {"oid": self.sha256, "size": self.size, "pointerSize": 134}} if self.is_large else {}
        return {"type": "file", "path": name, "size": self.size, "oid": self.oid, **lfs}


@dataclass
class Repository:
    """A repository.

    Attributes:
        name: Owner and name.
        kind: What it holds.
        commits: Commit to its files by name, in the order in which they were made.
        branches: Branch to its commit.
        gated: Whether its files are for tokens alone that may read it.
        private: Whether it is shown to those tokens alone.
    """

    name: str
    kind: Kind
    commits: dict[str, dict[str, File]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    gated: bool = False
    private: bool = False

    def commit(self, files: dict[str, File], branch: str = "main", called: str = "") -> str:
        """Make files the whole content of a branch, and return the commit."""
        content = "".join(f"{path} {file.oid}\n" for path, file in files.items())
        commit = called or _sha1(f"{self.kind} {self.name}\n{content}".encode())
        self.commits[commit] = files
        self.branches[branch] = commit
        return commit

    def info(self, commit: str) -> dict[str, Any]:
        siblings = [{"rfilename": name, "size": file.size, "blobId": file.oid, **(
            {"lfs": {"sha256": file.sha256, "size": file.size, "pointerSize": 134}} if file.is_large else {}
        )} for name, file in self.commits[commit].items()]  # fmt: skip
        return {
            "_id": "0" * 24, "id": self.name, "sha": commit, "author": self.name.partition("/")[0], "disabled": False,
            "gated": "manual" if self.gated else False, "private": self.private, "tags": [], "downloads": 0, "likes": 0,
            "lastModified": _DATE, "createdAt": _DATE, "siblings": siblings,
        }  # fmt: skip

    def tree(self, commit: str, folder: str, recursive: bool) -> list[dict[str, Any]] | None:
        """Return what a folder holds, or None where there is no such folder."""
        inside = f"{folder}/" if folder else ""
        entries: dict[str, dict[str, Any]] = {}
        for name, file in self.commits[commit].items():
            if not name.startswith(inside):
                continue
            parts = name.removeprefix(inside).split("/")
            for depth in range(1, len(parts) if recursive else min(len(parts), 2)):
                path = inside + "/".join(parts[:depth])
                entries[path] = {"type": "directory", "path": path, "size": 0, "oid": _sha1(path.encode())}
            if recursive or len(parts) == 1:
                entries[name] = file.entry(name)
        return [*entries.values()] if entries or not folder else None


class Hub:
    """A hub that is served.

    Attributes:
        address: Its address.
        requests: ``METHOD /path?query`` of each request, in order.
        tokens: Token to the names of repositories that it may read, however gated or private, and write.
    """

    def __init__(self, folder: Path) -> None:
        self.requests: list[str] = []
        self.tokens: dict[str, set[str]] = {}
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.names: dict[str, str] = {}
        self.faults: list[tuple[str, Fault, float]] = []
        self.blobs: dict[str, File] = {}
        self._folder = folder
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def add(
        self, name: str, folder: Path, kind: Kind = "model", branch: str = "main", gated: bool = False,
        private: bool = False, commit: str = "",
    ) -> str:  # fmt: skip
        """Commit a folder's files as the whole content of a branch, and return the commit; the same for the same files.

        Args:
            name: Owner and name.
            folder: Files, and folders of files; hidden ones are left out.
            kind: What it holds.
            branch: Where the commit goes.
            gated: Whether its files are for tokens alone that may read it.
            private: Whether it is shown to those alone.
            commit: What the commit is called; by default by its files.
        """
        files: dict[str, File] = {}
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_file() and not any(part.startswith(".") for part in inside.parts):
                files[inside.as_posix()] = self.keep(path.read_bytes())
        repository = self.repositories.setdefault((kind, name), Repository(name, kind))
        repository.gated, repository.private = gated, private
        return repository.commit(files, branch, commit)

    def keep(self, content: bytes) -> File:
        """Return the file of a content, which is kept once."""
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self.blobs:
            kept = self._folder / digest
            kept.write_bytes(content)
            self.blobs[digest] = File(kept)
        return self.blobs[digest]

    def rename(self, old: str, new: str) -> None:
        """Redirect an old name to a repository's own."""
        self.names[old] = new

    def fault(self, kind: Fault, path: str = "*", seconds: float = 0) -> None:
        """Let requests of paths that a pattern matches (``*/model.safetensors``, ``*org/name*``) fail from now on.

        Args:
            kind: A status; ``slow`` answers late; ``cut`` closes the connection at half of the content.
            path: The pattern.
            seconds: Of ``slow``: how late. Of 429: what Retry-After says.
        """
        self.faults.append((path, kind, seconds))

    def mend(self) -> None:
        """Switch all faults off."""
        self.faults.clear()

    def asked(self, path: str) -> list[str]:
        """Return the requests of paths that a pattern matches."""
        return [request for request in self.requests if fnmatch.fnmatch(request.partition(" ")[2], path)]

    def environment(self, home: Path, **more: str) -> dict[str, str]:
        """Return the environment of a process that asks this hub, with a folder as its cache."""
        unset = {"HF_HUB_OFFLINE", "HF_TOKEN", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_DATASETS_OFFLINE"}
        # Processes that compile torch and transformers first take many times as long.
        unset.add("PYTHONDONTWRITEBYTECODE")
        inherited = {name: value for name, value in os.environ.items() if name not in unset}
        own = {"HF_ENDPOINT": self.address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
        return {**inherited, **own, "NO_PROXY": "127.0.0.1,localhost", "HF_HUB_DISABLE_TELEMETRY": "1", **more}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def served_hub(folder: Path) -> Iterator[Hub]:
    """Serve a hub that keeps its files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    hub = Hub(folder)
    try:
        yield hub
    finally:
        hub.close()


_API = re.compile(
    r"/api/(?P<kind>model|dataset)s/(?P<name>[\w.-]+(?:/(?!(?:revision|tree|commits|discussions|paths-info|auth-check|preupload|commit)(?:/|$))"
    r"[\w.-]+)?)(?:/(?P<call>[a-z-]+)(?:/(?P<rest>.+))?)?"
)
_LARGE_FILES = re.compile(r"/(?:datasets/)?[\w.-]+/[\w.-]+\.git/info/lfs/objects/batch")
_FILE = re.compile(r"/(?P<kind>datasets/)?(?P<name>[\w.-]+(?:/[\w.-]+)?)/resolve/(?P<rest>.+)")


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self._body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.hub.requests.append(f"{self.command} {self.path}")
        self._cut = False
        split = urlsplit(self.path)
        path, self._query = unquote(split.path), parse_qs(split.query)
        for pattern, fault, seconds in self.hub.faults:
            if fnmatch.fnmatch(path, pattern):
                if fault == "cut":
                    self._cut = True
                elif fault == "slow":
                    time.sleep(seconds)
                else:
                    return self._refuse(fault, _CODES[fault], f"fault {fault}", {"Retry-After": f"{seconds:g}"})
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token and token not in self.hub.tokens:
            return self._refuse(401, "", "Invalid credentials in Authorization header")
        self._token = token
        if path.startswith("/large/"):
            return self._content(self.hub.blobs[path.removeprefix("/large/")], {})
        if path.startswith("/upload/"):
            self.hub.keep(self._body)
            return self._send(200, b"", {})
        if self.command == "POST" and path in ("/api/repos/create", "/api/validate-yaml"):
            return self._create() if path.endswith("create") else self._json({"errors": [], "warnings": []})
        if _LARGE_FILES.fullmatch(path):
            wanted = json.loads(self._body)["objects"]
            places = [{"upload": {"href": f"{self.hub.address}/upload/{entry['oid']}"}} for entry in wanted]
            return self._json({"objects": [{**e, "actions": p} for e, p in zip(wanted, places, strict=True)]})
        if (asked := _API.fullmatch(path)) and (repository := self._repository(asked["kind"], asked["name"])):
            return self._describe(repository, asked["call"] or "revision", asked["rest"] or "")
        if asked:
            return None
        if asked := _FILE.fullmatch(path):
            if repository := self._repository("dataset" if asked["kind"] else "model", asked["name"]):
                self._resolve(repository, asked["rest"])
            return None
        if path == "/":
            return self._send(200, b"a hub", {})
        return self._refuse(404, "", "no such page")

    def _repository(self, kind: str, name: str) -> Repository | None:
        """Return a repository that the token may see; where there is none, the answer was sent."""
        if canonical := self.hub.names.get(name):
            self._send(307, b"", {"Location": re.sub(rf"/{name}(?=/|$)", f"/{canonical}", self.path, count=1)})
            return None
        repository = self.hub.repositories.get((kind, name))
        if repository is None or (repository.private and not self._may_read(repository)):
            # As the hub does, which tells strangers nothing of what there is.
            self._refuse(404 if self._token else 401, "RepoNotFound", "Repository not found")
            return None
        return repository

    def _may_read(self, repository: Repository) -> bool:
        return repository.name in self.hub.tokens.get(self._token, ())

    def _commit(self, repository: Repository, rest: str) -> tuple[str, str] | None:
        """Return the commit at the beginning of a path, and what follows; where there is none, the answer was sent."""
        for revision, commit in repository.branches.items():
            if rest == revision or rest.startswith(f"{revision}/"):
                return commit, rest[len(revision) + 1 :]
        first, _, after = rest.partition("/")
        if first in repository.commits:
            return first, after
        self._refuse(404, "RevisionNotFound", f"Invalid rev id: {first}")
        return None

    def _create(self) -> None:
        asked = json.loads(self._body)
        name, kind = f"{asked['organization']}/{asked['name']}", asked.get("type", "model")
        if not self._token:
            return self._refuse(401, "", "Invalid username or password.")
        if (kind, name) not in self.hub.repositories:
            is_private = asked.get("private", asked.get("visibility") == "private")
            self.hub.repositories[kind, name] = Repository(name, kind, private=is_private)
            self.hub.tokens[self._token].add(name)
        return self._json({"url": f"{self.hub.address}/{'datasets/' * (kind == 'dataset')}{name}", "name": name})

    def _take(self, repository: Repository) -> None:
        """Commit files that were sent, or are among those that were sent before."""
        files = dict(repository.commits.get(repository.branches.get("main", ""), {}))
        for line in map(json.loads, self._body.splitlines()):
            sent = line["value"]
            if line["key"] == "file":
                files[sent["path"]] = self.hub.keep(base64.b64decode(sent["content"]))
            elif line["key"] == "lfsFile":
                files[sent["path"]] = self.hub.blobs[sent["oid"]]
        commit = repository.commit(files)
        address = f"{self.hub.address}/{'datasets/' * (repository.kind == 'dataset')}{repository.name}/commit/{commit}"
        self._json({"commitUrl": address, "commitOid": commit, "success": True})

    def _describe(self, repository: Repository, call: str, rest: str) -> None:
        if call == "auth-check":
            return self._refuse_gated(repository) or self._json({})
        if call == "discussions":
            return self._json({"discussions": [], "count": 0, "start": 0})
        if call == "preupload":
            asked = json.loads(self._body)["files"]
            modes = [(file["path"], "lfs" if file["size"] >= LARGE else "regular") for file in asked]
            return self._json({"files": [{"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in modes]})
        if call == "commit":
            return self._take(repository)
        if (at := self._commit(repository, rest or "main")) is None:
            return None
        commit, folder = at
        if call == "revision":
            return self._json(repository.info(commit))
        if call == "commits":
            commits = list(repository.commits)
            entry = {"title": "change", "message": "", "authors": [], "date": _DATE}
            return self._json([{"id": sha, **entry} for sha in reversed(commits[: commits.index(commit) + 1])])
        if call == "paths-info":
            said = self._body.decode()
            is_json = "json" in (self.headers.get("Content-Type") or "")
            paths = json.loads(said)["paths"] if is_json else parse_qs(said).get("paths", [])
            every = {entry["path"]: entry for entry in repository.tree(commit, "", recursive=True) or []}
            return self._json([every[path] for path in paths if path in every])
        if call == "tree":
            recursive = self._query.get("recursive", [""])[0].lower() in ("true", "1")
            entries = repository.tree(commit, folder, recursive)
            if entries is None:
                return self._refuse(404, "EntryNotFound", f"{folder} does not exist", {"X-Repo-Commit": commit})
            return self._json(entries)
        return self._refuse(404, "", f"no such call: {call}")

    def _resolve(self, repository: Repository, rest: str) -> None:
        if (at := self._commit(repository, rest)) is None:
            return None
        commit, name = at
        own = {"X-Repo-Commit": commit}
        if self._refuse_gated(repository):
            return None
        if (file := repository.commits[commit].get(name)) is None:
            return self._refuse(404, "EntryNotFound", "Entry not found", own)
        if not file.is_large:
            return self._content(file, {**own, "ETag": f'"{file.oid}"'})
        linked = {"X-Linked-Etag": f'"{file.sha256}"', "X-Linked-Size": str(file.size)}
        # To another host, as the hub does: clients do not follow it when they ask what a file is.
        elsewhere = self.hub.address.replace("127.0.0.1", "localhost")
        return self._send(302, b"", {**own, **linked, "Location": f"{elsewhere}/large/{file.sha256}"})

    def _refuse_gated(self, repository: Repository) -> bool:
        """Return whether the token may not have a repository's files, which the answer then says."""
        refused = repository.gated and not self._may_read(repository)
        if refused:
            self._refuse(403 if self._token else 401, "GatedRepo", f"Access to {repository.name} is restricted")
        return refused

    def _content(self, file: File, headers: Mapping[str, str]) -> None:
        content = file.path.read_bytes()
        headers = {"ETag": f'"{file.sha256}"', "Accept-Ranges": "bytes", **headers}
        if not (asked := re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")):
            return self._send(200, content, headers)
        first, last = asked.groups()
        start = int(first) if first else max(0, len(content) - int(last))
        end = min(int(last) + 1, len(content)) if first and last else len(content)
        if start >= len(content):
            return self._send(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        headers = {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}
        return self._send(206, content[start:end], headers)

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        named = {"X-Error-Code": code} if code else {}
        self._send(status, json.dumps({"error": message}).encode(), {
            **named, "X-Error-Message": message, "Content-Type": "application/json", **(headers or {}),
        })  # fmt: skip

    def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if self._cut else content)
        if self._cut:
            self.close_connection = True
