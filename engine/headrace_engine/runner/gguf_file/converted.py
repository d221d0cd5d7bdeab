"""Where the directory stands that a GGUF file was converted to: in the cache, once per file."""

import hashlib
import logging
from pathlib import Path

from safetensors import SafetensorError

from headrace_engine.runner.cache import cache_directory
from headrace_engine.runner.errors import ModelLoadError
from headrace_engine.runner.gguf_file.convert import REVISION, convert
from headrace_engine.runner.placing import place

log = logging.getLogger(__name__)


def converted(gguf: Path) -> Path:
    """The model's directory, made at first use. Another file at the same path (by size or time) is another
    model; the tokenizer beside it belongs to it.

    Raises:
        ModelLoadError: the file cannot be read, or the cache not written.
    """
    parts = [REVISION]
    for path in (gguf, gguf.with_name("tokenizer.json")):
        if path.is_file():
            status = path.stat()
            parts.append(f"{path.resolve()}:{status.st_size}:{status.st_mtime_ns}")
    revision = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    target = cache_directory() / "converted" / f"{gguf.stem}-{revision}"
    try:
        if place(target, revision, lambda directory: convert(gguf, directory)):
            log.info("the GGUF file was converted", extra={"file": str(gguf), "directory": str(target)})
    except (OSError, SafetensorError) as error:
        raise ModelLoadError(
            f"{gguf} could not be converted into {target.parent} ({error}): free space there, or set "
            "HEADRACE_CACHE to a directory that can be written; in a pod, mount a volume there"
        ) from error
    return target
