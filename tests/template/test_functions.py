"""What AWS will do with an event, and with one that is lost."""

import json
from typing import Any

import boto3
import pytest

from dilamme.aws import custom_resource
from dilamme.scheduler.lead import STOP_BEFORE_DEADLINE_SECONDS
from dilamme.settings import read, unknown_variables
from dilamme.usecases.deploy import RESCUES, connections_needed
from dilamme_local.functions import deployed as deployed_locally
from tests.support.checkout import CHECKOUT
from tests.template.cloudformation import deployed, of_type, source

RESOURCES = deployed()
RESERVED = deployed(ReserveConcurrency="true")
FUNCTIONS = of_type(RESOURCES, "AWS::Lambda::Function")
NAMES = ("Api", "Scheduler", "Worker", "Rescue", "Migrate")


def invocation(name: str) -> dict[str, Any]:
    configs = of_type(RESOURCES, "AWS::Lambda::EventInvokeConfig").values()
    (config,) = [config for config in configs if config["FunctionName"] == {"Ref": f"{name}Function"}]
    return dict(config)


def variables(name: str) -> dict[str, Any]:
    return dict(FUNCTIONS[f"{name}Function"]["Environment"]["Variables"])


def test_there_are_the_five_functions() -> None:
    assert FUNCTIONS.keys() == {f"{name}Function" for name in NAMES}
    assert {function["Handler"] for function in FUNCTIONS.values()} == {"handler.handler"}
    assert {function["Runtime"] for function in FUNCTIONS.values()} == {"python3.13"}


@pytest.mark.parametrize("name", ["Scheduler", "Worker"])
def test_a_lost_invocation_is_not_retried_by_lambda_but_goes_to_the_rescue_within_a_minute(name: str) -> None:
    config = invocation(name)
    assert config["MaximumRetryAttempts"] == 0
    assert config["MaximumEventAgeInSeconds"] == read({}).event_age_seconds
    assert config["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": ["RescueFunction", "Arn"]}


def test_a_lost_rescue_goes_to_a_queue_of_its_own() -> None:
    destination = invocation("Rescue")["DestinationConfig"]["OnFailure"]["Destination"]
    assert destination == {"Fn::GetAtt": ["LostRescueQueue", "Arn"]}


def test_a_trigger_comes_every_minute_and_is_never_kept_for_later() -> None:
    (rule,) = of_type(RESOURCES, "AWS::Events::Rule").values()
    (target,) = rule["Targets"]
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 minute)", "ENABLED")
    assert target["RetryPolicy"] == {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
    assert variables("Scheduler")["DILAMME_TRIGGER_SECONDS"] == "60"


def test_the_loop_of_functions_is_allowed() -> None:
    allowed = {name for name, function in FUNCTIONS.items() if function.get("RecursiveLoop") == "Allow"}
    assert allowed == {"SchedulerFunction", "WorkerFunction", "RescueFunction"}


def test_no_concurrency_is_reserved_unless_asked_for() -> None:
    assert not any("ReservedConcurrentExecutions" in function for function in FUNCTIONS.values())


def test_reserved_the_scheduler_has_room_for_a_successor_and_the_worker_for_a_doubled_event() -> None:
    functions = of_type(RESERVED, "AWS::Lambda::Function")
    reserved = {name: function.get("ReservedConcurrentExecutions") for name, function in functions.items()}
    assert reserved == {
        "ApiFunction": "10",
        "SchedulerFunction": 2,
        "WorkerFunction": {"Fn::GetAtt": ["Migration", "WorkerConcurrency"]},
        "RescueFunction": RESCUES,
        "MigrateFunction": None,
    }


def test_the_local_stack_runs_the_functions_as_the_template_deploys_them() -> None:
    for function in deployed_locally(CHECKOUT / "functions", read({})):
        name = function.name.capitalize()
        properties = FUNCTIONS[f"{name}Function"]
        if name != "Migrate":
            assert float(properties["Timeout"]) == function.timeout_seconds, name
        if function.on_failure:
            assert invocation(name)["MaximumRetryAttempts"] == function.retries
            assert invocation(name)["MaximumEventAgeInSeconds"] == function.event_age_seconds


def test_the_loop_ends_before_its_function_does() -> None:
    assert FUNCTIONS["SchedulerFunction"]["Timeout"] >= read({}).leader_seconds + STOP_BEFORE_DEADLINE_SECONDS


def test_the_api_answers_before_the_gateway_gives_up() -> None:
    assert FUNCTIONS["ApiFunction"]["Timeout"] < 30


def test_the_migration_gives_up_before_cloudformation_does() -> None:
    (migration,) = of_type(RESOURCES, "Custom::Migration").values()
    assert FUNCTIONS["MigrateFunction"]["Timeout"] < int(migration["ServiceTimeout"]) <= 3600


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_is_one_that_the_code_reads(name: str) -> None:
    assert not unknown_variables(variables(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_that_are_deployed_are_valid_and_the_defaults_of_the_code(name: str) -> None:
    given = {
        key: value for key, value in variables(name).items() if key.startswith("DILAMME_") and isinstance(value, str)
    }
    placed = {"worker_function", "scheduler_function", "dead_letter_queue_url"}
    assert read(given).model_dump(exclude=placed) == read({}).model_dump(exclude=placed)


@pytest.mark.parametrize("parameters", [{}, {"DatabaseSecretArn": "arn:aws:secretsmanager:us-east-1:1:secret:own"}])
def test_no_secret_is_in_an_environment_variable(parameters: dict[str, str]) -> None:
    for function in of_type(deployed(**parameters), "AWS::Lambda::Function").values():
        variables = function["Environment"]["Variables"]
        assert variables["DATABASE_URL"] == ""
        assert "{{resolve:" not in json.dumps(variables)
        assert not any("password" in json.dumps(value).lower() for value in variables.values())


def test_only_the_migration_gets_the_masters_secret() -> None:
    having = {name for name in NAMES if "DILAMME_DATABASE_SECRET" in variables(name)}
    assert having == {"Migrate"}


def test_sam_local_can_set_every_variable_of_the_example() -> None:
    example = json.loads((CHECKOUT / "events" / "env.json").read_text())["Parameters"]
    for name in NAMES:
        assert example.keys() <= variables(name).keys()


@pytest.mark.parametrize("service", ["lambda", "sqs"])
def test_clients_go_where_they_would_without_us(monkeypatch: pytest.MonkeyPatch, service: Any) -> None:
    variable = f"AWS_ENDPOINT_URL_{service.upper()}"
    monkeypatch.setenv(variable, variables("Worker")[variable])
    client = boto3.client(service, region_name="eu-west-1")
    assert client.meta.endpoint_url == f"https://{service}.eu-west-1.amazonaws.com"


def test_the_default_slots_fit_into_the_default_database() -> None:
    parameters = source()["Parameters"]
    slots, concurrency = parameters["WorkerSlots"]["Default"], parameters["ApiConcurrency"]["Default"]
    assert parameters["DatabaseClass"]["Default"] == "db.t4g.micro"
    # max_connections of RDS for PostgreSQL is DBInstanceClassMemory / 9,531,392 bytes; of 1 GiB the system keeps up to a
    # quarter. 3 are the superuser's, and RDS keeps 2.
    assert connections_needed(slots, concurrency) <= 0.75 * 2**30 // 9_531_392 - 5


def test_a_parameter_that_could_fail_the_functions_makes_the_migration_look_again() -> None:
    (migration,) = of_type(RESOURCES, "Custom::Migration").values()
    assert migration["Database"] == {"Fn::GetAtt": ["Database", "DbiResourceId"]}, "another database has no schema"
    looked_at = ("DatabaseClass", "WorkerSlots", "ApiConcurrency", "WorkerTimeoutSeconds", "JobTimeoutSeconds")
    assert {name: migration[name] for name in looked_at} == {
        name: str(source()["Parameters"][name]["Default"]) for name in looked_at
    }
    own = "arn:aws:secretsmanager:us-east-1:1:secret:own"
    (migration,) = of_type(deployed(DatabaseSecretArn=own), "Custom::Migration").values()
    assert migration["Database"] == own


def test_the_migration_has_time_for_all_its_tries() -> None:
    a_try = 5 + 2 * (2 + 3)  # seconds: the connection, and Secrets Manager twice, to connect and to be silent
    longest = custom_resource.WORK_TRIES * (custom_resource.WORK_PAUSE_SECONDS + 2 * a_try)
    assert longest < FUNCTIONS["MigrateFunction"]["Timeout"]


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
def test_lambda_lets_through_what_our_logger_does_and_never_drops_a_metric(level: str) -> None:
    # Where Lambda is told nothing it keeps INFO, whatever the logger says; and a line without a level, as of a metric,
    # is INFO to it: https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
    assert source()["Parameters"]["LogLevel"]["AllowedValues"] == ["DEBUG", "INFO"]
    for function in of_type(deployed(LogLevel=level), "AWS::Lambda::Function").values():
        assert function["LoggingConfig"]["ApplicationLogLevel"] == level
        assert function["Environment"]["Variables"]["POWERTOOLS_LOG_LEVEL"] == level


@pytest.mark.parametrize("kind", ["create", "update", "delete"])
def test_the_examples_of_what_cloudformation_sends_have_the_templates_properties(kind: str) -> None:
    (migration,) = of_type(RESOURCES, "Custom::Migration").values()
    event = json.loads((CHECKOUT / "events" / f"migrate-{kind}.json").read_text())
    assert event["ResourceProperties"].keys() == migration.keys()
    assert event.get("OldResourceProperties", migration).keys() == migration.keys()
    assert len(event["ResourceProperties"]["After"]) == len(migration["After"])


@pytest.mark.parametrize("name", ["Api", "Scheduler", "Worker", "Rescue"])
def test_no_function_runs_before_the_migration(name: str) -> None:
    assert "Migration" in RESOURCES[f"{name}Function"]["DependsOn"]


def test_the_migration_runs_again_when_the_shared_layer_changes() -> None:
    (migration,) = of_type(RESOURCES, "Custom::Migration").values()
    (layer,) = [name for name in of_type(RESOURCES, "AWS::Lambda::LayerVersion") if name.startswith("SharedLayer")]
    assert migration["Layer"] == {"Ref": layer}
    assert layer != "SharedLayer", "a new version has a new logical id"
