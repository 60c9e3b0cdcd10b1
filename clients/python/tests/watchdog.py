"""The watchdog of tests: one that hangs shows where, and ends the run."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import unittest


class Watched(unittest.TestCase):
    """A test that may take `limit_s` seconds."""

    limit_s = 60.0

    def setUp(self) -> None:
        watchdog = threading.Timer(self.limit_s, self.abort)
        watchdog.daemon = True
        watchdog.start()
        self.addCleanup(watchdog.cancel)

    def abort(self) -> None:
        faulthandler.dump_traceback()
        print(f"{self.id()} takes longer than {self.limit_s} s", file=sys.stderr, flush=True)
        self.doCleanups()
        os._exit(1)
