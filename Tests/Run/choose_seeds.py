"""Chooses seeds of the simulation, and prints them as `callsim --list` reads them. Each race, fault and answer is met by
at least four of them, where that is possible.

    python3 Tests/Run/choose_seeds.py 1 1000 200 > Tests/Run/seeds.txt

looks at the seeds from 1 to 1,000 and prints 200. It is run again when a change to the simulation leaves the old choice
without a race: callsim says which ("never met"). Lines with a remark are about seeds that failed once. They stay.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

TIMES = 4  # Any change moves what happens in a seed, so each race is met by several.


def look(seed):
    command = [".build/release/callsim", "--seed", str(seed), "--json"]
    answer = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    return seed, set(answer["counts"])


LIST = pathlib.Path(__file__).parent / "seeds.txt"


def main(first, last, count):
    # The shell may have emptied the file already, so git is asked.
    before = subprocess.run(["git", "show", f"HEAD:./{LIST.name}"], cwd=LIST.parent, capture_output=True, text=True).stdout
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        met = dict(pool.map(look, range(first, last + 1)))
    # An event that nothing requires counts as well: it costs nothing.
    missing = {name: TIMES for name in set().union(*met.values())}
    chosen = []
    while len(chosen) < count and met:
        best = max(met, key=lambda seed: (sum(1 / TIMES + missing[name] for name in met[seed] if missing[name]), -seed))
        for name in met.pop(best):
            missing[name] = max(0, missing[name] - 1)
        chosen.append(best)
    for name, times in sorted(missing.items()):
        if times == TIMES:
            print(f"met by none: {name}", file=sys.stderr)
    print("\n".join(map(str, sorted(chosen))))
    for line in before.splitlines():
        if " " in line:
            print(line)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
