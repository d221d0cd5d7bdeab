"""The story from an empty stage to an empty stage: opens a venue, plays, and leaves it as was asked."""

from headrace_local import lifecycle
from headrace_local.story.api import open_api
from headrace_local.story.context_venue import ContextVenue
from headrace_local.story.farewell import farewell
from headrace_local.story.install import remove_service, uninstall
from headrace_local.story.local_venue import open_local
from headrace_local.story.narrator import Narrator
from headrace_local.story.play import Facts, play
from headrace_local.story.stage import NAMESPACE, Stage


def show_local(narrator: Narrator, *, keep: bool) -> Facts:
    """The story on the local cluster: one that stood before stays, one made for it goes unless kept."""
    stood = lifecycle.find_cluster() is not None
    venue = open_local(narrator)
    with open_api(venue.tools) as api:
        stage = Stage(venue, api, narrator)
        facts = _play(stage, keep=keep)
        if stood and not keep:
            narrator.chapter("Cleaning up")
            uninstall(stage)
            narrator.tell("the service and the operator are removed; the cluster stood before and stays")
    if not stood and not keep:
        narrator.chapter("Cleaning up")
        lifecycle.down()
        narrator.tell("the cluster is gone; `local/demo --keep` leaves it up to go on with")
    return facts


def show_on(narrator: Narrator, venue: ContextVenue, *, keep: bool) -> Facts:
    """The story on the reader's own cluster; what it installed goes again, unless kept."""
    narrator.chapter(f"Your cluster, by the context {venue.context}")
    venue.check(NAMESPACE)
    with open_api(venue.tools) as api:
        stage = Stage(venue, api, narrator, name=venue.manifest["metadata"]["name"])
        facts = _play(stage, keep=keep)
        if not keep:
            narrator.chapter("Cleaning up")
            uninstall(stage)
            narrator.tell("the service and the operator are removed; the CustomResourceDefinition stays")
    return facts


def _play(stage: Stage, *, keep: bool) -> Facts:
    if stage.view() is not None:
        stage.narrator.tell(f"infs/{stage.name} is there from before: removing it first")
        remove_service(stage)
    facts = play(stage)
    if keep:
        farewell(stage, facts.chatted)
    return facts
