"""Programs by hand: `python -m tests.random.whole 17` shows and checks one, `0 500` many.

python -m tests.random.whole FIRST [END]       check; failures are told
python -m tests.random.whole FIRST --show      print the program alone
python -m tests.random.whole FIRST --shrink    print the least program that fails alike
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from functools import partial

from tests.random.whole.checks import check_program, check_seed, extent_of
from tests.random.whole.generator import whole_program
from tests.random.whole.shrink import failure_of, shrunk


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("first", type=int)
    options.add_argument("end", type=int, nargs="?")
    options.add_argument("--show", action="store_true")
    options.add_argument("--shrink", action="store_true")
    options.add_argument("--size", type=int)
    given = options.parse_args()
    kinds: Counter[str] = Counter()
    for seed in range(given.first, given.end or given.first + 1):
        program = whole_program(seed, given.size)
        if given.show:
            print(program)
            continue
        if given.shrink:
            print(shrunk(program, failure_of(partial(check_program, extent=extent_of(seed)))))
            continue
        start = time.perf_counter()
        try:
            kinds[check_seed(seed)] += 1
        except Exception as e:  # noqa: BLE001  # shown, whatever it is
            kinds[type(e).__name__] += 1
            print(f"seed {seed}: {type(e).__name__}: {str(e)[:600]}")
            if given.end is None:
                traceback.print_exc()
        took = time.perf_counter() - start
        if took > 30 or given.end is None or seed % 50 == 49:
            print(f"seed {seed}: {took:.1f} s {dict(kinds)}")
        sys.stdout.flush()
    print(dict(kinds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
