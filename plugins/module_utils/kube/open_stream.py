# SPDX-License-Identifier: BSD-2-Clause
"""A response without an end, such as that of a watch or of a log that is followed."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator
from contextlib import suppress
from threading import Lock
from typing import Any

from .limits import TooMuchData
from .transport import CHUNK_SIZE


class OpenStream:
    """Iterate over ``pieces`` until the connection ends; ``stop`` may be called from another thread.

    ``silent``: it has ended because nothing came any more. ``broken``: it has ended, but not because the server said
    so.
    """

    def __init__(self, response: Any) -> None:
        self._response = response
        self._lock = Lock()
        self.silent = False
        self.broken = False

    def pieces(self) -> Generator[bytes, None, None]:
        from urllib3.exceptions import HTTPError, ReadTimeoutError

        try:
            yield from self._response.stream(CHUNK_SIZE)
        except ReadTimeoutError:
            self.silent = self.broken = True
        except (HTTPError, OSError, TooMuchData):
            self.broken = True  # Cut or stopped: what came so far is valid.
        finally:
            with self._lock:
                self._response.close()  # A connection with unread data cannot serve another request.

    def stop(self) -> None:
        """End the iteration even while it waits: shutting a socket down wakes its reader, closing it does not."""
        # AttributeError, ValueError: from urllib3 and http.client if the stream has just ended by itself.
        with self._lock, suppress(OSError, AttributeError, ValueError):
            if not self._response.closed:
                with socket.socket(fileno=os.dup(self._response.fileno())) as connection:
                    connection.shutdown(socket.SHUT_RDWR)
