"""`python -m headrace_local.prepare`: installs and builds, once, what the local cluster and its images need.

Prints the directory of kubectl, helm and the others, and phases where there is something to do. The exit
status is 1, after one sentence, where the machine cannot.
"""

import shutil
import sys

from rich.console import Console

from headrace_local import operator_image
from headrace_local.binaries import Binaries, ensure_binaries
from headrace_local.missing import Missing, install_packages, missing_packages, require_linux_root
from headrace_local.progress import Phases


def missing_compiler() -> list[str]:
    """The packages that compile the engine's CPU kernels, where no C compiler is installed."""
    found = any(shutil.which(compiler) for compiler in ("cc", "gcc", "clang"))
    return [] if found else ["gcc", "libc6-dev"]


def prepare(phases: Phases) -> Binaries:
    """Debian packages, then the Kubernetes binaries. Raises `Missing` for what it cannot cure."""
    require_linux_root()
    lacking = sorted({*missing_packages(), *missing_compiler(), *operator_image.missing_packages()})
    if lacking:
        with phases.phase(f"installing Debian packages: {', '.join(lacking)}"):
            install_packages(lacking)
    return ensure_binaries(phases)


def main() -> int:
    console = Console(stderr=True)
    try:
        print(prepare(Phases(console)).directory)
    except Missing as missing:
        console.print(f"headrace: {missing}", highlight=False, markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
