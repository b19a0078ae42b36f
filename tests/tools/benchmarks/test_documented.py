from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_documentation_says_what_each_benchmark_is_for():
    text = (ROOT / 'docs/speed.md').read_text()
    scripts = {path.name for path in (ROOT / 'tools/benchmarks').glob('*.py')}
    listed = {
        line.split('`')[1] for line in text.splitlines() if line.startswith('| `') and '?' in line
    }
    assert listed == scripts
