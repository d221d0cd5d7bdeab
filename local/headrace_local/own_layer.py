"""The checkout's own packages as the last layer of an image: what `pip install` of its wheel adds to the
environment that holds their dependencies.
"""

import configparser
import zipfile
from pathlib import Path, PurePosixPath

from headrace_local.image_cache import run
from headrace_local.oci import Layer
from headrace_local.wheelhouse import PYTHON_VERSION, pip_command

ENVIRONMENT = PurePosixPath("/opt/headrace")
SITE = ENVIRONMENT / f"lib/python{PYTHON_VERSION}/site-packages"
_SCRIPT = """\
#!{python}
import sys

from {module} import {function}

sys.exit({function}())
"""


def build_wheel(context: Path, wheels: Path, dist: Path) -> Path:
    """The wheel of the sources in `context`, built offline. Raises `Missing` with what pip said."""
    offline = ["--no-index", f"--find-links={wheels}", "--no-deps", "--quiet", "--no-input"]
    command = [*pip_command(), "wheel", *offline, f"--wheel-dir={dist}", str(context)]
    run(command, {}, "pip could not build the checkout's wheel")
    [wheel] = dist.glob("*.whl")
    return wheel


def layer_of(wheel: Path) -> Layer:
    """What the wheel puts into the environment: its files, and a script for each command."""
    files: dict[str, tuple[bytes, int]] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not name.endswith("/"):
                files[str(SITE / name)] = (archive.read(name), 0o644)
        [points] = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        parser = configparser.ConfigParser(delimiters=("=",))
        parser.read_string(archive.read(points).decode())
    for command, target in parser["console_scripts"].items():
        module, _, function = target.partition(":")
        script = _SCRIPT.format(python=ENVIRONMENT / "bin/python", module=module, function=function)
        files[str(ENVIRONMENT / "bin" / command)] = (script.encode(), 0o755)
    return Layer(directories=_parents(files), files=files)


def _parents(files: dict[str, tuple[bytes, int]]) -> dict[str, int]:
    """Every directory above a file, from the top."""
    found = {str(parent): 0o755 for path in files for parent in PurePosixPath(path).parents}
    found.pop("/")
    return dict(sorted(found.items()))
