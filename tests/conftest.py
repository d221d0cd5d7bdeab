"""Settings that every test shares."""

import os

from hypothesis import HealthCheck, settings
from model_fixtures import smollm2_dir, tiny_model_dir  # noqa: F401 - fixtures of every test

settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
