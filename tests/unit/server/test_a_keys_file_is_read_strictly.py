"""Whatever is written over a keys file while an engine serves, the last good one holds, and no call fails."""

import hashlib
from pathlib import Path

import pytest

from headrace_engine.server.api_keys import ApiKeys, Tenancy

DIGEST = hashlib.sha256(b"sk-a").hexdigest()
UNUSABLE = {
    "nested without end": "[" * 100_000,
    "a number without end": '{"keys": {}, "tenants": {"default": {"weight": 1%s}}}' % ("0" * 400),
    "no number": '{"keys": {}, "tenants": {"default": {"weight": NaN}}}',
    "no character in a name": '{"keys": {}, "tenants": {"items": {"\\ud800": {}}}}',
    "a key of two tenants": f'{{"keys": {{"{DIGEST}": "acme", "{DIGEST}": "other"}}}}',
    "two lists of keys": '{"keys": {}, "keys": null}',
    "no text": b"\xff\xfe",
    "nothing": "",
}


@pytest.mark.parametrize("written", UNUSABLE.values(), ids=UNUSABLE)
def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: Path, written: str | bytes) -> None:
    path = tmp_path / "keys.json"
    path.write_text(f'{{"keys": {{"{DIGEST}": "acme"}}}}')
    api_keys = ApiKeys(path)
    path.write_bytes(written if isinstance(written, bytes) else written.encode())
    assert not api_keys.refresh()
    assert api_keys.tenant("Bearer sk-a", "1.2.3.4") == "acme"
    with pytest.raises(ValueError, match=r"."):
        Tenancy.read(path)
