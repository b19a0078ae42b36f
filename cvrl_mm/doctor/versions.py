"""Compare the installed versions with the tested ones."""

from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from .finding import Finding

# The constraints file of pip that is part of the package
TESTED = Path(__file__).parents[1] / '.mim' / 'constraints.txt'
OPTIONAL = {
    'matplotlib': 'only needed for the quickstart and for pictures',
    'mmdet': 'only needed for AVA detection',
    'mypy': 'only needed by developers',
    'onnx': 'only needed for the export to ONNX',
    'onnxruntime': 'only needed for the export to ONNX',
    'onnxscript': 'only needed for the export to ONNX',
    'opencv-contrib-python': 'opencv-python also works',
    'opencv-python': 'opencv-contrib-python also works',
    'pandas': 'only needed by mmdet and mim',
    'pyarrow': 'only needed for Parquet files',
    'pytest': 'only needed by developers',
    'ruff': 'only needed by developers',
    'scikit-learn': 'needed for the quickstart and for the report of cvrl pretrain',
    'torchvision': 'only needed for AVA detection with mmcv-lite',
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
    return Finding('ok', 'mmcv', f'only {installed[0]}')


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
