"""What numbers on command lines may be."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """A whole number of things of which there has to be one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive integer")
    return int(text)


def positives(text: str) -> list[int]:
    """Several, between commas."""
    return [positive(part) for part in text.split(",")]
