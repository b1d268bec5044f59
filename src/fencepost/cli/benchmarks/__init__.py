"""The measurements behind ``fencepost bench``: one module a group of figures.

Every figure stands beside what the machine could do at the most: the same statements on the same
tables with the same promise to the disk, and no framework (``raw``). Pairs are measured in turns
within one run, because a rate means little on a busy machine and a ratio still does.
"""
