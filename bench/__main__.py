"""`python -m bench [--only NAMES] [--peers jax,numpy,c] [--scale N] [--out FILE]`"""

import argparse
import sys

from bench import runner, workloads


def main() -> int:
    names = workloads.names()
    parser = argparse.ArgumentParser(prog="python -m bench", description="rune beside its peers.")
    parser.add_argument("--only", metavar="NAMES", help=f"workloads, with commas between: {', '.join(names)}")
    parser.add_argument("--peers", default="jax,numpy,c", help="what to compare with (default: %(default)s)")
    parser.add_argument(
        "--scale", default="1", help="lengths of loops, as multiples of the usual one: 1,10,100"
    )
    parser.add_argument(
        "--rounds", type=int, default=7, help="how often each takes its turn (default: %(default)s)"
    )
    parser.add_argument("--out", metavar="FILE", help="write the rows as JSON")
    args = parser.parse_args()

    only = args.only.split(",") if args.only else names
    peers = [p for p in args.peers.split(",") if p]
    if unknown := set(only) - set(names):
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if unknown := set(peers) - set(workloads.PEERS):
        parser.error(f"no peer {', '.join(sorted(unknown))}; there are {', '.join(workloads.PEERS[1:])}")
    scales = [int(s) for s in args.scale.split(",")]
    return runner.run(only, ["rune", *(p for p in peers if p != "rune")], scales, args.rounds, args.out)


if __name__ == "__main__":
    sys.exit(main())
