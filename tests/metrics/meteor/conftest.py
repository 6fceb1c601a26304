"""The METEOR of pycocoevalcap, whose process takes seconds to start: one for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pycocoevalcap.meteor.meteor import Meteor

from capbench.metrics.java import find_java


@pytest.fixture(scope="session")
def released() -> Meteor:
    # It starts the first Java on the PATH; that shall be ours.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(find_java()).parent), prepend=os.pathsep)
        return Meteor()
