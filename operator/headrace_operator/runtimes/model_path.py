"""Where an engine finds a model: `pvc://` on a mounted claim, `file://` in the image, `hf://` by name."""

from collections.abc import Mapping
from typing import Any

from headrace_operator.api.model_resource import HUB_TOKEN_KEY
from headrace_operator.api.names import MODELS_MOUNT_PATH
from headrace_operator.api.spec import Model


def claim_name(uri: str) -> str | None:
    """The PersistentVolumeClaim of a `pvc://` uri; None where the model needs none."""
    return uri.removeprefix("pvc://").partition("/")[0] if uri.startswith("pvc://") else None


def model_argument(model: Model) -> str:
    """MODEL as the engine's command line takes it."""
    if claim_name(model.uri) is not None:
        directory = model.uri.removeprefix("pvc://").partition("/")[2]
        return f"{MODELS_MOUNT_PATH}/{directory}".rstrip("/")
    if model.uri.startswith("file://"):
        return model.uri.removeprefix("file://")
    return hub_name(model)


def hub_name(model: Model) -> str:
    """An `hf://` model with its revision, as `headrace models add` takes it."""
    return model.uri if model.revision is None else f"{model.uri}@{model.revision}"


def hub_token(model: Model) -> tuple[Mapping[str, Any], ...]:
    """The hub's token as a variable: of the one key that is read of the Secret that the service names."""
    if model.token_secret is None:
        return ()
    source = {"name": model.token_secret, "key": HUB_TOKEN_KEY}
    return ({"name": HUB_TOKEN_KEY, "valueFrom": {"secretKeyRef": source}},)
