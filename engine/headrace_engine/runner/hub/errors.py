"""What the hub's errors mean to somebody who wants a model served."""

from pathlib import Path

from huggingface_hub import errors

from headrace_engine.runner.hub.name import HubName

HUB_ERRORS = (errors.HTTPError, OSError)  # type: ignore[attr-defined]  # of the client that the library uses
"""All that the library raises: answers of the hub, failed connections, failed writes."""


def unreachable(error: Exception) -> bool:
    """Whether nobody answered, rather than somebody with a refusal."""
    if isinstance(error, errors.HfHubHTTPError):
        return error.response.status_code >= 500
    return True


def why_no_model(error: Exception, model: HubName) -> str:
    """A sentence with the fix, for an error on asking about the model."""
    page = f"https://huggingface.co/{model.repository}"
    match error:
        case errors.GatedRepoError():
            return (
                f"{model} is gated: accept its terms on {page}, and set HF_TOKEN (or HF_TOKEN_PATH) to a "
                "token that may read it"
            )
        case errors.RepositoryNotFoundError():
            return (
                f"the hub has no model {model.repository!r}, or does not show it to you: check the name; for "
                "a private one set HF_TOKEN (or HF_TOKEN_PATH)"
            )
        case errors.RevisionNotFoundError():
            return f"{model.repository} has no revision {model.revision!r}: take one that {page} shows"
        case errors.OfflineModeIsEnabled():
            return (
                f"{model} is not in the models directory and HF_HUB_OFFLINE is set: unset it for the first "
                "start, or put the model there with `headrace models add`"
            )
        case errors.HfHubHTTPError():
            return f"the hub answered {error.response.status_code} for {model}: try again later"
    return (
        f"the hub cannot be reached for {model} ({error}): check the network and HF_ENDPOINT; a model that "
        "was fetched once is served from the models directory"
    )


def why_no_download(error: Exception, model: HubName, target: Path) -> str:
    """A sentence with the fix, for an error on downloading or writing the files."""
    if isinstance(error, errors.GatedRepoError):
        return why_no_model(error, model)
    if isinstance(error, OSError) and error.filename is not None:
        return (
            f"{model} cannot be written into {target.parent} ({error}): set HEADRACE_MODELS to a directory "
            "that can be written and has room for it; in a pod, mount a volume there"
        )
    return (
        f"{model} could not be downloaded whole into {target} ({error}): check the network and the free "
        "space; the next start goes on where this one ended"
    )
