"""Settings by flag and environment, and the engine that they name."""

import sys
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_settings import CliApp

from core.engines.load import load_engine
from core.errors import EngineError
from core.limits import SessionLimits
from core.settings import IceServer, Settings
from tests.fakes import ScriptedEngine

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SIGHTLINE_{name.upper()}", raising=False)


def by_flags(*flags: str) -> Settings:
    return CliApp.run(Settings, cli_args=list(flags))


def test_the_defaults_are_those_of_a_session() -> None:
    assert Settings().limits == SessionLimits()
    assert (Settings().port, Settings().engine) == (7860, "embedded")
    assert Settings().ice_servers == [], "a STUN server by default would delay every call"


def test_by_flag() -> None:
    settings = by_flags(
        "--port",
        "0",
        "--max-peers=8",
        "--engine-options",
        '{"threads": 2}',
        "--ice-servers",
        '[{"urls": "stun:stun.example"}]',
        "--stall-s",
        "5",
    )
    assert (settings.port, settings.max_peers) == (0, 8)
    assert settings.engine_options == {"threads": 2}
    assert settings.ice_servers == [IceServer(urls="stun:stun.example")]
    assert settings.limits.stall_s == 5


def test_by_environment_and_the_flag_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_MAX_PEERS", "3")
    monkeypatch.setenv("SIGHTLINE_ENGINE_OPTIONS", '{"threads": 1}')
    assert by_flags().max_peers == 3
    assert by_flags().engine_options == {"threads": 1}
    assert by_flags("--max-peers", "9").max_peers == 9


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("port", 65536),
        ("port", -1),
        ("max_peers", 0),
        ("max_sockets", 0),
        ("peer_timeout_s", 0),
        ("analysed_fps", 61),
        ("kept_fps", 0),
        ("idle_timeout_s", 0),
        ("max_message_bytes", 10),
        ("decode_workers", 0),
        ("outbox", 1),
        ("frame_pixels", 0),
        ("log_level", "loud"),
    ],
)
def test_what_cannot_work_is_refused(field: str, bad: Any) -> None:
    with pytest.raises(ValidationError, match=field):
        Settings(**{field: bad})


def test_a_flag_that_is_none_is_refused() -> None:
    with pytest.raises(SystemExit):
        by_flags("--no-such-thing", "1")


def test_help_lists_every_setting_with_an_explanation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit) as exit_:
        by_flags("--help")
    assert exit_.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name, field in Settings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in shown
        assert field.description, f"{name} needs an explanation"
        assert " ".join(field.description.split()) in shown


# --- the engine -----------------------------------------------------------------------


@pytest.fixture
def own_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module `own_engines` of somebody's own, with a factory `create`."""
    module = ModuleType("own_engines")
    module.create = lambda settings: ScriptedEngine(answer=settings)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "own_engines", module)
    return module


@pytest.mark.usefixtures("own_module")
def test_an_engine_of_one_s_own_gets_the_settings() -> None:
    settings = Settings(engine="own_engines:create")
    engine = load_engine(settings)
    assert isinstance(engine, ScriptedEngine)
    assert engine.answer is settings  # type: ignore[comparison-overlap]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(EngineError) as caught:
        load_engine(Settings(engine="gpt"))
    assert caught.value.code == "unknown_engine"
    assert "gpt" in caught.value.message
    assert "embedded" in caught.value.message


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize("engine", ["no_such_module:create", "own_engines:nothing", "own_engines:"])
def test_what_cannot_be_imported_is_an_engine_error(engine: str) -> None:
    with pytest.raises(EngineError) as caught:
        load_engine(Settings(engine=engine))
    assert caught.value.code == "engine_import_failed"
    assert engine in caught.value.message


@pytest.mark.parametrize("engine", [":create", ".relative:create", "json:__doc__"])
def test_a_path_that_names_no_factory_is_an_engine_error(engine: str) -> None:
    with pytest.raises(EngineError):
        load_engine(Settings(engine=engine))
