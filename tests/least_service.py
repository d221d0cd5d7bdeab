"""An InferenceService of the fewest words."""

from typing import Any


def service(name: str = "chat", **spec: Any) -> dict[str, Any]:
    """Its manifest; keywords replace parts of its spec."""
    least = {"model": {"uri": "file:///models/tiny"}, "slo": {"ttft": "1s", "window": "30s"}}
    return {
        "apiVersion": "headrace.dev/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": name},
        "spec": {**least, **spec},
    }
