"""Coroutines that begin at once."""

from __future__ import annotations

import asyncio

import pytest

from opstep_server import eager


def test_one_that_never_waits_is_over_and_has_no_task():
    async def run() -> None:
        done: list[int] = []

        async def work() -> None:
            done.append(1)

        assert eager.start(work()) is None
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
            seen.append(await asyncio.wait_for(asyncio.sleep(0.001, "slept"), 5))

        task = eager.start(work())
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

        task = eager.start(work())
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
            eager.start(work(0))
        task = eager.start(work(0.001))
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

        task = eager.start(work())
        assert task is not None
        future.set_exception(ValueError("told"))
        await task
        assert seen == ["told"]

    asyncio.run(run())
