"""That it can be deployed at all: in any combination of its parameters, and twice in one account."""

import itertools
import json
from graphlib import TopologicalSorter
from typing import Any

import pytest

from tests.template.cloudformation import Tree, deployed, of_type, references, translated

ALTERNATIVES = {
    "DatabaseSecretArn": ["", "arn:aws:secretsmanager:us-east-1:123456789012:secret:own"],
    "FunctionSubnetIds": ["", "subnet-1,subnet-2"],
    "WorkerEgress": ["none", "nat"],
    "DatabaseMultiAz": ["false", "true"],
    "ReserveConcurrency": ["false", "true"],
    "WorkerPolicies": ["", "arn:1"],
    "AlarmEmail": ["", "ada@example.com"],
    "DatabasePooled": ["false", "true"],
}
COMBINATIONS = [dict(zip(ALTERNATIVES, values, strict=True)) for values in itertools.product(*ALTERNATIVES.values())]


def interface_endpoints(resources: Tree) -> set[str]:
    endpoints = of_type(resources, "AWS::EC2::VPCEndpoint").values()
    return {
        endpoint["ServiceName"]["Fn::Sub"].rpartition(".")[2]
        for endpoint in endpoints
        if endpoint["VpcEndpointType"] == "Interface"
    }


def test_no_combination_of_parameters_refers_to_what_it_does_not_create() -> None:
    parameters = translated()["Parameters"]
    for combination in COMBINATIONS:
        resources = deployed(**combination)
        for name, resource in resources.items():
            for other in references(resource):
                assert other in resources or other in parameters or other.startswith("AWS::"), (
                    combination,
                    name,
                    other,
                )


def test_no_resource_waits_for_itself_in_a_circle() -> None:
    for combination in ({}, {"WorkerEgress": "nat", "ReserveConcurrency": "true"}):
        resources = deployed(**combination)
        graph = {
            name: {other for other in references(resource) if other in resources}
            for name, resource in resources.items()
        }
        assert len(list(TopologicalSorter(graph).static_order())) == len(resources)


def names(node: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every property that gives something a name."""
    if isinstance(node, list):
        return [found for value in node for found in names(value, path)]
    if not isinstance(node, dict):
        return []
    here = [
        (f"{path}.{key}", value) for key, value in node.items() if key.endswith("Name") and not key.startswith("Fn::")
    ]
    return here + [found for key, value in node.items() for found in names(value, f"{path}.{key}")]


# Names of what AWS has, or that are unique inside something of ours.
NOT_OURS = (
    "Dimensions.Name",
    "Tags.Name",
    "MetricName",
    "PolicyName",
    "ServiceName",
    "StageName",
    "DBName",
    "DomainName",
    "DBSubnetGroupName",
)


def test_two_stacks_fit_in_one_account_and_region() -> None:
    for logical, resource in deployed(WorkerEgress="nat").items():
        for path, value in names(resource.get("Properties", {})):
            if not path.endswith(NOT_OURS):
                assert isinstance(value, dict), f"{logical}{path} is {value!r}: a fixed name"
                said = json.dumps(value)
                assert "AWS::StackName" in said or "Ref" in said or "Fn::GetAtt" in said, f"{logical}{path}"


def test_in_a_private_network_every_service_that_is_called_has_an_endpoint() -> None:
    assert interface_endpoints(deployed()) == {"lambda", "sqs", "secretsmanager"}


def test_the_migrations_answer_finds_its_way_without_the_internet() -> None:
    gateways = [e for e in of_type(deployed(), "AWS::EC2::VPCEndpoint").values() if e["VpcEndpointType"] == "Gateway"]
    assert [endpoint["RouteTableIds"] for endpoint in gateways] == [[{"Ref": "PrivateRoutes"}]]
    (migration,) = of_type(deployed(), "Custom::Migration").values()
    assert {"Ref": "S3Endpoint"} in migration["After"]


def test_a_nat_takes_the_endpoints_place() -> None:
    resources = deployed(WorkerEgress="nat")
    assert interface_endpoints(resources) == set()
    assert len(of_type(resources, "AWS::EC2::NatGateway")) == 1


def test_without_a_nat_nothing_leads_to_the_internet() -> None:
    resources = deployed()
    for kind in ("AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::Route", "AWS::EC2::EIP"):
        assert not of_type(resources, kind)


@pytest.mark.parametrize("subnets", ["", "subnet-1,subnet-2"])
def test_with_a_database_of_ones_own_no_network_is_built(subnets: str) -> None:
    resources = deployed(DatabaseSecretArn="arn:own", FunctionSubnetIds=subnets, FunctionSecurityGroupIds="sg-1")
    assert not [name for name, resource in resources.items() if resource["Type"].startswith(("AWS::EC2", "AWS::RDS"))]
    configs = {json.dumps(f.get("VpcConfig")) for f in of_type(resources, "AWS::Lambda::Function").values()}
    expected = json.dumps({"SubnetIds": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}) if subnets else "null"
    assert configs == {expected}


def test_the_architecture_is_that_of_functions_and_layers_alike() -> None:
    for architecture in ("arm64", "x86_64"):
        resources = deployed(Architecture=architecture)
        assert {str(f["Architectures"]) for f in of_type(resources, "AWS::Lambda::Function").values()} == {
            str([architecture])
        }
        layers = of_type(resources, "AWS::Lambda::LayerVersion").values()
        assert {str(layer["CompatibleArchitectures"]) for layer in layers} == {str([architecture])}


def test_an_unknown_architecture_is_refused() -> None:
    assert translated()["Parameters"]["Architecture"]["AllowedValues"] == ["arm64", "x86_64"]


def test_parameters_that_belong_to_another_kind_of_database_are_refused_with_a_sentence() -> None:
    for rule in translated()["Rules"].values():
        for assertion in rule["Assertions"]:
            assert len(assertion["AssertDescription"].split()) > 8


def test_every_parameter_is_used_and_explained() -> None:
    template = translated()
    used = set(references({key: template[key] for key in ("Resources", "Conditions", "Outputs")}))
    assert set(template["Parameters"]) <= used
    assert all(len(parameter["Description"]) >= 3 for parameter in template["Parameters"].values())
    grouped = [
        name
        for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        for name in group["Parameters"]
    ]
    assert sorted(grouped) == sorted(template["Parameters"])
