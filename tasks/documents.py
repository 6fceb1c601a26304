"""Loads the documents of a task from a reader, local files or the hub; rows of large sets are read when needed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any

from ..boundary import HINT, OUTSIDE, Boundary
from ..errors import DataError, TaskError
from ..hub import NotInCache, asked_once, asks_nobody, commit_of, keep_commit, refusal, unreachable
from ..paths import is_file
from ..rows import SUFFIXES, BadRow, Row, nearest_beside, no_such_file, parse_number, read_rows
from .locate import DataLocations, prepared_data
from .row_images import with_row_images
from .schema import Join, TaskConfig
from .sources import DataSource, load_source
from .yaml_files import display_path

AT_HAND = 20_000
"""Rows of a data set that are kept in memory; those of a larger one are read again."""

Read = Callable[[], Iterable[Any]]
"""Reads a data set from its beginning: its rows, and a ``BadRow`` for each that cannot be read."""


@dataclass(frozen=True)
class RowsByNeed(Sequence[Mapping[str, Any]]):
    """The rows of a data set that are read again for each pass; access to one row reads those before it.

    Attributes:
        read: Reads them.
        origin: Where they come from.
        total: Number of rows.
        columns: The names of their columns.
        files: The files that they are read from; none where only their reader knows.
        stamps: Stamps of the files when the rows were counted.
    """

    read: Read
    origin: str
    total: int
    columns: set[str]
    files: Sequence[Path]
    stamps: Sequence[Stamp]

    def __len__(self) -> int:
        return self.total

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Yield the rows.

        Raises:
            DataError: The files or the number of rows changed since they were counted.
        """
        self._require_unchanged(self.total)
        count = 0
        for row in self.read():
            if not isinstance(row, BadRow):
                count += 1
                yield row
        self._require_unchanged(count)

    def __getitem__(self, index: int | slice) -> Any:
        """Return one row, or several."""
        numbers = range(self.total)[index]
        if isinstance(numbers, int):
            return next(islice(self, numbers, None))
        wanted = set(numbers)
        rows = {number: row for number, row in enumerate(islice(self, max(wanted, default=-1) + 1)) if number in wanted}
        return [rows[number] for number in numbers]

    def _require_unchanged(self, count: int) -> None:
        if count != self.total or stamps_of(self.files) != self.stamps:
            raise DataError(
                f"{self.origin}: changed while it was read ({self.total:,} rows at first)",
                "Large data sets are read more than once: run again, and leave the files unchanged during the run.",
            )


Stamp = tuple[int, int, int]
"""Size, time of the last change, and number of a file."""


def stamps_of(files: Sequence[Path]) -> list[Stamp]:
    """Return the stamps of the files that exist."""
    return [(stat.st_size, stat.st_mtime_ns, stat.st_ino) for stat in map(Path.stat, filter(Path.exists, files))]


def collect(read: Read, origin: str, files: Sequence[Path] = ()) -> tuple[Sequence[Mapping[str, Any]], list[BadRow]]:
    """Return the rows of a data set, in memory where they are few, and those that cannot be read.

    Args:
        read: Reads it.
        origin: Where it comes from.
        files: The files that it is read from; none where only its reader knows.
    """
    stamps = stamps_of(files)
    rows = read()
    is_whole = isinstance(rows, Sequence) or any(file.suffix == ".json" for file in files)
    kept: list[Mapping[str, Any]] = []
    bad: list[BadRow] = []
    columns: set[str] = set()
    count = 0
    for row in rows:
        if isinstance(row, BadRow):
            bad.append(row)
            continue
        count += 1
        if is_whole or count <= AT_HAND:
            kept.append(row)
            continue
        columns.update(row, *kept)
        kept.clear()
    return (kept if len(kept) == count else RowsByNeed(read, origin, count, columns, files, stamps)), bad


def reader_of(
    task: TaskConfig, path: Path, located: Path | None, source: DataSource | None
) -> Callable[[], Iterable[Any]]:
    """Return what reads the documents of a task.

    Args:
        task: The task; it has a ``custom_dataset``.
        path: Its YAML file.
        located: The folder or file of its data; None where nothing names one.
        source: Its data card, if it has one.

    Raises:
        TaskError: The reader does not take what it is called with, or reads a path, and nothing names one.
    """
    function = task.custom_dataset
    assert function is not None  # noqa: S101 - see Args
    read, place = function.resolve(), f"{display_path(path)}: custom_dataset ({function})"
    if source is not None and source.generated:
        arguments, keywords = (), task.dataset_kwargs
    elif located is not None:
        arguments, keywords = (located,), task.dataset_kwargs
    else:
        # As lm-eval calls it; what both name is the reader's argument.
        arguments, keywords = (), {**task.metadata, **task.dataset_kwargs}
    try:
        inspect.signature(read).bind(*arguments, **keywords)
    except TypeError as error:
        called = ", ".join([*map(str, arguments), *(f"{name}=" for name in keywords)])
        raise TaskError(
            f"{place}: cannot be called with ({called}): {error}",
            f"It gets a path (of --data {task.task}=PATH, dataset_path or a data card) and dataset_kwargs; "
            "without a path, metadata and dataset_kwargs, as in lm-eval: accept **kwargs.",
        ) from error
    return lambda: _split(read(*arguments, **keywords), task, place)


def _split(documents: Any, task: TaskConfig, place: str) -> Iterable[Any]:
    """Return documents, or the split of several that the task is of."""
    if not isinstance(documents, Mapping):
        return documents
    if task.test_split not in documents:
        raise DataError(
            f"{place}: returned no split '{task.test_split}', but {', '.join(map(str, documents)) or 'none'}",
            "test_split names the one to take.",
        )
    return documents[task.test_split]


@dataclass(frozen=True)
class Documents:
    """The documents of a task.

    Attributes:
        rows: Documents; a list, rows that are read when they are needed, or a memory-mapped ``datasets.Dataset``,
            perhaps with its images left in their rows. Images are not decoded.
        bad_rows: Rows that could not be read.
        origin: Where they came from: a path, or a hub id.
        remarks: Remarks on rows that are used.
    """

    rows: Sequence[Mapping[str, Any]]
    bad_rows: list[BadRow] = field(default_factory=list)
    origin: str = ""
    remarks: list[BadRow] = field(default_factory=list)

    @property
    def columns(self) -> set[str]:
        """The names of the columns."""
        if isinstance(self.rows, RowsByNeed):
            return self.rows.columns
        if isinstance(self.rows, list):
            return set(chain.from_iterable(self.rows))
        return set(self.rows.column_names)  # type: ignore[attr-defined]

    def replaced(self, read: Callable[[], Iterable[Any]]) -> Documents:
        """Return the documents that are made of these, with bad rows and remarks of both."""
        rows, bad_rows = collect(read, self.origin)
        return replace(self, rows=rows, bad_rows=[*self.bad_rows, *bad_rows])


def load_documents(task: TaskConfig, path: Path, locations: DataLocations) -> Documents:
    """Load a task's documents.

    Args:
        task: The task.
        path: Its YAML file; data files may lie in its folder.
        locations: Where local copies may be.

    Raises:
        DataError: The data is missing (the message says what to get, where to put it and how to
            check it), or cannot be read.
    """
    source, located, boundary, folder = _within(task, path, locations)
    if task.custom_dataset is not None:
        _require_copy(task, source, located, locations)
        origin = "generated" if located is None else str(located)
        documents = Documents(*collect(reader_of(task, path, located, source), origin), origin)
    elif located is not None or task.is_local:
        files = _data_files(task, path, located, source, locations, boundary)
        for file in files:
            if not boundary.holds(file):
                raise DataError(f"task '{task.task}' ({display_path(path)}): {file} {OUTSIDE}", HINT)
        documents = _from_files(files, folder, task.dataset_kwargs.get("key"), task.dataset_kwargs.get("file"))
    else:
        documents = _from_hub(task, source, locations)
    if isinstance(pixels := task.templates.get("doc_to_pixels"), str):
        documents = replace(documents, rows=with_row_images(documents.rows, pixels, boundary))
    for join in task.join:
        joined = JoinedFile.read(join, task.task, folder)
        documents.bad_rows.extend(joined.bad_rows)
        documents = documents.replaced(partial(joined.joined, documents.rows))
        documents.remarks.extend(joined.without)
    if task.process_docs is not None:
        # What is made of all of them is a list, too.
        rows = list(documents.rows) if isinstance(documents.rows, RowsByNeed) else documents.rows
        processed = list(task.process_docs.resolve()(rows))
        documents = documents.replaced(lambda: processed)
    if not documents.rows:
        faults = "".join(f"\n{bad.place}: {bad.reason}" for bad in documents.bad_rows[:5])
        raise DataError(f"task '{task.task}': no document could be read from {documents.origin}{faults}")
    return documents


def _within(
    task: TaskConfig, path: Path, locations: DataLocations
) -> tuple[DataSource | None, Path | None, Boundary, Path]:
    """Return a task's data card, its copy here, what it may read, and the folder in which its paths begin.

    Raises:
        DataError: A path that is named does not exist.
        TaskError: The task names a file, a folder or a server that it may not.
    """
    source = load_source(task, path)
    located = locations.find(task, path, source)
    boundary = locations.boundary(task, path, source)
    folder = located if located and located.is_dir() else (located or path).parent
    place = display_path(path)
    boundary.require(task.dataset_kwargs, f"{place}: dataset_kwargs", folder)
    if task.custom_dataset is not None:
        boundary.require(task.dataset_path, f"{place}: dataset_path", path.parent)
    elif located is None and not task.is_local:
        # A folder from here, or files for one of the library's own loaders, are no data set of the hub.
        boundary.require(task.dataset_path, f"{place}: dataset_path", Path.cwd())
        if "/" not in str(task.dataset_path):
            boundary.require(task.dataset_kwargs, f"{place}: dataset_path {task.dataset_path}", Path.cwd())
    for join in task.join:
        boundary.require(join.file, f"{place}: join", folder)
    return source, located, boundary, folder


def require_data(task: TaskConfig, path: Path, locations: DataLocations) -> None:
    """Raise if a task's data is not on this machine, and cannot be fetched; that of the hub is; no local file is read.

    Args:
        task: The task.
        path: Its YAML file.
        locations: Where local copies may be.

    Raises:
        DataError: As of :func:`load_documents`.
        TaskError: Likewise.
    """
    source, located, boundary, _ = _within(task, path, locations)
    if task.custom_dataset is not None:
        _require_copy(task, source, located, locations)
    elif located is not None or task.is_local:
        _data_files(task, path, located, source, locations, boundary)
    elif unreachable() or not asks_nobody():
        # Before the weights of any model are fetched.
        _from_hub(task, source, locations)


def _require_copy(task: TaskConfig, source: DataSource | None, located: Path | None, locations: DataLocations) -> None:
    """Raise if the data that a reader reads is not on this machine."""
    if located is None and source is not None and not source.generated:
        raise missing_data(task, source, locations)


def missing_data(task: TaskConfig, source: DataSource | None, locations: DataLocations) -> DataError:
    """Return the error for data that is not on this machine."""
    if source is None:
        return DataError(
            f"task '{task.task}': its data is not on this machine.", f"Name it with --data {task.task}=PATH."
        )
    searched = " and ".join(map(str, locations.candidates(source)))
    fetched = f"'bench fetch {task.task}' fetches what may be fetched.\n" if source.downloads else ""
    files = ", ".join(file.path for file in source.files if file.required)
    how = f"{source.how}\n" if source.how else ""
    return DataError(
        f"task '{task.task}': the data set {source.title} is not on this machine (looked in {searched}).",
        f"{how}{fetched}Put {files} into a folder "
        f"'{source.folder}' under $CAPBENCH_DATA, or name the folder with --data {task.task}=PATH.\n"
        f"'bench data {task.task}' shows terms and layout and checks your copy.",
    )


def _data_files(
    task: TaskConfig,
    task_path: Path,
    located: Path | None,
    source: DataSource | None,
    locations: DataLocations,
    boundary: Boundary,
) -> list[Path]:
    if located is not None and located.is_file():
        return [located]
    declared = task.dataset_kwargs.get("data_files")
    if declared is None:
        declared = [file.path for file in source.files if file.required] if source else []
    elif isinstance(declared, dict):
        declared = declared.get(task.test_split, [])
    names = [declared] if isinstance(declared, str) else list(declared)
    folder = located or task_path.parent
    matches = {name: _matching(folder, name, boundary) for name in names}
    if located is not None and task.task not in locations.named and not any(matches.values()):
        # The folder of a data set whose texts ship may hold nothing but its images.
        beside = {name: _matching(task_path.parent, name, boundary) for name in names}
        matches = beside if all(beside.values()) else matches
    files = list(chain.from_iterable(matches.values()))
    if not files and located is not None:
        files = _only_data_set(task, located) or _matching(located, "*/*.parquet", boundary)
    elif missing := [name for name, of_name in matches.items() if not of_name]:
        names, files = missing, []
    if not files and located is None and source is not None:
        raise missing_data(task, source, locations)
    if not files:
        expected = ", ".join(names) or f"file ending in {', '.join(SUFFIXES)}"
        nearest = nearest_beside(folder / names[0]) if len(names) == 1 else ""
        raise DataError(
            f"task '{task.task}' ({display_path(task_path)}): {folder.absolute()} has no {expected}{nearest}",
            f"--data {task.task}=PATH names another file or folder.",
        )
    return files


def _matching(folder: Path, name: str, boundary: Boundary) -> list[Path]:
    """Return the file of a name, or those that a pattern (``test/*.parquet``) names, in order."""
    if is_file(folder / name):
        return [folder / name]
    if "*" not in name:
        return []
    parts = Path(name).parts
    first = next((at for at, part in enumerate(parts) if "*" in part), len(parts))
    paths = [folder.joinpath(*parts[:first])]
    for part in parts[first:]:
        # A folder that a link puts outside is not even looked into.
        paths = [path for place in paths if boundary.holds(place) for path in place.glob(part)]
    return sorted(file for file in paths if file.is_file())


def _only_data_set(task: TaskConfig, folder: Path) -> list[Path]:
    """Return the data files of a folder that holds none of the expected names: one file, or shards."""
    files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)
    if len(files) > 1 and {file.suffix for file in files} != {".parquet"}:
        raise DataError(
            f"task '{task.task}': {folder} holds several data files: {', '.join(file.name for file in files)}",
            f"Name one of them with --data {task.task}=FILE.",
        )
    return files


def _commit_of_copy(file: Path) -> str:
    """Return the commit that the hub's library noted of a file that it fetched into a folder; empty without a note.

    A file that was changed since has none.
    """
    for folder in file.absolute().parents:
        note = folder / ".cache/huggingface/download" / f"{file.absolute().relative_to(folder)}.metadata"
        if note.is_file():
            commit, *_, fetched = note.read_text(encoding="utf-8").split()
            return commit if file.stat().st_mtime - 1 <= float(fetched) else ""
    return ""


def _from_files(files: list[Path], folder: Path, key: str | None, column: str | None) -> Documents:
    """Return the rows of files, each with the name of its file in a column, where one is named."""
    commits = ((file, _commit_of_copy(file)) for file in files)
    origin = ", ".join(f"{file}@{commit}" if commit else str(file) for file, commit in commits)
    if {file.suffix for file in files} == {".parquet"} and key is None:
        parts = [[file] for file in files] if column is not None else [files]
        loaded = [_load_dataset("parquet", data_files=[str(f) for f in part], split="train") for part in parts]
        if column is None:
            return Documents(loaded[0], [], origin)
        from datasets import concatenate_datasets

        named = []
        for part, file in zip(loaded, files, strict=True):
            _require_free(column, part.column_names, file)
            named.append(part.add_column(column, [_name_of(file, folder)] * len(part)))
        return Documents(concatenate_datasets(named), [], origin)

    def read() -> Iterator[Any]:
        for file in files:
            for row in read_rows(file, key):
                if column is not None and not isinstance(row, BadRow):
                    _require_free(column, row, file)
                    row = {column: _name_of(file, folder), **row}
                yield row

    return Documents(*collect(read, origin, files), origin)


def _name_of(file: Path, folder: Path) -> str:
    """Return the name of a file in the data's folder, without its suffix."""
    inside = file.relative_to(folder) if file.is_relative_to(folder) else Path(file.name)
    return inside.with_suffix("").as_posix()


def _require_free(column: str, columns: Iterable[str], file: Path) -> None:
    if column in columns:
        raise DataError(
            f"{file}: has a column '{column}', where the name of its file would stand",
            "Give that column another name: dataset_kwargs: {file: NAME}.",
        )


def _from_hub(task: TaskConfig, source: DataSource | None, locations: DataLocations) -> Documents:
    path, origin, arguments = str(task.dataset_path), f"hub:{task.dataset_path}", dict(task.dataset_kwargs)
    try:
        # Files for one of the library's own loaders are no data set of the hub.
        if "data_files" in arguments or "/" not in path or Path(path).exists():
            return Documents(_load_dataset(path, task.dataset_name, split=task.test_split, **arguments), [], origin)
        arguments["revision"] = wanted = _commit(path, arguments.get("revision"))
        rows = _load_dataset(path, task.dataset_name, split=task.test_split, **arguments)
        # The library prepares rows in a folder that is named for their commit. Without the hub it takes the last one.
        commit = next((Path(file["filename"]).parent.name for file in rows.cache_files), wanted)
        if "revision" in task.dataset_kwargs and commit != wanted:
            raise DataError(f"{path}: {wanted} is not prepared on this machine, and {unreachable(path)}")
    except DataError as error:
        missing = missing_data(task, source, locations)
        message = f"{missing.message}\nThe hub did not give it either: {error.message}"
        raise DataError(message, error.hint or missing.hint) from error
    if commit:
        keep_commit(path, commit, "dataset")
    return Documents(rows, [], f"{origin}@{commit}")


def _commit(path: str, revision: str | None) -> str | None:
    """Return the commit of a data set to load; the revision itself where the library has to know it without the hub."""
    try:
        return commit_of(path, revision, "dataset")
    except NotInCache as error:
        # What was prepared before lies in a cache of its own; to look there needs no library, which takes seconds.
        if not (prepared_data() / path.replace("/", "___")).is_dir():
            raise DataError(f"{path}: {error}") from error
        return revision
    except Exception as error:
        message, hint = refusal(error) or (f"{type(error).__name__}: {error}", "")
        raise DataError(f"{path}: {message}", hint) from error


def _load_dataset(path: str, name: str | None = None, **kwargs: Any) -> Any:
    import datasets

    # The library draws bars on what is no terminal, too, and for files that load in no time.
    hide_bars = datasets.is_progress_bar_enabled() and ("data_files" in kwargs or not sys.stderr.isatty())
    if hide_bars:
        datasets.disable_progress_bars()
    try:
        with nullcontext() if "data_files" in kwargs else asked_once(path):
            dataset = datasets.load_dataset(path, name, **kwargs)
    except NotInCache as error:
        raise DataError(f"{path}: {error}") from error
    except Exception as error:
        cause = error.__cause__ or error
        message, hint = refusal(error) or (f"{type(cause).__name__}: {cause}", "")
        raise DataError(f"{kwargs.get('data_files', path)}: {message}", hint) from error
    finally:
        if hide_bars:
            datasets.enable_progress_bars()
    for column, feature in dataset.features.items():
        if isinstance(feature, datasets.Image):
            dataset = dataset.cast_column(column, datasets.Image(decode=False))
    return dataset


_NAMED = 3
_Key = tuple[str, ...]


@dataclass
class JoinedFile:
    """The rows of a file by their key, in memory.

    Attributes:
        join: What is joined, on which columns.
        task: The task's name, for messages.
        rows: The columns of each row, but for its key.
        bad_rows: Rows that cannot be read.
        without: Documents that have no row and are used all the same.
    """

    join: Join
    task: str
    rows: dict[_Key, Row] = field(default_factory=dict)
    bad_rows: list[BadRow] = field(default_factory=list)
    without: list[BadRow] = field(default_factory=list)

    @classmethod
    def read(cls, join: Join, task: str, folder: Path) -> JoinedFile:
        """Read the file, or files, of a join.

        Args:
            join: What is joined.
            task: The task's name, for messages.
            folder: Where the files lie.

        Raises:
            DataError: One is missing, has not the columns, or two rows have one key and differ.
        """
        joined = cls(join, task)
        numbers: dict[_Key, list[tuple[str, Row]]] = {}
        for name in join.file:
            if not (folder / name).is_file():
                raise DataError(
                    f"task '{task}': join: {no_such_file(folder.absolute() / name)}",
                    "'file' names a file that lies where the data does.",
                )
            for number, row in enumerate(read_rows(folder / name), 1):
                if isinstance(row, BadRow):
                    joined.bad_rows.append(row)
                else:
                    key, columns = joined._keyed(row, place := f"{Path(name).name}: row {number}")
                    numbers.setdefault(key, []).append((place, columns))
        joined.rows = {key: joined._one(key, rows) for key, rows in numbers.items()}
        return joined

    def joined(self, documents: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any] | BadRow]:
        """Yield each document with its row's columns.

        A document without a row is a ``BadRow``, or gets nulls if the join's ``required`` is false.

        Raises:
            DataError: No document has a row, or a document has another value in a column of its row.
        """
        unmatched: list[_Key] = []
        matched, self.without = False, []
        nulls = dict.fromkeys(name for row in self.rows.values() for name in row)
        for number, document in enumerate(documents):
            values = [document.get(column) for column in self.join.on]
            key = self._key(self.join.on, values)
            if None not in values and (row := self.rows.get(key)) is not None:
                matched = True
                self._require_agreement(number, document, row)
                yield {**document, **row}
                continue
            unmatched += [key] if len(unmatched) < _NAMED else []
            reason = f"has no row in {self.join.named}"
            if self.join.required:
                yield BadRow(f"document {number}", f"{reason}: {_said(self.join.on, key)}")
            else:
                self.without.append(BadRow(f"document {number}", reason))
                yield {**nulls, **document}
        if not matched:
            raise DataError(
                f"task '{self.task}': join: no document has a row in {self.join.named}: documents have "
                f"{_listed(self.join.on, unmatched)}, the file has {_listed(self.join.on.values(), self.rows)}",
                "'on' names the columns that documents and the file share; values are compared as texts.",
            )

    def _keyed(self, row: Row, place: str) -> tuple[_Key, Row]:
        """Return the key of a row of the file, and its other columns."""
        join = self.join
        lacking = [column for column in (*join.on.values(), *join.mean) if row.get(column) is None]
        if lacking := lacking or [column for column in join.columns if column not in row]:
            raise DataError(
                f"task '{self.task}': join: {place} has no '{lacking[0]}'; its columns are {', '.join(row)}",
                "'on' names the columns that documents and the file share: COLUMN, or {COLUMN OF DOCUMENTS: COLUMN OF "
                "THE FILE}; 'columns' and 'mean' name columns of the file.",
            )
        taken = {*join.columns, *join.mean} if join.columns else row.keys() - join.on.values()
        key = self._key(self.join.on, [row[column] for column in self.join.on.values()])
        return key, {name: value for name, value in row.items() if name in taken}

    def _key(self, columns: Iterable[str], values: Iterable[Any]) -> _Key:
        texts = (" ".join(str(value).split()) for value in values)
        return tuple(
            PurePath(text).stem if column in self.join.bare else text
            for column, text in zip(columns, texts, strict=True)
        )

    def _one(self, key: _Key, rows: list[tuple[str, Row]]) -> Row:
        """Return the columns of all rows of a key: what they share, and the means of what they do not."""
        first, shared = (rows[0][0], {name: rows[0][1][name] for name in rows[0][1] if name not in self.join.mean})
        for place, row in rows[1:]:
            if {name: value for name, value in row.items() if name not in self.join.mean} != shared:
                raise DataError(
                    f"task '{self.task}': join: {place} has the key of {first} "
                    f"({_said(self.join.on.values(), key)}), and differs from it",
                    "A document takes the columns of one row: remove one row, add a column that differs to 'on', or "
                    "list columns of numbers to average in 'mean'.",
                )
        return {**shared, **{name: self._mean(name, rows) for name in self.join.mean}}

    def _mean(self, column: str, rows: list[tuple[str, Row]]) -> float:
        total = 0.0
        for place, row in rows:
            try:
                total += parse_number(row[column])
            except (TypeError, ValueError, OverflowError) as error:
                raise DataError(
                    f"task '{self.task}': join: {place}: column '{column}' {error}", "'mean' names columns of numbers."
                ) from error
        return total / len(rows)

    def _require_agreement(self, number: int, document: Mapping[str, Any], row: Row) -> None:
        for column in row.keys() & document.keys():
            if row[column] != document[column]:
                raise DataError(
                    f"task '{self.task}': join: document {number} has {document[column]!r:.60} in column '{column}', "
                    f"and its row in {self.join.named} has {row[column]!r:.60}",
                    "Rename one of the two columns, or add it to 'on' where it is part of the key.",
                )


def _said(columns: Iterable[str], key: _Key) -> str:
    return ", ".join(f"{column} '{value:.60}'" for column, value in zip(columns, key, strict=True))


def _listed(columns: Iterable[str], keys: Iterable[_Key]) -> str:
    names = list(columns)
    listed = [_said(names, key) for key, _ in zip(keys, range(_NAMED), strict=False)]
    return "; ".join(listed) or "no row"
