"""Downloads of data cards: resumed, verified by checksum, unpacked within their folder."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path

from ..atomic_files import written_whole
from ..errors import DataError, writing
from ..hub import asked_once
from ..progress import Progress, Reporter
from .sources import DataSource, Download

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60
_RESUME = "Run the same command again to resume the download."


def fetch(source: DataSource, folder: Path, progress: Progress) -> list[Path]:
    """Fetch every download of a data card into a folder.

    Args:
        source: The data card.
        folder: The data set's folder; made if need be.
        progress: Gives a reporter of (bytes done, bytes in all) for a file.

    Returns:
        The files that are now there.

    Raises:
        DataError: Nothing may be fetched, the network failed (what came is kept and resumed next time),
            or a checksum does not fit.
    """
    if not source.downloads:
        raise DataError(f"{source.title}: nothing of it may be fetched without asking its owners.", source.how)
    with writing(folder, "CAPBENCH_DATA may name a folder that you may write to.", DataError):
        folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    for download in source.downloads:
        target = folder / download.file
        if not (target.is_file() and _sums_fit(download, target)):
            if download.hub is not None:
                _fetch_from_hub(download, folder)
            else:
                _fetch_url(download, target, progress(download.file))
        files += _unzip(target, folder) if download.unpack == "zip" else [target]
    return files


def _fetch_url(download: Download, target: Path, report: Reporter) -> None:
    assert download.url is not None  # noqa: S101 - the card's schema says so
    if not download.url.startswith(("http://", "https://")):
        raise DataError(f"{download.url}: only http and https are fetched")
    partial = target.with_name(target.name + ".part")
    have = partial.stat().st_size if partial.is_file() else 0
    request = urllib.request.Request(download.url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - checked above
            resumed = answer.status == 206
            done = have if resumed else 0
            total = done + int(answer.headers.get("Content-Length") or 0)
            with partial.open("ab" if resumed else "wb") as file:
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    report(done, max(total, done))
    except urllib.error.HTTPError as error:
        # 416: the server has nothing beyond what we hold, so the file is complete.
        if error.code != 416:
            raise DataError(f"{download.url}: the server answered {error.code} {error.reason}") from error
        done = total = 0
    except (OSError, http.client.HTTPException) as error:
        raise DataError(f"{download.url}: {getattr(error, 'reason', error)}", _RESUME) from error
    if done < total:
        # http.client ends such an answer without an error.
        raise DataError(f"{download.url}: the connection broke at {done:,} of {total:,} bytes", _RESUME)
    if not _sums_fit(download, partial):
        partial.unlink()
        raise DataError(
            f"{download.url}: what arrived does not have the expected checksum; it was deleted",
            "Try again; if it stays so, the file was changed at its source.",
        )
    partial.replace(target)


def _fetch_from_hub(download: Download, folder: Path) -> None:
    import huggingface_hub

    assert download.hub is not None  # noqa: S101 - the caller asked
    try:
        with asked_once(download.hub):
            huggingface_hub.hf_hub_download(download.hub, download.file, repo_type="dataset", local_dir=folder)
    except Exception as error:
        raise DataError(f"hub data set {download.hub}: {download.file}: {type(error).__name__}: {error}") from error


def _sums_fit(download: Download, file: Path) -> bool:
    for name, expected in (("sha256", download.sha256), ("md5", download.md5)):
        if expected is not None:
            with file.open("rb") as content:
                if hashlib.file_digest(content, name).hexdigest() != expected:
                    return False
    return True


def _unzip(archive: Path, folder: Path) -> list[Path]:
    """Unpack the files of an archive, refusing paths that lead out of the folder."""
    files = []
    try:
        with zipfile.ZipFile(archive) as opened:
            targets = {member: (folder / member.filename).resolve() for member in opened.infolist()}
            if outside := [each.filename for each in targets if not targets[each].is_relative_to(folder.resolve())]:
                raise DataError(f"{archive}: member '{outside[0]}' leads out of the folder; nothing was unpacked")
            for member, target in targets.items():
                if member.is_dir() or "__MACOSX" in member.filename:
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                with opened.open(member) as content, written_whole(target) as draft, draft.open("wb") as file:
                    shutil.copyfileobj(content, file)
                files.append(target)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        # The last two: a compression that Python lacks, and a password.
        raise DataError(f"{archive}: is not a readable zip file: {error}", "Delete it and try again.") from error
    return files
