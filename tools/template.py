"""Reads template.yaml for the other tools."""

from pathlib import Path
from typing import Any

import yaml

CHECKOUT = Path(__file__).parents[1]


class _Loader(yaml.SafeLoader):
    """Plain YAML, and CloudFormation's functions (`!Sub`, `!Ref`, …)."""


def _argument(loader: yaml.SafeLoader, _function: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return loader.construct_scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    raise TypeError(f"a YAML node of an unknown kind: {node}")


_Loader.add_multi_constructor("!", _argument)


def read() -> dict[str, Any]:
    """The template as plain data, with a function's argument in the place of the function."""
    loader = _Loader((CHECKOUT / "template.yaml").read_text(encoding="utf-8"))
    try:
        tree: dict[str, Any] = loader.get_single_data()
    finally:
        loader.dispose()
    return tree
