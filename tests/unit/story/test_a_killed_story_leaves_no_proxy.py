"""`kubectl proxy` opens the cluster to whoever has its address: it ends with the story, however that ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SERVING = "#!/bin/sh\necho $$ >$0.pid\necho Starting to serve on 127.0.0.1:1\nexec sleep 600\n"
STORY = """
import os, sys
from headrace_local.story.tools import Tools
with Tools((sys.argv[1],), ("helm",), os.environ, "kubectl", "helm").proxy("--port=0") as address:
    print(address, flush=True)
    sys.stdin.read()
"""


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def test_the_proxy_of_a_killed_story_ends(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text(SERVING)
    kubectl.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, "-c", STORY, str(kubectl)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as story:
        assert story.stdout is not None
        assert story.stdout.readline() == "127.0.0.1:1\n"
        proxy = int((tmp_path / "kubectl.pid").read_text())
        assert not ended(proxy)
        os.kill(story.pid, signal.SIGKILL)
        story.wait()
        deadline_s = time.monotonic() + 60
        while not ended(proxy):
            assert time.monotonic() < deadline_s, "it serves on"
            time.sleep(0.01)
