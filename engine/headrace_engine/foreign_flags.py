"""Flags that people bring from vLLM and SGLang and that this engine has no use for: what to do instead.

They are refused like any unknown flag; the refusal says where to go.
"""

from collections.abc import Mapping
from typing import Any

import typer
import typer.core

INSTEAD: Mapping[str, str] = {
    "--model": "The model is an argument: headrace serve MODEL.",
    "--model-path": "The model is an argument: headrace serve MODEL.",
    "--revision": "It stands in the model's name: hf://ORG/NAME@REVISION.",
    "--tokenizer": "It is the tokenizer.json of the model's directory.",
    "--download-dir": "Set HEADRACE_MODELS.",
    "--api-key": "Keys come by file, as digests: --api-keys FILE.",
    "--trust-remote-code": "No code of a model is ever run.",
    "--gpu-memory-utilization": "Say how large the KV cache is: --kv-cache-memory-bytes.",
    "--mem-fraction-static": "Say how large the KV cache is: --kv-cache-memory-bytes.",
    "--max-running-requests": "It is --max-num-seqs here, as in vLLM.",
    "--max-queued-requests": "It is --max-num-queued-reqs here, as in vLLM.",
    "--context-length": "It is --max-model-len here, as in vLLM.",
    "--chunked-prefill-size": "It is --max-num-batched-tokens here, as in vLLM.",
    "--page-size": "It is --block-size here, as in vLLM.",
    "--max-num-active-seqs": "Limits change while the engine serves: PATCH /v1/admin/limits.",
    "--enable-chunked-prefill": "It always is.",
    "--no-enable-chunked-prefill": "Prefill is always chunked.",
    "--tensor-parallel-size": "An engine uses one device; replicas are the operator's.",
    "--pipeline-parallel-size": "An engine uses one device; replicas are the operator's.",
    "--data-parallel-size": "An engine uses one device; replicas are the operator's.",
    "--disable-log-requests": "What requests say is never logged.",
    "--disable-log-stats": "Metrics are at /metrics, and nowhere in the log.",
    "--allowed-origins": "No page of another origin is let in: put a gateway in front.",
    "--ssl-keyfile": "TLS ends at the gateway in front.",
    "--ssl-certfile": "TLS ends at the gateway in front.",
}


class Command(typer.core.TyperCommand):
    """Refuses a flag of another engine with what to do here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for name in (argument.partition("=")[0] for argument in args):
            if name in INSTEAD:
                raise typer.BadParameter(f"{name} is no flag of this command. {INSTEAD[name]}", ctx)
        return super().parse_args(ctx, args)
