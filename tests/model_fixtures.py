"""Models that tests run on: the tiny random one, made on the spot, and the real one, where it can be had."""

from pathlib import Path

import pytest

from headrace_engine.runner.cache import cache_directory, models_directory
from headrace_engine.runner.catalog import CATALOG
from headrace_engine.runner.catalog.entry import AddError


@pytest.fixture(scope="session")
def tiny_model_dir() -> Path:
    """The tiny random model; kept in the cache under the digest of its recipe, so made once."""
    entry = CATALOG["tiny-random"]
    models = cache_directory() / "models-test" / entry.digest
    entry.add(models, lambda _step: None)
    return models / entry.name


@pytest.fixture(scope="session")
def smollm2_dir() -> Path:
    """SmolLM2-135M-Instruct, added to the models directory if need be. Skips where it cannot be had."""
    entry = CATALOG["smollm2-135m-instruct"]
    models = models_directory()
    try:
        entry.add(models, lambda _step: None)
    except AddError as error:
        pytest.skip(f"the real model is not here and cannot be added: {error}")
    return models / entry.name
