"""The whole story, in the order of its chapters."""

from dataclasses import dataclass

from headrace_local.story.burst import Burst, burst
from headrace_local.story.calm import Calmed, calm, require_whole_streams
from headrace_local.story.chat import Chatted, chat
from headrace_local.story.install import Installed, install
from headrace_local.story.serve import Served, serve
from headrace_local.story.stage import Stage


@dataclass(frozen=True, slots=True)
class Facts:
    """What was seen, chapter by chapter."""

    installed: Installed
    served: Served
    chatted: Chatted
    burst: Burst
    calmed: Calmed


def play(stage: Stage) -> Facts:
    """Plays every chapter on a cluster that stands. Raises `StoryFailed` where one does not come out."""
    installed = install(stage)
    served = serve(stage)
    with stage.venue.address(stage.api, stage.namespace, stage.name) as base_url:
        chatted = chat(stage, base_url)
        # What the operator changed since the service was Ready counts: on a slow machine, one chat is a load.
        loaded = burst(stage, base_url, served.view)
        calmed = calm(stage, base_url)
        require_whole_streams(stage, [*loaded.records, *calmed.records])
    return Facts(installed, served, chatted, loaded, calmed)
