"""Read the config that a training run stores in its checkpoints, without running it."""

import ast
import re
from typing import Any

# An absolute path of Linux or Windows between quotes: everything before its last part
FOLDERS = re.compile(r"""(?<=['"])(?:/|[A-Za-z]:\\)[^'"\n]*[/\\](?=[^'"\n/\\]*['"])""")


def read_config_text(text: str) -> dict[str, Any]:
    """Evaluate a dumped config, which consists of assignments of literals.

    mmengine stores ``Config.pretty_text`` in ``meta['cfg']``. Its own parser runs the text as a
    program; this one accepts literals and ``dict(...)`` only, so that the checkpoint of
    somebody else can be read safely.

    Args:
        text: Python source as mmengine dumps it.

    Returns:
        The values by name. Assignments that are not made of literals are left out.

    Raises:
        ValueError: the text is no Python source.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f'The stored config is not Python source: {error}.') from error
    values = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            try:
                value = ast.literal_eval(_DictCalls().visit(statement.value))
            except (ValueError, TypeError, RecursionError, MemoryError):
                continue
            values[statement.targets[0].id] = value
    return values


def without_folders(text: str) -> str:
    """Keep the last part of each absolute path in a dumped config, which others may read.

    >>> without_folders("data_root = '/home/me/videos/train.txt'")
    "data_root = 'train.txt'"
    """
    return FOLDERS.sub('', text)


class _DictCalls(ast.NodeTransformer):
    """Replace ``dict(a=1)`` by ``{'a': 1}``."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == 'dict'):
            return node
        if len(node.args) == 1 and not node.keywords:  # dict({'a-b': 1})
            return node.args[0]
        if node.args:
            return node
        keys: list[ast.expr | None] = [
            ast.Constant(k.arg) if k.arg else None for k in node.keywords
        ]
        return ast.copy_location(ast.Dict(keys, [k.value for k in node.keywords]), node)
