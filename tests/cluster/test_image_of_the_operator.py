"""The operator's image: what the Dockerfile makes, small, unprivileged, without torch, and it runs."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from headrace_local.cluster import Cluster
from headrace_local.operator_image import OPERATOR_IMAGE, build_from_dockerfile, build_operator_image
from headrace_local.progress import Phases

pytestmark = [pytest.mark.cluster, pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(600)]

TORCH = "import importlib.util as u, sys; sys.exit(bool(u.find_spec('torch') or u.find_spec('transformers')))"
MODULES = "import operator, headrace_operator.main, headrace_engine.core.scheduler; print(operator.__file__)"


@pytest.fixture(scope="module")
def archive() -> Path:
    return build_operator_image(Phases(quiet=True))


def environment(archive: Path) -> dict[str, bytes]:
    """The files in /opt/headrace, all layers together, but for what Python compiled and pip noted."""
    files: dict[str, bytes] = {}
    with tarfile.open(archive) as image:
        for layer in _document(image, _index(image)["manifests"][0]["digest"])["layers"]:
            with tarfile.open(fileobj=image.extractfile(_blob(layer["digest"])), mode="r:*") as content:
                for entry in content:
                    if entry.isfile() and entry.name.startswith("opt/headrace/") and not _noted(entry.name):
                        files[entry.name] = content.extractfile(entry).read()
    return files


def _noted(path: str) -> bool:
    return path.endswith((".pyc", "/RECORD", "/INSTALLER", "/REQUESTED", "/direct_url.json"))


def test_it_holds_what_the_dockerfile_makes_to_the_byte(archive: Path) -> None:
    """Its last layer is written without pip, in seconds; the Dockerfile is built here, whole."""
    fast, whole = environment(archive), environment(build_from_dockerfile(Phases(quiet=True)))
    assert fast.keys() == whole.keys()
    differing = [path for path in whole if fast[path] != whole[path]]
    assert differing in ([], ["opt/headrace/bin/headrace"]), "pip words a script in its own way"
    assert fast["opt/headrace/bin/headrace"].startswith(b"#!/opt/headrace/bin/python")


@pytest.fixture(scope="module")
def layers(archive: Path) -> list[set[str]]:
    """The paths in each layer, the base first."""
    with tarfile.open(archive) as image:
        manifest = _document(image, _index(image)["manifests"][0]["digest"])
        names = []
        for layer in manifest["layers"]:
            content = image.extractfile(_blob(layer["digest"]))
            with tarfile.open(fileobj=content, mode="r:*") as files:
                names.append({name.removeprefix("./") for name in files.getnames()})
    return names


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _document(image: tarfile.TarFile, digest: str) -> dict[str, Any]:
    return json.load(image.extractfile(_blob(digest)))


def _index(image: tarfile.TarFile) -> dict[str, Any]:
    return json.load(image.extractfile("index.json"))


def test_it_is_configured_to_run_as_nobody_in_particular(archive: Path) -> None:
    with tarfile.open(archive) as image:
        manifest = _document(image, _index(image)["manifests"][0]["digest"])
        config = _document(image, manifest["config"]["digest"])["config"]
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["headrace"]
    assert config["WorkingDir"] == "/"
    assert "PYTHONSAFEPATH=1" in config["Env"]


def test_it_holds_the_environment_and_nothing_of_the_build(layers: list[set[str]]) -> None:
    base, *ours = layers
    added = set().union(*ours)
    assert all(
        path.startswith(("opt", "etc", "proc", "sys", "dev", "run")) or path in {"", "."} for path in added
    )
    packages = {path.split("site-packages/")[1].split("/")[0] for path in added if "site-packages/" in path}
    assert {"headrace_operator", "headrace_engine", "kopf"} <= packages
    assert not {"torch", "transformers", "pip", "pytest", "headrace_local", "uvicorn"} & packages
    assert not any(path.startswith("build") for path in base | added)


def test_no_path_file_runs_code_at_every_start(layers: list[set[str]]) -> None:
    assert [path for layer in layers for path in layer if path.endswith(".pth")] == []


@pytest.mark.parametrize(
    "command",
    [
        ["headrace", "operator", "run", "--help"],
        ["python", "-c", TORCH],
        ["python", "-c", MODULES],
    ],
    ids=["its command starts", "no torch", "its modules import"],
)
def test_it_runs_on_the_node_with_a_read_only_root(
    cluster: Cluster, archive: Path, pod_manifest: Any, command: list[str]
) -> None:
    assert cluster.load_image(archive) == [OPERATOR_IMAGE]
    container = {"image": OPERATOR_IMAGE, "command": command}
    pod = pod_manifest("operator-image", container=container, restartPolicy="Never")
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    try:
        phase = "{.status.phase}"
        cluster.kubectl("wait", f"--for=jsonpath={phase}=Succeeded", "pod/operator-image", "--timeout=180s")
    finally:
        cluster.kubectl("delete", "pod", "operator-image", "--force", "--grace-period=0")
