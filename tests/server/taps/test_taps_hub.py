"""Taps through a hub: a scripted executor over a real socket, sinks that are files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from harness.patience import until_async as until
from harness.scripted_executor import ScriptedExecutor
from harness.shared_hub import Stream, shared
from harness.tap_records import records, source
from opstep_server import access
from opstep_server.debugger import Debugger
from opstep_server.guests import Guests
from opstep_server.taps import config
from opstep_server.wire import debug_pb2 as pb

TOML = """
server = "mine"
[sinks.main]
kind = "jsonl"
path = "logs"
[[tap]]
name = "convs"
ops = "conv*"
[[tap]]
ops = "fc*"
"""


def settings(folder: Path, text: str = TOML) -> config.Settings:
    return config.parse(text, str(folder / "taps.toml"))


def lines(folder: Path) -> list[dict[str, Any]]:
    found = sorted((folder / "logs").glob("records-*.jsonl"))
    return [json.loads(line) for name in found for line in name.read_text().splitlines()]


class Tapped(ScriptedExecutor):
    """Keeps what it is told of its records."""

    def __init__(self, address: str, *, identity: str = "first", **options: Any) -> None:
        super().__init__(address, **options)
        self._hello.identity = identity
        self.answers["set_taps"] = self._status
        self.taken: list[pb.TapsTaken] = []
        self.answered: list[pb.TapAnswer] = []

    def _status(self, command: pb.Command) -> dict[str, Any]:
        statuses = [
            pb.TapStatus(uid=tap.uid, name=tap.name, op_count=2) for tap in command.set_taps.taps
        ]
        return {"taps": pb.TapStatuses(statuses=statuses)}

    def other(self, message: pb.ToExecutor) -> None:
        if message.HasField("taps_taken"):
            self.taken.append(message.taps_taken)
        elif message.HasField("tap_answer"):
            self.answered.append(message.tap_answer)


def test_taps_are_set_and_their_records_written(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            early = Tapped(address)
            assert not (await early.connect()).HasField("taps")
            user = Debugger(hub, present=False)
            statuses = await user.set_taps(settings(tmp_path), who="ada")
            assert [(s.name, s.op_count) for _, s in statuses] == [("convs", 2), ("fc*", 2)]
            (sent,) = early.of("set_taps")
            assert [tap.name for tap in sent.taps] == ["convs", "fc*"]
            assert {tap.who for tap in sent.taps} == {"ada"}
            late = Tapped(address, pid=2, identity="second")
            welcome = await late.connect()
            assert welcome.taps == sent
            assert not welcome.present
            assert early.of("set_presence") == []
            convs, fc = (tap.uid for tap in sent.taps)
            await late.send(tap_source=source(1, convs))
            await late.send(tap_source=source(2, fc, name="fc*"))
            counts = [pb.TapCounts(uid=convs, produced=3, waiting=3)]
            await late.send(tap_records=records(1, [1, 2, 1], counts=counts))
            await until(lambda: late.taken)
            assert late.taken == [pb.TapsTaken(batch=1)]
            assert [line["tap"] for line in lines(tmp_path)] == ["convs", "fc*", "convs"]
            assert lines(tmp_path)[0]["process"] == "here:2"
            known = {(e, s.uid): s.counts.produced for e, s in user.taps}
            assert known[2, convs] == 3
            # Of a source that was never told of: lost, and said so.
            await late.send(tap_records=records(2, [1, 9]))
            await until(lambda: len(late.taken) == 2)
            assert late.taken[1] == pb.TapsTaken(batch=2, losses=[pb.TapLoss(source=9, records=1)])
            await user.close()
            assert [len(sent.taps) for sent in early.of("set_taps")] == [2, 0]
            await early.close()
            await late.close()

    asyncio.run(run())


def test_uids_are_those_of_server_and_name(tmp_path: Path) -> None:
    async def uids(text: str) -> list[str]:
        async with shared(tmp_path) as (hub, address):
            user = Debugger(hub, present=False)
            await user.set_taps(settings(tmp_path, text), who="ada")
            executor = Tapped(address)
            found = [tap.uid for tap in (await executor.connect()).taps.taps]
            await user.close()
            await executor.close()
            return found

    async def run() -> None:
        first = await uids(TOML)
        assert await uids(TOML.replace('"conv*"', '"c*"')) == first
        other = await uids(TOML.replace('"mine"', '"yours"'))
        assert not set(other) & set(first)

    asyncio.run(run())


def test_what_a_sink_loses_is_answered(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            (tmp_path / "logs").write_text("a file where a folder should be")
            told: list[str] = []
            user = Debugger(hub, present=False)
            await user.set_taps(settings(tmp_path), who="ada", tell=told.append)
            executor = Tapped(address)
            convs = (await executor.connect()).taps.taps[0].uid
            await executor.send(tap_source=source(5, convs))
            await executor.send(tap_records=records(1, [5, 5]))
            await until(lambda: executor.taken)
            assert list(executor.taken[0].losses) == [pb.TapLoss(source=5, records=2)]
            await until(lambda: told)
            assert told == ["sink main: File exists: 2 records lost so far, trying on"]
            await user.close()
            await executor.close()

    asyncio.run(run())


def test_two_users_get_their_own_records(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = Tapped(address)
            await executor.connect()
            users = []
            own = TOML.replace('server = "mine"', "")
            for name in ("one", "two"):
                (tmp_path / name).mkdir()
                user = Debugger(hub, present=False)
                await user.set_taps(settings(tmp_path / name, own), who=name)
                users.append(user)
            first, _, second, _ = executor.of("set_taps")[-1].taps
            assert first.uid != second.uid
            await executor.send(tap_source=source(1, first.uid))
            await executor.send(tap_source=source(2, second.uid))
            whole = pb.Tensor(dtype="FLOAT32", dims=[2], data=b"\0" * 4)
            extra = pb.TapExtra(record=2, tensor=whole, total_bytes=8)
            await executor.send(tap_records=records(1, [1, 2, 2], extras=[extra]))
            await executor.send(tap_request=pb.TapRequest(id=1, text="{}"))
            await until(lambda: executor.answered)
            # The hub has read all that, and what others send after it is on the disk.
            other = Tapped(address, identity="other")
            await other.connect()
            await other.send(tap_source=source(1, first.uid))
            await other.send(tap_source=source(2, second.uid))
            await other.send(tap_records=records(1, [1, 2], step=[7, 8]))
            await until(lambda: other.taken)
            assert executor.taken == []
            await executor.send(tap_piece=pb.TapPiece(batch=1, record=2, offset=4, data=b"\0" * 4))
            await until(lambda: executor.taken)
            assert executor.taken == [pb.TapsTaken(batch=1)]
            assert [line["step"] for line in lines(tmp_path / "one")] == [0, 7]
            assert [line["step"] for line in lines(tmp_path / "two")] == [8, 1, 2]
            for user in users:
                await user.close()
            await executor.close()
            await other.close()

    asyncio.run(run())


def test_an_executor_that_refuses_taps(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = Tapped(address)
            executor.answers["set_taps"] = lambda _: {"error": "taps are not allowed here"}
            await executor.connect()
            user = Debugger(hub, present=False)
            statuses = await user.set_taps(settings(tmp_path), who="ada")
            assert {s.ended for _, s in statuses} == {"taps are not allowed here"}
            await user.close()
            await executor.close()

    asyncio.run(run())


def test_wild_records_end_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            user = Debugger(hub, present=False)
            await user.set_taps(settings(tmp_path), who="ada")
            executor = Tapped(address)
            convs = (await executor.connect()).taps.taps[0].uid
            await executor.send(tap_piece=pb.TapPiece(batch=3, record=1, offset=1 << 60, data=b"x"))
            await executor.send(tap_source=source(1, convs, dtype=77, dims=[-5]))
            await executor.send(tap_source=source(2, "whose?"))
            await executor.send(tap_records=pb.TapRecords(batch=1))
            await executor.send(tap_records=records(2, [1, 2, 3], step=[1]))
            await executor.send(tap_records=records(3, [1, 1], time=[1 << 63, (1 << 64) - 1]))
            await executor.send(tap_statuses=pb.TapStatuses(statuses=[pb.TapStatus(uid="?")]))
            await until(lambda: len(executor.taken) == 3)
            assert [taken.batch for taken in executor.taken] == [1, 2, 3]
            lost = [sum(loss.records for loss in taken.losses) for taken in executor.taken]
            assert lost == [0, 3, 0]
            await user.close()
            await executor.close()

    asyncio.run(run())


def test_a_guest_has_taps_of_its_own(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            hub.server.on_visit = Guests(hub).visit
            executor = Tapped(address)
            await executor.connect()
            owner = Debugger(hub, present=False)
            (tmp_path / "own").mkdir()
            await owner.set_taps(settings(tmp_path / "own"), who="ada")
            guest = Debugger(present=False)
            gone: list[str] = []
            place = access.dial_place(address)
            await guest.visit(place, gone.append)
            await until(lambda: guest.executors)
            statuses = await guest.set_taps(settings(tmp_path, TOML.replace("mine", "")), who="bob")
            assert [(s.name, s.op_count) for _, s in statuses] == [("convs", 2), ("fc*", 2)]
            taps = executor.of("set_taps")[-1].taps
            assert [tap.who for tap in taps] == ["ada", "ada", "bob", "bob"]
            assert executor.of("set_presence") == []
            await executor.send(tap_source=source(1, taps[0].uid))
            await executor.send(tap_source=source(2, taps[2].uid))
            await executor.send(tap_records=records(1, [1, 2, 2]))
            await executor.send(tap_records=records(2, [2]))
            await until(lambda: len(executor.taken) == 2)
            assert not any(taken.losses for taken in executor.taken)
            assert len(lines(tmp_path / "own")) == 1
            assert len(lines(tmp_path)) == 3
            status = pb.TapStatus(uid=taps[2].uid, name="convs", ended="it is over")
            await executor.send(tap_statuses=pb.TapStatuses(statuses=[status]))
            await until(lambda: any(s.ended for _, s in guest.taps))
            # What the owner removes is gone for both, and does not come back.
            executor.answers["list_taps"] = executor._status
            await guest.drop_taps([taps[0].uid], "bob")
            await until(lambda: executor.of("drop_taps"))
            await owner.set_taps(settings(tmp_path / "own"), who="ada")
            await guest.close()
            await until(lambda: len(executor.of("set_taps")[-1].taps) == 2)
            assert {tap.who for tap in executor.of("set_taps")[-1].taps} == {"ada"}
            await owner.close()
            await executor.close()

    asyncio.run(run())


def test_what_a_guest_does_not_confirm_is_lost(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            executor = Tapped(address)
            await executor.connect()
            guest = Stream(Guests(hub))
            await until(lambda: guest.of("hello"))
            wanted = pb.SetTaps(taps=[pb.Tap(uid="g", name="mine")])
            guest.say(welcome=pb.Welcome(taps=wanted))
            await until(lambda: guest.of("tap_statuses"))
            await executor.send(tap_source=source(1, "g"))
            await executor.send(tap_records=records(1, [1, 1]))
            await executor.send(tap_records=records(2, [1, 1, 1]))
            await until(lambda: len(guest.of("tap_records")) == 2)
            # He cannot have lost more than he got.
            losses = [pb.TapLoss(source=1, records=99), pb.TapLoss(source=7, records=1)]
            guest.say(taps_taken=pb.TapsTaken(batch=1, losses=losses))
            await until(lambda: executor.taken)
            assert list(executor.taken[0].losses) == [pb.TapLoss(source=1, records=2)]
            guest.leave()
            await until(lambda: len(executor.taken) == 2)
            assert list(executor.taken[1].losses) == [pb.TapLoss(source=1, records=3)]
            await executor.send(tap_records=records(3, [1]))
            await until(lambda: len(executor.taken) == 3)
            assert list(executor.taken[2].losses) == [pb.TapLoss(source=1, records=1)]
            await executor.close()

    asyncio.run(run())


def test_a_program_asks_for_taps(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (_, address):
            executor = Tapped(address)
            await executor.connect()
            other = Tapped(address, pid=5, identity="other")
            await other.connect()

            async def ask(**said: object) -> pb.TapAnswer:
                number = len(executor.answered) + 1
                text = json.dumps({"directory": str(tmp_path), **said})
                await executor.send(tap_request=pb.TapRequest(id=number, text=text))
                await until(lambda: len(executor.answered) == number)
                assert executor.answered[-1].id == number
                return executor.answered[-1]

            assert (await ask(ops="conv*")).error.startswith("say where to: to=")
            said = (await ask(ops="conv*", evry=3, to="logs")).error
            assert said == "'evry' is not a key of a tap: did you mean 'every'?"
            uid = (await ask(ops="conv*", to="logs", every=5)).uid
            (tap,) = executor.of("set_taps")[-1].taps
            assert (tap.uid, tap.where.pattern, tap.every) == (uid, "conv*", 5)
            assert tap.who == "process 4242 on here (opstep.debug.tap)"
            assert not other.of("set_taps") or not other.of("set_taps")[-1].taps
            await executor.send(tap_source=source(1, uid, name="conv*"))
            await executor.send(tap_records=records(1, [1, 1]))
            await until(lambda: executor.taken)
            assert [line["step"] for line in lines(tmp_path)] == [0, 1]
            assert (await ask(uid=uid, every=7, to=None)).error.startswith("say where to:")
            assert (await ask(uid=uid, every=7)).uid == uid
            (tap,) = executor.of("set_taps")[-1].taps
            assert (tap.where.pattern, tap.every) == ("conv*", 7)
            assert (await ask(uid="nobody's", every=7)).error.startswith("there is no such tap")
            assert (await ask(uid=uid, remove=True)).uid == uid
            assert not executor.of("set_taps")[-1].taps
            await executor.send(tap_request=pb.TapRequest(id=99, text="[" * 100_000))
            await until(lambda: executor.answered[-1].id == 99)
            assert executor.answered[-1].error == "a tap is an object of keys and values"
            await executor.close()
            await other.close()

    asyncio.run(run())


def test_a_tensor_that_is_too_large_takes_no_other_record_with_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with shared(tmp_path) as (hub, address):
            user = Debugger(hub, present=False)
            small = TOML + '[limits]\nmemory = "1MB"\n'
            await user.set_taps(settings(tmp_path, small), who="ada")
            executor = Tapped(address)
            convs = (await executor.connect()).taps.taps[0].uid
            await executor.send(tap_source=source(1, convs))
            await executor.send(tap_source=source(2, convs))
            whole = pb.Tensor(dtype="FLOAT32", dims=[1 << 20], data=b"\0" * 4)
            extra = pb.TapExtra(record=7, tensor=whole, total_bytes=4 << 20)
            sent = records(1, [1] * 7 + [2] + [1] * 992, extras=[extra])
            await executor.send(tap_records=sent)
            await until(lambda: executor.taken)
            lost = [pb.TapLoss(source=2, records=1)]
            assert executor.taken == [pb.TapsTaken(batch=1, losses=lost)]
            assert len(lines(tmp_path)) == 999
            await user.close()
            await executor.close()

    asyncio.run(run())
