"""What the operator's own configuration adds to every service."""

from dataclasses import dataclass

from headrace_operator.render.surroundings import ALONE, Surroundings


@dataclass(frozen=True, slots=True)
class Settings:
    engine_image: str
    """For services that name none."""
    admin_keys: str
    """The JSON text of `admin-keys.json`: public keys that engines accept signed calls from."""
    scrape_interval_s: float = 2.0
    """Metrics older than a few of these are stale."""
    surroundings: Surroundings = ALONE
