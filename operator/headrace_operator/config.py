"""What the operator is told from outside: flags and `HEADRACE_OPERATOR_*`, validated once at the start."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

PREFIX = "HEADRACE_OPERATOR_"


class ConfigError(Exception):
    """The configuration cannot be used; the message names each variable and what is wrong with it."""


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _json(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error}") from error


class OperatorConfig(BaseModel):
    """Empty `watch_namespaces` means the whole cluster; without `admin_key_file` engines are not called."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    engine_image: Annotated[str, Field(min_length=1, max_length=500)]
    watch_namespaces: Annotated[tuple[str, ...], BeforeValidator(_split)] = ()
    admin_key_file: Path | None = None
    scrape_interval_s: Annotated[float, Field(ge=0.1, le=60)] = 2.0
    reconcile_interval_s: Annotated[float, Field(ge=0.5, le=300)] = 5.0
    relist_interval_s: Annotated[float, Field(ge=5, le=3600)] = 300.0
    api_timeout_s: Annotated[float, Field(ge=0.5, le=60)] = 10.0
    pod_monitors: bool = False
    pod_monitor_labels: Annotated[dict[str, str], BeforeValidator(_json)] = Field(default_factory=dict)
    metrics_from: Annotated[tuple[dict[str, Any], ...], BeforeValidator(_json)] = ()
    workers: Annotated[int, Field(ge=1, le=64)] = 16
    lease_namespace: str = "headrace-system"
    lease_name: str = "headrace-operator"
    lease_duration_s: Annotated[float, Field(ge=3, le=120)] = 15.0
    pod_name: str = "headrace-operator"
    http_host: str = "0.0.0.0"  # noqa: S104 - probes and scrapes come to the pod's address
    http_port: Annotated[int, Field(ge=0, le=65535)] = 8080
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    kubeconfig: Path | None = None

    @classmethod
    def load(cls, environment: Mapping[str, str], **flags: Any) -> Self:
        """From the environment, a flag that is not None winning. Raises `ConfigError`."""
        values: dict[str, Any] = {
            name: environment[PREFIX + name.upper()]
            for name in cls.model_fields
            if environment.get(PREFIX + name.upper())
        }
        values |= {name: value for name, value in flags.items() if value is not None}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            lines = [f"{PREFIX}{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors()]
            raise ConfigError("; ".join(lines)) from error
