"""Who may do what, what is encrypted, and what stays private."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.template.cloudformation import Tree, deployed, of_type

OWN = {"DatabaseSecretArn": "arn:aws:secretsmanager:us-east-1:123456789012:secret:own"}
DEPLOYMENTS = {"default": deployed(), "own database": deployed(**OWN), "nat": deployed(WorkerEgress="nat")}
RESOURCES = DEPLOYMENTS["default"]
every_deployment = pytest.mark.parametrize("resources", DEPLOYMENTS.values(), ids=DEPLOYMENTS.keys())

# Where AWS allows no other: a function's network interface has no name before it is made.
STAR_ALLOWED = {"VpcAccess"}


def statements(resources: Tree) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, properties in of_type(resources, "AWS::IAM::Role").items():
        for policy in properties.get("Policies", []):
            yield from ((name, statement) for statement in policy["PolicyDocument"]["Statement"])
    for name, properties in of_type(resources, "AWS::IAM::ManagedPolicy").items():
        yield from ((name, statement) for statement in properties["PolicyDocument"]["Statement"])


def rights(role: str, action: str, resources: Tree = RESOURCES) -> list[Any]:
    found: list[Any] = []
    for name, statement in statements(resources):
        if name == role and statement["Action"] == action:
            found += statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
    return found


def function_names(arns: list[Any]) -> set[str]:
    return {arn["Fn::Sub"].rpartition("${AWS::StackName}-")[2] for arn in arns}


@every_deployment
def test_no_right_is_on_everything(resources: Tree) -> None:
    for name, statement in statements(resources):
        if statement["Effect"] == "Allow" and name not in STAR_ALLOWED:
            assert "*" not in json.dumps(statement["Resource"]), name
        assert "*" not in json.dumps(statement["Action"]), name


def test_the_code_in_a_function_may_not_make_network_interfaces() -> None:
    allowed, denied = of_type(RESOURCES, "AWS::IAM::ManagedPolicy")["VpcAccess"]["PolicyDocument"]["Statement"]
    assert (allowed["Effect"], denied["Effect"]) == ("Allow", "Deny")
    assert allowed["Action"] == denied["Action"]
    assert "lambda:SourceFunctionArn" in denied["Condition"]["ArnLike"]


@pytest.mark.parametrize(
    ("role", "invoked"),
    [
        ("ApiRole", {"worker", "scheduler"}),
        ("SchedulerRole", {"worker", "rescue"}),
        ("WorkerRole", {"worker", "scheduler", "rescue"}),
        ("RescueRole", {"worker", "scheduler"}),
        ("MigrateRole", set()),
    ],
)
def test_a_function_may_invoke_exactly_those_that_it_wakes_or_reports_to(role: str, invoked: set[str]) -> None:
    assert function_names(rights(role, "lambda:InvokeFunction")) == invoked


def test_only_the_scheduler_sends_dead_letters_and_only_the_rescue_its_own_loss() -> None:
    senders = {role: rights(role, "sqs:SendMessage") for role in of_type(RESOURCES, "AWS::IAM::Role")}
    assert {role: queue for role, queue in senders.items() if queue} == {
        "SchedulerRole": [{"Fn::GetAtt": ["DeadLetterQueue", "Arn"]}],
        "RescueRole": [{"Fn::GetAtt": ["LostRescueQueue", "Arn"]}],
    }


@pytest.mark.parametrize("name", ["api", "scheduler", "worker", "rescue"])
def test_a_function_logs_in_to_the_database_as_its_own_role_only(name: str) -> None:
    (login,) = rights(f"{name.capitalize()}Role", "rds-db:connect")
    assert login["Fn::Sub"].endswith(f"dbuser:${{Database.DbiResourceId}}/dilamme_{name}")
    function = RESOURCES[f"{name.capitalize()}Function"]["Properties"]
    assert function["Environment"]["Variables"]["DILAMME_DATABASE_USER"] == f"dilamme_{name}"


def test_a_database_of_ones_own_is_entered_by_its_secret_and_no_other() -> None:
    for name in ("Api", "Scheduler", "Worker", "Rescue", "Migrate"):
        assert rights(f"{name}Role", "secretsmanager:GetSecretValue", DEPLOYMENTS["own database"]) == [
            OWN["DatabaseSecretArn"]
        ]
        assert not rights(f"{name}Role", "rds-db:connect", DEPLOYMENTS["own database"])


@every_deployment
def test_every_function_has_a_role_and_a_log_group_of_its_own(resources: Tree) -> None:
    functions = of_type(resources, "AWS::Lambda::Function")
    roles = [function["Role"]["Fn::GetAtt"][0] for function in functions.values()]
    groups = [function["LoggingConfig"]["LogGroup"]["Ref"] for function in functions.values()]
    assert len(set(roles)) == len(set(groups)) == len(functions)
    for role, group in zip(roles, groups, strict=True):
        (writes,) = [
            s["Resource"] for name, s in statements(resources) if name == role and "logs:PutLogEvents" in s["Action"]
        ]
        assert writes == {"Fn::GetAtt": [group, "Arn"]}
    assert {function["LoggingConfig"]["LogFormat"] for function in functions.values()} == {"JSON"}


@every_deployment
def test_every_log_group_forgets(resources: Tree) -> None:
    groups = of_type(resources, "AWS::Logs::LogGroup")
    assert len(groups) == 6
    assert {group["RetentionInDays"] for group in groups.values()} == {"30"}


def test_the_policies_that_handlers_need_are_added_to_the_workers_role_alone() -> None:
    policy = "arn:aws:iam::123456789012:policy/mail"
    roles = of_type(deployed(WorkerPolicies=policy, **OWN), "AWS::IAM::Role")
    assert {name: role.get("ManagedPolicyArns") for name, role in roles.items() if role.get("ManagedPolicyArns")} == {
        "WorkerRole": [policy]
    }


def test_with_a_vpc_they_stand_beside_its_own() -> None:
    role = of_type(deployed(WorkerPolicies="arn:1,arn:2"), "AWS::IAM::Role")["WorkerRole"]
    joined = role["ManagedPolicyArns"]["Fn::Split"][1]["Fn::Join"][1]
    assert joined == [{"Ref": "VpcAccess"}, "arn:1,arn:2"]


@every_deployment
def test_queues_are_encrypted_keep_for_a_fortnight_and_speak_tls_only(resources: Tree) -> None:
    queues = of_type(resources, "AWS::SQS::Queue")
    assert queues.keys() == {"DeadLetterQueue", "LostRescueQueue"}
    for queue in queues.values():
        assert queue == {"MessageRetentionPeriod": 14 * 86_400, "SqsManagedSseEnabled": True}
    (policy,) = of_type(resources, "AWS::SQS::QueuePolicy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    assert policy["Queues"] == [{"Ref": name} for name in queues]


def test_the_database_is_private_encrypted_and_kept_when_the_stack_goes() -> None:
    database = RESOURCES["Database"]
    assert (database["DeletionPolicy"], database["UpdateReplacePolicy"]) == ("Snapshot", "Snapshot")
    properties = database["Properties"]
    assert properties["StorageEncrypted"] is properties["EnableIAMDatabaseAuthentication"] is True
    assert properties["ManageMasterUserPassword"] is True
    assert properties["PubliclyAccessible"] is False
    assert properties["BackupRetentionPeriod"] == 7
    assert "MasterUserPassword" not in properties


def test_only_the_functions_reach_the_database() -> None:
    (ingress,) = of_type(RESOURCES, "AWS::EC2::SecurityGroupIngress").values()
    assert ingress["GroupId"] == {"Ref": "DatabaseSecurityGroup"}
    assert ingress["SourceSecurityGroupId"] == {"Ref": "FunctionsSecurityGroup"}
    assert (ingress["FromPort"], ingress["ToPort"]) == (5432, 5432)


def test_callers_of_the_api_sign_their_requests() -> None:
    (api,) = of_type(RESOURCES, "AWS::ApiGatewayV2::Api").values()
    assert api["FailOnWarnings"] is True
    for methods in api["Body"]["paths"].values():
        for method in methods.values():
            assert method["security"] == [{"AWS_IAM": []}]
    assert "CorsConfiguration" not in api


def test_the_api_is_throttled_to_what_the_connections_allow_and_logs_who_called() -> None:
    (stage,) = of_type(RESOURCES, "AWS::ApiGatewayV2::Stage").values()
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] == "10"
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] == "100"
    fields = json.loads(stage["AccessLogSettings"]["Format"])
    assert fields["caller"] == "$context.identity.userArn"
