"""Where an engine finds a model: `pvc://` on a mounted claim, `file://` in the image, `hf://` by name."""

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
    return model.uri if model.revision is None else f"{model.uri}@{model.revision}"
