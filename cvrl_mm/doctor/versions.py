"""Comparison of the installed versions with the tested ones."""

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from .finding import Finding

# Shipped with the package, as pip's constraints file.
TESTED = Path(__file__).parents[1] / '.mim' / 'constraints.txt'
OPTIONAL = {
    'matplotlib': 'needed for the quickstart and for pictures alone',
    'mmdet': 'needed for AVA detection alone',
    'mypy': 'needed by developers alone',
    'onnx': 'needed for the export to ONNX alone',
    'onnxruntime': 'needed for the export to ONNX alone',
    'onnxscript': 'needed for the export to ONNX alone',
    'opencv-contrib-python': 'opencv-python does as well',
    'opencv-python': 'opencv-contrib-python does as well',
    'pandas': 'needed by mmdet and mim alone',
    'pyarrow': 'needed for Parquet files alone',
    'pytest': 'needed by developers alone',
    'ruff': 'needed by developers alone',
    'scikit-learn': 'needed for the quickstart alone',
    'torchvision': 'needed for AVA detection with mmcv-lite alone',
}


def check_versions(tested: Path = TESTED) -> list[Finding]:
    """Compare the installed packages with the tested versions, and check the installation of mmcv.

    Args:
        tested: A constraints file.
    """
    found = [check_mmcv()]
    for requirement in read_constraints(tested):
        if requirement.name in ('mmcv', 'mmcv-lite') and version_of(requirement.name) is None:
            continue  # one of the two is enough
        found.append(check_version(requirement))
    return found


def read_constraints(path: Path) -> Iterator[Requirement]:
    """Yield the requirements of a constraints file that apply to this version of Python."""
    for line in path.read_text().splitlines():
        line = line.partition('#')[0].strip()
        if line:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate():
                requirement.marker = None
                yield requirement


def version_of(name: str) -> str | None:
    """Return the installed version of a distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def check_mmcv() -> Finding:
    """Check that mmcv and mmcv-lite are not both installed."""
    installed = [name for name in ('mmcv', 'mmcv-lite') if version_of(name) is not None]
    if len(installed) == 2:
        advice = 'pip uninstall -y mmcv mmcv-lite, then install the one you want'
        return Finding('problem', 'mmcv', 'mmcv and mmcv-lite overwrite each other', advice)
    if not installed:
        return Finding('note', 'mmcv', 'importable, but no installed distribution', '')
    return Finding('ok', 'mmcv', f'{installed[0]} alone')


def check_version(tested: Requirement) -> Finding:
    """Compare one package."""
    version = version_of(tested.name)
    install = f"pip install '{tested}'"
    if version is None:
        if tested.name in OPTIONAL:
            return Finding('ok', tested.name, f'not installed; {OPTIONAL[tested.name]}')
        return Finding('problem', tested.name, 'not installed', install)
    if tested.specifier.contains(version.partition('+')[0], prereleases=True):
        return Finding('ok', tested.name, f'{version}, as tested')
    allowed = declared_range(tested.name)
    if allowed is not None and not allowed.specifier.contains(version, prereleases=True):
        seen = f'{version}, outside of what cvrl_mm declares ({allowed.specifier})'
        return Finding('problem', tested.name, seen, install)
    seen = f'{version}, not tested; the tests run with {tested.specifier}'
    return Finding('note', tested.name, seen, f'if something fails: {install}')


def declared_range(name: str) -> Requirement | None:
    """Return the requirement of the installed cvrl_mm for a package, or None."""
    try:
        lines = metadata.requires('cvrl_mm') or []
    except metadata.PackageNotFoundError:  # on the PYTHONPATH
        return None
    requirements = [Requirement(line) for line in lines]
    return next((r for r in requirements if r.name == name and r.specifier), None)
