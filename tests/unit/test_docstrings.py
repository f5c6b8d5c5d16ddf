"""Whoever calls something finds out what it does where it stands."""

import ast

import pytest

from tests.unit.sources import Module, modules

PACKAGE_MODULES = [module for module in modules() if module.name.startswith("dilamme")]


def names(module: Module) -> str:
    """How pytest shows a module."""
    return module.name


@pytest.mark.parametrize("module", PACKAGE_MODULES, ids=names)
def test_a_module_and_what_it_offers_say_what_they_are_for(module: Module) -> None:
    assert ast.get_docstring(module.tree)
    public = [
        node
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [node.name for node in public if not ast.get_docstring(node)] == []
