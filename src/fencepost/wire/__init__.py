"""What travels over HTTP: one struct for each shape, from which the OpenAPI document is generated.

A struct whose name stands for another thing in the package begins with ``Wire``, which the document
leaves out.
"""
