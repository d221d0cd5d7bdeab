"""Chapter: a service is declared, and its conditions tell how it comes up."""

import json
from dataclasses import dataclass

from headrace_local.story.service import ServiceView
from headrace_local.story.stage import Stage

READY_TIMEOUT_S = 180.0
# In the order in which one follows from the other.
SHOWN = ("Accepted", "Progressing", "ModelLoaded", "MetricsAvailable", "Ready")


@dataclass(frozen=True, slots=True)
class Served:
    """The service is Ready, `took_s` after it was applied; `told` are the conditions on the way, in order."""

    took_s: float
    told: tuple[str, ...]
    view: ServiceView


def serve(stage: Stage) -> Served:
    """Applies the manifest and follows the conditions until Ready."""
    stage.narrator.chapter("A model with its SLO, declared in one object")
    stage.narrator.command(f"{stage.tools.typed} apply -f {stage.venue.shown_manifest}")
    began_s = stage.clock()
    stage.tools.kubectl("-n", stage.namespace, "apply", "-f", "-", stdin=json.dumps(stage.venue.manifest))
    told: list[str] = []

    def ready() -> ServiceView | None:
        view = stage.view()
        if view is None:
            return None
        for condition in map(view.condition, SHOWN):
            if condition is not None and str(condition) not in told:
                told.append(str(condition))
                stage.narrator.tell(str(condition))
        return view if view.is_true("Ready") else None

    view = stage.until(
        f"infs/{stage.name} Ready",
        ready,
        timeout_s=READY_TIMEOUT_S,
        look=stage.look("describe", f"infs/{stage.name}"),
        seen=lambda: ", ".join(told[-3:]) or "no conditions: is the operator running?",
    )
    took_s = stage.clock() - began_s
    stage.narrator.news(f"Ready {took_s:.1f} s after kubectl apply, from a pod that the operator made")
    stage.narrator.command(f"{stage.tools.typed} get infs {stage.name}")
    for line in stage.tools.kubectl("-n", stage.namespace, "get", "infs", stage.name).splitlines():
        stage.narrator.tell(line)
    return Served(took_s, tuple(told), view)
