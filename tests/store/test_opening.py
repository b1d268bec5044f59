"""From a URL to a store, or to a sentence that says what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.clock import SystemClock
from fencepost.errors import ConfigurationError
from fencepost.store.memory.store import MemoryStore
from fencepost.store.open import open_store
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock


def test_memory() -> None:
    """S0-6."""
    clock = FakeClock()
    store = open_store("memory://", clock=clock)
    assert isinstance(store, MemoryStore)
    assert (store.url, store.clock) == ("memory://", clock)
    assert isinstance(open_store("memory://").clock, SystemClock)


def test_three_slashes_are_a_relative_path_and_four_an_absolute_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As SQLAlchemy has it."""
    monkeypatch.chdir(tmp_path)
    for url, name in (
        ("sqlite:///relative.db", "relative.db"),
        (f"sqlite:///{tmp_path}/absolute.db", "absolute.db"),
        ("sqlite:///with%20space.db", "with space.db"),
    ):
        store = open_store(url)
        assert isinstance(store, SqliteStore)
        assert store.url == url
        assert (tmp_path / name).exists()
        store.close()


@pytest.mark.parametrize("durability", ["power", "process"])
def test_durability_is_an_option_of_the_url(tmp_path: Path, durability: str) -> None:
    """And a look at the store names it."""
    store = open_store(f"sqlite:///{tmp_path}/jobs.db?durability={durability}")
    finding = store.run(store.overview.inspect())[0]
    assert finding.code == "durability"
    assert f"durability {durability}" in finding.text
    store.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("jobs.db", "is not a store URL"),
        ("", "is not a store URL"),
        ("mysql://h/db", "is not a store URL"),
        ("postgresql://h:port/db", "a port is a number"),
        ("redis://h?prefx=a", "prefix"),
        ("http://[::1", "is not a URL"),
        (None, "a store URL is text"),
        (7, "a store URL is text"),
        (Path("jobs.db"), "a store URL is text"),
        ("memory://?size=3", "unknown option 'size'"),
        ("sqlite:///", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite:///folder/", "names no file"),
        ("sqlite:///a%00b", "names no file"),
        ("sqlite://jobs.db", "names a host"),
        ("sqlite:///:memory:", "use memory://"),
        ("sqlite:///x.db?mode=ro", "unknown option 'mode'; there are: durability, group"),
        ("sqlite:///x.db?durability=none", "durability must be power or process"),
    ],
)
def test_a_url_that_makes_no_sense_is_refused_with_a_hint(
    url: Any, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as caught:
        open_store(url)
    assert says in str(caught.value)
    assert caught.value.code == "configuration"
    assert list(tmp_path.iterdir()) == []
