"""Mutants of how the SQLite store treats files: which is its own, and what is on the disk."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

STORE = "fencepost.store.sqlite"
TESTS = "tests/store/sqlite"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(module if module.startswith("fencepost.") else f"{STORE}.{module}", old, new),)
    return Mutant(f"sqlite-{name}", about, Place.SQLITE, patches, tests)


MUTANTS = (
    _mutant(
        "follows-no-symlinks",
        "a process that names the file by a link has a lock and a log of its own",
        "engine.files",
        "return without_links(path)",
        "return os.path.abspath(path)",
        f"{TESTS}/test_names.py",
    ),
    _mutant(
        "takes-any-database",
        "the database of another program becomes a store",
        "engine.files",
        "if status.st_size > 0 and _application_id(path) != APPLICATION_ID:",
        "if status.st_size > 0 and _application_id(path) is None:",
        f"{TESTS}/test_foreign_files.py",
    ),
    _mutant(
        "looks-too-late",
        "a foreign database is refused only after files were made beside it",
        "engine.database",
        "        files.refuse_foreign(self.path, self.access.group)\n",
        "",
        f"{TESTS}/test_foreign_files.py",
    ),
    _mutant(
        "names-a-store-at-the-end",
        "a store that is being made is taken for a foreign database by the next process",
        "engine.files",
        '        connection.execute(f"pragma application_id = {APPLICATION_ID}")\n'
        '        connection.execute("commit")\n',
        '        connection.execute("create table if not exists claimed(x)")\n'
        '        connection.execute("commit")\n'
        '        connection.execute(f"pragma application_id = {APPLICATION_ID}")\n',
        f"{TESTS}/test_foreign_files.py",
    ),
    _mutant(
        "takes-any-database-url",
        "the SQLite file of a web framework is taken from the environment",
        "fencepost.store.url",
        "return url if names_postgres(url) else None",
        "return url or None",
        "tests/app/test_submitting.py",
    ),
    _mutant(
        "waiter-dies-without-descriptors",
        "after a full file table nobody can wait for the lock any more",
        "engine.lock",
        "                request.refuse(error)\n                continue\n",
        "                request.refuse(error)\n                return\n",
        f"{TESTS}/test_lock.py",
    ),
    _mutant(
        "disk-error-is-forgotten",
        "after a forced write that failed, the next one is acknowledged",
        "engine.database",
        "            self._lock.mark()\n            self._keep_open()\n",
        "            self._keep_open()\n",
        f"{TESTS}/test_disk_errors.py",
    ),
    _mutant(
        "disk-error-is-kept-to-itself",
        "other processes do not learn of a forced write that failed",
        "engine.lock",
        "            write_at(self._fd, MARKED, 0)\n",
        "            write_at(self._fd, CLEAN, 0)\n",
        f"{TESTS}/test_disk_errors.py",
    ),
    _mutant(
        "disk-error-is-told-to-one-thread",
        "of two threads that force the log, the one without the error acknowledges",
        "engine.database",
        "            if self._lock.is_marked:\n                raise OSError",
        "            if False:\n                raise OSError",
        f"{TESTS}/test_disk_errors.py",
    ),
    _mutant(
        "repair-only-forces",
        "after a disk error the log is forced again, which does nothing, and folded in",
        "engine.checkpoints",
        "            self._log.rewrite(version)\n",
        "            self._log.force()\n",
        f"{TESTS}/test_disk_errors.py",
    ),
    _mutant(
        "repair-trusts-the-disk-with-the-log",
        "what was written anew is not read back from the disk",
        "engine.log",
        "        drop_cache(self.fd)\n        committed = self.pages(version)\n",
        "        committed = self.pages(version)\n",
        f"{TESTS}/test_disk_errors.py",
    ),
    _mutant(
        "repair-restores-a-log-of-the-past",
        "the copy of a repair that failed is written over a log that another has begun anew",
        "engine.log",
        "        if not is_same:\n",
        "        if False:\n",
        f"{TESTS}/test_disk_errors.py",
    ),
    _mutant(
        "repair-trusts-the-disk-with-the-file",
        "a file that the disk did not keep loses its log as well",
        "engine.log",
        "        missing = self._missing(log, pages)\n        if not missing:\n",
        "        missing = self._missing(log, {})\n        if not missing:\n",
        f"{TESTS}/test_disk_errors.py",
    ),
    _mutant(
        "checkpoint-fails-the-write",
        "a write that was committed is called surely not done",
        "engine.checkpoints",
        "        except sqlite3.Error as error:\n            note_unforced(error, self._lock)\n",
        "        except sqlite3.Warning as error:\n            note_unforced(error, self._lock)\n",
        f"{TESTS}/test_log.py",
    ),
    _mutant(
        "log-waits-for-nobody",
        "beside readers that overlap the log grows without end",
        "engine.checkpoints",
        "            if self._log.reaches(self._limit):\n",
        "            if False:\n",
        f"{TESTS}/test_log.py",
    ),
    _mutant(
        "log-waits-for-everybody",
        "every write waits for a reader that stays",
        "engine.checkpoints",
        "        self._limit += CHECKPOINT_PAGES\n",
        "",
        f"{TESTS}/test_log.py",
    ),
    _mutant(
        "database-is-left-to-sqlite",
        "every user of the machine reads the payloads",
        "engine.database",
        "        self.access.make_file(self.path)  # SQLite would make it readable for all users\n",
        "",
        f"{TESTS}/test_permissions.py",
    ),
    _mutant(
        "files-are-made-wide-and-narrowed",
        "between its creation and the chmod, everybody can open the lock and keep it",
        "engine.files",
        "os.O_CREAT | os.O_EXCL, FILE)",
        "os.O_CREAT | os.O_EXCL, 0o666)",
        f"{TESTS}/test_permissions.py",
    ),
    _mutant(
        "group-lacks-the-log",
        "a member of the group who did not create the log cannot open the store",
        "engine.files",
        "            if status.st_uid == user() and not is_given:\n",
        "            if False:\n",
        f"{TESTS}/test_permissions.py",
    ),
    _mutant(
        "lock-follows-links",
        "a link that a stranger planted leads our writes to another file",
        "engine.files",
        "            fd = os.open(path, flags)\n",
        "            fd = os.open(path, flags & ~os.O_NOFOLLOW)\n",
        f"{TESTS}/test_permissions.py",
    ),
    _mutant(
        "doctor-overlooks-others",
        "files that everybody can read are called in order",
        "engine.files",
        "    if mode & OTHERS_BITS:\n",
        "    if False:\n",
        f"{TESTS}/test_permissions.py",
    ),
    _mutant(
        "takes-files-of-others",
        "the user who made the lock file first can hold it, and the database, choose the jobs",
        "engine.ownership",
        "    if status.st_uid not in _trusted(database) and not _fits(path, status, group):\n",
        "    if False:\n",
        f"{TESTS}/test_planted.py",
    ),
    _mutant(
        "leaves-the-journal-to-others",
        "SQLite rolls back a journal that a stranger has put there",
        "engine.files",
        "        if is_shared(os.path.dirname(path)):\n",
        "        if False:\n",
        f"{TESTS}/test_planted.py",
    ),
    _mutant(
        "reads-links-of-others",
        "a stranger's link leads to another store",
        "engine.ownership",
        "    if is_open and status.st_uid not in (user(), ROOT):\n",
        "    if False:\n",
        f"{TESTS}/test_planted.py",
    ),
)
