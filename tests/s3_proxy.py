"""A proxy before an S3 server that counts requests, delays them, refuses them, cuts bodies and loses responses."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from contextlib import suppress
from typing import Self


class Proxy:
    """Runs in a thread of its own until it is closed."""

    def __init__(self, port: int, *, busy: float = 0, cut: float = 0, lost: float = 0, delay: float = 0, seed: int = 0):
        """The server's port, and the parts of requests that are answered by 503, cut short, or lose their response."""
        self.target, self.busy, self.cut, self.lost, self.delay = port, busy, cut, lost, delay
        #: Whether requests get no answer at all.
        self.silent = False
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(10)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def refuse(self) -> None:
        """Refuse all connections from now on, and end those that there are."""
        self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._one(reader, writer):
                pass
        writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await _head(reader)
        if head is None:
            return False
        method, target = head.split(b" ", 2)[:2]
        body = await reader.readexactly(_length(head))
        key = target.decode().partition("?")[0]
        kind = f"{method.decode()} {'chunk' if '/c/' in key else 'other'}"
        self.counts[kind] += 1
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.silent:
            await asyncio.Event().wait()
        fate = self._random.random()
        if fate < self.busy:
            self.faults["busy"] += 1
            text = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
            writer.write(b"HTTP/1.1 503 Slow Down\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
            await writer.drain()
            return True
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        try:
            back.write(_close(head) + body)
            await back.drain()
            answer = await _head(there)
            if answer is None:
                return False
            data = (
                b""
                if method == b"HEAD"
                else await there.readexactly(_length(answer))
                if _has_length(answer)
                else await there.read()
            )
        finally:
            back.transport.abort()
        if fate < self.busy + self.lost:
            self.faults["lost"] += 1
            return False
        if fate < self.busy + self.lost + self.cut and method == b"GET" and len(data) > 1:
            self.faults["cut"] += 1
            writer.write(answer + data[: len(data) // 2])
            await writer.drain()
            return False
        writer.write(answer + data)
        await writer.drain()
        return _has_length(answer) or method == b"HEAD"


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None


def _fields(head: bytes) -> dict[bytes, bytes]:
    pairs = (line.partition(b":") for line in head.split(b"\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _has_length(head: bytes) -> bool:
    return b"content-length" in _fields(head)


def _length(head: bytes) -> int:
    return int(_fields(head).get(b"content-length", b"0"))


def _close(head: bytes) -> bytes:
    """Ask the server to close the connection after its answer."""
    lines = [line for line in head.rstrip(b"\r\n").split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n"
