"""make chaos SEED=… MINUTES=…: draws from a seed on. What breaks a promise is shown with its seed and fewest faults.

python -m tests.chaos SEED MINUTES     0 minutes: this one draw
"""

import sys
import time

from tests.chaos.draws import draw, play, shrunk


def main(seed: int, minutes: float) -> bool:
    """Whether every draw kept every promise."""
    until, played, broken = time.monotonic() + 60 * minutes, 0, 0
    while not played or time.monotonic() < until:
        found = play(draw(seed + played))
        played += 1
        if found.broken:
            broken += 1
            least = shrunk(found)
            print(f"{found.draw}\n  least: {least.draw}", *least.broken, sep="\n  - ", flush=True)
    print(f"{played} draws from seed {seed} on, {broken} broke a promise")
    return not broken


if __name__ == "__main__":
    try:
        given = int(sys.argv[1]), float(sys.argv[2])
    except ValueError:
        print(f"SEED={sys.argv[1]} MINUTES={sys.argv[2]}: a whole number and a number are needed", file=sys.stderr)
        sys.exit(2)
    sys.exit(not main(*given))
