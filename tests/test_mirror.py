"""``tests/`` mirrors ``cvrl_mm/``: each module has a test file of its own name."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
# Modules that are tested through the modules that use them
WITHOUT = {
    'datasets/random_source.py',
    'own_videos/network.py',
    'version.py',
}


def test_each_module_has_a_test_file_of_its_name():
    package = ROOT / 'cvrl_mm'
    modules = {path.relative_to(package) for path in package.rglob('*.py')}
    missing = {
        module.as_posix()
        for module in modules
        if module.name != '__init__.py'
        and not (ROOT / 'tests' / module.parent / f'test_{module.stem.strip("_")}.py').is_file()
    }
    assert missing <= WITHOUT, 'add a test file of the same name'
