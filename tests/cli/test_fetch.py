"""``bench fetch``, whose files are what runs read, and what a run says that it lacks before it starts."""

import hashlib
import io
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from file_server import Server, served
from task_keys import CARD

from capbench.adapters.aliases import ALIAS_FOLDER, resolve_model
from capbench.downloads import MIRROR
from capbench.permissions import Permissions, permit

LOCAL = ("--allow_server", "127.0.0.1")


@pytest.fixture
def server():
    with served() as running:
        yield running


@pytest.fixture
def write_carded(write_task, server: Server):
    """Return a function that writes the small task, whose rows are on a server, and gives its folder."""

    def write(keys: dict[str, Any] | None = None, **download: Any) -> Path:
        folder = write_task(data_source="card.yaml", **(keys or {}))
        server.contents["rows.jsonl"] = (folder / "rows.jsonl").read_bytes()
        (folder / "rows.jsonl").unlink()
        listed = {"url": server.url("rows.jsonl"), "file": "rows.jsonl", **download}
        (folder / "card.yaml").write_text(yaml.safe_dump({**CARD, "downloads": [listed]}))
        return folder

    return write


def test_data_is_listed_then_fetched_and_the_task_runs(bench, write_carded, run_small, tmp_path: Path, server: Server):
    folder = write_carded()
    lacking = "bench fetch small\n"
    run_small("--dry_run").failed(1, lacking)
    run_small().failed(1, lacking)
    bench("data", "small", "--include_path", folder).failed(1)
    assert server.requests == []
    size, digest = len(server.contents["rows.jsonl"]), hashlib.sha256(server.contents["rows.jsonl"]).hexdigest()
    done = bench("fetch", "small", "--include_path", folder, *LOCAL).succeeded()
    place = tmp_path / "cache/data/mine"
    assert done.out.splitlines() == [
        "Mine",
        f"  rows.jsonl: {size} bytes, no checksum known",
        f"    from     {server.url('rows.jsonl')}",
        f"    into     {place}",
        "    licence  CC0. None.",
        f"to fetch: {size} bytes",
        f"fetched {place / 'rows.jsonl'} (SHA-256 {digest})",
    ]
    run_small().succeeded()
    assert bench("fetch", "small", "--include_path", folder, *LOCAL).out == "Mine: here\n"


def test_data_says_what_would_come_and_fetches_it_by_the_same_way(bench, write_carded, server: Server):
    folder = write_carded(size=321, sha256="0" * 64, note="by a friend")
    done = bench("data", "small", "--include_path", folder)
    assert "'bench fetch small' fetches into " in done.out
    assert f"  rows.jsonl: 321 bytes, SHA-256 {'0' * 64}\n      from {server.url('rows.jsonl')}\n" in done.out
    done = bench("data", "small", "--download", "--include_path", folder, *LOCAL)
    assert "not fetched: " in done.err and "does not have the expected checksum" in done.err


def test_gigabyte_and_an_unknown_size_are_asked_for(bench, write_carded, server, monkeypatch):
    call = ("fetch", "small", "--include_path", write_carded(size=1_100_000_000), *LOCAL)
    bench(*call).failed(2, "1.1 GB would be fetched, and there is no terminal", "--yes")
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert "Fetch it? [y/N]" in bench(*call).failed(1).out
    assert server.requests == []
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    bench(*call).succeeded("fetched ")
    server.chunked = True
    call = ("fetch", "small", "--include_path", write_carded(file="others.jsonl"), *LOCAL)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    bench(*call).failed(2, "files of unknown size would be fetched")
    bench(*call, "--yes").succeeded("others.jsonl: size unknown", "fetched ")


class Terminal(io.StringIO):
    """What somebody types."""

    def isatty(self) -> bool:
        return True


def test_too_little_room_on_the_disk_is_said_before(bench, write_carded, server: Server, tmp_path: Path):
    call = ("fetch", "small", "--include_path", write_carded(size=10**18), *LOCAL, "--yes")
    bench(*call).failed(1, f"{tmp_path}", "1e+09 GB are needed; nothing was fetched", "BENCH_CACHE")
    assert server.requests == []


def test_what_cannot_be_fetched_does_not_hold_up_the_rest(bench, write_carded, server: Server, tmp_path: Path):
    folder = write_carded()
    card = {**CARD, "folder": "other", "downloads": [{"url": server.url("gone"), "file": "rows.jsonl", "size": 9}]}
    (folder / "other.yaml").write_text(yaml.safe_dump({**card, "title": "Other"}))
    task = yaml.safe_load((folder / "small.yaml").read_text())
    (folder / "second.yaml").write_text(yaml.safe_dump({**task, "task": "second", "data_source": "other.yaml"}))
    done = bench("fetch", "second", "small", "--include_path", folder, *LOCAL)
    done.failed(1, f"not fetched: {server.url('gone')}: the server answered 404")
    assert (tmp_path / "cache/data/mine/rows.jsonl").is_file()


def test_names_and_servers_are_checked_before_anything_is_asked(bench, write_carded, server: Server):
    bench("fetch", "captur").failed(2, "no task, metric or model is called 'captur'. Did you mean 'capture'?")
    bench("fetch", "small", "--include_path", write_carded()).failed(2, "--allow_server 127.0.0.1")
    bench("fetch", "activitynet_foil").failed(1, "nothing of it may be fetched without asking its owners")
    assert bench("fetch", "length").out == ""
    assert server.requests == []


@pytest.fixture
def released(request: pytest.FixtureRequest, data_folder) -> Path:
    """The folder of a raw data set; before ``bench`` makes the machine one that has none."""
    return data_folder(request.param)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "released", "files"),
    [
        ("pope", "pope", ("coco_pope_random.json", "coco_pope_popular.json", "coco_pope_adversarial.json")),
        ("foil_valse_4ref", "foil", ("foil_valse.json",)),
        ("aloha_hat", "aloha", ("hat-trainval.json", "nocaps-val-foil.json")),
        ("chair_i", "chair", ("synonyms.txt",)),
    ],
    indirect=["released"],
)
def test_released_files_of_a_mirror_have_the_checksums_of_the_shipped_cards(
    released: Path, bench, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, files
):
    monkeypatch.setenv(MIRROR, server.url(""))
    by_name = {file.replace("foil_valse", "foil-it"): released / file for file in files}
    monkeypatch.setattr(server, "contents", Released(by_name))
    bench("fetch", name)
    for file in files:
        assert (tmp_path / "cache/data" / released.name / file).read_bytes() == (released / file).read_bytes()


class Released(dict[str, Path]):
    """Files by their names, in whatever folder they are asked for."""

    def get(self, name: str, default: Any = None) -> Any:
        file = super().get(name.rpartition("/")[2])
        return file and file.read_bytes()


# -- weights that no hub has


@pytest.fixture
def write_alias(tmp_path: Path, server: Server):
    """Return a function that writes the alias of a model whose file is on a server, and gives its folder."""

    def write(file: str, content: bytes, unpack: str | None = None, **keys: Any) -> Path:
        server.contents[file] = content
        folder = tmp_path / "model"
        folder.mkdir()
        download = {"url": server.url(file), "file": file, "sha256": hashlib.sha256(content).hexdigest()}
        fetched = {"licence": "none stated", "downloads": [{**download, "unpack": unpack}]}
        (folder / "model.yaml").write_text(yaml.safe_dump({**keys, "fetch": fetched}))
        return folder

    return write


def load(folder: Path) -> Any:
    with permit(Permissions(servers=("127.0.0.1",))):
        return resolve_model(str(folder)).load()


def test_pac_checkpoint_is_fetched_to_where_its_adapter_looks(bench, write_alias, server: Server):
    content = (ALIAS_FOLDER / "shapes-pac.pth").read_bytes()
    settings = {"tokenizer": "./tokenizer", "lora": True, "quick_gelu": False, "head_width": 32}
    folder = write_alias("released.pth", content, adapter="pac", checkpoint="released.pth", **settings)
    shutil.copytree(ALIAS_FOLDER / "shapes-clip", folder / "tokenizer")
    server.breaks = 2
    bench("fetch", folder, *LOCAL).failed(1, "the connection broke at")
    bench("fetch", folder, *LOCAL).succeeded("fetched ")
    assert [asked is None for _, asked in server.requests] == [True, True, True, False]
    assert load(folder).fingerprint() == resolve_model("shapes-pac").load().fingerprint()


# -- what a run lacks


@pytest.fixture
def wordless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let this machine have no WordNet and no models of NLTK."""
    monkeypatch.setattr("nltk.data.path", [])
    monkeypatch.setattr("capbench.metrics.capture.wordnet._DEBIAN", tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("WNSEARCHDIR", raising=False)


@pytest.mark.usefixtures("wordless")
@pytest.mark.parametrize("more", [(), ("--dry_run",)])
def test_headline_command_says_all_that_is_missing_before_anything_is_loaded(bench, more: tuple[str, ...]):
    done = bench("run", "--model", "llava-1.5", "--task", "detailcaps", *more).failed(1)
    for missing in (
        "DetailCaps-4870 is not on this machine", "llava-hf/llava-1.5-7b-hf", "WordNet's database files",
        "NLTK's 'punkt_tab'", "NLTK's 'averaged_perceptron_tagger_eng'", "flan-t5-base-VG-factual-sg",
        "all-mpnet-base-v2",
    ):  # fmt: skip
        assert missing in done.err.replace("\n", " ")
    assert "bench fetch detailcaps capture llava-1.5" in done.err.splitlines()


@pytest.mark.usefixtures("wordless")
def test_run_that_would_write_captions_stops_and_one_of_given_captions_goes_on(
    bench, write_captioning_task, write_task
):
    metrics = ["length", {"metric": "capture", "parser": "grammar", "soft": False}]
    call = ("run", "--task", "small", "--output_path", "runs", "--bootstrap", 0, "--include_path")
    folder = write_captioning_task(metric_list=metrics)
    for more in ((), ("--dry_run",)):
        done = bench(*call, folder, "--model", "shapes-captioner", *more).failed(1, "WordNet's database files")
        assert "bench fetch 'capture[parser=grammar,soft=False]'" in done.err.splitlines()
    assert not Path("runs").exists()
    folder = write_task(metric_list=metrics)
    bench(*call, folder, "--dry_run").failed(1, "- metric 'capture': WordNet's", "bench fetch 'capture[")
    done = bench(*call, folder).failed(1, "- metric 'capture': WordNet's", "metric capture failed")
    assert "length" in done.out


@pytest.mark.usefixtures("wordless")
def test_python_is_told_before_models_are_loaded(write_captioning_task, write_task, monkeypatch: pytest.MonkeyPatch):
    import capbench

    class NeverAsked(capbench.adapters.Captioner):
        def fingerprint(self) -> dict[str, Any]:
            return {}

        def caption(self, requests: Any) -> Any:
            pytest.fail("was asked")

    metrics = ["length", {"metric": "capture", "parser": "grammar", "soft": False}]
    folder = write_captioning_task(metric_list=metrics)
    with pytest.raises(capbench.errors.MetricError, match="WordNet") as caught:
        capbench.evaluate(NeverAsked(), ["small"], include_path=[folder])
    assert caught.value.hint.startswith("bench fetch 'capture[")
    folder = write_task(metric_list=metrics)
    with pytest.warns(UserWarning, match="metric 'capture': WordNet"):
        capbench.evaluate(tasks=["small"], include_path=[folder], resamples=0)
