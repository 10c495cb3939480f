"""An HTTP server of the tests' own: it serves files of a folder in ranges or only whole, and redirects."""

from __future__ import annotations

import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self


class HttpServer:
    """Runs in threads of its own until it is closed."""

    def __init__(self, folder: Path, *, ranges: bool = True, tags: bool = True, to: str = "") -> None:
        """`to` is a URL to which every request is redirected."""
        self.requests: list[tuple[str, str, str]] = []
        outer = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(folder))

            def log_message(self, *_: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self._serve(body=False)

            def do_GET(self) -> None:
                self._serve(body=True)

            def _serve(self, *, body: bool) -> None:
                wanted = self.headers.get("Range", "")
                outer.requests.append((self.command, self.path, wanted))
                if to:
                    self.send_response(302)
                    self.send_header("Location", to + self.path)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if not ranges:
                    super().do_GET() if body else super().do_HEAD()
                    return
                path = Path(self.translate_path(self.path))
                if not path.is_file():
                    self.send_error(404)
                    return
                data = path.read_bytes()
                found = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted)
                start, stop = (int(found[1]), min(int(found[2]) + 1, len(data))) if found else (0, len(data))
                tag = f'"{path.stat().st_mtime_ns:x}-{len(data):x}"'
                if tags and self.headers.get("If-Match", tag) != tag:
                    self.send_error(412)
                    return
                self.send_response(206 if found else 200)
                if found:
                    self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
                self.send_header("Content-Length", str(stop - start))
                self.send_header("Last-Modified", self.date_time_string(int(path.stat().st_mtime)))
                if tags:
                    self.send_header("ETag", tag)
                self.end_headers()
                if body:
                    self.wfile.write(data[start:stop])

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
