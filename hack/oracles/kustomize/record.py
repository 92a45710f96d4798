#!/usr/bin/env python3
"""Builds the cases of a folder with the real program and writes down what it printed.

    record.py target/oracles/kustomize crates/kustomize/testdata

A case is a text with files behind lines `-- path --`; the last of them, `-- expected --`, is written here.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

MARK = "-- expected --\n"


def main():
    program, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    for case in sorted(folder.glob("*.txt")):
        text = case.read_text().split(MARK)[0]
        head, *rest = text.split("-- ")
        options = [line[9:] for line in head.splitlines() if line.startswith("options: ")]
        with tempfile.TemporaryDirectory() as root:
            place = None
            for line in text.splitlines(keepends=True):
                if line.startswith("-- ") and line.endswith(" --\n"):
                    place = pathlib.Path(root, line[3:-4])
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text("")
                elif place:
                    with place.open("a") as file:
                        file.write(line)
            words = [str(program), "build", root, *(options[0].split() if options else [])]
            answer = subprocess.run(words, capture_output=True, text=True)
            if answer.returncode == 0:
                expected = answer.stdout
            else:
                lines = [line for line in answer.stderr.splitlines() if not line.startswith(("# Warning", "Flag --"))]
                real = str(pathlib.Path(root).resolve())
                expected = "\n".join(lines).replace(real + "/", "").replace(real, "") + "\n"
                # Addresses differ each time.
                expected = re.sub(r"0x[0-9a-f]{8,}", "0x0", expected)
        case.write_text(text + MARK + expected)


main()
