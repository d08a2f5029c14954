"""Checking derivatives: `gradcheck` and its report."""

from tensorad.checking.gradients import gradcheck
from tensorad.checking.report import GradReport

__all__ = ["GradReport", "gradcheck"]
