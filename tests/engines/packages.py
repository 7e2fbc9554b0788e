"""Packages that a test needs beside its environment, not in it: cached under build/."""

import subprocess
import sys
from pathlib import Path
from shutil import rmtree

import pytest

BUILD = Path(__file__).parents[2] / "build"


def beside(folder: str, *requirements: str) -> Path:
    """A folder for the path of a subprocess with `requirements` in it, without what they need.

    Installed once, with the pip of the running interpreter. Skips the test where they
    cannot be had.
    """
    target = BUILD / folder
    marker = target / "installed.txt"
    wanted = "\n".join(requirements)
    if marker.exists() and marker.read_text() == wanted:
        return target
    rmtree(target, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
    done = subprocess.run([*pip, *requirements], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{', '.join(requirements)} cannot be had: {done.stderr.strip()[-300:]}")
    marker.write_text(wanted)
    return target
