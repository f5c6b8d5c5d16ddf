"""That it can be deployed at all: in any combination of its parameters, and twice in one account."""

import itertools
import json
import re
from graphlib import TopologicalSorter
from typing import Any

import pytest

from tests.template.cloudformation import Tree, deployed, of_type, references, refusals, translated

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


OWN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:own"
GROUPS, SUBNETS = "sg-0a1b2c3d", "subnet-0a1b2c3d,subnet-4e5f6a7b"


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"DatabaseSecretArn": OWN, "WorkerEgress": "nat"}, "WorkerEgress=nat builds a NAT"),
        ({"FunctionSubnetIds": SUBNETS, "FunctionSecurityGroupIds": GROUPS}, "belong to a database of your own"),
        ({"FunctionSecurityGroupIds": GROUPS}, "belong to a database of your own"),
        ({"DatabasePooled": "true"}, "DatabasePooled belongs to a database of your own"),
        ({"DatabaseSecretArn": OWN, "FunctionSubnetIds": SUBNETS}, "give both or neither"),
        ({"DatabaseSecretArn": OWN, "FunctionSecurityGroupIds": GROUPS}, "give both or neither"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused_with_a_sentence(parameters: dict[str, str], why: str) -> None:
    (sentence,) = refusals(**parameters)
    assert why in sentence


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"WorkerEgress": "nat"},
        {"DatabaseSecretArn": OWN, "DatabasePooled": "true"},
        {"DatabaseSecretArn": OWN, "FunctionSubnetIds": SUBNETS, "FunctionSecurityGroupIds": GROUPS},
    ],
)
def test_parameters_that_go_together_are_not(parameters: dict[str, str]) -> None:
    assert not refusals(**parameters)


def functions_in(node: Any) -> set[str]:
    """The names of the intrinsic functions used anywhere below."""
    if isinstance(node, list):
        return {name for value in node for name in functions_in(value)}
    if not isinstance(node, dict):
        return set()
    return {name for name in node if name.startswith("Fn::")} | {n for v in node.values() for n in functions_in(v)}


def test_rules_use_only_the_functions_that_cloudformation_has_for_rules() -> None:
    # No linter knows: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-rules.html
    logic = {f"Fn::{name}" for name in ("And", "Equals", "Not", "Or")}
    members = {f"Fn::{name}" for name in ("Contains", "EachMemberEquals", "EachMemberIn")}
    assert functions_in(translated()["Rules"]) <= logic | members


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        ("FunctionSubnetIds", ["", "subnet-0a1b2c3d", SUBNETS], ["subnet-0a1b2c3d, subnet-4e5f6a7b", "sg-0a1b2c3d"]),
        ("FunctionSecurityGroupIds", ["", GROUPS, f"{GROUPS},{GROUPS}"], ["sg-0a1b2c3d,", "default"]),
    ],
)
def test_a_list_of_ids_is_told_from_what_lambda_would_refuse(parameter: str, good: list[str], bad: list[str]) -> None:
    pattern = translated()["Parameters"][parameter]["AllowedPattern"]
    assert all(re.fullmatch(pattern, text) for text in good)
    assert not any(re.fullmatch(pattern, text) for text in bad)


def test_the_database_has_room_to_grow() -> None:
    most = of_type(deployed(), "AWS::RDS::DBInstance")["Database"]["MaxAllocatedStorage"]
    assert translated()["Parameters"]["DatabaseStorageGb"]["MaxValue"] * 1.1 <= most


def test_the_roles_outlive_the_network_interfaces_that_are_deleted_with_them() -> None:
    resources = deployed()
    roles = {function["Role"]["Fn::GetAtt"][0] for function in of_type(resources, "AWS::Lambda::Function").values()}
    assert set(resources["FunctionsSecurityGroup"]["DependsOn"]) == roles


def test_the_endpoints_are_made_while_the_database_is() -> None:
    resources = deployed()
    for name in of_type(resources, "AWS::EC2::VPCEndpoint"):
        waits_for, found = [name], set[str]()
        while waits_for:
            new = {other for other in references(resources[waits_for.pop()]) if other in resources} - found
            found |= new
            waits_for += new
        assert "Database" not in found, name


def test_texts_that_ec2_and_rds_show_have_only_the_characters_that_they_allow() -> None:
    # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateSecurityGroup.html; RDS takes these too
    allowed = re.compile(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{1,255}")
    for combination in ({}, {"WorkerEgress": "nat"}):
        found = descriptions(
            [r for r in deployed(**combination).values() if r["Type"].startswith(("AWS::EC2", "AWS::RDS"))]
        )
        assert len(found) >= 8
        assert not [text for text in found if not allowed.fullmatch(text)]


def descriptions(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for value in node for found in descriptions(value)]
    if not isinstance(node, dict):
        return []
    here = [value for key, value in node.items() if key.endswith("Description") and isinstance(value, str)]
    return here + [found for value in node.values() for found in descriptions(value)]


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
