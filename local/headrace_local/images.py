"""Images without a registry: archives imported straight into the node's containerd."""

import platform
import subprocess
from pathlib import Path

from headrace_local.binaries import Binaries
from headrace_local.containerd import PAUSE_IMAGE
from headrace_local.dev_runtime import Environment, engine_image
from headrace_local.oci import Image, Layer, write_archive
from headrace_local.sandbox import Sandbox

# The namespace of containerd in which the kubelet looks.
NAMESPACE = "k8s.io"
IMPORT_TIMEOUT_S = 300.0


def import_archive(sandbox: Sandbox, archive: Path) -> list[str]:
    """Import an OCI or docker archive; the names of its images. Raises ValueError for what is none."""
    command = sandbox.command("ctr", "--namespace", NAMESPACE, "images", "import", "-")
    with archive.open("rb") as content:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, stdin=content, timeout=IMPORT_TIMEOUT_S
        )
    if done.returncode != 0:
        raise ValueError(f"{archive} is no image archive that containerd takes: {done.stderr.strip()}")
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("unpacking ")]


def import_own_images(sandbox: Sandbox, binaries: Binaries, directory: Path) -> None:
    """Write and import the images that every node has: the pod sandbox's and the development engine's."""
    directory.mkdir(exist_ok=True)
    pause = Image(
        reference=PAUSE_IMAGE,
        layer=Layer(files={"/pause": (binaries["pause"].read_bytes(), 0o755)}),
        entrypoint=("/pause",),
        user="65535:65535",
    )
    for image in (pause, engine_image(Environment.current())):
        name = image.reference.rpartition("/")[2].replace(":", "-")
        import_archive(sandbox, write_archive(image, platform.machine(), directory / f"{name}.tar"))
