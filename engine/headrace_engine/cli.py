"""`headrace serve`, `generate` and `models`. Every flag of `serve` is a variable too: `HEADRACE_<FLAG>`."""

import math
from collections.abc import Callable
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace_engine.core.policies import PolicyName

MODEL, LIMITS, CACHE, HTTP, ADMIN, OBJECTIVES = (
    *("Model", "Scheduler limits", "KV cache", "HTTP"),
    *("Admin port", "Service level objectives"),
)
TRACES = "Traces"


class NumberType(StrEnum):
    AUTO = "auto"
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


class LogLevel(StrEnum):
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


def _flag(panel: str, text: str, *names: str, env: str | None = None, **bounds: Any) -> Any:
    variable = env or "HEADRACE_" + names[0].removeprefix("--").split("/")[0].replace("-", "_").upper()
    # The variables are told once: beside every flag they leave a terminal no room for its name.
    shown = {"rich_help_panel": panel, "show_envvar": False}
    return typer.Option(*names, help=text, envvar=variable, **shown, **bounds)


def _port(default: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        # A Service named `headrace` makes Kubernetes give every pod beside it HEADRACE_PORT=tcp://...
        if str(value).startswith("tcp://"):
            return default
        if not str(value).isdecimal() or int(value) > 65535:
            raise typer.BadParameter(f"{value} is no port, 0 to 65535")
        return int(value)

    return parse


def _collector(endpoint: str | None) -> str | None:
    from headrace_engine.telemetry.otlp_endpoint import traces_url

    try:
        return None if endpoint is None else traces_url(endpoint)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Makes the file's values the defaults of the other flags: it is read before any of them."""
    if path is None:
        return None
    from headrace_engine.config_file import ConfigFileError, read_flags

    parameters = [parameter for parameter in context.command.params if parameter.name != "config"]
    switches = {parameter.name for parameter in parameters if getattr(parameter, "is_flag", False)}
    try:
        flags = {parameter.name for parameter in parameters}
        context.default_map = read_flags(path, flags=flags, switches=switches)
    except ConfigFileError as error:
        raise typer.BadParameter(str(error)) from error
    return path


def _finite(value: float | None) -> float | None:
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number.")
    return value


def register(root: typer.Typer) -> None:
    """Adds the commands where the engine is installed."""
    if find_spec("torch") is None:
        return
    from headrace_engine import foreign_flags, generate_cli, models_cli

    root.command("serve", cls=foreign_flags.Command)(serve)
    root.command("generate")(generate_cli.generate)
    root.add_typer(models_cli.app, name="models")


def serve(
    model: Annotated[str, typer.Argument(help="A directory, or a name that `headrace models list` shows.")],
    *,
    config: Annotated[  # noqa: ARG001 - its callback reads it
        Path | None,
        _flag(
            *(MODEL, "YAML of flags; what the command line or the environment says wins.", "--config"),
            exists=True,
            dir_okay=False,
            is_eager=True,
            callback=_read_config,
        ),
    ] = None,
    served_model_name: Annotated[
        list[str] | None,
        _flag(MODEL, "Name in the API; may be repeated.", "--served-model-name"),
    ] = None,
    chat_template: Annotated[
        Path | None,
        _flag(
            *(MODEL, "Jinja file that makes a prompt of a conversation; the model's own if left out."),
            "--chat-template",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    dtype: Annotated[
        NumberType, _flag(MODEL, "In which numbers to compute; auto: by the processor.", "--dtype")
    ] = NumberType.AUTO,
    max_model_len: Annotated[
        int | None, _flag(MODEL, "Longest sequence; the model's own if left out.", "--max-model-len", min=2)
    ] = None,
    threads: Annotated[int | None, _flag(MODEL, "Compute threads.", "--threads", min=1)] = None,
    seed: Annotated[
        int | None,
        _flag(
            *(
                MODEL,
                "Draw alike after every start for requests that bring no seed.",
                "--seed",
            ),
            min=0,
            max=2**63 - 1,
        ),
    ] = None,
    max_num_seqs: Annotated[
        int, _flag(LIMITS, "Most requests in a step.", "--max-num-seqs", min=1, max=65_536)
    ] = 128,
    max_num_batched_tokens: Annotated[
        int, _flag(LIMITS, "Most tokens in a step.", "--max-num-batched-tokens", min=1, max=1_048_576)
    ] = 2048,
    long_prefill_token_threshold: Annotated[
        int,
        _flag(
            *(LIMITS, "Most prompt tokens of one request in a step; 0: no such bound."),
            "--long-prefill-token-threshold",
            min=0,
        ),
    ] = 0,
    max_num_partial_prefills: Annotated[
        int,
        _flag(
            *(LIMITS, "Most prompts in a step that do not end in it; 0: no such bound."),
            "--max-num-partial-prefills",
            min=0,
        ),
    ] = 0,
    max_step_ms: Annotated[
        int,
        _flag(
            *(LIMITS, "Predicted time of a step that prompts keep within; 0: no such bound."),
            "--max-step-ms",
            min=0,
        ),
    ] = 0,
    max_num_queued_reqs: Annotated[
        int,
        _flag(LIMITS, "Most requests that wait; more are refused with 429.", "--max-num-queued-reqs", min=0),
    ] = 1024,
    max_num_queued_tokens: Annotated[
        int, _flag(LIMITS, "Most prompt tokens that wait.", "--max-num-queued-tokens", min=0)
    ] = 1_048_576,
    queue_deadline_ms: Annotated[
        float | None,
        _flag(
            *(LIMITS, "A request not scheduled by then gets 429.", "--queue-deadline-ms"),
            min=1,
            callback=_finite,
        ),
    ] = None,
    scheduling_policy: Annotated[
        PolicyName, _flag(LIMITS, "Order in which waiting requests are admitted.", "--scheduling-policy")
    ] = PolicyName.FCFS,
    limits_file: Annotated[
        Path | None, _flag(LIMITS, "JSON of active limits to start with.", "--limits-file", exists=True)
    ] = None,
    block_size: Annotated[int, _flag(CACHE, "Tokens in a block.", "--block-size", min=1)] = 64,
    num_gpu_blocks_override: Annotated[
        int | None, _flag(CACHE, "Number of blocks, on any device.", "--num-gpu-blocks-override", min=1)
    ] = None,
    kv_cache_memory_bytes: Annotated[
        int | None, _flag(CACHE, "Memory for the KV cache.", "--kv-cache-memory-bytes", min=1)
    ] = None,
    enable_prefix_caching: Annotated[
        bool,
        _flag(CACHE, "Reuse blocks of equal prefixes.", "--enable-prefix-caching/--no-enable-prefix-caching"),
    ] = True,
    host: Annotated[str, _flag(HTTP, "Address to listen at.", "--host")] = "127.0.0.1",
    port: Annotated[int, _flag(HTTP, "Port; 0 takes a free one.", "--port", parser=_port(8000))] = 8000,
    api_keys: Annotated[
        Path | None,
        _flag(
            *(HTTP, "JSON of the digests of API keys and whose they are; anybody if left out."),
            "--api-keys",
            exists=True,
        ),
    ] = None,
    shutdown_timeout: Annotated[
        float,
        _flag(
            *(HTTP, "Seconds that requests in flight get on SIGTERM.", "--shutdown-timeout"),
            min=0,
            callback=_finite,
        ),
    ] = 120.0,
    drain_grace: Annotated[
        float,
        _flag(
            *(HTTP, "Seconds of a drain in which new requests are still served.", "--drain-grace"),
            min=0,
            callback=_finite,
        ),
    ] = 5.0,
    admin_host: Annotated[str, _flag(ADMIN, "Address of the admin port.", "--admin-host")] = "127.0.0.1",
    admin_port: Annotated[int, _flag(ADMIN, "Admin port.", "--admin-port", parser=_port(8001))] = 8001,
    admin_public_keys: Annotated[
        Path | None, _flag(ADMIN, "Keys of signed calls, as JSON.", "--admin-public-keys", exists=True)
    ] = None,
    admin_token_file: Annotated[
        Path | None, _flag(ADMIN, "File with a bearer token of 256 bits.", "--admin-token-file", exists=True)
    ] = None,
    pod_uid: Annotated[str | None, _flag(ADMIN, "Whom signed calls are addressed to.", "--pod-uid")] = None,
    slo_ttft_ms: Annotated[
        float | None, _flag(OBJECTIVES, "Time to first token.", "--slo-ttft-ms", min=0.1, callback=_finite)
    ] = None,
    slo_itl_ms: Annotated[
        float | None,
        _flag(OBJECTIVES, "Mean time between tokens.", "--slo-itl-ms", min=0.1, callback=_finite),
    ] = None,
    otlp_traces_endpoint: Annotated[
        str | None,
        _flag(
            *(TRACES, "Collector that spans go to, by OTLP over HTTP; none if left out."),
            "--otlp-traces-endpoint",
            callback=_collector,
        ),
    ] = None,
    log_level: Annotated[
        LogLevel, _flag(HTTP, "Least that is logged.", "--log-level", case_sensitive=False)
    ] = LogLevel.INFO,
) -> None:
    """Serve MODEL with OpenAI's API.

    Each flag is a variable too, --max-num-seqs as HEADRACE_MAX_NUM_SEQS, and a key of --config.
    Without public keys and without a token file the admin port is not opened.
    """
    from headrace_engine.server.admin_credentials import AdminCredentials
    from headrace_engine.server.config import ServeConfig
    from headrace_engine.server.main import run
    from headrace_engine.telemetry.metrics import SLO

    def seconds(milliseconds: float | None) -> float | None:
        return None if milliseconds is None else milliseconds / 1000

    told = ServeConfig(
        model=model,
        served_model_names=tuple(served_model_name or ()),
        host=host,
        port=port,
        admin_host=admin_host,
        admin_port=admin_port,
        admin=AdminCredentials(admin_public_keys, admin_token_file, pod_uid),
        chat_template=chat_template,
        dtype=dtype.value,
        threads=threads,
        seed=seed,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        long_prefill_token_threshold=long_prefill_token_threshold,
        max_num_partial_prefills=max_num_partial_prefills,
        max_step_ms=max_step_ms,
        max_num_queued_reqs=max_num_queued_reqs,
        max_num_queued_tokens=max_num_queued_tokens,
        queue_deadline_s=seconds(queue_deadline_ms),
        block_size=block_size,
        num_gpu_blocks_override=num_gpu_blocks_override,
        kv_cache_memory_bytes=kv_cache_memory_bytes,
        enable_prefix_caching=enable_prefix_caching,
        scheduling_policy=scheduling_policy,
        api_keys=api_keys,
        limits_file=limits_file,
        shutdown_timeout_s=shutdown_timeout,
        drain_grace_s=drain_grace,
        slo=SLO(seconds(slo_ttft_ms), seconds(slo_itl_ms), seconds(queue_deadline_ms)),
        otlp_traces_endpoint=otlp_traces_endpoint,
    )
    try:
        told.check()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    raise typer.Exit(run(told, log_level=log_level.value))
