"""tensorad: tensor operators by index formula, differentiated and compiled."""

from pathlib import Path

__path__ = [*__path__]
_root = Path(__file__).resolve().parent.parent
for _name in ("codegen", "simplify"):  # a checkout that lost its links still finds the folders
    if not (Path(__file__).parent / _name / "__init__.py").exists():
        __path__.append(str(_root))
