"""Downloads: what is to come is listed first, with size, licence and checksum; then it is fetched, verified, unpacked.

Where files come from is said by the YAML file next to what needs them: a data card, an alias, ``metrics/sources.yaml``.
Files of the web are resumed here, those of the Hugging Face hub by its own library.
"""

from __future__ import annotations

import fnmatch
import hashlib
import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .atomic_files import write_whole, written_whole
from .errors import BenchError, DataError, writing
from .hub import NotInCache, asked_once, commit_of, refusal, repository_folder, unreachable
from .paths import is_file
from .progress import Progress, Reporter

MIRROR = "BENCH_MIRROR"
"""Variable with the address of a mirror, which has the files of each host below the host's name."""
SUMS = "SHA256SUMS"
"""File with the digests of what was fetched into its folder, as ``sha256sum -c`` reads them."""
_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_RESUME = "Run the same command again to resume the download."
_MIRRORED = "Try again where the hub can be reached; HF_ENDPOINT names a mirror."
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


class Download(BaseModel):
    """Something that may be fetched without a login."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str | None = None
    """Where it is fetched from."""
    hub: str | None = None
    """Hub data set id, in place of a URL; ``file`` is then the file's name there, or a pattern (``data/*.parquet``)."""
    file: str
    """Name under which it is kept in the data set's folder."""
    into: str = ""
    """Folder below that one in which it is kept, and unpacked."""
    size: int | None = None
    """Bytes, where known."""
    sha256: str | None = None
    """Of its bytes; a file with another sum is refused."""
    md5: str | None = None
    """The same, where no other sum is published."""
    unpack: Literal["zip", "tar", "images", "images_by_hash"] | None = None
    """Whether it is an archive, or Parquet whose column ``img`` has images, which are written into the folder images:
    by the names that they have there, or by the first 16 digits of their SHA-256."""
    members: str = "*"
    """Pattern of the archive's members that are needed."""
    note: str = ""
    """What is to be known of it."""

    @model_validator(mode="after")
    def _one_origin(self) -> Download:
        if (self.url is None) == (self.hub is None):
            raise ValueError("a download has either 'url' or 'hub'")
        folders = PurePosixPath(self.file).parent.parts
        if PurePosixPath(self.file).name in ("", "..") or {"..", "/"} & set(folders) or (self.url and folders):
            raise ValueError("'file' is a plain file name")
        if {"..", "/"} & set(PurePosixPath(self.into).parts):
            raise ValueError("'into' is a folder below that of the data set")
        return self

    @property
    def about(self) -> str:
        """Name, size and checksum, as far as they are known without a request."""
        otherwise = "checksum as the hub states" if self.hub else "no checksum known"
        return _about(self.file, self.size, self.sha256, f"MD5 {self.md5}" if self.md5 else otherwise)

    @property
    def origin(self) -> str:
        """Where it comes from."""
        return self.url or f"hub data set {self.hub}"


class FileSource(BaseModel):
    """Files of one origin that a metric, a model or a task reads."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    """What they are called."""
    licence: str = ""
    """Their licence, or that none is stated."""
    terms: str = ""
    """What may be done with them."""
    downloads: list[Download] = Field(default_factory=list)
    """What may be fetched without a login, by ``bench fetch``."""

    def offer(self, name: str) -> str:
        """Return how they are fetched, and how much that is.

        Args:
            name: The task, metric or model that ``bench fetch`` takes.
        """
        sizes = [download.size for download in self.downloads]
        size = in_bytes(None if None in sizes else sum(size or 0 for size in sizes))
        return f"'bench fetch {name}' fetches it ({size}; licence: {self.licence})."


def in_bytes(size: int | None) -> str:
    """Return a number of bytes as people read it (``10.8 MB``); None is unknown."""
    if size is None:
        return "size unknown"
    scale, unit = next(((scale, unit) for scale, unit in _UNITS if size >= scale), (1, "bytes"))
    return f"{size / scale:.3g} {unit}"


def _about(name: str, size: int | None, sha256: str | None, otherwise: str) -> str:
    return f"{name}: {in_bytes(size)}, {f'SHA-256 {sha256}' if sha256 else otherwise}"


@dataclass(frozen=True)
class Piece:
    """Something that is to be fetched.

    Attributes:
        about: A line a file: name, size, checksum.
        origin: Where it comes from.
        terms: Its licence, and what may be done with it.
        folder: Where it goes.
        missing: Bytes that are still to come; None where that is unknown.
        unpacked: Bytes that it needs on disk besides, at least.
        fetch: Fetches it, and returns the files with their SHA-256.
    """

    about: Sequence[str]
    origin: str
    terms: str
    folder: Path
    missing: int | None
    unpacked: int
    fetch: Callable[[Progress], Mapping[Path, str]]


class Resource(Protocol):
    """What a task, metric or model reads and capbench does not bring."""

    @property
    def title(self) -> str:
        """What it is called."""
        ...

    def is_here(self) -> bool:
        """Tell whether it is on this machine, as far as can be told without a request."""
        ...

    def pieces(self) -> list[Piece]:
        """Return what of it is still to be fetched; its server is asked for sizes.

        Raises:
            DataError: The server does not answer, or has no such file.
        """
        ...


@dataclass(frozen=True)
class Files:
    """Files of the web or of a hub data set, kept in a folder.

    Attributes:
        source: What they are, and where they come from.
        folder: Where they are kept.
        find: Raises if they are nowhere on this machine; None to look in the folder alone.
    """

    source: FileSource
    folder: Path
    find: Callable[[], object] | None = None

    @property
    def title(self) -> str:
        """What they are called."""
        return self.source.title

    def is_here(self) -> bool:
        """Tell whether they are on this machine."""
        if self.find is None:
            files = [self.folder / download.into / download.file for download in self.source.downloads]
            return all(next(file.parent.glob(file.name), None) for file in files)
        with suppress(BenchError):
            self.find()
            return True
        return False

    def pieces(self) -> list[Piece]:
        """Return the files that are not here; see ``Resource.pieces``."""
        unasked = any(download.hub for download in self.source.downloads) and unreachable()
        if (self.find or unasked) and self.is_here():
            return []
        downloads = [single for download in self.source.downloads for single in _matching(download)]
        return [piece for download in downloads if (piece := self._piece(download))]

    def _piece(self, download: Download) -> Piece | None:
        folder = self.folder / download.into
        target = folder / download.file
        is_here = is_file(target) and _sums_fit(download, target)
        if is_here and (not download.unpack or target.name in _sums_beside(target)):
            return None
        size, missing = download.size, 0
        if not is_here:
            size = size or (_size_of(download.url) if download.url else None)
            missing = None if size is None else max(0, size - _length(_partial(target)))

        def fetch(progress: Progress) -> dict[Path, str]:
            with writing(folder, "CAPBENCH_DATA or BENCH_CACHE may name a folder that you may write to.", DataError):
                folder.mkdir(parents=True, exist_ok=True)
            if not is_here:
                get = partial(_fetch_url, report=progress(download.file)) if download.url else _fetch_from_hub
                get(download, target)
            # An archive that is recorded is unpacked.
            _unpack(download, target, folder)
            return {target: _record(target)}

        about = download.model_copy(update={"size": size}).about
        parts = (self.source.licence, self.source.terms, download.note)
        terms = " ".join(f"{part.removesuffix('.')}." for part in parts if part)
        return Piece([about], download.origin, terms, folder, missing, size or 0 if download.unpack else 0, fetch)


@dataclass(frozen=True)
class Repository:
    """A model on the hub; the files that its loader takes are fetched into the hub's cache.

    Attributes:
        name: Owner and name.
        revision: Branch, tag or commit; None for the branch main.
        weights: Patterns of its weights; the first that the repository has are taken. None for a tokenizer alone.
        folders: Patterns of folders whose small files are taken, too.
    """

    name: str
    revision: str | None = None
    weights: Sequence[str] = ("model*.safetensors", "pytorch_model*.bin")
    folders: Sequence[str] = ("1_Pooling",)

    @property
    def title(self) -> str:
        """What it is called."""
        return f"hub model {self.name}"

    @property
    def argument(self) -> str:
        """What ``bench fetch`` is given to get it."""
        return f"{self.name}@{self.revision}" if self.revision else self.name

    def is_here(self) -> bool:
        """Tell whether the hub's cache has something of it."""
        return repository_folder(self.name, "model").is_dir()

    def pieces(self) -> list[Piece]:
        """Return its files that the hub's cache lacks, as one piece; see ``Resource.pieces``."""
        from huggingface_hub import constants, try_to_load_from_cache

        with _asking(self.title):
            commit_of(self.name, self.revision)
        if unreachable(self.name):
            # The cache has it; what else there is cannot be asked for.
            return []
        info = _repository(self.name, "model", self.revision)
        weights = next(filter(None, (fnmatch.filter(info.files, pattern) for pattern in self.weights)), [])
        if self.weights:
            _require_files(weights, info, " or ".join(self.weights))
        texts = [
            name
            for name in info.files
            if name.endswith(_TEXTS)
            and any(fnmatch.fnmatch(name.rpartition("/")[0], folder) for folder in ("", *self.folders))
        ]
        files = {
            name: info.files[name]
            for name in (*texts, *weights)
            if not isinstance(try_to_load_from_cache(self.name, name, revision=info.commit), str)
        }

        def fetch(_: Progress) -> dict[Path, str]:
            from huggingface_hub import snapshot_download

            with _asking(self.title), asked_once(self.name):
                folder = Path(snapshot_download(self.name, revision=self.revision, allow_patterns=list(files)))
            return {folder / name: _require_sum(folder / name, file.sha256, self.title) for name, file in files.items()}

        about = [_about(name, file.size, file.sha256, "small") for name, file in files.items()]
        missing = sum(file.size or 0 for file in files.values())
        whole = Piece(about, self.title, info.licence, Path(constants.HF_HUB_CACHE), missing, 0, fetch)
        return [whole] if files else []


_TEXTS = (".json", ".jinja", ".txt", ".model", ".py")


@dataclass(frozen=True)
class _HubFile:
    size: int | None
    sha256: str | None


@dataclass(frozen=True)
class _HubInfo:
    title: str
    commit: str
    licence: str
    files: Mapping[str, _HubFile]


def _repository(name: str, kind: Literal["model", "dataset"], revision: str | None = None) -> _HubInfo:
    """Return what the hub says of a repository."""
    from huggingface_hub import HfApi

    title = f"hub {'data set' if kind == 'dataset' else kind} {name}"
    if reason := unreachable(name):
        raise DataError(f"{title}: {reason}", _MIRRORED)
    with _asking(title):
        info: Any = HfApi().repo_info(name, repo_type=kind, revision=revision, files_metadata=True)
    stated = [tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")]
    files = {file.rfilename: _HubFile(file.size, file.lfs.sha256 if file.lfs else None) for file in info.siblings or ()}
    return _HubInfo(title, info.sha, f"{', '.join(stated) or 'none stated'}, as its card says.", files)


def _matching(download: Download) -> list[Download]:
    """Return a download a file that the pattern of a hub data set stands for."""
    if download.hub is None:
        return [download]
    info = _repository(download.hub, "dataset")
    names = fnmatch.filter(info.files, download.file)
    _require_files(names, info, download.file)
    return [download.model_copy(update={"file": name, **vars(info.files[name])}) for name in names]


def _require_files(names: Sequence[str], info: _HubInfo, wanted: str) -> None:
    if not names:
        raise DataError(f"{info.title}: has no {wanted}; it holds {', '.join(sorted(info.files)[:8]) or 'nothing'}")


@contextmanager
def _asking(title: str) -> Iterator[None]:
    """Raise any error of the hub's library as one that names the repository."""
    try:
        yield
    except Exception as error:
        # The library raises errors of any type: no network, no such file, no access.
        said = str(error).strip().partition("\n")[0]
        fault = (said, _MIRRORED) if isinstance(error, NotInCache) else (f"{type(error).__name__}: {said}", _RESUME)
        message, hint = refusal(error) or fault
        raise DataError(f"{title}: {message}", hint) from error


def _fetch_from_hub(download: Download, target: Path) -> None:
    from huggingface_hub import hf_hub_download

    title, hub = f"{download.origin}: {download.file}", str(download.hub)
    folder = target.parents[len(PurePosixPath(download.file).parts) - 1]
    with _asking(title), asked_once(hub):
        hf_hub_download(hub, download.file, repo_type="dataset", local_dir=folder)
    _require_sum(target, download.sha256, title)


def _require_sum(file: Path, expected: str | None, origin: str) -> str:
    """Return the SHA-256 of a file, which is deleted if another one is expected."""
    digest = _digest(file)
    if expected not in (None, digest):
        file.resolve().unlink()
        raise _wrong_sum(f"{origin}: {file.name}")
    return digest


def _wrong_sum(subject: str) -> DataError:
    return DataError(
        f"{subject}: what arrived does not have the expected checksum; it was deleted",
        "Try again; if it stays so, the file was changed at its source.",
    )


def _digest(file: Path, algorithm: str = "sha256") -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, algorithm).hexdigest()


def _partial(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def _length(file: Path) -> int:
    return file.stat().st_size if is_file(file) else 0


def _address(url: str) -> str:
    """Return the address of a file, on the mirror where one is named."""
    mirror = os.environ.get(MIRROR)
    address = f"{mirror.rstrip('/')}/{url.partition('://')[2]}" if mirror else url
    if not address.startswith(("http://", "https://")):
        raise DataError(f"{address}: only http and https are fetched")
    return address


@contextmanager
def _opened(address: str, start: int = 0) -> Iterator[http.client.HTTPResponse | None]:
    """Open an address, from a byte on if the server can; None where there is nothing beyond."""
    request = urllib.request.Request(address, headers={"Range": f"bytes={start}-"} if start else {})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - its scheme is checked
            if answer.headers.get_content_type() == "text/html":
                # A login, a question, or the end of a day's downloads.
                raise DataError(f"{address}: the server sent a web page, not the file.", "Open it in a browser.")
            yield answer
    except urllib.error.HTTPError as error:
        # 416: the server has nothing beyond what we hold, so the file is complete.
        if error.code != 416:
            said = f"{address}: the server answered {error.code} {error.reason}"
            raise DataError(said, f"{MIRROR} may name a mirror, or put the file there yourself.") from error
        yield None
    except (OSError, http.client.HTTPException) as error:
        remedy = _RESUME if start else f"Try again later; {MIRROR} may name a mirror, or put the file there yourself."
        raise DataError(f"{address}: {getattr(error, 'reason', error)}", remedy) from error


def _size_of(url: str) -> int | None:
    """Return the size of a file that its server states; None where it states none."""
    with _opened(_address(url)) as answer:
        stated = answer and answer.headers.get("Content-Length")
        return int(stated) if stated else None


def _fetch_url(download: Download, target: Path, report: Reporter) -> None:
    address, unfinished = _address(str(download.url)), _partial(target)
    have = _length(unfinished)
    done = total = 0
    with _opened(address, have) as answer:
        if answer is not None:
            resumed = answer.status == 206
            done = have if resumed else 0
            total = done + int(answer.headers.get("Content-Length") or 0)
            with unfinished.open("ab" if resumed else "wb") as file:
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    report(done, max(total, done))
    if done < total:
        # http.client ends such an answer without an error.
        raise DataError(f"{address}: the connection broke at {done:,} of {total:,} bytes", _RESUME)
    if not _sums_fit(download, unfinished):
        unfinished.unlink()
        raise _wrong_sum(address)
    unfinished.replace(target)


def _sums_fit(download: Download, file: Path) -> bool:
    sums = {"sha256": download.sha256, "md5": download.md5}
    return all(expected in (None, _digest(file, algorithm)) for algorithm, expected in sums.items() if expected)


def _sums_beside(file: Path) -> dict[str, str]:
    """Return name to digest of what was fetched into the folder of a file."""
    sums = file.with_name(SUMS)
    lines = sums.read_text(encoding="utf-8").splitlines() if is_file(sums) else []
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def _record(file: Path) -> str:
    """Write the digest of a file next to it, and return it."""
    digest = _digest(file)
    sums = sorted({**_sums_beside(file), file.name: digest}.items())
    write_whole(file.with_name(SUMS), "".join(f"{digest}  {name}\n" for name, digest in sums))
    return digest


def _unpack(download: Download, archive: Path, folder: Path) -> None:
    """Unpack the files of an archive into a folder, refusing paths that lead out of it."""
    if download.unpack is None:
        return
    try:
        if download.unpack.startswith("images"):
            return _write_images(archive, folder / "images", by_hash=download.unpack == "images_by_hash")
        with _members(archive, download.unpack) as members:
            kept = [name for name in members if fnmatch.fnmatch(name, download.members) and "__MACOSX" not in name]
            if outside := [name for name in kept if not (folder / name).resolve().is_relative_to(folder.resolve())]:
                raise DataError(f"{archive}: member '{outside[0]}' leads out of the folder; nothing was unpacked")
            if not kept:
                raise DataError(f"{archive}: has no member {download.members}")
            for name in kept:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with members[name]() as content, written_whole(target) as draft, draft.open("wb") as file:
                    shutil.copyfileobj(content, file)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        # The last two: a compression that Python lacks, and a password.
        fault = f"{archive}: is not a readable {download.unpack} file: {error}"
        raise DataError(fault, "Delete it and try again.") from error


@contextmanager
def _members(archive: Path, kind: str) -> Iterator[dict[str, Callable[[], Any]]]:
    """Yield the name of each file of an archive, with what opens it; no folders, links or devices."""
    if kind == "zip":
        with zipfile.ZipFile(archive) as opened:
            yield {member.filename: partial(opened.open, member) for member in opened.infolist() if not member.is_dir()}
        return
    with tarfile.open(archive) as opened:
        yield {member.name: partial(opened.extractfile, member) for member in opened if member.isfile()}


def _write_images(parquet: Path, folder: Path, by_hash: bool) -> None:
    """Write the images of a column ``img``, encoded images as of the library datasets, each once."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    folder.mkdir(exist_ok=True)
    try:
        with ParquetFile(parquet) as file:
            columns = [name for name in ("img", "imgid", "file_name") if name in file.schema_arrow.names]
            for batch in file.iter_batches(64, columns=columns):
                for row in batch.to_pylist():
                    content = row["img"]["bytes"]
                    named = row.get("imgid") or row.get("file_name") or row["img"].get("path") or ""
                    name = f"{hashlib.sha256(content).hexdigest()[:16]}.jpg" if by_hash else PurePosixPath(named).name
                    if not name:
                        raise DataError(f"{parquet}: an image has no name.", f"Put the images into {folder} yourself.")
                    if not is_file(folder / name):
                        write_whole(folder / name, content)
    except (pa.ArrowException, KeyError, TypeError) as error:
        fault = f"{parquet}: has no column 'img' of encoded images: {error}"
        raise DataError(fault, f"Put the images into {folder} yourself.") from error
