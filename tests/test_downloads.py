from __future__ import annotations

import hashlib
import io
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from capbench.errors import DataError
from capbench.tasks.download import fetch
from capbench.tasks.sources import DataSource

CONTENT = bytes(range(256)) * 400
Card = Callable[..., DataSource]
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves ``contents``; the first ``breaks`` answers end half way, and ``ranges`` may be turned off."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.contents = {"a.bin": CONTENT}
        self.requests: list[tuple[str, str | None]] = []
        self.breaks = 0
        self.ranges = True
        self.chunked = False

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name, asked = self.path.lstrip("/"), self.headers.get("Range")
        self.server.requests.append((name, asked))
        content = self.server.contents.get(name)
        if content is None:
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.ranges else 0
        if start and start >= len(content):
            self.send_error(416)
            return
        body = content[start:]
        self.send_response(206 if start else 200)
        if self.server.chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.breaks:
            self.server.breaks -= 1
            body = body[: len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def card(card_keys: dict[str, Any]) -> Card:
    """Return a data card with one download, or with none."""
    return lambda **download: DataSource.model_validate({**card_keys, "downloads": [download] if download else []})


def silent(_: str) -> Callable[[int, int], None]:
    return lambda done, total: None


def fault(source: DataSource, folder: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        fetch(source, folder, silent)
    return caught.value


def archive(members: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, text in members.items():
            opened.writestr(name, text)
    return content.getvalue()


def test_file_is_fetched_into_a_new_folder_and_its_progress_is_told(card: Card, server: Server, tmp_path: Path):
    reported: list[tuple[int, int]] = []
    source = card(url=server.url("a.bin"), file="kept.bin", sha256=SHA256)
    files = fetch(source, tmp_path / "new" / "mine", lambda name: lambda *numbers: reported.append(numbers))
    assert files == [tmp_path / "new" / "mine" / "kept.bin"]
    assert files[0].read_bytes() == CONTENT
    assert reported[-1] == (len(CONTENT), len(CONTENT))
    assert [path.name for path in files[0].parent.iterdir()] == ["kept.bin"]


@pytest.mark.parametrize("checksum", [{}, {"sha256": SHA256}], ids=["without checksum", "with checksum"])
def test_broken_connection_is_an_error_and_the_next_call_goes_on_from_there(card, server, tmp_path, checksum):
    server.breaks = 2
    source = card(url=server.url("a.bin"), file="a.bin", **checksum)
    half, quarter = len(CONTENT) // 2, len(CONTENT) // 4
    error = fault(source, tmp_path)
    assert f"the connection broke at {half:,} of {len(CONTENT):,} bytes" in error.message
    assert "resume the download" in error.hint
    assert not (tmp_path / "a.bin").exists()
    fault(source, tmp_path)
    assert fetch(source, tmp_path, silent)[0].read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, f"bytes={half}-", f"bytes={half + quarter}-"]
    assert not (tmp_path / "a.bin.part").exists()


def test_chunked_answer_that_breaks_off_is_an_error(card: Card, server: Server, tmp_path: Path):
    server.breaks, server.chunked = 1, True
    source = card(url=server.url("a.bin"), file="a.bin")
    fault(source, tmp_path)
    assert not (tmp_path / "a.bin").exists()
    assert fetch(source, tmp_path, silent)[0].read_bytes() == CONTENT


def test_server_that_ignores_the_range_sends_the_file_from_its_start(card: Card, server: Server, tmp_path: Path):
    server.ranges = False
    (tmp_path / "a.bin.part").write_bytes(b"something else")
    assert fetch(card(url=server.url("a.bin"), file="a.bin"), tmp_path, silent)[0].read_bytes() == CONTENT
    assert server.requests == [("a.bin", "bytes=14-")]


def test_part_that_is_whole_already_is_kept(card: Card, server: Server, tmp_path: Path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    source = card(url=server.url("a.bin"), file="a.bin", sha256=SHA256)
    assert fetch(source, tmp_path, silent)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_file_with_another_checksum_is_deleted_and_the_error_says_so(card, server, tmp_path: Path, algorithm: str):
    server.contents["a.bin"] = b"something else"
    expected = hashlib.new(algorithm, CONTENT).hexdigest()
    error = fault(card(url=server.url("a.bin"), file="a.bin", **{algorithm: expected}), tmp_path / "mine")
    assert server.url("a.bin") in error.message
    assert "does not have the expected checksum; it was deleted" in error.message
    assert list((tmp_path / "mine").iterdir()) == []


def test_complete_file_is_not_fetched_again(card: Card, server: Server, tmp_path: Path):
    (tmp_path / "a.bin").write_bytes(CONTENT)
    source = card(url=server.url("a.bin"), file="a.bin", sha256=SHA256, md5=hashlib.md5(CONTENT).hexdigest())  # noqa: S324
    assert fetch(source, tmp_path, silent) == [tmp_path / "a.bin"]
    assert server.requests == []


def test_file_with_another_checksum_than_the_cards_is_fetched_anew(card: Card, server: Server, tmp_path: Path):
    (tmp_path / "a.bin").write_bytes(b"an older version")
    fetch(card(url=server.url("a.bin"), file="a.bin", sha256=SHA256), tmp_path, silent)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def test_missing_page_is_an_error_with_the_servers_answer(card: Card, server: Server, tmp_path: Path):
    error = fault(card(url=server.url("none.bin"), file="a.bin"), tmp_path)
    assert error.message == f"{server.url('none.bin')}: the server answered 404 Not Found"


def test_server_that_is_not_there_is_an_error_with_its_address(card: Card, tmp_path: Path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/a.bin"
    error = fault(card(url=url, file="a.bin"), tmp_path)
    assert error.message.startswith(f"{url}: ")
    assert "refused" in error.message


@pytest.mark.parametrize("scheme", ["file", "ftp", "data", "no scheme"])
def test_only_http_is_fetched(card: Card, tmp_path: Path, scheme: str):
    (tmp_path / "secret").write_text("secret")
    url = "secret" if scheme == "no scheme" else f"{scheme}://{tmp_path}/secret"
    assert fault(card(url=url, file="a.bin"), tmp_path / "mine").message == f"{url}: only http and https are fetched"
    assert list((tmp_path / "mine").iterdir()) == []


def test_card_without_downloads_says_how_to_get_the_data(card: Card, tmp_path: Path):
    error = fault(card(), tmp_path / "mine")
    assert error.message == "Mine: nothing of it may be fetched without asking its owners."
    assert error.hint == "Ask for it."
    assert not (tmp_path / "mine").exists()


def test_folder_that_cannot_be_made_is_an_error(card: Card, server: Server, tmp_path: Path):
    (tmp_path / "taken").write_text("a file")
    error = fault(card(url=server.url("a.bin"), file="a.bin"), tmp_path / "taken" / "mine")
    assert f"{tmp_path / 'taken' / 'mine'}: cannot be written" in error.message


def test_archive_is_unpacked_without_folders_and_resource_forks(card: Card, server: Server, tmp_path: Path):
    server.contents["a.zip"] = archive({"a.txt": "one", "sub/": "", "sub/b.txt": "two", "__MACOSX/._a.txt": "x"})
    source = card(url=server.url("a.zip"), file="a.zip", unpack="zip")
    files = fetch(source, tmp_path, silent)
    assert [str(file.relative_to(tmp_path.resolve())) for file in files] == ["a.txt", "sub/b.txt"]
    assert [file.read_text() for file in files] == ["one", "two"]
    assert not (tmp_path / "__MACOSX").exists()


@pytest.mark.parametrize("member", ["../evil.txt", "sub/../../evil.txt", "/tmp/capbench_evil.txt"])
def test_archive_with_a_member_that_leads_out_is_refused_as_a_whole(card, server, tmp_path: Path, member: str):
    server.contents["a.zip"] = archive({"fine.txt": "fine", member: "evil"})
    error = fault(card(url=server.url("a.zip"), file="a.zip", unpack="zip"), tmp_path / "mine")
    assert f"member '{member}' leads out of the folder" in error.message
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["a.zip"]
    assert not (tmp_path / "evil.txt").exists()
    assert not Path("/tmp/capbench_evil.txt").exists()


def test_damaged_archive_is_an_error_that_names_it(card: Card, server: Server, tmp_path: Path):
    whole = archive({"a.txt": "one two three " * 500})
    middle = whole.index(b"a.txt") + 10
    damaged = (b"no archive", whole[:-30], whole[:middle] + b"\xff" * 20 + whole[middle + 20 :])
    for number, content in enumerate(damaged):
        server.contents[f"{number}.zip"] = content
        error = fault(card(url=server.url(f"{number}.zip"), file=f"{number}.zip", unpack="zip"), tmp_path)
        assert f"{tmp_path / f'{number}.zip'}: is not a readable zip file" in error.message


def test_hub_that_cannot_be_reached_is_an_error_that_names_data_set_and_file(card, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    error = fault(card(hub="nobody/no_such_data_set", file="a.parquet"), tmp_path)
    assert error.message.startswith("hub data set nobody/no_such_data_set: a.parquet: ")
