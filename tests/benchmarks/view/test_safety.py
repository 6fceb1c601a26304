"""Who is let in, and what nobody gets."""

import re
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from page_markup import require_texts
from synthetic_board import HOSTILE

from capbench.benchmarks.inputs.task_images import NoPicture
from capbench.benchmarks.tables.pages.serving import kept_token
from capbench.benchmarks.view.app import NOTHING
from capbench.benchmarks.view.finding import Runs

from .conftest import COOKIE, TOKEN


def test_nothing_is_answered_without_the_token(outside: Any, viewed) -> None:
    for path in ("/", "/suites", f"/runs/{viewed.first.key}/pictures/0", "/assets/view.css", "/nowhere"):
        answer = outside.get(path)
        assert answer.status_code == 403
        assert "'bench view' printed" in answer.text
    assert outside.get("/", params={"token": "wrong"}).status_code == 403
    assert outside.get("/", headers={"cookie": f"{COOKIE}=wrong"}).status_code == 403
    assert outside.get("/", headers={"cookie": f"another={TOKEN}"}).status_code == 403


def test_the_address_with_the_token_sets_a_cookie_that_lets_in_and_no_page_holds_it(outside: Any) -> None:
    answer = outside.get("/", params={"token": TOKEN})
    assert answer.headers["set-cookie"] == f"{COOKIE}={TOKEN}; Path=/; HttpOnly; SameSite=Strict"
    assert TOKEN not in answer.text
    again = outside.get("/")
    assert (again.status_code, again.headers.get("set-cookie")) == (200, None)


@pytest.mark.parametrize("headers", [
    {"origin": "http://evil.example"}, {"origin": "http://127.0.0.1:9000"}, {"origin": "null"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"},
    {"host": "evil.example:8000"}, {"host": "127.0.0.1.evil.example"}, {"host": "[::1"},
])  # fmt: skip
def test_what_pages_elsewhere_ask_is_refused(client: Any, headers: dict[str, str]) -> None:
    assert client.get("/", headers=headers).status_code == 403


def test_a_link_with_the_token_may_be_followed_from_elsewhere_but_not_embedded(outside: Any) -> None:
    visit = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    for place, status in (("document", 200), ("iframe", 403)):
        headers = {**visit, "sec-fetch-dest": place}
        assert outside.get("/", params={"token": TOKEN}, headers=headers).status_code == status


def test_its_own_pages_are_let_in_under_each_name_of_this_machine(client: Any) -> None:
    own = {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8000"}
    assert client.get("/", headers=own).status_code == 200
    for host in ("localhost:8000", "[::1]:8000"):
        assert client.get("/", headers={"host": host, "cookie": f"{COOKIE}={TOKEN}"}).status_code == 200


def test_a_token_is_kept_for_its_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "view.token"
    token = kept_token(file)
    assert len(token) > 30 and kept_token(file) == token and file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    assert kept_token(file) == "" == kept_token(tmp_path)


def test_nothing_is_written(client: Any) -> None:
    for path in ("/", "/assets/view.css"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert client.request(method, path).status_code == 405


def test_every_answer_says_what_a_browser_may_do_with_it(client: Any, outside: Any, viewed) -> None:
    expected = {
        "x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "x-frame-options": "DENY",
        "cross-origin-resource-policy": "same-origin",
    }  # fmt: skip
    for path in ("/", "/nowhere", "/assets/view.js", f"/runs/{viewed.first.key}/pictures/0"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; ") and not re.search("unsafe|http", policy)
        assert {name: headers[name] for name in expected} == expected
    outside.cookies.clear()
    assert outside.get("/").headers["x-content-type-options"] == "nosniff"


def test_images_come_from_the_folder_of_images_and_from_nowhere_else(client: Any, viewed) -> None:
    def picture(row: int) -> Any:
        return client.get(f"/runs/{viewed.rated.key}/pictures/{row}")

    answer = picture(0)
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.content == (viewed.folder / "tasks/images/0.jpg").read_bytes()
    # One climbs out, one is a link that leads out, one is no image, one is missing.
    for row in (1, 2, 3, 4):
        assert picture(row).content == NOTHING.content
        assert picture(row).headers["content-type"] == "image/svg+xml"
    for sample in ("-1", "36", "%2e%2e%2frows.jsonl", "0x0"):
        assert client.get(f"/runs/{viewed.rated.key}/pictures/{sample}").status_code == 404


def test_a_picture_that_a_record_places_outside_of_its_run_is_not_read(viewed) -> None:
    (viewed.folder / "runs" / "outside.jpg").write_bytes((viewed.folder / "secret.jpg").read_bytes())
    record, changes = viewed.first.record, {"task": "no_such_task", "files": None}
    for name in ("../../../outside.jpg", str(viewed.folder / "secret.jpg")):
        run = replace(viewed.first, record=record.model_copy(update={**changes, "pictures": {"row 0": name}}))
        assert (run.folder / name).is_file()
        assert isinstance(viewed.site().pictures.read(run, "row 0", "0.jpg"), NoPicture)


@pytest.mark.parametrize(
    "path", ["/assets/../app.py", "/assets/..%2fapp.py", "/assets/app.py", "/etc/passwd", "/runs/%2e%2e/samples"]
)
def test_no_address_is_a_path(client: Any, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert "import" not in answer.text


def test_hostile_texts_stay_texts_on_every_page(client: Any, viewed) -> None:
    first, second, rated = viewed.first.key, viewed.second.key, viewed.rated.key
    paths = [
        "/", "/?q=" + HOSTILE[0], "/suites", "/nowhere" + HOSTILE[2],
        f"/runs/{first}", f"/runs/{second}", f"/runs/{first}{HOSTILE[0]}",
        f"/runs/{second}/samples?q={HOSTILE[1]}", f"/runs/{second}/samples?sort={HOSTILE[1]}",
        f"/runs/{rated}/samples?sort={HOSTILE[0]}&q='{HOSTILE[3]}' or `{HOSTILE[0]}` >= 0",
        f"/runs/{second}/samples?view=grid", f"/runs/{second}/about",
        f"/runs/{second}/samples?sort={HOSTILE[0]}", f"/runs/{second}/samples/7?q={HOSTILE[2]}",
        *(f"/runs/{first}/samples/3?matches={metric}" for metric in ("capture", "cider", "meteor")),
        f"/runs/{first}/samples/3?matches={HOSTILE[0]}", f"/runs/{rated}/scatter?x=ratings&y={HOSTILE[0]}",
        f"/runs/{rated}/scatter?y={HOSTILE[1]}", f"/compare?a={first}&b={second}&x={HOSTILE[0]}",
        f"/compare?a={rated}&b={rated}&y={HOSTILE[1]}",
    ]  # fmt: skip
    pages = []
    for path in paths:
        place, _, query = path.partition("?")
        pairs = [pair.partition("=")[::2] for pair in query.split("&")] if query else []
        answer = client.get(place.replace("#", "%23"), params=pairs)
        assert answer.status_code in (200, 404)
        pages.append(answer.text)
    assert "“a[U+202E]b”" in client.get("/", params={"q": "a\u202eb"}).text
    require_texts(pages, "view")


def test_a_host_that_others_reach_is_warned_of(capsys: pytest.CaptureFixture[str], viewed) -> None:
    import uvicorn

    from capbench.benchmarks.tables.pages.serving import serve
    from capbench.benchmarks.view.app import application

    addresses: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
        for host in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - that is what is warned of
            pages = application(viewed.site())
            serve(pages, command="view", holds="sees all", host=host, announce=addresses.append)
            warned = capsys.readouterr().err
            assert ("bench view: listens" in warned) == ("sees all" in warned)
            assert ("for other machines too" in warned) == (host == "0.0.0.0")  # noqa: S104
    assert threading.active_count() < 20
    tokens = {address.partition("token=")[2] for address in addresses}
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 32


def test_two_runs_of_one_name_have_two_keys(tmp_path, viewed) -> None:
    for place in ("a", "b"):
        shutil.copytree(viewed.folder / "runs" / "rated", tmp_path / place / "runs" / "rated")
    keys = [run.key for run in Runs([tmp_path]).all()[0]]
    assert len(set(keys)) == 2
    assert all(key.isascii() and "/" not in key for key in keys)
