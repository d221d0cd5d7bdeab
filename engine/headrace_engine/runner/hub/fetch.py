"""A model of the hub in the models directory: downloaded once per commit, whole or not at all.

The library downloads (`HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE` mean what they always do) into a
directory of our own: no links into a shared cache. A pinned commit that stands there needs no hub; without
a hub a branch is served as it was fetched last. The token is sent to a hub over https only, or on loopback.
"""

import fcntl
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.utils.tqdm import disable_progress_bars

from headrace_engine.runner.cache import models_directory
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.hub.errors import HUB_ERRORS, unreachable, why_no_download, why_no_model
from headrace_engine.runner.hub.files import HubFile, choose, verify
from headrace_engine.runner.hub.name import HubName
from headrace_engine.runner.placing import place, revision_in

log = logging.getLogger(__name__)

_DOWNLOADS_AT_ONCE = 4
_TIMEOUT_S = 10.0
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def fetch(uri: str) -> Path:
    """The directory of the model `hf://org/name[@revision]`, downloaded unless it is there.

    Raises:
        ModelLoadError: it cannot be had, or is refused; the message names the fix.
    """
    wanted = HubName.parse(uri)
    if wanted.is_pinned and (there := _placed(wanted)):
        return there
    try:
        pinned, files = _ask(wanted)
    except HUB_ERRORS as error:
        if unreachable(error) and (there := _fetched_last(wanted)):
            log.warning("the hub cannot be reached; the model is served as it was fetched last: %s", there)
            return there
        raise ModelLoadError(why_no_model(error, wanted)) from error
    if not wanted.is_pinned:
        log.warning("%s may change at any time: pin it as %s", wanted, pinned)
    return _placed(pinned) or _download(wanted, pinned, choose(files, str(pinned)))


def _placed(pinned: HubName) -> Path | None:
    target = models_directory() / pinned.directory
    return target if revision_in(target) == str(pinned) else None


def _ask(wanted: HubName) -> tuple[HubName, list[HubFile]]:
    """The commit that a revision stands for, and its files."""
    info = HfApi(endpoint=_endpoint(), token=_token()).model_info(
        wanted.repository, revision=wanted.revision, files_metadata=True, timeout=_TIMEOUT_S
    )
    files = [
        HubFile(
            name=entry.rfilename,
            size=entry.size,
            sha256=entry.lfs.sha256 if entry.lfs else None,
            git_sha1=None if entry.lfs else entry.blob_id,
        )
        for entry in info.siblings or ()
    ]
    return wanted.at(str(info.sha)), files


def _download(wanted: HubName, pinned: HubName, files: list[HubFile]) -> Path:
    target = models_directory() / pinned.directory
    partial = target.with_name(f".{target.name}.partial")

    def make(directory: Path) -> None:
        _get(pinned, files, partial)
        for file in files:
            (partial / file.name).replace(directory / file.name)

    try:
        with _alone(target):
            place(target, str(pinned), make)
            _reference(wanted).write_text(pinned.revision)
            shutil.rmtree(partial, ignore_errors=True)
    except HUB_ERRORS as error:
        raise ModelLoadError(why_no_download(error, pinned, target)) from error
    return target


def _get(pinned: HubName, files: list[HubFile], partial: Path) -> None:
    """Downloads into `partial`, which stays if it fails: the next start goes on from there."""
    if not sys.stderr.isatty():
        disable_progress_bars()

    def get(file: HubFile) -> None:
        path = hf_hub_download(
            pinned.repository,
            file.name,
            revision=pinned.revision,
            local_dir=partial,
            endpoint=_endpoint(),
            token=_token(),
        )
        try:
            verify(Path(path), file)
        except ModelLoadError:
            Path(path).unlink()
            raise

    with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
        list(pool.map(get, files))


def _reference(wanted: HubName) -> Path:
    """Where the last known commit of a branch stands."""
    branch = wanted.revision.replace("/", "--")
    return models_directory() / f".{wanted.org}--{wanted.name}@{branch}.commit"


def _fetched_last(wanted: HubName) -> Path | None:
    reference = _reference(wanted)
    return _placed(wanted.at(reference.read_text())) if reference.is_file() else None


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Two engines that start at once with one models directory download once."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _token() -> bool | None:
    """None lets the library find the token, False sends none."""
    hub = urlsplit(_endpoint() or "https://huggingface.co")
    if hub.scheme == "https" or hub.hostname in _LOOPBACK:
        return None
    log.warning("no token is sent to %s: it is not https", hub.netloc)
    return False
