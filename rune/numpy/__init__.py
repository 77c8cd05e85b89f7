"""NumPy's functions over traced values, one module per family; importing this fills the tables.

Every function takes and gives plain arrays and values (`rune.value` boxes them), composes primitives
and computes the same by NumPy where nothing is traced.
"""

from rune.numpy import (  # noqa: F401
    applying,
    augmented,
    complex,
    counting,
    creation,
    differences,
    einsum,
    elementwise,
    fft,
    indexing,
    joining,
    linalg,
    making,
    namespace,
    operators,
    padding,
    polynomials,
    products,
    reductions,
    selection,
    sets,
    shapes,
    sorting,
    special,
    statistics,
    triangles,
    ufuncs,
    writing,
)

__all__: list[str] = []
