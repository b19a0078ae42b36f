"""Read the config that a training run stores in its checkpoints, without running it."""

import ast
import re
from typing import Any

# Everything before the last part of an absolute path (Linux or Windows) between quotes
FOLDERS = re.compile(r"""(?<=['"])(?:/|[A-Za-z]:\\)[^'"\n]*[/\\](?=[^'"\n/\\]*['"])""")


def read_config_text(text: str) -> dict[str, Any]:
    """Parse the text of a config without executing it.

    mmengine stores ``Config.pretty_text`` in ``meta['cfg']``. mmengine's parser executes the text
    as a program. This function only accepts literals and ``dict(...)``, so it is safe for
    checkpoints from unknown sources.

    Args:
        text: Python source that mmengine has written.

    Returns:
        The values by name. Assignments with other expressions are ignored.

    Raises:
        ValueError: The text is not Python source.
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
    """Reduce each absolute path in the text of a config to its last part.

    This removes the names of users and machines from checkpoints that are published.

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
