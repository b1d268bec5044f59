"""Puts a mutant into a process before anything of the product is loaded.

Modules are patched as they are imported, so that every name that was imported from one is the
mutant's too. A patch whose text is not there exactly once is an error, never a mutant that does
nothing; and a process in which a patch was not used says so.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from lab.mutants.mutant import Mutant, Patch

POSTGRES = "fencepost.store.postgres"
SCHEMAS = {
    f"{POSTGRES}.schema": f"{POSTGRES}.schema",
    "fencepost.store.sqlite.schema": "fencepost.store.sqlite.engine.schema",
}
"""Which module reads the files of which folder, by ``migrations`` or through ``with_numbers``."""


class PatchError(Exception):
    """A patch does not fit the product, or came too late."""


def mutated(text: str, patch: Patch) -> str:
    """Return *text* with the patch made, or raise PatchError."""
    count = text.count(patch.old)
    if count != 1:
        raise PatchError(f"{patch.target}: the text is there {count} times:\n{patch.old}")
    if patch.old == patch.new:
        raise PatchError(f"{patch.target}: the patch changes nothing:\n{patch.old}")
    return text.replace(patch.old, patch.new)


def source_of(patch: Patch) -> str:
    """Return the text that a patch is made in, as it stands on the disk."""
    module, _, file = patch.target.partition("/")
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise PatchError(f"there is no {patch.target}")
    path = Path(spec.origin)
    if file.startswith("*."):
        return "\n".join(each.read_text("utf-8") for each in sorted(path.parent.rglob(file)))
    return ((path.parent / file) if file else path).read_text("utf-8")


def check(mutant: Mutant) -> None:
    """Raise unless every patch of *mutant* fits, and what it makes of a module compiles."""
    texts: dict[str, str] = {}
    for patch in mutant.patches:
        texts[patch.target] = mutated(texts.get(patch.target) or source_of(patch), patch)
    for target, text in texts.items():
        if not target.endswith((".sql", ".lua")):
            compile(text, target, "exec")


class Plant:
    """A mutant in this process, and which of its patches have been made."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.made: set[Patch] = set()
        self._copies: list[tempfile.TemporaryDirectory[str]] = []
        """Of folders of scripts, with the patches made."""

    @property
    def is_whole(self) -> bool:
        """Whether every patch was made: what was never loaded was never tested."""
        return self.made == set(self.mutant.patches)

    def install(self) -> None:
        """Have the product loaded as the mutant has it."""
        modules: dict[str, list[Patch]] = {}
        files: dict[str, list[Patch]] = {}
        scripts: dict[str, list[Patch]] = {}
        for patch in self.mutant.patches:
            folder = patch.target.partition("/")[0]
            if patch.is_sql_file:
                files.setdefault(SCHEMAS[folder], []).append(patch)
            elif patch.is_lua_file:
                scripts.setdefault(folder, []).append(patch)
            else:
                modules.setdefault(patch.target, []).append(patch)
        for name in (*modules, *files, *scripts):
            if name in sys.modules:
                raise PatchError(f"{name} was loaded before it could be patched")
        sys.meta_path.insert(0, _Finder(self, modules, files))
        sys.meta_path.insert(0, _ScriptFinder(self, scripts))

    def copy_of(self, folder: Path, patches: Sequence[Patch]) -> Path:
        """Return a copy of a folder of scripts with the patches made."""
        copy = tempfile.TemporaryDirectory(prefix="fencepost-mutant-")
        self._copies.append(copy)
        whole = shutil.copytree(folder, copy.name, dirs_exist_ok=True)
        for path in sorted(Path(whole).rglob("*.lua")):
            text = path.read_text("utf-8")
            path.write_text(self.patch(text, [p for p in patches if p.old in text]), "utf-8")
        return Path(whole)

    def patch(self, text: str, patches: Sequence[Patch]) -> str:
        for patch in patches:
            text = mutated(text, patch)
            self.made.add(patch)
        return text


class _Finder(MetaPathFinder):
    def __init__(
        self, plant: Plant, modules: dict[str, list[Patch]], files: dict[str, list[Patch]]
    ) -> None:
        self._plant = plant
        self._modules = modules
        self._files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._modules and fullname not in self._files:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(
            fullname,
            spec.origin,
            self._plant,
            self._modules.get(fullname, []),
            self._files.get(fullname, []),
        )
        return spec


class _ScriptFinder(MetaPathFinder):
    """Finds a package of scripts in a copy that has the patches, for every reader."""

    def __init__(self, plant: Plant, scripts: dict[str, list[Patch]]) -> None:
        self._plant = plant
        self._scripts = scripts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._scripts:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        copy = self._plant.copy_of(Path(spec.origin).parent, self._scripts[fullname])
        return importlib.util.spec_from_file_location(
            fullname, copy / "__init__.py", submodule_search_locations=[str(copy)]
        )


class _Loader(SourceFileLoader):
    def __init__(
        self, name: str, path: str, plant: Plant, patches: list[Patch], files: list[Patch]
    ) -> None:
        super().__init__(name, path)
        self._plant = plant
        self._patches = patches
        self._files = files

    def get_code(self, fullname: str) -> CodeType | None:
        text = self._plant.patch(Path(self.path).read_text("utf-8"), self._patches)
        code: CodeType = compile(text, self.path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if self._files and hasattr(module, "migrations"):
            read = module.migrations
            module.migrations = lambda: [  # type: ignore[attr-defined]
                (number, name, self._mutated(sql)) for number, name, sql in read()
            ]
        if self._files and hasattr(module, "with_numbers"):
            numbered = module.with_numbers
            module.with_numbers = lambda sql: numbered(  # type: ignore[attr-defined]
                self._mutated(sql)
            )

    def _mutated(self, sql: str) -> str:
        """Return the text of one file with the patches whose text it has."""
        return self._plant.patch(sql, [each for each in self._files if each.old in sql])
