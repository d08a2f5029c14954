"""Programs with function values, references and tagged values, as text; partial evaluation."""

from tensorad.language.block_reader import parse
from tensorad.language.check import check, checked_at
from tensorad.language.dead_code import without_dead_code
from tensorad.language.functions import LanguageFunction
from tensorad.language.interpret import interpret
from tensorad.language.partial import PartiallyEvaluated, Steps, partial_eval
from tensorad.language.terms import Program
from tensorad.language.values import Tagged

__all__ = [
    "LanguageFunction",
    "PartiallyEvaluated",
    "Program",
    "Steps",
    "Tagged",
    "check",
    "checked_at",
    "interpret",
    "parse",
    "partial_eval",
    "without_dead_code",
]
