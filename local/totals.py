"""Adds up one run of local/test: a directory with `checks` (a word a line) and one JUnit report a group.

The last line is `N passed, N failed, N skipped`; the exit status is 0 only where something passed and
nothing failed.
"""

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET


def count_checks(path: Path) -> Counter[str]:
    return Counter(path.read_text().split()) if path.exists() else Counter()


def count_report(path: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for suite in ET.parse(path).getroot().iter("testsuite"):  # noqa: S314 - pytest wrote it a moment ago
        number = {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}
        failed = number["failures"] + number["errors"]
        counts.update(
            failed=failed, skipped=number["skipped"], passed=number["tests"] - failed - number["skipped"]
        )
    return counts


def line(counts: Counter[str]) -> str:
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    return f"{counts['passed']} passed, {counts['failed']} failed{skipped}"


def main(directory: Path) -> int:
    groups = {"checks": count_checks(directory / "checks")}
    groups |= {report.stem: count_report(report) for report in sorted(directory.glob("*.xml"))}
    for mark in directory.glob("broken-*"):
        name = mark.name.removeprefix("broken-")
        groups.setdefault(name, Counter()).update(failed=1)
        print(f"  {name}: pytest ended with status {mark.read_text().strip()} before its report was whole")
    for name, counts in groups.items():
        print(f"  {name:<8} {line(counts)}")
    total: Counter[str] = sum(groups.values(), Counter())
    print(line(total))
    return 0 if total["passed"] and not total["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
