"""Flags and variables that a service may add to its engine, and those that are Headrace's to set.

Text goes into argv and into values as it is, never through a shell. A flag that Headrace sets is refused
under every spelling that an engine may read as that flag: with `=`, with underscores, abbreviated.
"""

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from headrace_operator.api.fields import matching
from headrace_operator.api.rules import Part, Rule

OWNED_FLAGS = frozenset(
    {
        # What the resource declares.
        "--model",
        "--served-model-name",
        "--revision",
        "--max-model-len",
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--max-num-active-seqs",
        "--threads",
        "--queue-deadline-ms",
        "--slo-ttft-ms",
        "--slo-itl-ms",
        "--shutdown-timeout",
        "--tensor-parallel-size",
        # Where the engine is reached and what it reports: probes, scrapes and signed calls depend on it.
        "--host",
        "--port",
        "--uds",
        "--headless",
        "--limits-file",
        "--pod-uid",
        "--admin-host",
        "--admin-port",
        "--admin-public-keys",
        "--admin-token-file",
        "--api-server-count",
        "--disable-log-stats",
        "--config",
        # What everybody would read in the pod, or what would run code that a model brings.
        "--api-key",
        "--api-keys",
        "--hf-token",
        "--ssl-keyfile",
        "--ssl-certfile",
        "--ssl-ca-certs",
        "--trust-remote-code",
    }
)
FLAG_PATTERN = r"^--[a-z][a-z0-9.-]*(=.*)?$"
PRINTABLE_PATTERN = r"^[^\x00-\x1f\x7f]*$"
VARIABLE_PATTERN = r"^[A-Z_][A-Z0-9_]*$"
OWNED_VARIABLE_PREFIXES = ("HEADRACE_", "KUBERNETES_", "LD_", "PYTHON")
OWNED_VARIABLES = (
    *("HOME", "PATH", "USER", "DO_NOT_TRACK", "VLLM_NO_USAGE_STATS", "HF_HOME", "HF_HUB_OFFLINE"),
    # Everybody would read them in the pod.
    *("HF_TOKEN", "HF_TOKEN_PATH", "HUGGING_FACE_HUB_TOKEN", "VLLM_API_KEY"),
    # GPUs beyond those that the pod was given, where the container runtime goes by it.
    "NVIDIA_VISIBLE_DEVICES",
)


def _is_owned(argument: str) -> bool:
    name = argument.partition("=")[0]
    return argument.startswith("--") and any(flag.startswith(name) for flag in OWNED_FLAGS)


def _cel_list(texts: frozenset[str] | tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{text}'" for text in sorted(texts)) + "]"


Argument = Annotated[
    str,
    StringConstraints(min_length=1, max_length=512),
    matching(PRINTABLE_PATTERN, "engine.args: an argument holds no control character"),
]
Arguments = Annotated[
    list[Argument],
    Field(max_length=64),
    Rule(
        f"self.all(a, !a.startsWith('-') || a.matches('{FLAG_PATTERN}'))",
        "engine.args takes flags as --lower-case-with-dashes, and values that do not start with a dash "
        "(--flag=-1)",
        lambda arguments: all(
            not argument.startswith("-") or matching(FLAG_PATTERN, "").holds(argument)
            for argument in arguments
        ),
    ),
    Rule(
        f"!self.exists(a, a.startsWith('--') && {_cel_list(OWNED_FLAGS)}"
        ".exists(f, f.startsWith(a.split('=')[0])))",
        "engine.args holds a flag that Headrace sets (or the start of one): declare it by its field of the "
        "spec; keys and certificates have no place in a spec",
        lambda arguments: not any(_is_owned(argument) for argument in arguments),
    ),
]


class VariablePart(Part):
    """A variable of the engine's environment."""

    name: Annotated[
        str,
        StringConstraints(min_length=1, max_length=128),
        matching(VARIABLE_PATTERN, "engine.env: a name holds capitals, digits and _ only"),
        Rule(
            f"!{_cel_list(OWNED_VARIABLE_PREFIXES)}.exists(p, self.startsWith(p)) && "
            f"!(self in {_cel_list(OWNED_VARIABLES)})",
            "engine.env holds a variable that Headrace or the system sets",
            lambda name: not name.startswith(OWNED_VARIABLE_PREFIXES) and name not in OWNED_VARIABLES,
        ),
    ] = Field(description="Its name.")
    value: Annotated[
        str,
        StringConstraints(max_length=1024),
        matching(PRINTABLE_PATTERN, "engine.env: a value holds no control character"),
    ] = Field(description="Its value, as it is: $(NAME) is not replaced. No place for a secret.")


def _distinct(variables: list[VariablePart]) -> list[VariablePart]:
    """The API server sees to it too: the list is a map by name."""
    names = [variable.name for variable in variables]
    if len(names) > len(set(names)):
        raise PydanticCustomError("duplicate", "a name stands there twice")
    return variables


Variables = Annotated[
    list[VariablePart],
    Field(
        max_length=64,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
    AfterValidator(_distinct),
]
