"""The dashboard and the alarms: valid, on the grid, and fed by metrics that exist."""

import contextlib
import importlib.util
import io
import json
import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from dilamme import session
from dilamme.aws import log
from dilamme.aws.telemetry import METRICS, NAMESPACE
from dilamme.domain.job import Claim
from dilamme.domain.outcome import Bury, Complete, RetryLater, Return
from dilamme.worker.metrics import observe_settled
from tests.support.checkout import CHECKOUT
from tests.template.cloudformation import Tree, deployed, of_type, translated

STACK = "some-stack"
COLUMNS = 24
Series = tuple[str, str, frozenset[tuple[str, str]]]

# Which dimension names an existing resource of which type, in AWS's own namespaces that we use.
AWS_METRICS = {
    "AWS/Lambda": (
        "FunctionName",
        {"Errors", "Throttles", "AsyncEventsDropped", "AsyncEventAge", "DestinationDeliveryFailures"},
    ),
    "AWS/SQS": ("QueueName", {"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"}),
    "AWS/ApiGateway": ("ApiId", {"Count", "4xx", "5xx", "Latency"}),
    "AWS/RDS": ("DBInstanceIdentifier", {"CPUUtilization", "FreeStorageSpace", "ReadIOPS", "WriteIOPS"}),
}
# What moto's CloudFormation cannot create, and which we replace by what it would be known as.
STAND_INS = {"Api": "a1b2c3d4e5", "Database": "some-database"}


def _reduced(parameters: dict[str, str]) -> Tree:
    """The template with what moto can create of what the dashboard names."""
    template: Tree = json.loads(json.dumps(translated()))
    text = json.dumps(template["Resources"]["Dashboard"])
    for alarm in of_type(template["Resources"], "AWS::CloudWatch::Alarm"):
        text = text.replace(f"${{{alarm}.Arn}}", f"arn:aws:cloudwatch:us-east-1:123456789012:alarm:{alarm}")
    for name, value in STAND_INS.items():
        text = text.replace(f"${{{name}}}", value).replace(f'{{"Ref": "{name}"}}', f'"{value}"')
    for name in of_type(template["Resources"], "AWS::Lambda::Function"):
        text = text.replace(f"${{{name}}}", f"{STACK}-{name.removesuffix('Function').lower()}")
    kept = {"AWS::SQS::Queue", "AWS::Logs::LogGroup"}
    resources = {name: resource for name, resource in template["Resources"].items() if resource["Type"] in kept}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Parameters": template["Parameters"],
        "Conditions": template["Conditions"],
        "Resources": {**resources, "Dashboard": json.loads(text)},
    }


def _rendered(**parameters: str) -> tuple[Tree, set[str]]:
    """The dashboard as CloudWatch gets it, and the names of the queues and log groups that then exist."""
    with mock_aws():
        cloudformation = boto3.client("cloudformation", region_name="us-east-1")
        given = [{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()]
        cloudformation.create_stack(StackName=STACK, TemplateBody=json.dumps(_reduced(parameters)), Parameters=given)
        body = boto3.client("cloudwatch", region_name="us-east-1").get_dashboard(DashboardName=STACK)["DashboardBody"]
        queues = boto3.client("sqs", region_name="us-east-1").list_queues()["QueueUrls"]
        groups = boto3.client("logs", region_name="us-east-1").describe_log_groups()["logGroups"]
    return json.loads(body), {url.rpartition("/")[2] for url in queues} | {group["logGroupName"] for group in groups}


@pytest.fixture(scope="module")
def rendered() -> tuple[Tree, set[str]]:
    return _rendered()


@pytest.fixture(scope="module")
def dashboard(rendered: tuple[Tree, set[str]]) -> Tree:
    return rendered[0]


def widgets(dashboard: Tree, kind: str) -> list[Tree]:
    return [widget for widget in dashboard["widgets"] if widget["type"] == kind]


def series(dashboard: Tree) -> Iterator[Series]:
    for widget in widgets(dashboard, "metric"):
        for metric in widget["properties"]["metrics"]:
            namespace, name, *dimensions = [part for part in metric if isinstance(part, str)]
            yield namespace, name, frozenset(zip(dimensions[::2], dimensions[1::2], strict=True))


def alarm_series() -> Iterator[Series]:
    for alarm in of_type(deployed(), "AWS::CloudWatch::Alarm").values():
        metrics = (
            [m["MetricStat"]["Metric"] for m in alarm["Metrics"] if "MetricStat" in m]
            if "Metrics" in alarm
            else [alarm]
        )
        for metric in metrics:
            dimensions = {(d["Name"], _value(d["Value"])) for d in metric["Dimensions"]}
            yield metric["Namespace"], metric["MetricName"], frozenset(dimensions)


def _value(value: Any) -> str:
    if value == {"Ref": "AWS::StackName"}:
        return STACK
    if isinstance(value, dict):
        name = value.get("Ref") or value["Fn::GetAtt"][0]
        assert name in deployed(), name
        return STAND_INS.get(name) or f"{STACK}-{name.removesuffix('Function').lower()}"
    return str(value)


def test_every_widget_lies_on_the_grid_and_over_no_other(dashboard: Tree) -> None:
    taken: set[tuple[int, int]] = set()
    for widget in dashboard["widgets"]:
        cells = {
            (x, y)
            for x in range(widget["x"], widget["x"] + widget["width"])
            for y in range(widget["y"], widget["y"] + widget["height"])
        }
        assert min(x for x, _ in cells) >= 0
        assert max(x for x, _ in cells) < COLUMNS
        assert not cells & taken, widget
        taken |= cells
    rows = max(y for _, y in taken) + 1
    assert len(taken) == COLUMNS * rows, "no holes"


def test_every_widget_is_of_a_kind_that_cloudwatch_draws(dashboard: Tree) -> None:
    for widget in dashboard["widgets"]:
        properties = widget["properties"]
        assert widget["type"] in ("text", "metric", "log", "alarm")
        if widget["type"] in ("metric", "log"):
            assert properties["region"] == "us-east-1"
            assert properties["title"]
        if widget["type"] == "metric":
            assert re.fullmatch(r"Sum|Average|Minimum|Maximum|SampleCount|p\d+", properties["stat"])
            assert properties["period"] % 60 == 0
            assert all(isinstance(metric[-1], dict) and metric[-1]["label"] for metric in properties["metrics"])


def test_it_answers_three_questions_from_top_to_bottom(dashboard: Tree) -> None:
    headings = [
        widget["properties"]["markdown"] for widget in sorted(widgets(dashboard, "text"), key=lambda w: int(w["y"]))
    ]
    assert headings == ["## Is anything dead?", "## Is work flowing?", "## Is the machine well?"]


def test_nothing_is_left_to_be_filled_in(dashboard: Tree) -> None:
    assert "${" not in json.dumps(dashboard)


def test_the_queries_read_log_groups_that_exist(rendered: tuple[Tree, set[str]]) -> None:
    dashboard, existing = rendered
    read = {
        group
        for widget in widgets(dashboard, "log")
        for group in re.findall(r"SOURCE '([^']+)'", widget["properties"]["query"])
    }
    assert read
    assert read <= existing


def test_it_shows_every_alarm_that_any_deployment_has(dashboard: Tree) -> None:
    (shown,) = [widget["properties"]["alarms"] for widget in widgets(dashboard, "alarm")]
    own = deployed(DatabaseSecretArn="arn:own")
    assert {arn.rpartition(":")[2] for arn in shown} == set(of_type(own, "AWS::CloudWatch::Alarm"))


def test_with_a_database_of_ones_own_there_is_no_widget_of_one_that_is_not_there() -> None:
    dashboard, _ = _rendered(DatabaseSecretArn="arn:own")
    assert not [name for namespace, name, _ in series(dashboard) if namespace == "AWS/RDS"]


def test_awss_metrics_are_of_resources_that_exist(rendered: tuple[Tree, set[str]]) -> None:
    dashboard, existing = rendered
    functions = {f"{STACK}-{name}" for name in ("api", "scheduler", "worker", "rescue")}
    known = existing | functions | set(STAND_INS.values())
    for namespace, name, dimensions in series(dashboard):
        if namespace != NAMESPACE:
            dimension, metrics = AWS_METRICS[namespace]
            ((key, value),) = dimensions
            assert (key, name in metrics) == (dimension, True), name
            assert value in known, value


def test_every_alarm_is_sent_when_it_begins_and_when_it_ends() -> None:
    topic = [{"Ref": "AlarmTopic"}]
    for alarm in of_type(deployed(), "AWS::CloudWatch::Alarm").values():
        assert (alarm["AlarmActions"], alarm["OKActions"]) == (topic, topic)


def test_a_lost_rescue_is_an_alarm() -> None:
    alarm = deployed()["LostRescueAlarm"]["Properties"]
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": {"Fn::GetAtt": ["LostRescueQueue", "QueueName"]}}]
    assert (alarm["MetricName"], alarm["Threshold"]) == ("ApproximateNumberOfMessagesVisible", 0)


def test_silence_is_no_alarm_before_there_is_a_trigger() -> None:
    alarm = deployed()["SchedulerSilentAlarm"]
    assert alarm["Properties"]["TreatMissingData"] == "breaching"
    assert alarm["DependsOn"] == "Trigger"


def test_an_alarm_computes_with_what_it_names_and_compares_series_by_if() -> None:
    # MAX and MIN want series alone: a number among them is not documented to work.
    for alarm in of_type(deployed(), "AWS::CloudWatch::Alarm").values():
        expressions = [metric["Expression"] for metric in alarm.get("Metrics", []) if "Expression" in metric]
        ids = {metric["Id"] for metric in alarm.get("Metrics", [])}
        for expression in expressions:
            assert set(re.findall(r"[A-Za-z_]+", expression)) <= ids | {"IF", "FILL"}


def test_awss_metrics_in_alarms_have_their_dimension() -> None:
    for namespace, name, dimensions in alarm_series():
        if namespace != NAMESPACE:
            dimension, metrics = AWS_METRICS[namespace]
            assert ([key for key, _ in dimensions], name in metrics) == ([dimension], True), name


def test_every_metric_of_ours_on_it_or_in_an_alarm_is_one_that_the_code_emits(
    dashboard: Tree, emitted: set[Series]
) -> None:
    shown = {entry for entry in [*series(dashboard), *alarm_series()] if entry[0] == NAMESPACE}
    assert shown
    assert shown <= emitted


def test_every_metric_that_is_paid_for_is_shown(dashboard: Tree, emitted: set[Series]) -> None:
    assert emitted <= set(series(dashboard))


def test_the_catalogue_is_what_is_emitted(emitted: set[Series]) -> None:
    catalogue = {(service, name) for service, names in METRICS.items() for name in names}
    assert {(dict(dimensions)["service"], name) for _, name, dimensions in emitted} == catalogue


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch, database_url: str) -> set[Series]:
    """Every metric that the functions' own code wrote out, with its namespace and dimensions."""
    monkeypatch.setenv("DILAMME_STACK", STACK)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("DILAMME_IDLE_EXIT_SECONDS", "0.1")
    monkeypatch.setattr(session, "_connection", None)
    monkeypatch.setattr(session, "_schema_seen_at", 0.0)
    written = io.StringIO()
    monkeypatch.setattr(log, "STANDARD_OUTPUT", written)
    _lead(_load("scheduler"))
    _settle(_load("worker"))
    with closing(session.connection()):
        pass
    return {entry for line in written.getvalue().splitlines() for entry in _emf(line)}


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"emitting_{name}", CHECKOUT / "functions" / name / "handler.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _lead(scheduler: ModuleType) -> None:
    context = SimpleNamespace(
        aws_request_id=str(uuid.uuid4()),
        function_name="scheduler",
        memory_limit_in_mb=256,
        invoked_function_arn="arn",
        get_remaining_time_in_millis=lambda: 11_500,
    )
    scheduler.handler({}, context)


def _settle(worker: ModuleType) -> None:
    ready = datetime(2026, 1, 1, tzinfo=UTC)
    outcomes = [Complete(None), RetryLater("error", "", 1.0), Bury("error", ""), Return(30, unknown=True)]  # type: ignore[arg-type]
    for priority, outcome in zip((1, 2, 3, 3), outcomes, strict=True):
        claim = SimpleNamespace(priority=priority, ready_at=ready, started_at=ready + timedelta(seconds=2))
        settled: list[tuple[Claim, Any]] = [(claim, outcome)]  # type: ignore[list-item]
        observe_settled(worker.metrics, settled)


def _emf(line: str) -> Iterator[Series]:
    with contextlib.suppress(json.JSONDecodeError):
        blob = json.loads(line)
        for directive in blob.get("_aws", {}).get("CloudWatchMetrics", []):
            for dimensions in directive["Dimensions"]:
                values = frozenset((name, blob[name]) for name in dimensions)
                yield from ((directive["Namespace"], metric["Name"], values) for metric in directive["Metrics"])
