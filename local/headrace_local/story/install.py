"""Chapter: the operator comes in by Helm, as a user installs it."""

from dataclasses import dataclass

from headrace_local.story.stage import CHECKOUT, Stage

RELEASE = "headrace"
SYSTEM_NAMESPACE = "headrace-system"


@dataclass(frozen=True, slots=True)
class Installed:
    """The operator runs; `took_s` from the helm command to its readiness."""

    took_s: float


def install(stage: Stage) -> Installed:
    """Installs or upgrades the chart and waits until the operator is up."""
    stage.narrator.chapter("The operator, by its Helm chart")
    values = stage.venue.chart_values()
    shown = " ".join(("-n", SYSTEM_NAMESPACE, "--create-namespace --wait", *values))
    # As typed in the checkout, where the chart's own path begins too.
    shown = shown.replace(f"{CHECKOUT}/", "")
    stage.narrator.command(f"{stage.tools.typed_helm} upgrade --install {RELEASE} charts/headrace {shown}")
    began_s = stage.clock()
    chart = str(CHECKOUT / "charts" / "headrace")
    where = ("-n", SYSTEM_NAMESPACE, "--create-namespace")
    stage.tools.helm("upgrade", "--install", RELEASE, chart, *where, "--wait", "--timeout=180s", *values)
    took_s = stage.clock() - began_s
    stage.narrator.news(f"the operator is up in namespace {SYSTEM_NAMESPACE}")
    return Installed(took_s)


def uninstall(stage: Stage) -> None:
    """Removes the service and the release; the CustomResourceDefinition stays, as the chart says."""
    remove_service(stage)
    stage.tools.helm("uninstall", RELEASE, "-n", SYSTEM_NAMESPACE, "--wait", "--ignore-not-found")


def remove_service(stage: Stage) -> None:
    """Deletes the service and waits until its pods are gone."""
    stage.tools.kubectl(
        "-n", stage.namespace, "delete", "infs", stage.name, "--ignore-not-found", timeout_s=120
    )
    stage.until(
        "the pods of the deleted service gone",
        lambda: None if stage.api.pods(stage.namespace, stage.selector) else True,
        timeout_s=180,
        look=stage.look("get", "pods", "-l", stage.selector),
        seen=lambda: f"{len(stage.api.pods(stage.namespace, stage.selector))} of them",
    )
