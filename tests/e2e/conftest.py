"""One cluster, one story: played once, asserted by many tests, then disturbed by the next."""

import sys
import time

import pytest
from rich.console import Console

from headrace_local.pytest_plugin import session_cluster
from headrace_local.story.api import open_api
from headrace_local.story.local_venue import stock
from headrace_local.story.narrator import Narrator
from headrace_local.story.play import play
from headrace_local.story.stage import Stage


@pytest.fixture(scope="session")
def stage():
    """A local cluster with the operator's image and the models, as `local/demo` has it."""
    narrator = Narrator(Console(file=sys.stderr), time.monotonic)
    with session_cluster(node=True) as cluster:
        venue = stock(cluster, narrator)
        with open_api(venue.tools) as api:
            yield Stage(venue, api, narrator)


@pytest.fixture(scope="session")
def facts(stage):
    """What the demo's story came to."""
    return play(stage)
