"""`spec.model`: which weights, where they are kept, and whose token reads them."""

from collections.abc import Callable
from typing import ClassVar

from pydantic import Field

from headrace_operator.api.fields import DnsName, ModelUri, Quantity, Revision, ServedName
from headrace_operator.api.rules import Part, Rule

HUB_TOKEN_KEY = "HF_TOKEN"  # noqa: S105 - a name
"""The one key of a Secret that is ever read: a service cannot name another of somebody else's Secret."""


class SecretPart(Part):
    """A Secret of the service's own namespace."""

    name: DnsName = Field(description=f"Name of the Secret. Its key {HUB_TOKEN_KEY} holds the token.")


class CachePart(Part):
    """Where a downloaded model is kept."""

    RULES: ClassVar = (
        Rule(
            "!(has(self.claimName) && has(self.size))",
            "model.cache takes claimName or size, not both: a claim has a size of its own",
            lambda part: part.claim_name is None or part.size is None,
            ".size",
        ),
    )
    claim_name: DnsName | None = Field(
        None,
        description="PersistentVolumeClaim to keep models on, shared by all replicas (ReadWriteMany where "
        "they run on several nodes). A pod that comes later then downloads nothing.",
    )
    size: Quantity | None = Field(
        None,
        description="Most that a pod may use of its node's disk, where there is no claim: each pod downloads "
        "for itself. 64Gi where absent.",
    )


def _downloaded_only(name: str, value: Callable[["ModelPart"], object]) -> Rule:
    return Rule(
        f"!has(self.{name}) || self.uri.startsWith('hf://')",
        f"model.{name} is taken with an hf:// uri only",
        lambda part: value(part) is None or part.uri.startswith("hf://"),
        f".{name}",
    )


class ModelPart(Part):
    """The model to serve."""

    RULES: ClassVar = (
        _downloaded_only("revision", lambda part: part.revision),
        _downloaded_only("secretRef", lambda part: part.secret_ref),
        _downloaded_only("cache", lambda part: part.cache),
    )
    uri: ModelUri = Field(
        description="Where the weights are: hf://ORG/NAME (downloaded), pvc://CLAIM/DIRECTORY (mounted "
        "read-only) or file:///DIRECTORY inside the engine's image. Changing it replaces the pods."
    )
    revision: Revision | None = Field(
        None,
        description="Branch, tag or commit of an hf:// model. Anything but a commit may change between two "
        "pods, which condition Accepted says.",
    )
    served_name: ServedName | None = Field(
        None, description="The `model` value of the OpenAI API. The name of the object where it is absent."
    )
    secret_ref: SecretPart | None = Field(
        None, description="Whose token downloads a private or gated hf:// model."
    )
    cache: CachePart | None = Field(None, description="Where a downloaded model is kept.")
