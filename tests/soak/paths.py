# SPDX-License-Identifier: Apache-2.0
"""Finds the modules of the crash tests, which these build on."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "crash"))
