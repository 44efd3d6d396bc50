"""What a list of requirements comes to: the packages it names and all that they need."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement


def listed(file: Path) -> list[str]:
    """The requirements in a file, without the project itself and other files."""
    lines = [line.split("#")[0].strip() for line in file.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("-")]


def closure(requirements: list[str]) -> dict[str, str]:
    """Name and version of these packages and of all that they need, as they are installed."""
    found: dict[str, str] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        name = wanted.name.lower().replace("_", "-")
        if name in found or not _applies(wanted, {""}):
            continue
        try:
            package = distribution(wanted.name)
        except PackageNotFoundError:
            continue
        found[name] = package.version
        needed = map(Requirement, package.requires or [])
        waiting += [one for one in needed if _applies(one, wanted.extras or {""})]
    return found


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)
