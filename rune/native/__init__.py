"""Machines: loop nests (`nest`), buffers (`plan`), LLVM (`emit`, `math`), libraries, the native call.

`compile(block, layouts)` turns a block of the loop language into one native function.  Nothing here
knows a transformation or a primitive.
"""
