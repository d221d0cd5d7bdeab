"""The models that `headrace models add` knows how to make: small, free, and pinned by hash."""

from headrace_engine.runner.catalog.entry import Entry
from headrace_engine.runner.catalog.smollm2 import SMOLLM2_135M_INSTRUCT
from headrace_engine.runner.catalog.tiny_random import TINY_RANDOM

CATALOG: dict[str, Entry] = {entry.name: entry for entry in (SMOLLM2_135M_INSTRUCT, TINY_RANDOM)}
