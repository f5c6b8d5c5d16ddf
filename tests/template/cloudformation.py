"""The template as CloudFormation gets it: translated by SAM's own translator, with conditions and parameters evaluated."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import boto3
import yaml
from samtranslator.parser.parser import Parser  # type: ignore[import-untyped]
from samtranslator.translator.translator import Translator  # type: ignore[import-untyped]

from tests.support.checkout import CHECKOUT

Tree = dict[str, Any]
ABSENT = object()


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short tags."""


def _short_tag(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Tree:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        return {name: value.split(".", 1) if suffix == "GetAtt" else value}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    assert isinstance(node, yaml.MappingNode)
    return {name: loader.construct_mapping(node, deep=True)}


_Loader.add_multi_constructor("!", _short_tag)


def source() -> Tree:
    """template.yaml as it is written."""
    tree: Tree = yaml.load((CHECKOUT / "template.yaml").read_text(encoding="utf-8"), _Loader)
    return tree


@cache
def translated() -> Tree:
    """What SAM makes of it. Read only."""
    tree = source()
    for resource in tree["Resources"].values():
        for place in ("CodeUri", "ContentUri"):  # what `sam package` would have uploaded
            if place in resource.get("Properties", {}):
                resource["Properties"][place] = "s3://bucket/code.zip"
    translator = Translator({}, Parser(), boto_session=boto3.Session(region_name="us-east-1"))
    result: Tree = translator.translate(tree, parameter_values={})
    return result


def deployed(**parameters: str) -> Tree:
    """The resources of a deployment with these parameters: absent ones left out, conditions and parameters resolved."""
    evaluation = _evaluation(parameters)
    return {
        name: evaluation.resolve({key: value for key, value in resource.items() if key != "Condition"})
        for name, resource in translated()["Resources"].items()
        if evaluation.holds(resource.get("Condition"))
    }


def _evaluation(parameters: Mapping[str, str]) -> "_Evaluation":
    template = translated()
    given = {name: parameters.get(name, str(spec["Default"])) for name, spec in template["Parameters"].items()}
    return _Evaluation(template, given)


def refusals(**parameters: str) -> list[str]:
    """What CloudFormation's Rules say against a deployment with these parameters."""
    evaluation = _evaluation(parameters)
    return [
        assertion["AssertDescription"]
        for rule in translated()["Rules"].values()
        if evaluation.resolve(rule["RuleCondition"])
        for assertion in rule["Assertions"]
        if not evaluation.resolve(assertion["Assert"])
    ]


class _Evaluation:
    def __init__(self, template: Tree, parameters: Mapping[str, str]) -> None:
        self.conditions = template["Conditions"]
        self.parameters = parameters
        self.lists = {name for name, spec in template["Parameters"].items() if spec["Type"] == "CommaDelimitedList"}

    def holds(self, condition: str | None) -> bool:
        return condition is None or bool(self.resolve(self.conditions[condition]))

    def resolve(self, node: Any) -> Any:
        if isinstance(node, list):
            return [value for value in map(self.resolve, node) if value is not ABSENT]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((name, argument),) = node.items()
            if (known := self._function(name, argument)) is not None:
                return known
        resolved = {key: self.resolve(value) for key, value in node.items()}
        return {key: value for key, value in resolved.items() if value is not ABSENT}

    def _function(self, name: str, argument: Any) -> Any:
        if name == "Ref":
            return self._ref(argument)
        if name == "Condition":
            return self.holds(argument)
        if name == "Fn::If":
            return self.resolve(argument[1] if self.holds(argument[0]) else argument[2])
        if name == "Fn::Equals":
            return str(self.resolve(argument[0])) == str(self.resolve(argument[1]))
        if name == "Fn::Not":
            return not self.resolve(argument[0])
        if name in ("Fn::And", "Fn::Or"):
            return (all if name == "Fn::And" else any)(self.resolve(argument))
        if name == "Fn::Split":
            return self._split(*argument)
        return self._join(*argument) if name == "Fn::Join" else None

    def _split(self, separator: str, text: Any) -> list[str] | None:
        known = self.resolve(text)
        return known.split(separator) if isinstance(known, str) else None

    def _join(self, separator: str, parts: Any) -> str | None:
        known = self.resolve(parts)
        return separator.join(known) if all(isinstance(part, str) for part in known) else None

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return ABSENT
        if name in self.lists:
            return [value for value in self.parameters[name].split(",") if value]
        return self.parameters.get(name)


def references(node: Any) -> Iterator[str]:
    """The logical ids that a resource refers to, by whatever means."""
    if isinstance(node, list):
        for value in node:
            yield from references(value)
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _named_by(key, value)
            yield from references(value)


def _named_by(key: str, value: Any) -> Iterator[str]:
    if key == "Ref":
        yield value
    elif key == "Fn::GetAtt":
        yield value[0] if isinstance(value, list) else value.partition(".")[0]
    elif key == "Fn::Sub":
        text, own = (value[0], value[1]) if isinstance(value, list) else (value, {})
        yield from (name for name in re.findall(r"\$\{([\w:]+)", text) if name not in own)
    elif key == "DependsOn":
        yield from [value] if isinstance(value, str) else value


def of_type(resources: Tree, kind: str) -> Tree:
    """The properties of the resources of one type, by logical id."""
    return {name: resource.get("Properties", {}) for name, resource in resources.items() if resource["Type"] == kind}
