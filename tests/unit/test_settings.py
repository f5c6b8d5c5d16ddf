"""Settings: read from the environment, refused with a sentence, documented field by field."""

import re
from pathlib import Path
from typing import Any

import pydantic
import pytest

from dilamme.domain.errors import ConfigurationError
from dilamme.domain.retry import SECONDS_MAX
from dilamme.settings import PLACES, PREFIX, Settings, load, read, unknown_variables

ROOT = Path(__file__).parent.parent.parent

FLOATS = [name for name, field in Settings.model_fields.items() if field.annotation is float]
INTEGERS = [name for name, field in Settings.model_fields.items() if field.annotation is int]


def refusal(**values: str) -> str:
    """What is said of these values."""
    with pytest.raises(ConfigurationError) as refused:
        read({PREFIX + name.upper(): value for name, value in values.items()})
    return str(refused.value)


def test_an_empty_environment_gives_the_documented_defaults() -> None:
    settings = read({})
    assert settings.model_dump() == Settings().model_dump()
    assert (settings.ageing_seconds, settings.worker_slots, settings.worker_concurrency) == (30, 10, 4)
    assert (settings.max_attempts, settings.job_timeout_seconds, settings.worker_timeout_seconds) == (3, 60, 300)
    assert (settings.backoff_base_seconds, settings.backoff_cap_seconds) == (10, 3600)
    assert (settings.completed_retention_seconds, settings.dead_retention_seconds) == (7 * 86_400, 30 * 86_400)
    assert settings.demo_jobs is False


def test_a_variable_is_the_prefix_and_the_name_in_capitals() -> None:
    settings = read({"DILAMME_AGEING_SECONDS": "0.5", "DILAMME_WORKER_SLOTS": "4", "DILAMME_DEMO_JOBS": "1"})
    assert (settings.ageing_seconds, settings.worker_slots, settings.demo_jobs) == (0.5, 4, True)


def test_an_empty_variable_is_one_that_is_not_set() -> None:
    assert read({"DILAMME_WORKER_SLOTS": ""}).worker_slots == 10


def test_variables_of_others_are_none_of_our_business() -> None:
    assert read({"DILAMME_STACK": "test", "WORKER_SLOTS": "0", "dilamme_worker_slots": "0"}) == Settings()


def test_a_name_that_nothing_reads_is_told_with_the_one_that_was_meant(caplog: pytest.LogCaptureFixture) -> None:
    read({"DILAMME_AGEING_SECOND": "5"})
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert told.message == (
        "DILAMME_AGEING_SECOND is no setting of Dilamme, and nothing reads it: did you mean DILAMME_AGEING_SECONDS?"
    )


def test_a_name_that_resembles_none_is_told_without_a_guess() -> None:
    assert unknown_variables({"DILAMME_XYZ": "1"}) == ["DILAMME_XYZ is no setting of Dilamme, and nothing reads it"]


def test_all_of_them_are_told() -> None:
    told = unknown_variables({"DILAMME_WORKER_SLOT": "1", "DILAMME_DATABASE_HOTS": "db"})
    assert [sentence.rpartition(" ")[2] for sentence in told] == ["DILAMME_DATABASE_HOST?", "DILAMME_WORKER_SLOTS?"]


def test_what_is_empty_is_not_set_and_not_told() -> None:
    assert not unknown_variables({"DILAMME_AGEING_SECOND": ""})


def test_every_variable_that_the_code_names_is_a_known_one() -> None:
    files = [
        file
        for folder in ("shared", "functions", "dilamme_local", "dilamme_cli", "events")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".json")
    ]
    named = {
        name for file in files for name in re.findall(r"\bDILAMME_[A-Z_]*[A-Z]\b", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    assert not unknown_variables(dict.fromkeys(named, "1"))


def test_no_place_is_a_setting_too() -> None:
    assert not {name.lower() for name in PLACES} & Settings.model_fields.keys()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_says_what_it_is_for_in_a_sentence(name: str) -> None:
    description = Settings.model_fields[name].description
    assert description
    assert description.endswith(".")


@pytest.mark.parametrize("name", FLOATS)
def test_every_length_of_time_says_its_unit(name: str) -> None:
    assert name.endswith("_seconds")


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "-inf", "soon", str(SECONDS_MAX + 1), "1e400"])
@pytest.mark.parametrize("name", FLOATS)
def test_a_time_that_cannot_be_waited_for_is_refused_by_its_variables_name(name: str, value: str) -> None:
    assert f"{PREFIX}{name.upper()} is '{value}': " in refusal(**{name: value})


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "1e1", str(2**63)])
@pytest.mark.parametrize("name", INTEGERS)
def test_a_number_that_counts_nothing_is_refused_by_its_variables_name(name: str, value: str) -> None:
    assert f"{PREFIX}{name.upper()} is '{value}': " in refusal(**{name: value})


def test_zero_is_a_time_only_for_ageing_which_it_turns_off() -> None:
    assert read({"DILAMME_AGEING_SECONDS": "0"}).ageing_seconds == 0
    for name in set(FLOATS) - {"ageing_seconds"}:
        assert name.upper() in refusal(**{name: "0"})


@pytest.mark.parametrize(
    ("name", "most"),
    [("worker_slots", 1000), ("worker_concurrency", 64), ("batch_jobs_max", 5000), ("max_attempts", 25)],
)
def test_a_number_has_a_limit_that_is_told(name: str, most: int) -> None:
    assert getattr(read({PREFIX + name.upper(): str(most)}), name) == most
    assert f"less than or equal to {most}" in refusal(**{name: str(most + 1)})


def test_a_worker_may_not_outlive_what_lambda_allows() -> None:
    assert "DILAMME_WORKER_TIMEOUT_SECONDS" in refusal(worker_timeout_seconds="901")


def test_every_wrong_variable_is_told_at_once() -> None:
    told = refusal(worker_slots="0", tick_seconds="-1").split("; ")
    assert [sentence.partition(" ")[0] for sentence in told] == ["DILAMME_TICK_SECONDS", "DILAMME_WORKER_SLOTS"]


def test_a_job_timeout_that_does_not_fit_into_the_workers_is_refused_with_what_to_change() -> None:
    assert read({"DILAMME_JOB_TIMEOUT_SECONDS": "295"}).job_timeout_seconds_max == 295
    assert refusal(job_timeout_seconds="296") == (
        "DILAMME_JOB_TIMEOUT_SECONDS is 296, but a worker that ends after DILAMME_WORKER_TIMEOUT_SECONDS (300) less "
        "DILAMME_WORKER_RESERVE_SECONDS (5) has 295 s: lower the one or raise the other"
    )


def test_an_invitation_is_held_longer_than_its_event_can_be_on_its_way() -> None:
    settings = read({"DILAMME_EVENT_AGE_SECONDS": "60", "DILAMME_LEASE_MARGIN_SECONDS": "10"})
    assert settings.invitation_seconds == 70


def test_an_idle_scheduler_looks_past_the_next_trigger_since_that_may_be_late() -> None:
    settings = read({"DILAMME_TRIGGER_SECONDS": "60", "DILAMME_LEASE_MARGIN_SECONDS": "10"})
    assert settings.watch_seconds == 70


def test_settings_do_not_change_while_a_process_lives() -> None:
    with pytest.raises(pydantic.ValidationError):
        Settings().worker_slots = 5  # type: ignore[misc]


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Nothing read yet, and nothing left behind."""
    load.cache_clear()
    yield monkeypatch
    load.cache_clear()


def test_the_process_reads_its_environment_once(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("DILAMME_WORKER_SLOTS", "7")
    assert load().worker_slots == 7
    fresh.setenv("DILAMME_WORKER_SLOTS", "8")
    assert load().worker_slots == 7
