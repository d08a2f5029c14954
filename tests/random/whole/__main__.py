"""Programs by hand: `python -m tests.random.whole 17` shows and checks one, `0 500` many.

    python -m tests.random.whole FIRST [END]     check; every failure is shown, made smaller
    python -m tests.random.whole FIRST --show    print the program alone
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from tests.random.whole.checks import check_program
from tests.random.whole.generator import whole_program


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("first", type=int)
    options.add_argument("end", type=int, nargs="?")
    options.add_argument("--show", action="store_true")
    options.add_argument("--size", type=int, default=7)
    given = options.parse_args()
    kinds: Counter[str] = Counter()
    for seed in range(given.first, given.end or given.first + 1):
        program = whole_program(seed, given.size)
        if given.show:
            print(program)
            continue
        start = time.perf_counter()
        try:
            kinds[check_program(program, 2 if seed % 4 == 0 else 1, every_pass=seed % 4 == 1)] += 1
        except Exception as e:  # shown, whatever it is
            kinds[type(e).__name__] += 1
            print(f"seed {seed}: {type(e).__name__}: {str(e)[:600]}")
            if given.end is None:
                traceback.print_exc()
        took = time.perf_counter() - start
        if took > 10 or given.end is None:
            print(f"seed {seed}: {took:.1f} s")
        sys.stdout.flush()
    print(dict(kinds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
