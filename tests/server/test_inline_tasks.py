"""Coroutines that begin at once."""

from __future__ import annotations

import asyncio
import sys

import pytest

from harness.patience import SECONDS
from opstep_server import inline_tasks


def test_one_that_never_waits_is_over_and_has_no_task():
    async def run() -> None:
        done: list[int] = []

        async def work() -> None:
            done.append(1)

        assert inline_tasks.start(work()) is None
        assert done == [1]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_one_that_waits_goes_on_by_itself():
    async def run() -> None:
        seen: list[object] = []
        future = asyncio.get_running_loop().create_future()

        async def work() -> None:
            seen.append("begun")
            seen.append(await future)
            await asyncio.sleep(0)
            seen.append(await asyncio.wait_for(asyncio.sleep(0.001, "slept"), SECONDS))

        task = inline_tasks.start(work())
        assert task is not None
        assert seen == ["begun"]
        future.set_result("told")
        await task
        assert seen == ["begun", "told", "slept"]

    asyncio.run(run())


def test_a_cancelled_one_may_clean_up_and_wait_for_it():
    async def run() -> None:
        seen: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                seen.append("cleaned up")
                raise

        task = inline_tasks.start(work())
        assert task is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["cleaned up"]

    asyncio.run(run())


def test_errors_come_out_before_and_after_the_first_wait():
    async def run() -> None:
        async def work(first: float) -> None:
            if first:
                await asyncio.sleep(first)
            raise ValueError("wrong")

        with pytest.raises(ValueError, match="wrong"):
            inline_tasks.start(work(0))
        task = inline_tasks.start(work(0.001))
        assert task is not None
        with pytest.raises(ValueError, match="wrong"):
            await task

    asyncio.run(run())


def test_an_error_that_it_waits_for_can_be_caught():
    async def run() -> None:
        seen: list[str] = []
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            try:
                await future
            except ValueError as error:
                seen.append(str(error))

        task = inline_tasks.start(work())
        assert task is not None
        future.set_exception(ValueError("told"))
        await task
        assert seen == ["told"]

    asyncio.run(run())


def test_who_waits_for_an_answer_goes_on_inside_who_brings_it():
    async def run() -> None:
        seen: list[object] = []
        answers: list[inline_tasks.Answer[str]] = [inline_tasks.Answer(), inline_tasks.Answer()]

        async def work() -> None:
            for answer in answers:
                seen.append(await answer)
            await asyncio.sleep(0)
            seen.append("slept")

        assert inline_tasks.start(work()) is not None
        for answer, text in zip(answers, ("one", "two"), strict=True):
            answer.set_result(text)
            answer.go_on()
        if sys.version_info < (3, 12):
            assert seen == ["one", "two"]
        for _ in range(9):
            await asyncio.sleep(0)
        assert seen == ["one", "two", "slept"]

    asyncio.run(run())


def test_an_answer_can_be_awaited_by_a_task_too():
    async def run() -> None:
        answer: inline_tasks.Answer[int] = inline_tasks.Answer()
        asyncio.get_running_loop().call_soon(answer.set_result, 7)
        assert await asyncio.wait_for(answer, SECONDS) == 7

    asyncio.run(run())


@pytest.mark.parametrize("alone", [False, True])
def test_one_that_waits_for_an_answer_can_be_cancelled(alone: bool):
    async def run() -> None:
        seen: list[str] = []

        async def work() -> None:
            try:
                await inline_tasks.Answer()
            finally:
                seen.append("cancelled")

        started = inline_tasks.start(work(), alone=alone)
        assert started is not None
        started.cancel()
        await asyncio.sleep(0)
        assert seen == ["cancelled"]

    asyncio.run(run())


def test_one_alone_waits_for_futures_without_a_task():
    async def run() -> None:
        seen: list[int] = []

        async def work() -> None:
            for second in (0, 0.001, 0.001):
                await asyncio.sleep(second)
                seen.append(1)

        assert inline_tasks.start(work(), alone=True) is not None
        assert len(asyncio.all_tasks()) == 1
        while len(seen) < 3:
            await asyncio.sleep(0.001)

    asyncio.run(run())


def test_its_error_does_not_hit_who_brings_the_answer():
    async def run() -> None:
        told: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what))
        answer: inline_tasks.Answer[None] = inline_tasks.Answer()

        async def work() -> None:
            await answer
            raise ValueError("wrong")

        assert inline_tasks.start(work(), alone=True) is not None
        answer.set_result(None)
        answer.go_on()
        assert len(told) == 1

    asyncio.run(run())
