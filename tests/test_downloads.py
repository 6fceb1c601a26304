import hashlib
import io
import socket
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_server import Server, served

from capbench.downloads import MIRROR, SUMS, Files, FileSource
from capbench.errors import DataError
from capbench.progress import Progress, silent

CONTENT = bytes(range(256)) * 400
Card = Callable[..., FileSource]
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[Server]:
    with served() as running:
        running.contents["a.bin"] = CONTENT
        yield running


@pytest.fixture
def card() -> Card:
    """Return a source with one download, whose size it states."""

    def make(**download: Any) -> FileSource:
        sized = {"size": len(CONTENT), **download}
        return FileSource.model_validate({"title": "Mine", "licence": "CC0", "downloads": [sized]})

    return make


def fetch(source: FileSource, folder: Path, progress: Progress = silent) -> list[Path]:
    """Fetch what is missing, and return its files."""
    return [file for piece in Files(source, folder).pieces() for file in piece.fetch(progress)]


def fault(source: FileSource, folder: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        fetch(source, folder)
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
    assert sorted(path.name for path in files[0].parent.iterdir()) == [SUMS, "kept.bin"]
    assert (files[0].parent / SUMS).read_text() == f"{SHA256}  kept.bin\n"


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
    assert fetch(source, tmp_path)[0].read_bytes() == CONTENT
    assert [asked for _, asked in server.requests] == [None, f"bytes={half}-", f"bytes={half + quarter}-"]
    assert not (tmp_path / "a.bin.part").exists()


def test_chunked_answer_that_breaks_off_is_an_error(card: Card, server: Server, tmp_path: Path):
    server.breaks, server.chunked = 1, True
    source = card(url=server.url("a.bin"), file="a.bin")
    fault(source, tmp_path)
    assert not (tmp_path / "a.bin").exists()
    assert fetch(source, tmp_path)[0].read_bytes() == CONTENT


def test_server_that_ignores_the_range_sends_the_file_from_its_start(card: Card, server: Server, tmp_path: Path):
    server.ranges = False
    (tmp_path / "a.bin.part").write_bytes(b"something else")
    assert fetch(card(url=server.url("a.bin"), file="a.bin"), tmp_path)[0].read_bytes() == CONTENT
    assert server.requests == [("a.bin", "bytes=14-")]


def test_part_that_is_whole_already_is_kept(card: Card, server: Server, tmp_path: Path):
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    source = card(url=server.url("a.bin"), file="a.bin", sha256=SHA256)
    assert fetch(source, tmp_path)[0].read_bytes() == CONTENT


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
    assert fetch(source, tmp_path) == []
    assert server.requests == []


def test_file_with_another_checksum_than_the_cards_is_fetched_anew(card: Card, server: Server, tmp_path: Path):
    (tmp_path / "a.bin").write_bytes(b"an older version")
    fetch(card(url=server.url("a.bin"), file="a.bin", sha256=SHA256), tmp_path)
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


def test_folder_that_cannot_be_made_is_an_error(card: Card, server: Server, tmp_path: Path):
    (tmp_path / "taken").write_text("a file")
    error = fault(card(url=server.url("a.bin"), file="a.bin"), tmp_path / "taken" / "mine")
    assert f"{tmp_path / 'taken' / 'mine'}: cannot be written" in error.message


def tarred(members: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as opened:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            opened.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        opened.addfile(link)
    return content.getvalue()


@pytest.mark.parametrize(("kind", "pack"), [("zip", archive), ("tar", tarred)])
def test_archive_is_unpacked_once_without_links_and_resource_forks(card, server, tmp_path: Path, kind: str, pack: Any):
    server.contents["a.x"] = pack({"a.txt": "one", "sub/b.txt": "two", "c.bin": "three", "__MACOSX/._a.txt": "x"})
    source = card(url=server.url("a.x"), file="a.x", into="in", unpack=kind, members="*.txt")
    fetch(source, tmp_path)
    assert [(tmp_path / "in" / name).read_text() for name in ("a.txt", "sub/b.txt")] == ["one", "two"]
    assert sorted(path.name for path in (tmp_path / "in").iterdir()) == [SUMS, "a.txt", "a.x", "sub"]
    assert Files(source, tmp_path).is_here() and Files(source, tmp_path).pieces() == []
    # One that was put there, or of which not all was unpacked.
    (tmp_path / "in" / SUMS).unlink()
    (tmp_path / "in/a.txt").unlink()
    (piece,) = Files(source, tmp_path).pieces()
    assert piece.missing == 0
    fetch(source, tmp_path)
    assert (tmp_path / "in/a.txt").exists()
    assert len(server.requests) == 1


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


def test_what_is_to_come_is_listed_before_with_size_checksum_terms_and_place(
    card: Card, server: Server, tmp_path: Path
):
    url = server.url("a.bin")
    (piece,) = Files(card(url=url, file="a.bin", size=None, note="by a friend"), tmp_path).pieces()
    assert piece.about == ["a.bin: 102 kB, no checksum known"]
    assert (piece.origin, piece.terms, piece.folder, piece.missing) == (
        url,
        "CC0. by a friend.",
        tmp_path,
        len(CONTENT),
    )
    (tmp_path / "a.bin.part").write_bytes(CONTENT[:1000])
    (piece,) = Files(card(url=url, file="a.bin", sha256=SHA256, md5="x"), tmp_path).pieces()
    assert (piece.about, piece.missing) == ([f"a.bin: 102 kB, SHA-256 {SHA256}"], len(CONTENT) - 1000)
    server.chunked = True
    (piece,) = Files(card(url=url, file="b.bin", size=None), tmp_path).pieces()
    assert (piece.about, piece.missing) == (["b.bin: size unknown, no checksum known"], None)


def test_what_another_place_has_is_not_fetched(card: Card, server: Server, tmp_path: Path):
    files = Files(card(url=server.url("a.bin"), file="a.bin"), tmp_path, find=lambda: "elsewhere")
    assert files.is_here() and files.pieces() == []


def test_web_page_in_place_of_the_file_is_an_error(card: Card, server: Server, tmp_path: Path):
    server.kind = "text/html; charset=utf-8"
    error = fault(card(url=server.url("a.bin"), file="a.bin"), tmp_path / "m")
    assert error.message == f"{server.url('a.bin')}: the server sent a web page, not the file."
    assert list((tmp_path / "m").iterdir()) == []


def test_mirror_has_the_files_of_each_host_below_its_name(card, server, tmp_path: Path, monkeypatch):
    server.contents["mirror/example.org/data/a.bin"] = CONTENT
    monkeypatch.setenv(MIRROR, server.url("mirror/"))
    fetch(card(url="https://example.org/data/a.bin", file="a.bin", sha256=SHA256), tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == CONTENT


def parquet(folder: Path, rows: list[dict[str, Any]]) -> bytes:
    pq.write_table(pa.Table.from_pylist(rows), folder / "rows.parquet")
    return (folder / "rows.parquet").read_bytes()


def test_images_of_parquet_are_written_once_by_name_or_by_their_hash(card: Card, server: Server, tmp_path: Path):
    rows = [{"cand": f"{n}", "img": {"bytes": b"%d" % (n // 2), "path": f"some/{n // 2}.jpg"}} for n in range(4)]
    server.contents["a.parquet"] = parquet(tmp_path, rows)
    for unpack, names in (
        ("images", ["0.jpg", "1.jpg"]),
        ("images_by_hash", sorted(f"{hashlib.sha256(b'%d' % n).hexdigest()[:16]}.jpg" for n in range(2))),
    ):
        fetch(card(url=server.url("a.parquet"), file="a.parquet", unpack=unpack), tmp_path / unpack)
        assert sorted(path.name for path in (tmp_path / unpack / "images").iterdir()) == names


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"img": {"bytes": b"x", "path": None}}, "has no name"),
        ({"image": "x"}, "has no column 'img' of encoded images"),
    ],
)
def test_parquet_without_images_or_their_names_is_an_error(card, server, tmp_path: Path, row: dict, message: str):
    server.contents["a.parquet"] = parquet(tmp_path, [row])
    assert (
        message in fault(card(url=server.url("a.parquet"), file="a.parquet", unpack="images"), tmp_path / "m").message
    )


def test_hub_that_cannot_be_reached_is_an_error_that_names_data_set_and_file(card, tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    error = fault(card(hub="nobody/no_such_data_set", file="a.parquet"), tmp_path)
    assert error.message == "hub data set nobody/no_such_data_set: HF_HUB_OFFLINE is set"
