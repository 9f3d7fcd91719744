"""Clients that behave like existing editors: what each keeps, asks for and ignores.

They follow the sources of nvim-dap, Helix and dape. Each handles all events in their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from harness.dap_client import SECONDS, Session

Json = dict[str, Any]


class Editor:
    """Hands each event to `on_<event>`, if there is one."""

    filters: tuple[str, ...] = ()

    def __init__(self, session: Session) -> None:
        self.session = session
        self._seen = 0
        self.initialized = False
        self.over = False
        # The newest stack of each thread, where the editor's cursor is.
        self.stacks: dict[int, list[Json]] = {}
        self.stops = 0

    def wait(self, until: Callable[[], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            while self._seen < len(self.session.history):
                message = self.session.history[self._seen]
                self._seen += 1
                if message["type"] == "event":
                    handler = getattr(self, f"on_{message['event']}", None)
                    if handler is not None:
                        handler(message["body"])
            if until():
                return
            self.session._take(deadline - time.monotonic())

    def wait_for_stop(self) -> None:
        """The next event that the editor handled."""
        wanted = self.stops + 1
        self.wait(lambda: self.stops >= wanted)

    def fetch_stack(self, thread: int) -> None:
        self.stacks[thread] = self.session.stack(thread)

    def on_initialized(self, body: Json) -> None:
        self.initialized = True

    def on_terminated(self, body: Json) -> None:
        self.over = True


class NvimDap(Editor):
    """Remembers one stopped thread; any other thread that stops meanwhile is resumed at once."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.threads: dict[int, bool] = {}
        self.stopped_thread: int | None = None
        self.sent_on = 0

    def launch(self, breakpoints: dict[str, list[int]], **arguments: Any) -> None:
        self.begin("launch", breakpoints, arguments)

    def begin(self, how: str, breakpoints: dict[str, list[int]], arguments: Json) -> None:
        capabilities = self.session.introduce(
            {"adapterID": "nvim-dap", "clientID": "neovim", "pathFormat": "path"}
        )
        launched = self.session.send(how, {"type": "opstep", "name": "x", **arguments})
        self.wait(lambda: self.initialized)
        for path, lines in breakpoints.items():
            body = {"source": {"path": path}, "breakpoints": [{"line": line} for line in lines]}
            self.session.request("setBreakpoints", body)
        # `dap.defaults.opstep.exception_breakpoints`, set before there is a session.
        known = capabilities["exceptionBreakpointFilters"]
        chosen = list(self.filters) or [each["filter"] for each in known if each["default"]]
        self.session.request("setExceptionBreakpoints", {"filters": chosen})
        self.session.request("configurationDone")
        self.session.response(launched)

    def on_thread(self, body: Json) -> None:
        if body["reason"] == "exited":
            self.threads.pop(body["threadId"], None)
        else:
            self.threads[body["threadId"]] = False

    def on_continued(self, body: Json) -> None:
        if body.get("allThreadsContinued", True):
            self.threads = dict.fromkeys(self.threads, False)
            self.stopped_thread = None
        else:
            if body["threadId"] in self.threads:
                self.threads[body["threadId"]] = False
            if self.stopped_thread == body["threadId"]:
                self.stopped_thread = None

    def on_stopped(self, body: Json) -> None:
        thread, all_stopped = body["threadId"], body.get("allThreadsStopped", False)
        if thread not in self.threads:
            self.session.request("threads")
        jumps = body["reason"] != "pause" or all_stopped
        if self.stopped_thread not in (None, thread) and jumps:
            self.sent_on += 1
            self.session.request("continue", {"threadId": thread})
            return
        if jumps:
            self.stopped_thread = thread
            self.fetch_stack(thread)
        self.threads[thread] = True
        self.stops += 1

    def step(self, command: str) -> None:
        assert self.stopped_thread is not None, "No stopped threads. Cannot move"
        thread, self.stopped_thread = self.stopped_thread, None
        self.threads[thread] = False
        self.stacks.pop(thread, None)
        # Also with `continue`, whose schema has no granularity.
        arguments = {"threadId": thread, "granularity": "statement"}
        self.session.request(command, arguments, valid=False)


class Helix(Editor):
    """Fetches the stack again when all threads stopped, or when no thread was chosen yet."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.thread: int | None = None

    def launch(self, breakpoints: dict[str, list[int]], **arguments: Any) -> None:
        self.session.introduce(
            {"adapterID": "opstep", "clientID": "hx", "supportsVariableType": True}
        )
        # It answers `initialized` only when the launch is answered or under way.
        launched = self.session.send("launch", arguments)
        self.wait(lambda: self.initialized)
        for path, lines in breakpoints.items():
            body = {"source": {"path": path}, "breakpoints": [{"line": line} for line in lines]}
            self.session.request("setBreakpoints", body)
        self.session.request("configurationDone")
        self.session.response(launched)

    def on_stopped(self, body: Json) -> None:
        if body.get("allThreadsStopped", False):
            for thread in self.session.request("threads")["threads"]:
                self.fetch_stack(thread["id"])
        if self.thread is None:
            self.thread = body["threadId"]
            self.fetch_stack(body["threadId"])
        self.stops += 1

    def on_continued(self, body: Json) -> None:
        if self.thread == body["threadId"]:
            self.thread = None
            self.stacks.clear()

    def on_thread(self, body: Json) -> None:
        self.thread = body["threadId"]

    def step(self, command: str) -> None:
        assert self.thread is not None
        self.session.request(command, {"threadId": self.thread})
        self.stacks.clear()


class Dape(Editor):
    """Asks for a thread's stack only when its own list shows the thread as stopped."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.status: dict[int, str] = {}
        self.thread: int | None = None

    def launch(self, breakpoints: dict[str, list[int]], **arguments: Any) -> None:
        capabilities = self.session.introduce({"adapterID": "opstep"})
        launched = self.session.send("launch", arguments)
        self.wait(lambda: self.initialized)
        known = [each["filter"] for each in capabilities["exceptionBreakpointFilters"]]
        chosen = [each for each in known if each in self.filters]
        self.session.request("setExceptionBreakpoints", {"filters": chosen})
        for path, lines in breakpoints.items():
            body = {"source": {"path": path}, "breakpoints": [{"line": line} for line in lines]}
            self.session.request("setBreakpoints", body)
        self.session.request("setFunctionBreakpoints", {"breakpoints": []})
        self.session.request("setDataBreakpoints", {"breakpoints": []})
        self.session.request("configurationDone")
        self.session.response(launched)

    def _set(self, thread: int, all_threads: bool, status: str) -> None:
        for each in self.session.request("threads")["threads"]:
            self.status.setdefault(each["id"], "running")
        self.status[thread] = status
        if all_threads:
            self.status = dict.fromkeys(self.status, status)

    def on_thread(self, body: Json) -> None:
        self.thread = self.thread or body["threadId"]
        if body["reason"] == "exited":
            self.status.pop(body["threadId"], None)
        else:
            self._set(body["threadId"], False, "running")

    def on_continued(self, body: Json) -> None:
        self._set(body["threadId"], body.get("allThreadsContinued", True), "running")

    def on_stopped(self, body: Json) -> None:
        self.thread = body["threadId"]
        self._set(self.thread, body.get("allThreadsStopped") is True, "stopped")
        self.fetch_stack(self.thread)
        self.stops += 1

    def pause(self) -> None:
        assert "stopped" not in self.status.values(), "Thread is stopped"
        self.session.request("pause", {"threadId": self.thread or 0})

    def step(self, command: str) -> None:
        assert self.thread is not None
        self.session.request(command, {"threadId": self.thread})
        self._set(self.thread, True, "running")
        self.stacks.clear()
