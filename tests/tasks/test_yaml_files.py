import contextlib
import contextvars
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from bounded_work import calls_at_most
from hypothesis import given
from hypothesis import strategies as st

from capbench.errors import TaskError
from capbench.permissions import Permissions, permit, without_code
from capbench.tasks.index import build_index, read_entry
from capbench.tasks.schema import load_task
from capbench.tasks.yaml_files import FunctionReference, parse

pytestmark = pytest.mark.usefixtures("functions_may_run")

FAULTY = yaml.safe_load(Path(__file__).with_name("faulty_files.yaml").read_text(encoding="utf-8"))
Write = Callable[..., Path]


def fault(path: Path) -> str:
    with pytest.raises(TaskError) as caught:
        parse(path)
    return str(caught.value)


def test_later_includes_win_over_earlier_ones_and_own_keys_win_over_all(write: Write):
    write("first.yaml", "a: first\nb: first\nc: first\nd: first\n")
    write("second.yaml", "b: second\nc: second\n")
    own = write("own.yaml", "c: own\ninclude: [first.yaml, second.yaml]\n")
    assert parse(own).values == {"a": "first", "b": "second", "c": "own", "d": "first"}


def test_include_is_recursive_and_relative_to_the_file_that_holds_it(write: Write):
    write("mine/shared/deep/base.yaml", "a: base\nb: base\n")
    write("mine/shared/middle.yaml", "include: deep/base.yaml\nb: middle\n")
    own = write("mine/own.yaml", "include: shared/middle.yaml\n")
    assert parse(own).values == {"a": "base", "b": "middle"}


@pytest.mark.parametrize("named", ["../private/secret.yaml", "inner.yaml", "deep/climbs.yaml"])
def test_include_outside_of_the_folder_of_the_first_file_is_refused(write: Write, named: str, tmp_path: Path):
    secret = write("private/secret.yaml", "password: 1\n")
    write("mine/deep/climbs.yaml", "include: ../../private/secret.yaml\n")
    (tmp_path / "mine" / "inner.yaml").symlink_to(secret)
    own = write("mine/own.yaml", f"a: 1\ninclude: {named}\n")
    with pytest.raises(TaskError, match=r"\.yaml:\d: include: .*\.yaml lies outside") as e:
        parse(own)
    assert "password" not in str(e.value)
    assert "--allow_outside DIR" in e.value.hint
    with permit(Permissions(folders=(tmp_path / "private",))):
        assert parse(own).values["password"] == 1


def test_file_that_another_root_may_include_is_checked_for_each_root(write: Write):
    write("private.yaml", "password: 1\n")
    write("theirs/climbs.yaml", "include: ../private.yaml\n")
    known = {}
    assert parse(write("mine.yaml", "include: theirs/climbs.yaml\n"), known).values == {"password": 1}
    for name in ("climbs.yaml", "other.yaml"):
        with pytest.raises(TaskError, match=r"climbs\.yaml:1: include: .*private\.yaml lies outside"):
            parse(
                write(f"theirs/{name}", f"include: {'../private' if name == 'climbs.yaml' else 'climbs'}.yaml\n"), known
            )


def test_function_runs_only_where_it_is_allowed_and_in_no_dry_run(write: Write):
    write("reader.py", "def read(): return 'ran'\n")
    function = parse(write("own.yaml", "f: !function reader.read\n")).values["f"]
    assert function.resolve()() == "ran"
    with without_code(), pytest.raises(TaskError, match="does not run by itself"):
        function.resolve()
    with pytest.raises(TaskError, match=r"^!function reader\.read: is code .* does not run by itself") as e:
        contextvars.Context().run(function.resolve)
    assert e.value.hint.startswith("--run_functions ")


def test_a_section_of_an_included_file_is_replaced_as_a_whole(write: Write):
    write("base.yaml", "protocol: {raters: mean, rated_reference: keep}\n")
    own = write("own.yaml", "include: base.yaml\nprotocol: {raters: flatten}\n")
    assert parse(own).values == {"protocol": {"raters": "flatten"}}


def test_files_that_include_each_other_are_named_in_order(write: Write):
    write("a.yaml", "include: b.yaml\n")
    write("b.yaml", "include: c.yaml\n")
    write("c.yaml", "include: b.yaml\n")
    message = fault(write("a.yaml", "include: b.yaml\n"))
    assert "include each other" in message
    chain = message.rpartition(": ")[2].split(" -> ")
    assert [Path(file).name for file in chain] == ["b.yaml", "c.yaml", "b.yaml"]


NO_TEXT = [("a: \x00\n", " not valid YAML"), ("description: café\n".encode("latin-1"), " is not UTF-8")]


@pytest.mark.parametrize(("text", "message"), [*FAULTY, (f"include: {'x' * 300}\n", "1: included file"), *NO_TEXT])
def test_faulty_file_is_an_error_with_its_line(write: Write, tmp_path: Path, text: str | bytes, message: str):
    path = write("own.yaml", text)
    assert fault(path).startswith(f"{path}:{message.format(folder=tmp_path)}")


# --- files that would take the stack, the memory or the day


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, ":1: is nested more than 40 deep"),
        ("a: " + "[" * 3_000 + "]" * 3_000, ":1: is nested more than 40 deep"),
        ("a: " + "{b: " * 400 + "1" + "}" * 400, "is nested more than 40 deep"),
        ("".join(" " * n + f"k{n}:\n" for n in range(200)), ":41: is nested more than 40 deep"),
        ("- " * 2_000, ":1: is nested more than 40 deep"),
        ("? " * 2_000, ":1: is nested more than 40 deep"),
        (BOMB, ":4: has more than 10,000 keys and values, its aliases among them"),
        ("a: &x {b: [1, *x]}\n", ":1: alias '*x' contains itself"),
        ("a: [" + "1, " * 100_000 + "]", ":1: has more than 10,000 keys and values"),
        ("a: " + "x" * 1_000_000, ": is larger than 1,000,000 bytes"),
    ],
    ids=lambda text: text[:12],
)
def test_file_beyond_every_budget_is_an_error(write: Write, text: str, reason: str):
    path = write("own.yaml", text)
    with calls_at_most(200_000):
        message = fault(path)
    assert f"{path}{reason}" in message or (reason[0] != ":" and reason in message)


def test_chain_of_1500_includes_is_an_error(write: Write):
    for number in range(1_500):
        write(f"f{number}.yaml", f"include: f{number + 1}.yaml\n")
    own = write("own.yaml", "include: f0.yaml\n")
    with calls_at_most(100_000):
        assert "is the end of a chain of more than 40 includes" in fault(own)


def test_folder_called_like_a_task_file_is_an_error(tmp_path: Path):
    (tmp_path / "own.yaml").mkdir()
    assert f"{tmp_path / 'own.yaml'}: cannot be read: is not a file" in fault(tmp_path / "own.yaml")


@given(text=st.text(alphabet="ab:-[]{}&*!?|>'\"#%,\n 01.x<", max_size=40) | st.text(max_size=20))
def test_whatever_a_file_holds_is_read_or_is_a_fault(tmp_path_factory: pytest.TempPathFactory, text: str):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for read in (parse, load_task, read_entry):
        with contextlib.suppress(TaskError):
            read(path)


def test_places_tell_file_and_line_of_nested_and_included_keys(write: Write):
    base = write("base.yaml", "\nchecks:\n  rows: 3\n")
    own = write("own.yaml", "include: base.yaml\nmetric_list:\n- a\n-\n  metric: b\n")
    parsed = parse(own)
    assert parsed.where("checks", "rows") == f"{base}:3"
    assert parsed.where("metric_list", "1", "metric") == f"{own}:5"
    assert parsed.where("metric_list", "1", "absent") == f"{own}:5"
    assert parsed.where("absent") == str(own)


# --- !function


def test_parsing_and_indexing_run_no_code(write: Write, write_task: Write, tmp_path: Path):
    write("reader.py", "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\ndef read(path): ...\n")
    path = write_task(tail="custom_dataset: !function reader.read\n", dataset_path=None)
    parse(path)
    build_index([tmp_path])
    task, _ = load_task(path)
    task.fingerprint()
    assert not (tmp_path / "ran").exists()
    task.custom_dataset.resolve()
    assert (tmp_path / "ran").exists()


def test_readers_of_two_folders_do_not_collide(write: Write):
    references = []
    for name in ("one", "two"):
        write(f"{name}/reader.py", f"def read(): return '{name}'\n")
        references.append(parse(write(f"{name}/own.yaml", "f: !function reader.read\n")).values["f"])
    assert [reference.resolve()() for reference in references] == ["one", "two"]
    assert "reader" not in sys.modules


def test_name_that_is_no_function_is_an_error(write: Write, tmp_path: Path):
    write("reader.py", "LIMIT = 3\n")
    with pytest.raises(TaskError, match="has no function 'LIMIT'"):
        FunctionReference("reader.LIMIT", tmp_path).resolve()
    with pytest.raises(TaskError, match="sys has no function 'no_such'"):
        FunctionReference("sys.no_such", tmp_path).resolve()


def test_module_that_failed_once_is_read_anew(write: Write, tmp_path: Path):
    write("reader.py", "1 / 0\n")
    reference = FunctionReference("reader.read", tmp_path)
    with pytest.raises(TaskError):
        reference.resolve()
    write("reader.py", "def read(): return 'mended, and longer than before'\n")
    assert reference.resolve()() == "mended, and longer than before"


@pytest.mark.parametrize("reference", ["read", "", "reader.", ".read", "a..b", "reader/read.py", "os.system('x')"])
def test_reference_that_is_not_module_and_name_is_an_error_with_its_line(write: Write, reference: str):
    path = write("own.yaml", f'task: x\nf: !function "{reference}"\n')
    assert fault(path) == f"{path}:2: expected '!function module.name', found '!function {reference}'"


def test_reader_in_a_virtual_environment_within_the_package_root_is_imported_by_its_path(tmp_path: Path):
    # `make demo` puts .venv into the repository, which is the package's root.
    from capbench.tasks import yaml_files

    folder = tmp_path / ".venv" / "lib" / "python3.11" / "third_party"
    folder.mkdir(parents=True)
    (folder / "reader.py").write_text("def read(): return 'third party'\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_files, "PACKAGE_ROOT", tmp_path)
        assert FunctionReference("reader.read", folder).resolve()() == "third party"


def test_key_that_is_a_truth_value_to_yaml_is_the_word(write: Write):
    parsed = parse(write("a.yaml", "join: {on: id, file: x}\nyes: [{off: no}]\ntrue: on\n"))
    assert parsed.values == {"join": {"on": "id", "file": "x"}, "yes": [{"off": False}], "true": True}
