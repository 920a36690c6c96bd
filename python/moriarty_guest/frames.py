"""Frames on a pipe: four bytes of length, little end first, then one JSON object in UTF-8."""

import json
from typing import Any, BinaryIO

from .failures import FrameError

FRAME_BYTES_MAX = 1 << 20


def read_frame(stream: BinaryIO) -> "dict[str, Any] | None":
    """The next frame; None at the end of the stream.

    Raises FrameError for a length out of bounds, a frame that is cut off, or one that is no JSON object.
    """
    head = stream.read(4)
    if not head:
        return None
    if len(head) < 4:
        raise FrameError(f"cut off after {len(head)} bytes of a length")
    size = int.from_bytes(head, "little")
    if size > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {size} bytes, at most {FRAME_BYTES_MAX} are read")
    body = stream.read(size)
    if len(body) < size:
        raise FrameError(f"cut off after {len(body)} of {size} bytes")
    try:
        value = json.loads(body)
    except ValueError as error:
        raise FrameError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FrameError("not a JSON object")
    return value


def write_frame(stream: BinaryIO, value: "dict[str, Any]") -> None:
    """Raises FrameError when the frame would be longer than a reader takes."""
    body = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > FRAME_BYTES_MAX:
        raise FrameError(f"an answer of {len(body)} bytes, at most {FRAME_BYTES_MAX} are written")
    stream.write(len(body).to_bytes(4, "little") + body)
    stream.flush()
