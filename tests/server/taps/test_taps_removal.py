"""Taps that somebody took away stay away, and what a process asked for goes with it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_taps_hub import TOML, Tapped, lines, settings

from harness.patience import until_async as until
from harness.shared_hub import shared
from harness.tap_records import records, source
from opstep_server import hub as hubs
from opstep_server.debugger import Debugger


async def ask(executor: Tapped, folder: Path, **said: object) -> str:
    """The tap's uid, or what was said against it."""
    number = len(executor.answered) + 1
    text = json.dumps({"directory": str(folder), **said})
    await executor.send(tap_request={"id": number, "text": text})
    await until(lambda: len(executor.answered) == number)
    return executor.answered[-1].uid or executor.answered[-1].error


def names(executor: Tapped) -> list[str]:
    return [tap.name for tap in executor.of("set_taps")[-1].taps]


def sinks() -> Sequence[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("sink ")]


def test_a_tap_of_a_program_that_was_dropped_stays_away(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = Tapped(address)
            await executor.connect()
            user = Debugger(hub, present=False)
            uid = await ask(executor, tmp_path, ops="a*", to="logs")
            assert len(sinks()) == 1
            await user.drop_taps([uid], "bob")
            await until(lambda: not sinks())
            await ask(executor, tmp_path, ops="b*", to="other")
            assert names(executor) == ["b*"]
            again = await ask(executor, tmp_path, uid=uid, every=3)
            assert again == "there is no such tap any more: set it again"
            await user.close()
            await executor.close()

    asyncio.run(run())


def test_a_tap_of_the_file_that_was_dropped_stays_away_until_the_file_changes(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = Tapped(address)
            await executor.connect()
            told: list[str] = []
            user = Debugger(hub, present=False)
            await user.set_taps(settings(tmp_path), who="ada", tell=told.append)
            user.answer_programs()
            await user.drop_taps([executor.of("set_taps")[-1].taps[0].uid], "bob")
            assert told == ["tap convs was removed: it stays away until the file of taps changes"]
            await ask(executor, tmp_path, ops="b*")
            assert names(executor) == ["fc*", "b*"]
            changed = TOML.replace('"fc*"', '"f*"')
            await user.set_taps(settings(tmp_path, changed), who="ada")
            assert names(executor) == ["convs", "f*", "b*"]
            await user.close()
            await executor.close()

    asyncio.run(run())


def test_what_a_process_asked_for_goes_when_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "SETTLE_SECONDS", 0.05)

    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            stays = Tapped(address)
            await stays.connect()
            await ask(stays, tmp_path, ops="b*", to="stays")
            for pid in range(1, 6):
                executor = Tapped(address, pid=pid, identity=f"process {pid}")
                await executor.connect()
                uid = await ask(executor, tmp_path, ops="a*", to=f"of {pid}")
                await executor.send(tap_source=source(1, uid, name="a*"))
                await executor.send(tap_records=records(1, [1, 1]))
                await executor.goodbye()
            await until(lambda: len(sinks()) == 1)
            assert [tap.name for tap in hub.taps.message(stays_here(hub)).taps] == ["b*"]
            for pid in range(1, 6):
                (written,) = (tmp_path / f"of {pid}").glob("records-*.jsonl")
                assert len(written.read_text().splitlines()) == 2
            await stays.close()

    asyncio.run(run())


def stays_here(hub: hubs.Hub) -> hubs.ExecutorProcess:
    (executor,) = hub.roster.executors
    return executor


def test_a_process_that_comes_back_finds_what_it_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One that was lost has more time than one that has ended.
    monkeypatch.setattr(hubs, "SETTLE_SECONDS", 0.0)

    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = Tapped(address)
            await executor.connect()
            uid = await ask(executor, tmp_path, ops="a*", to="logs")
            await executor.close()
            await until(lambda: not hub.roster.executors)
            # One that ended later is forgotten meanwhile.
            ended = Tapped(address, pid=2, identity="ended")
            await ended.connect()
            await ask(ended, tmp_path, ops="b*", to="of 2")
            assert len(sinks()) == 2
            await ended.goodbye()
            await until(lambda: len(sinks()) == 1)
            again = Tapped(address)
            assert [tap.uid for tap in (await again.connect()).taps.taps] == [uid]
            await again.send(tap_source=source(1, uid, name="a*"))
            await again.send(tap_records=records(1, [1, 1]))
            await until(lambda: again.taken)
            assert len(lines(tmp_path)) == 2
            monkeypatch.setattr(hubs, "RETURN_SECONDS", 0.0)
            await again.close()
            await until(lambda: not sinks())

    asyncio.run(run())


def test_sources_of_taps_that_never_come_back_are_forgotten(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = Tapped(address)
            await executor.connect()
            user = Debugger(hub, present=False)
            await user.set_taps(settings(tmp_path), who="ada")
            user.answer_programs()
            convs = executor.of("set_taps")[-1].taps[0].uid
            await executor.send(tap_source=source(1, convs))
            for number in range(2, 5):
                uid = await ask(executor, tmp_path, ops="b*")
                await executor.send(tap_source=source(number, uid, name="b*"))
                await ask(executor, tmp_path, uid=uid, remove=True)
            (stream,) = hub.taps._streams.values()
            assert list(stream.sources) == [1]
            # That of a file may: its sources are not told of a second time.
            await user.set_taps(settings(tmp_path, 'server = "mine"'), who="ada")
            await user.set_taps(settings(tmp_path), who="ada")
            await executor.send(tap_records=records(1, [1]))
            await until(lambda: executor.taken)
            assert [line["tap"] for line in lines(tmp_path)] == ["convs"]
            await user.close()
            await executor.close()

    asyncio.run(run())


def test_a_tap_is_removed_from_one_process_only(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            user = Debugger(hub, present=False)
            await user.set_taps(settings(tmp_path), who="ada")
            first, second = Tapped(address, identity="a"), Tapped(address, identity="b")
            await first.connect()
            await second.connect()
            await until(lambda: len(user.executors) == 2)
            one = next(each for each in user.executors if each.hello.identity == "a")
            uid = hub.taps.message(one).taps[0].uid
            await user.drop_taps([uid], "bob", one)
            assert [list(each.uids) for each in first.of("drop_taps")] == [[uid]]
            assert not second.of("drop_taps")
            assert not any(tap.disabled for tap in second.of("set_taps")[-1].taps)
            # What was on the way was waited for.
            assert [tap.disabled for tap in first.of("set_taps")[-1].taps] == [True, False]
            await hub.push_taps()
            assert (names(first), names(second)) == (["fc*"], ["convs", "fc*"])
            await user.set_taps(settings(tmp_path), who="ada")
            assert names(first) == ["convs", "fc*"]
            await user.close()
            await first.close()
            await second.close()

    asyncio.run(run())
