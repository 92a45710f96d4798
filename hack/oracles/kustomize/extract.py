#!/usr/bin/env python3
"""Writes the kustomizations of the kustomize module's own tests into folders, as input for comparisons.

    extract.py MODULE OUTPUT > cases.tsv

MODULE is the folder of sigs.k8s.io/kustomize/api in the module cache. One folder is made for each test function. The
lines of the output name root, directory and options for the example `compare`. Nothing of it is to be committed.
"""

import pathlib
import re
import sys

CALL = re.compile(r'th\.Write([FKCR])\(\s*("(?:[^"\\]|\\.)*"|filepath\.Join\([^)]*\)|\w+)\s*,\s*((?:`[^`]*`|"(?:[^"\\]|\\.)*"|\s*\+\s*)+)', re.S)
MEMBER = re.compile(r'"([\w./-]+)":\s*((?:`[^`]*`|"(?:[^"\\]|\\.)*"|\s*\+\s*)+)', re.S)
RUN = re.compile(r'\bth\.(?:Run|RunWithErr|RunWithOptions)\(\s*("[^"]*"|\w+)')
TEXT = re.compile(r'`([^`]*)`|"((?:[^"\\]|\\.)*)"', re.S)
FUNCTION = re.compile(r'^func (\w+)\([^)]*\)[^{]*\{(.*?)^\}', re.S | re.M)


def text_of(expression):
    parts = []
    for raw, quoted in TEXT.findall(expression):
        parts.append(raw if raw else quoted.encode().decode("unicode_escape"))
    return "".join(parts)


def path_of(expression):
    if expression.startswith("filepath.Join"):
        return "/".join(text_of(part) for part in expression[14:-1].split(","))
    return text_of(expression) if expression.startswith('"') else None


def files_of(body, functions, seen):
    files = {}
    for name, inner in functions.items():
        if name not in seen and re.search(r"\b%s\(" % name, body):
            files.update(files_of(inner, functions, seen | {name}))
    for kind, path, content in CALL.findall(body):
        path = path_of(path)
        if path is None:
            continue
        content = text_of(content)
        if kind in "KC":
            path += "/kustomization.yaml"
            version = "v1alpha1\nkind: Component" if kind == "C" else "v1beta1\nkind: Kustomization"
            content = f"apiVersion: kustomize.config.k8s.io/{version}\n{content}"
        files[path.lstrip("/")] = content
    return files


def write(root, files):
    for path, content in files.items():
        place = root / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
        except OSError:
            pass


def main():
    module, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for source in sorted((module / "krusty").glob("*_test.go")):
        text = source.read_text()
        functions = dict(FUNCTION.findall(text))
        for name, body in functions.items():
            if not name.startswith("Test"):
                continue
            root = output / source.stem / name
            files = files_of(body, functions, {name})
            write(root, files)
            directories = {path_of(found) for found in RUN.findall(body)} - {None}
            directories |= {str(pathlib.PurePath(path).parent) for path in files if path.endswith("kustomization.yaml")}
            for directory in sorted(directories):
                print(f"{root}\t{directory.strip('/')}\t")
            # Tables of cases: each mapping of file names is a folder of its own.
            for number, block in enumerate(re.split(r'map\[string\]string\{', body)[1:]):
                files = {path: text_of(content) for path, content in MEMBER.findall(block.split("\n\t\t\t},")[0])}
                if not any(path.endswith("kustomization.yaml") for path in files):
                    continue
                root = output / source.stem / name / f"table{number}"
                write(root, {path.lstrip("/"): content for path, content in files.items()})
                for path in files:
                    if path.endswith("kustomization.yaml"):
                        directory = str(pathlib.PurePath(path).parent).strip("/")
                        print(f"{root}\t{'' if directory == '.' else directory}\t")


main()
