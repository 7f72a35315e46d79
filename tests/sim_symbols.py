#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sim_symbols.py: the simulator is made of the same object code as the program.

    sim_symbols.py HOLDFAST_SIM LIBHOLDFAST_CORE LIBHOLDFAST_REAL

Every function of the core must be in the simulator under the same name and with the same size,
and none of the real environment. The core must also call no function of libc that allocates
behind the back of sim/world/heap.c.
"""

import collections
import subprocess
import sys

# What sim/world/heap.c does not see being allocated, and would be given to free.
UNSEEN_ALLOCATORS = set("""getline getdelim open_memstream canonicalize_file_name
    get_current_dir_name scandir tempnam wcsdup memalign valloc pvalloc""".split())


def symbols(path, kinds):
    """How often each (name, size) of these kinds stands in the file."""
    out = subprocess.run(["nm", "--print-size", "--format=posix", path], check=True,
                         capture_output=True, text=True).stdout
    found = collections.Counter()
    for line in out.splitlines():
        fields = line.split()
        if len(fields) >= 2 and len(fields[1]) == 1 and fields[1] in kinds:
            size = fields[3] if len(fields) > 3 else "0"
            found[(fields[0].split("@")[0], int(size, 16))] += 1
    return found


def functions(path):
    """Functions, of any visibility; marks that assemblers leave have no size."""
    return collections.Counter({key: count for key, count in symbols(path, "TtWw").items()
                                if key[1] > 0})


def check_core_is_inside(simulator, core):
    missing = functions(core) - functions(simulator)
    # Sections that many objects define alike, such as sanitizers' constructors, are merged.
    names = sorted({name for name, _ in missing if not name.startswith(("_sub_", "asan."))})
    return [f"not in the simulator as it is in the core: {name}" for name in names]


def check_core_is_there(core):
    count = sum(functions(core).values())
    return [] if count >= 100 else [f"the core has only {count} functions: is it the core?"]


def check_real_is_outside(simulator, core, real):
    inside = {name for name, _ in functions(simulator)}
    of_core = {name for name, _ in functions(core)}
    own = {name for name, _ in functions(real)
           if name == "env_real" or name.startswith("real_")} - of_core
    if "env_real" not in own:
        return ["the real environment has no env_real: is it the real environment?"]
    return [f"of the real environment, and in the simulator: {name}"
            for name in sorted(own & inside)]


def check_allocators(core):
    used = {name for name, _ in symbols(core, "U")}
    return [f"the core calls {name}, whose memory sim/world/heap.c does not see"
            for name in sorted(used & UNSEEN_ALLOCATORS)]


def main():
    simulator, core, real = sys.argv[1:]
    results = [
        ("the core has functions to compare", check_core_is_there(core)),
        ("the simulator has every function of the core, unchanged",
         check_core_is_inside(simulator, core)),
        ("the simulator has nothing of the real environment",
         check_real_is_outside(simulator, core, real)),
        ("the core allocates only where sim/world/heap.c sees it", check_allocators(core)),
    ]
    print(f"1..{len(results)}")
    for number, (sentence, problems) in enumerate(results, 1):
        print(f"{'not ok' if problems else 'ok'} {number} - {sentence}")
        for problem in problems:
            print(f"# {problem}")
    return any(problems for _, problems in results)


if __name__ == "__main__":
    sys.exit(main())
