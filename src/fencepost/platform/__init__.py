"""What differs between Linux, macOS and Windows: everything else in this package is the same there.

``system`` says which system has what, as one value. The other files do each such thing in the best
way that this one has. Nothing outside this folder asks which system it runs on.
"""
