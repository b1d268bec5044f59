"""Functions of the schema, a file a subject, applied again whenever its text has changed.

What holds for all of them:

- A function whose parameters or result change gets a new name, and the old one stays: programs of
  the version before call it until the last of them is replaced. A later migration drops it.
- It is created with ``create or replace``, and a file can be applied any number of times.
- The search path is fixed by ``fencepost migrate`` (decision 0044), not by each function.
- Settings stand at the function that Python calls; they hold for the functions that it calls in
  turn, and setting them again would cost each call some microseconds.
- Time is the server's: ``p_now`` is null in production, and set by tests that stop the clock.
- ``(x in (select unnest(y))) is true`` looks up x in a hash of the array; without the ``is true``
  it would be a join, and ``x = any (y)`` goes through the array for every x.
"""

RELEASE = 1
"""The number of this set of files. A set is never put over one with a higher number, so that
``fencepost migrate`` of the version before leaves the functions of the next one alone. It rises
with the first change after a release."""
