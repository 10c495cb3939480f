"""Upload a finished local file to an object store in parts, each with a checksum; the last request publishes it.

::

    size ≤ a part     one conditional request
    s3, larger        begin → parts, several at once, each with its MD5 → complete, on condition that nothing is there
    gs, az, larger    the parts of obstore, which has no conditions for them: the target is checked just before

obstore can neither put a condition on the last request, nor list the uploads that a killed run has left, so botocore
sends the parts for S3. Parts are read from the file while they are sent, so that an upload takes little memory.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self

from reblock.errors import CorruptError, DiskError, UsageError
from reblock.model.medium import ReadHandle
from reblock.model.upload import Upload
from reblock.storage.media.local import LOCAL
from reblock.storage.media.object_url import parse_options, split_object
from reblock.storage.media.requests import RequestError, send
from reblock.storage.seekable import SeekableFile

if TYPE_CHECKING:
    from reblock.storage.media.object import ObjectMedium

#: The least bytes of a part, and the most parts of an object.
PART_BYTES, _MANY_PARTS = 8 << 20, 10_000
#: The mark by which a file that a run has built is recognised.
MARK = "reblockmark"
#: Parts that are sent at once.
MAX_AT_ONCE = 4
_BLOCK_BYTES = 1 << 20


def count_requests(key: str, size: int) -> tuple[int, int]:
    """The parts of the upload of a file, and its requests if none fails."""
    if size <= PART_BYTES:
        return 1, 2
    parts = -(-size // part_bytes(size))
    # Begin and complete, look for uploads that were left, and look at the result.
    return parts, parts + (4 if key.startswith("s3://") else 2)


def upload(medium: ObjectMedium, key: str, file: str, mark: str, *, replace: bool) -> Upload:
    """Upload a local file under a key, with a mark.

    FileExistsError if there is an object that must not be replaced.
    """
    began, sent = time.perf_counter(), medium.gate.sent
    with LOCAL.reader(file) as handle:
        size = handle.size()
        if size <= PART_BYTES:
            data = bytearray(size)
            handle.read(memoryview(data), 0)
            _put_whole(medium, key, data, mark, replace=replace)
            parts = 1
        elif key.startswith("s3://"):
            parts = PartUpload(medium, key).send(handle, size, mark, replace=replace)
        else:
            parts = _upload_simply(medium, key, handle, size, mark)
    medium.known.forget(key)
    if (found := medium.status(key).size) != size:
        raise CorruptError(f"{key}: {found:,} bytes arrived of {size:,}")
    return Upload(size, parts, medium.gate.sent - sent, time.perf_counter() - began)


def mark_of(medium: ObjectMedium, key: str) -> str | None:
    """The mark of an object; FileNotFoundError if there is no object."""
    path = medium.path(key)
    found = medium.send(key, "read", lambda: medium.library.get(medium.store, path, options={"range": (0, 1)}))
    mark = found.attributes.get(MARK)
    return None if mark is None else str(mark)


def check_lease(medium: ObjectMedium, key: str) -> str:
    """The path of a key; StorageError if it may no longer be written."""
    return medium._writable(key)  # noqa: SLF001 - uploads are a part of the medium


def _put_whole(medium: ObjectMedium, key: str, data: bytearray, mark: str, *, replace: bool) -> None:
    mode = "overwrite" if replace else "create"

    def put() -> None:
        path = check_lease(medium, key)
        medium.library.put(medium.store, path, data, mode=mode, attributes={MARK: mark}, use_multipart=False)

    try:
        medium.send(key, "write", put)
    except FileExistsError:
        # The response to an earlier try may have been lost.
        if mark_of(medium, key) != mark:
            raise


def _upload_simply(medium: ObjectMedium, key: str, handle: ReadHandle, size: int, mark: str) -> int:
    part = part_bytes(size)

    def put() -> None:
        path, body = check_lease(medium, key), FilePart(handle, 0, size)
        medium.library.put(
            medium.store,
            path,
            body,
            attributes={MARK: mark},
            use_multipart=True,
            chunk_size=part,
            max_concurrency=2,
        )

    medium.send(key, "write", put)
    return -(-size // part)


def part_bytes(size: int) -> int:
    """Bytes of a part, such that an object does not have too many."""
    least = -(-size // _MANY_PARTS)
    return max(PART_BYTES, -(-least // _BLOCK_BYTES) * _BLOCK_BYTES)


class FilePart(SeekableFile):
    """A part of a local file, as a file of its own."""

    def __init__(self, handle: ReadHandle, start: int, stop: int) -> None:
        super().__init__(stop - start)
        self._handle, self._start = handle, start

    def __len__(self) -> int:
        return self.size

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes."""
        view = memoryview(buffer).cast("B")[: max(self.size - self.position, 0)]
        found = self._handle.read(view, self._start + self.position) if view else 0
        self.position += found
        return found

    def checksum(self) -> bytes:
        """The MD5 of the part."""
        taken = hashlib.md5(usedforsecurity=False)
        self.seek(0)
        while data := self.read(_BLOCK_BYTES):
            taken.update(data)
        self.seek(0)
        return taken.digest()


class PartUpload:
    """Uploads to one key of S3."""

    def __init__(self, medium: ObjectMedium, key: str) -> None:
        self._medium, self._key = medium, key
        root, path = split_object(key)
        self._where = {"Bucket": root.partition("://")[2], "Key": path}
        self._client = _client(root, medium._options)  # noqa: SLF001 - uploads are a part of the medium

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def send(self, handle: ReadHandle, size: int, mark: str, *, replace: bool) -> int:
        """Send all parts and complete the object; returns their number. A failure leaves no upload."""
        step = part_bytes(size)
        with self:
            try:
                begun = self._call("create_multipart_upload", Metadata={MARK: mark})
                upload = {"UploadId": begun["UploadId"]}
                starts = range(0, size, step)

                def send_part(start: int) -> dict[str, Any]:
                    check_lease(self._medium, self._key)
                    body = FilePart(handle, start, min(start + step, size))
                    return self._send_part(start // step + 1, body, upload)

                with ThreadPoolExecutor(MAX_AT_ONCE, "reblock-upload") as threads:
                    futures = [threads.submit(send_part, start) for start in starts]
                    try:
                        parts = [future.result() for future in futures]
                    except BaseException:
                        threads.shutdown(cancel_futures=True)
                        raise
                self._complete(upload, parts, mark, replace=replace)
            except BaseException:
                with suppress(Exception):
                    self.abort_all()
                raise
            # The response to an earlier beginning may have been lost.
            self.abort_all()
        return len(parts)

    def _send_part(self, number: int, body: FilePart, upload: Mapping[str, str]) -> dict[str, Any]:
        md5 = body.checksum()

        def request() -> Any:
            body.seek(0)
            text = base64.b64encode(md5).decode()
            return self._client.upload_part(**self._where, **upload, PartNumber=number, Body=body, ContentMD5=text)

        tag = str(self._send(request)["ETag"])
        return {"PartNumber": number, "ETag": tag, "md5": md5}

    def _complete(self, upload: Mapping[str, str], parts: list[dict[str, Any]], mark: str, *, replace: bool) -> None:
        """Assemble the object from its parts: this publishes it."""
        check_lease(self._medium, self._key)
        listed = [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in parts]
        more = {} if replace else {"IfNoneMatch": "*"}
        try:
            made = self._call("complete_multipart_upload", **upload, MultipartUpload={"Parts": listed}, **more)
        except (FileExistsError, FileNotFoundError) as error:
            # The response to an earlier try may have been lost.
            if mark_of(self._medium, self._key) == mark:
                return
            if isinstance(error, FileNotFoundError):
                gone = OSError("another program has removed the parts of the upload")
                raise DiskError.wrap(gone, doing="write", path=self._key) from None
            raise
        expected = hashlib.md5(b"".join(part["md5"] for part in parts), usedforsecurity=False).hexdigest()
        found = re.fullmatch(r'"?([0-9a-f]{32})-[0-9]+"?', str(made.get("ETag", "")))
        plain = all(part["ETag"].strip('"') == part["md5"].hex() for part in parts)
        if plain and found and found[1] != expected:
            raise CorruptError(f"{self._key}: the store received other bytes than were sent")

    def abort_all(self) -> int:
        """Abort all uploads to this key; returns their number."""
        bucket, key = self._where["Bucket"], self._where["Key"]
        begin: dict[str, str] = {}
        found: list[str] = []
        while True:
            page = self._send(lambda: self._client.list_multipart_uploads(Bucket=bucket, Prefix=key, **begin))
            found += [one["UploadId"] for one in page.get("Uploads") or () if one["Key"] == key]
            if not page.get("IsTruncated") or not page.get("NextKeyMarker"):
                break
            begin.clear()
            begin.update(KeyMarker=page["NextKeyMarker"], UploadIdMarker=page.get("NextUploadIdMarker") or "")
        for one in found:
            with suppress(FileNotFoundError):
                self._call("abort_multipart_upload", UploadId=one)
        return len(found)

    def _call(self, name: str, **more: Any) -> Any:
        return self._send(lambda: getattr(self._client, name)(**self._where, **more))

    def _send(self, request: Callable[[], Any]) -> Any:
        return send(self._medium.gate, self._key, "write", lambda: _translated(request))


def _translated(request: Callable[[], Any]) -> Any:
    """The result of a request; errors of botocore are raised as those of `requests`."""
    from botocore import exceptions

    try:
        return request()
    except exceptions.ClientError as error:
        said, code = (
            error.response.get("Error", {}),
            error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0),
        )
        if code == 404 and said.get("Code") != "NoSuchBucket":
            raise FileNotFoundError(said.get("Code")) from None
        words = f"<Code>{said.get('Code', '')}</Code><Message>{said.get('Message', '')}</Message>"
        raise RequestError(f"status code: {code} {words}") from None
    except exceptions.NoCredentialsError:
        raise UsageError(
            "there are no credentials for the upload: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from None
    except exceptions.BotoCoreError as error:
        raise RequestError(f"error sending request: {error}") from None


def _client(root: str, options: Mapping[str, str]) -> Any:
    """A client with the same settings as the store of obstore."""
    if find_spec("botocore") is None:
        raise UsageError(f"{root}: uploads in parts need the module botocore: pip install 'reblock[s3]'")
    import botocore.config
    import botocore.session

    store, client = parse_options(options)
    given = {name.removeprefix("aws_"): value for name, value in store.items()}
    session = botocore.session.Session()
    settings: dict[str, Any] = {
        "retries": {"total_max_attempts": 1},
        "connect_timeout": 10,
        "read_timeout": 120,
        "max_pool_connections": MAX_AT_ONCE,
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        "s3": {"addressing_style": "virtual" if _is_true(given.get("virtual_hosted_style_request")) else "path"},
    }
    if proxy := client.get("proxy_url"):
        settings["proxies"] = {"http": proxy, "https": proxy}
    if _is_true(given.get("skip_signature")):
        settings["signature_version"] = botocore.UNSIGNED
    known = session.get_config_variable("region")
    try:
        return session.create_client(
            "s3",
            region_name=given.get("region") or given.get("default_region") or known or "us-east-1",
            endpoint_url=given.get("endpoint_url") or given.get("endpoint") or given.get("endpoint_url_s3"),
            aws_access_key_id=given.get("access_key_id"),
            aws_secret_access_key=given.get("secret_access_key"),
            aws_session_token=given.get("session_token") or given.get("token"),
            verify=False if _is_true(client.get("allow_invalid_certificates")) else None,
            config=botocore.config.Config(**settings),
        )
    except Exception as error:  # noqa: BLE001 - the library has several kinds for wrong settings
        raise UsageError(f"{root}: cannot be connected: {' '.join(str(error).split())[:300]}") from None


def _is_true(text: str | None) -> bool:
    return (text or "").strip().lower() in ("true", "1", "yes", "on")
