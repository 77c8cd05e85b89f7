"""Derivatives, maps and native code for plain NumPy functions.

rune takes a function of NumPy arrays and gives back another: its gradient, its tangent along a
direction, the function over a batch, or the function as native code. There is no second array
library. Inside a transformation a *traced value* stands where an array stood and answers NumPy's
own protocols, so ``np.sin(x)``, ``x @ w``, ``y[1:] += 1`` work as they are written; what comes back
is a NumPy array. Outside every transformation rune adds nothing at all.

>>> import numpy as np
>>> import rune
>>> def energy(x):
...     return np.sum(np.sin(x) ** 2)
>>> rune.grad(energy)(np.array([0.0, np.pi / 4, 3 * np.pi / 4]))
array([ 0.,  1., -1.])

The gradient of sin² is sin 2x. The examples of this file are run as tests; each assumes the two
imports above.

**The words.** The *primals* are the values at which a function is differentiated. A *tangent* is a
displacement of a primal, and has its shape and dtype. A *cotangent* weighs the elements of a result,
and a *pullback* takes it to the primals. A *carry* is what a loop hands from step to step, its *rows*
are what it reads, a *residual* is a value kept for the backward pass. A *lane* is one element of a
mapped axis. A *program* is what a trace recorded, a *key* is what programs are kept by, a *variant*
is a program's native code for one memory layout.

**The life of a call.** A transformation that returns a function runs nothing. When that function is
called, rune flattens the arguments, puts traced values in place of the arrays it follows, and runs
the function. Under `grad` and the other derivatives the values are known, and the function runs as
it always does, its operations noted on the way. Under `jit` they are not known: the function runs
once over stand-ins that have a dtype and a shape only, every operation is recorded in a program, and
from then on the program runs and the function does not. A transformation applied to a compiled
function derives a program from the program that is there.

These rules hold for every entry point.

**Arguments are positions.** What is differentiated, mapped or traced is the argument at a position.
An array passed at two positions is two arguments, and an array that the function captures is a
constant, even where the same object is also an argument.

>>> w = np.array([1.0, 2.0])
>>> rune.grad(lambda x: np.sum(x * w))(w)
array([1., 2.])

**Structures.** An argument or a result is an array, a number, or a tree of them: tuples, lists,
dicts, named tuples, dataclasses, and whatever is registered with optree. ``None`` is a tree with no
leaf. Leaves may differ in dtype. A dataclass needs no registration, and is rebuilt without running
``__init__`` or ``__post_init__``. Errors name a leaf by its path: the argument's position, then the
way inside, as in ``0.layers.1.w``; in a carry or a row the path starts inside (``h``).

**Static leaves.** A leaf that is no array and no number (a string, an enum, ``None`` in a dataclass)
is static: the function sees it as it is, and in a result it comes back unchanged.

**NumPy's types.** Results are ``numpy.ndarray`` in C order with storage of their own, and NumPy
scalars where they have no dimension. Dtypes are those that NumPy gives. A Python number stays weak
(NEP 50): ``x * 2.0`` keeps the float32 of ``x`` under every transformation.

>>> rune.grad(lambda x: np.sum(x * 2.0))(np.array([1.0], np.float32))
array([2.], dtype=float32)

**Reading.** Under the derivatives a value is known, so a comparison is a boolean, an ``if`` follows
the branch that is taken, and ``x.item()`` and ``x.tolist()`` read numbers, which have no derivative.
Under `jit` nothing that depends on the arguments can be read, and under `vmap` nothing that depends
on the lanes: `TracedValueError`.

**No derivative is lost quietly.** What would turn a traced value into a plain number or store it in
a plain array raises `TracedValueError` and says what to write: ``float(x)``, ``math.sin(x)``,
``np.asarray(x)``, ``plain[i] = x``, ``np.sin(x, out=plain)``, ``np.add.at(plain, i, x)``,
``plain.dot(x)``, ``plain[k]`` with a traced ``k``.

NumPy's functions that make arrays give arrays that can hold traced values when they are asked with
NumPy's parameter ``like``: ``np.array([x[0], x[1]], like=x)``, ``np.zeros(3, like=x)``.

>>> rune.grad(lambda x: np.linalg.det(np.array([[x[0], 1.0], [1.0, x[1]]], like=x)))(np.array([2.0, 3.0]))
array([3., 2.])

**Traced arrays update in place.** ``y = np.zeros_like(x); y[i] = v; y[mask] *= 2`` work on a traced
``y``, under every transformation, with NumPy's casting errors. Every name and every view of ``y``
sees the update. The caller's arrays are never written. ``plain += x`` with a traced ``x`` rebinds
the name where nothing else holds the array, and raises where something does.

>>> def shifted(x):
...     y = np.zeros_like(x)
...     y[1:] += x[:-1] ** 2
...     return np.sum(y)
>>> rune.grad(shifted)(np.array([1.0, 2.0, 3.0]))
array([2., 4., 0.])

**Values stay inside.** A traced value that is used after its transformation returned raises
`TracedValueError`, which names the transformation.

**Nesting.** Transformations nest in every order, and each follows the values of its own function
only. A value of an enclosing transformation that an inner function captures is differentiated,
mapped and compiled with the enclosing one.

>>> rune.grad(lambda x: x * rune.grad(lambda y: x * y)(2.0))(3.0)
np.float64(6.0)

**Kinks.** ``abs`` has derivative 0 at 0. Operands of ``maximum`` and ``minimum`` that tie take half
each, and tied elements of ``max`` and ``min`` share equally. ``where`` follows the selected branch,
and a NaN of the other one reaches nothing, except that in reverse mode the branch that was not
selected gets a cotangent of 0, which times a derivative that is infinite or NaN is NaN: keep its
argument inside the domain, as in ``np.sqrt(np.where(x > 0, x, 1.0))``. ``sort`` follows its permutation. ``hypot`` and ``norm``
have derivative 0 at 0. Of ``x**y`` the derivative by x is 0 where y is 0, and the one by y is 0
where x is 0 and y positive.

>>> rune.grad(np.max)(np.array([1.0, 3.0, 3.0]))
array([0. , 0.5, 0.5])

**Complex numbers.** A tangent is a displacement. The gradient of a real function of z = x + iy is
df/dx - i df/dy, so that a step of descent is ``z - rate * np.conj(g)``; a holomorphic function pulls
back by its derivative, without a conjugate.

>>> rune.grad(lambda z: np.sum(np.real(z * np.conj(z))))(np.array([1 + 2j]))
array([2.-4.j])

**Indices.** A traced index that is out of range raises ``IndexError``, under `jit` after the call
ran; negative ones count from the end.

**Errors** begin with the entry point that the caller wrote, name the leaf, and give both sides. What
is not a function, not an array or not of the right kind is a ``TypeError``; structures, shapes and
dtypes that disagree are a ``ValueError``; a read is a `TracedValueError`; a matrix that cannot be
factored is ``np.linalg.LinAlgError``. An exception of the caller's function is raised as it is. After
any of them the next call works.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from rune import linalg as linalg
from rune import random as random

__all__ = [
    "Total",
    "TracedValueError",
    "asarray",
    "associative_scan",
    "callback",
    "check",
    "check_grads",
    "cond",
    "custom_jvp",
    "custom_transpose",
    "custom_vjp",
    "detach",
    "explain",
    "fixed_point",
    "grad",
    "hessian",
    "hvp",
    "iterate",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "lane_index",
    "lanes",
    "linalg",
    "linearize",
    "log_softmax",
    "logsumexp",
    "map",
    "polygamma",
    "program",
    "random",
    "remat",
    "root",
    "scan",
    "softmax",
    "switch",
    "value_and_grad",
    "vjp",
    "vmap",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C")

# ------------------------------------------------------------------------------------------------
# Reverse mode
# ------------------------------------------------------------------------------------------------

def grad(
    f: Callable[_P, Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[_P, Any]:
    """The gradient of a scalar function.

    ``grad(f)`` takes the arguments of ``f`` and returns the derivative of ``f``'s result by the
    argument at ``argnums``: a tree with that argument's structure, each leaf with its dtype and its
    shape. Where ``argnums`` is a sequence the result is a tuple, one gradient per position in it.
    Keyword arguments are passed on and are not differentiated.

    >>> def loss(w, x):
    ...     return np.sum((x @ w["w"] + w["b"]) ** 2)
    >>> w = {"w": np.array([1.0, -1.0]), "b": 0.5}
    >>> x = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> rune.grad(loss)(w, x)
    {'w': array([-4., -6.]), 'b': np.float64(-2.0)}

    Both rows of ``x @ w + b`` are -0.5, so the gradient by ``b`` is 2 (-0.5 - 0.5) = -2 and the one
    by ``w`` is -1 times the sum of the rows of ``x``.

    **One pass forward, one back.** ``f`` runs once, in forward mode, while what it does to tangents
    is recorded; the record is transposed from last to first. The cost is a small multiple of ``f``'s,
    whatever the number of parameters.

    **The objective is a scalar.** The result of ``f`` is one real or complex number. A complex
    result is taken to be holomorphic in the parameters, which must be complex too. With ``has_aux`` the
    result is ``(objective, aux)``, and the gradient's function returns ``(gradient, aux)``, the leaves of
    ``aux`` as plain arrays.

    **Integers and booleans are carried.** A leaf of the parameters that is no real or complex
    number is a constant; its gradient is zeros of its dtype, and 0 for a Python int. The gradient by
    a Python float is an ``np.float64``. Other static leaves come back unchanged.

    **Signs.** A gradient is the sum of its contributions, with no zero added to them: one
    contribution that reaches a whole leaf unreduced keeps its -0.0. Where a contribution was padded,
    scattered or summed over an axis a zero is +0.0, and so is the gradient of a leaf that the result
    does not depend on.

    **Gradients are fresh.** Every leaf is an array of its own in C order that shares memory with no
    argument.

    **Compiled functions.** ``grad(jit(f))`` traces ``f`` once per key and derives the two halves of
    its backward pass from the program, once; ``jit(grad(f))`` compiles both into one native function.

    Raises:
        TypeError: ``rune.grad: the objective must return a real or complex scalar, got float64 [3]``,
            and likewise for an integer; ``rune.grad: the parameters hold no real or complex array``;
            ``rune.grad: 0: float64 [] holds no derivative of a complex result``; also where ``f`` is not
            callable or ``argnums`` is no int or sequence of ints.
        ValueError: where the call has no argument at a position in ``argnums``.
    """

def value_and_grad(
    f: Callable[_P, Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False
) -> Callable[_P, tuple[Any, Any]]:
    """The value of a scalar function and its gradient, in one pass forward and one back.

    ``value_and_grad(f)`` returns ``(f(...), gradient)``, the gradient as `grad` gives it. With
    ``has_aux`` it returns ``((value, aux), gradient)``.

    >>> rune.value_and_grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    (np.float64(9.0), array([ 3., 12.]))

    This is the form that optimisers ask for: ``scipy.optimize.minimize(rune.jit(
    rune.value_and_grad(f)), x0, jac=True)``.

    Raises:
        TypeError: as `grad`, with ``rune.value_and_grad`` at the front.
    """

def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function at ``primals`` and its pullback there.

    Returns ``(y, pullback)``, or ``(y, pullback, aux)`` with ``has_aux``. ``pullback(ct)`` takes a
    cotangent with ``y``'s structure, shapes and dtypes and returns a tuple with one tree of
    cotangents per primal, also where there is one primal only.

    >>> y, pullback = rune.vjp(lambda a, b: a * b, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> pullback(np.array([1.0, 0.0]))
    (array([3., 0.]), array([1., 0.]))

    **It runs nothing again.** The pullback holds what the backward pass reads, and may be applied
    any number of times. It runs no part of ``f``.

    **Integers.** A cotangent of an integer or boolean leaf of ``y`` is ignored; cotangents of such
    leaves of the primals are zeros of their dtype.

    Raises:
        TypeError: ``rune.vjp: the parameters hold no real or complex array``.
        ValueError: from ``pullback``, where the cotangent differs from ``y`` in structure, shape or
            dtype: ``rune.vjp:`` and the path, with both sides.
    """

# ------------------------------------------------------------------------------------------------
# Forward mode
# ------------------------------------------------------------------------------------------------

def jvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of a function at ``primals`` and its derivative along ``tangents``.

    ``primals`` is a sequence with one tree per argument of ``f``, ``tangents`` one of the same
    structure, shapes and dtypes. Returns ``(y, dy)``, or ``(y, dy, aux)`` with ``has_aux``; ``dy``
    has ``y``'s structure.

    >>> rune.jvp(lambda x: x * x, (3.0,), (1.0,))
    (np.float64(9.0), np.float64(6.0))

    **One pass.** A tangent lives as long as its value, so a loop of n steps holds the tangents of
    one step and not of n.

    **Integers.** The tangent of an integer or boolean leaf is ignored, and zeros where it is a
    result's.

    Raises:
        ValueError: where a tangent differs from its primal: ``rune.jvp: 0:`` and both shapes,
            dtypes or structures.
    """

def linearize(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function at ``primals`` and its tangent map there.

    Returns ``(y, along)``. ``along(*tangents)`` gives the derivative of ``f`` at the primals along
    the tangents, one tree per primal; it evaluates what was recorded and does not run ``f``.

    >>> y, along = rune.linearize(np.exp, np.array([0.0, 0.0]))
    >>> along(np.array([1.0, 2.0])), along(np.array([0.0, -1.0]))
    (array([1., 2.]), array([ 0., -1.]))

    Use it in place of `jvp` where many directions are taken at one point.

    Raises:
        ValueError: from ``along``, where a tangent differs from its primal; as `jvp`, with
            ``rune.linearize`` at the front.
    """

# ------------------------------------------------------------------------------------------------
# Jacobians and Hessians
# ------------------------------------------------------------------------------------------------

def jacfwd(f: Callable[_P, Any], argnums: int | Sequence[int] = 0) -> Callable[_P, Any]:
    """The Jacobian of a function, by forward mode.

    For an array-valued ``f`` of an array the result has shape ``y.shape + x.shape``. Over structures
    it is a tree with the structure of ``y`` whose leaves are trees with the structure of ``x``. A
    sequence of positions gives a tuple in place of each inner tree.

    >>> rune.jacfwd(lambda x: np.stack([x[0] * x[1], x[0] ** 2]))(np.array([2.0, 3.0]))
    array([[3., 2.],
           [4., 0.]])

    **One mapped pass.** ``f`` runs once, along all directions of the parameters together. The cost
    grows with the number of parameters: take it where they are fewer than the results.

    Raises:
        TypeError: ``rune.jacfwd: the parameters hold no real or complex array``; a result that is
            not real or complex.
    """

def jacrev(f: Callable[_P, Any], argnums: int | Sequence[int] = 0) -> Callable[_P, Any]:
    """The Jacobian of a function, by reverse mode.

    Shapes and structures are those of `jacfwd`, and so are the values where neither or both of ``f``'s
    parameters and results are complex.

    >>> rune.jacrev(lambda x: np.sum(x**2, axis=1))(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[[2., 4.],
            [0., 0.]],
    <BLANKLINE>
           [[0., 0.],
            [6., 8.]]])

    **One mapped pass.** ``f`` runs once, and its pullback once over all unit cotangents. The cost
    grows with the number of results: take it where they are fewer than the parameters.

    Raises:
        TypeError: as `jacfwd`, with ``rune.jacrev`` at the front; where a result is complex and a
            parameter real, as the Jacobian, which is complex, comes in the parameter's dtype.
    """

def hessian(f: Callable[_P, Any], argnums: int | Sequence[int] = 0) -> Callable[_P, Any]:
    """The Hessian of a scalar function: the forward-mode Jacobian of its gradient.

    For an array ``x`` the result has shape ``x.shape + x.shape``; over structures it is a tree of
    trees.

    >>> rune.hessian(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0]))
    array([[ 6.,  1.],
           [ 1., 12.]])

    Raises:
        TypeError: as `grad`, with ``rune.hessian`` at the front.
    """

def hvp(f: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """The product of a scalar function's Hessian with a vector.

    ``hvp(f)(x, v)`` is the derivative along ``v`` of the gradient of ``f`` at ``x``. Both have one
    structure, and so has the result. No Hessian is formed: the cost is a small multiple of ``f``'s.

    >>> rune.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.ones(2))
    array([ 6., 12.])

    Raises:
        TypeError: as `grad`, with ``rune.hvp`` at the front.
        ValueError: where ``v`` differs from ``x`` in structure, shape or dtype.
    """

def detach(x: _R) -> _R:
    """``x`` with a zero derivative under every differentiation around it.

    Takes an array, a number or a tree. Outside every transformation the result is ``x`` itself.

    >>> rune.grad(lambda x: np.sum(x * rune.detach(x)))(np.array([1.0, 2.0]))
    array([1., 2.])

    One factor is held, so the derivative of x² is here x and not 2x. What is detached may be read
    as a plain number outside `jit` and `vmap`: ``float(rune.detach(x))``.
    """

# ------------------------------------------------------------------------------------------------
# Rules of your own
# ------------------------------------------------------------------------------------------------

def custom_jvp(rule: Callable[_P, tuple[_R, Callable[..., Any]]]) -> Callable[_P, _R]:
    """A function with a tangent map of its own.

    ``rule(*args)`` returns ``(result, tangent_map)``. The map takes the tangents of the arguments,
    the bare structure for one argument and one after the other for several, and returns the tangent
    of the result. It must be linear. It serves both modes at every order, since reverse mode
    transposes it.

    >>> @rune.custom_jvp
    ... def softplus(x):
    ...     return np.logaddexp(0.0, x), lambda dx: dx / (1 + np.exp(-x))
    >>> rune.grad(softplus)(0.0), rune.jvp(softplus, (0.0,), (1.0,))[1]
    (np.float64(0.5), np.float64(0.5))

    **Where the rule runs.** Outside every transformation, and under one differentiation, it runs on
    plain values and may read them. Under several differentiations the innermost one applies the rule,
    and those around it differentiate the rule's code. Under `jit` and `vmap` it is traced, and what
    it reads raises.

    **Tangents** of integer and boolean arguments, and those that are zero, arrive as zeros.

    **Linear** is decided operation by operation when reverse mode transposes the map. It may hold loops,
    branches and compiled functions, of which some results depend on the tangents and others do not. A
    sum with a value that is not zero is not linear, nor is a test of a tangent.

    Raises:
        TypeError: where ``rule`` is not callable or returns no pair, or captures a value that is
            differentiated; where the map is not linear, as in
            ``rune.grad: a custom_jvp tangent map applies exp to a tangent``.
        ValueError: where the tangent differs from the result in structure or shape, or is complex where
            that is real: ``rune.custom_jvp: float64 [2] returned by the tangent map, float64 [3] expected``.
    """

def custom_vjp(rule: Callable[_P, tuple[_R, Callable[..., Any]]]) -> Callable[_P, _R]:
    """A function with a pullback of its own.

    ``rule(*args)`` returns ``(result, pullback)``. The pullback takes the cotangent of the result and
    returns those of the arguments: the bare structure for one argument, a tuple for several.

    Here a square root searches until its steps stop moving. Its pullback is that of the square root,
    whatever the search did:

    >>> @rune.custom_vjp
    ... def root(a):
    ...     x, last = a, 0.0
    ...     while abs(x - last) > 1e-12:
    ...         x, last = (x + a / x) / 2, x
    ...     return x, lambda g: g / (2 * x)
    >>> rune.grad(root)(9.0)
    np.float64(0.16666666666666666)

    **Where the rule runs** is said with `custom_jvp`. **No forward derivative**: `jvp` raises. Reverse
    mode under forward mode (`hessian`) is forward mode through the pullback, and works.

    Raises:
        TypeError: where ``rule`` is not callable or returns no pair; under `jvp`, with
            ``rune.jvp: a custom_vjp rule has no forward derivative``.
        ValueError: where a cotangent differs from its argument in structure, shape or dtype.
        TracedValueError: where the rule is traced and reads:
            ``bool: the value is traced by rune.custom_vjp``.
    """

def custom_transpose(linear: Callable[_P, _R], transpose: Callable[[Any], Any]) -> Callable[_P, _R]:
    """A linear function with a transpose of its own.

    ``linear(*args)`` is linear in all its arguments together; ``transpose(ct)`` takes a cotangent of
    its result and returns those of the arguments, the bare structure for one and a tuple for several.
    The tangent of the function is the function itself.

    >>> shift = rune.custom_transpose(lambda x: np.roll(x, 1), lambda ct: np.roll(ct, -1))
    >>> rune.grad(lambda x: np.sum(np.array([1.0, 10.0, 100.0]) * shift(x)))(np.zeros(3))
    array([ 10., 100.,   1.])

    Raises:
        TypeError: where either is not callable.
        ValueError: where what ``transpose`` returns has another structure than the arguments, or
            ``linear`` captures a traced value.
    """

def remat(f: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function whose intermediates are computed again in the backward pass, and not kept.

    ``remat(f)`` has the values and the derivatives of ``f``. Between the passes it keeps its
    arguments only, and runs twice. Additions to totals count once; a host call runs again where the
    derivative needs what it returned.

    What runs again is the traced program of ``f``, with what ``f`` captured as it was at the call. A
    function that reads a value, as an ``if`` does, has no such program; its intermediates are kept.

    >>> rune.grad(rune.remat(lambda x: np.sum(np.exp(np.sin(x)))))(np.array([0.0]))
    array([1.])
    """

def check_grads(
    f: Callable[..., Any],
    *args: Any,
    modes: str | Sequence[str] = ("reverse",),
    order: int = 1,
    eps: float = 1e-4,
    tol: float = 1e-2,
) -> None:
    """Compare the derivatives of a scalar function with central differences.

    The derivative along each of two fixed directions through all real and complex arguments is
    compared with ``(f(x + eps d) - f(x - eps d)) / (2 eps)``: the gradient with ``"reverse"`` among
    ``modes``, the tangent with ``"forward"``. Two derivatives a and b agree where
    ``|a - b| <= tol * max(1, |a|, |b|)``. A higher ``order`` checks the gradient's gradient in the
    same way. Returns ``None``.

    >>> rune.check_grads(lambda x: np.sum(np.exp(x)), np.array([0.0, 1.0]), modes=("forward", "reverse"))

    Raises:
        AssertionError: where they disagree; it starts with ``rune.check_grads``, and names the
            direction and both derivatives.
        TypeError: where ``f`` is not callable or no scalar function, a mode does not exist, or the
            arguments hold no real or complex array.
    """

# ------------------------------------------------------------------------------------------------
# Maps
# ------------------------------------------------------------------------------------------------

def vmap(
    f: Callable[_P, Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_name: str | None = None,
    axis_size: int | None = None,
) -> Callable[_P, Any]:
    """A function over a mapped axis of its arguments.

    ``vmap(f)(xs)`` gives what ``np.stack([f(x) for x in xs])`` gives, without running ``f`` per
    lane: ``f`` runs once over values that hold all lanes.

    >>> rune.vmap(lambda x, w: x @ w, in_axes=(0, None))(np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones(2))
    array([3., 7.])

    ``in_axes`` is an axis for every argument, or a tuple with one entry per argument; an entry is
    an axis, ``None`` for what is the same in every lane, or a tree of such entries that is a prefix
    of the argument's structure. ``out_axes`` says likewise where the mapped axis stands in the results.
    ``axis_name`` names the axis. ``axis_size`` is the number of lanes, which is else read off the
    mapped arguments. Arrays in keyword arguments are mapped along their first axis, as in JAX; what has
    no axis there is the same in every lane.

    **A result that depends on no lane** is repeated along the mapped axis.

    **Per-example gradients** are ``vmap(grad(loss), in_axes=(None, 0))``.

    Raises:
        ValueError: where nothing is mapped, a mapped leaf has no axis, or two leaves disagree:
            ``rune.vmap: 1: 3 rows along axis 0, 0: 2``. Where ``in_axes`` has another structure than the
            arguments: ``rune.vmap: in_axes.0: axes for b, where there is a``. Where ``out_axes`` is None
            for what differs from lane to lane.
        TypeError: ``rune.vmap: in_axes: an axis is an int or None, got float 1.0``.
        TracedValueError: where ``f`` reads a value that depends on the lane, as in
            ``bool: the value is traced by rune.vmap``.
    """

def lanes(x: Any, axis_name: str) -> Any:
    """Every lane's ``x``, stacked along a first axis; the same in every lane.

    ``x`` is an array or a tree, inside a `vmap` whose ``axis_name`` this is. Sums over it are sums over
    the batch:

    >>> center = lambda row: row - np.mean(rune.lanes(row, "batch"), axis=0)
    >>> rune.vmap(center, axis_name="batch")(np.array([[1.0, 5.0], [3.0, 7.0]]))
    array([[-1., -1.],
           [ 1.,  1.]])

    It is known where the lanes are: an ``if`` may read it, and ``out_axes`` may be None for it.

    **Derivatives** go through it: a lane's cotangent reaches every lane that it read.

    Raises:
        NameError: where no map around the call has the name.
    """

def lane_index(axis_name: str) -> Any:
    """The index of the calling lane of the map named ``axis_name``, an int64.

    >>> rune.vmap(lambda x: x * rune.lane_index("batch"), axis_name="batch")(np.array([5.0, 5.0, 5.0]))
    array([ 0.,  5., 10.])

    Raises:
        NameError: where no map around the call has the name.
    """

# ------------------------------------------------------------------------------------------------
# Loops
# ------------------------------------------------------------------------------------------------

def scan(
    step: Callable[[_C, Any], tuple[_C, Any]],
    init: _C,
    xs: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
    checkpoint_every: int | None = None,
    progress: str | None = None,
) -> tuple[_C, Any]:
    """A loop over the rows of ``xs`` that carries a value from step to step.

    ``step(carry, row)`` returns ``(carry, output)``. The result is the last carry and the outputs
    stacked along a new first axis, in the order of the rows:

    >>> def step(total, row):
    ...     total = total + row
    ...     return total, total
    >>> rune.scan(step, np.float64(0.0), np.array([1.0, 2.0, 3.0]))
    (np.float64(6.0), array([1., 3., 6.]))

    ``xs`` is an array or a tree of arrays with one leading length; ``row`` has its structure, and
    each leaf without the leading axis. With ``xs=None`` the step gets ``None`` for a row and
    ``length`` says how often it runs. An output may be ``None``. With ``reverse`` the rows are taken
    from last to first, and the output of a row still stands at that row's place.

    **The carry keeps its type.** Structure, shapes and dtypes of the carry are the same after every
    step. A Python number in ``init`` is a value: int64, float64 or complex128. A static leaf (the name
    in a dataclass) rides along, in the carry, in the rows and in the outputs: it stays what it is.

    **Native loops.** Under `jit` the step is traced once, whatever the number of rows, and the loop
    is native; so is the loop of its derivative, which runs backward. A carry of a few numbers lives
    in registers. Eagerly the step runs once per row, on a copy of ``init`` and on rows that are
    read-only, and gives what it gives compiled: a step may update its carry in place.

    **What the backward pass keeps.** Per step a compiled gradient keeps the cheapest set of values
    from which the rest can be had again, which may be nothing; ``explain(f)(*args).loops`` says how
    many bytes that is.

    **Checkpoints.** With ``checkpoint_every=k`` a gradient keeps the carry of every k-th step and runs
    each segment of k steps again on its way back: room for n / k + k steps instead of n, for one more
    run of the loop. No number changes.

    **Progress.** ``progress="label"`` draws a tqdm bar about a hundred times in all, from compiled code
    too. It costs nothing when it is not asked for.

    **No rows.** ``init`` comes back with empty outputs, whose shapes come from a trace of the step.

    Raises:
        ValueError: where ``xs`` is a scalar, or its leaves differ in length, or ``length`` differs
            from theirs, before any step runs; where the carry changes:
            ``rune.scan: h: shape [3] in the carry the step returned, [2] in the carry it received``; where
            the outputs of two steps differ in structure or shape.
        TypeError: where ``step`` is not callable or does not return a pair, ``reverse`` is no boolean, or
            a leaf is neither array, number nor hashable.
    """

def map(f: Callable[[Any], _R], xs: Any) -> _R:
    """``f`` of every row of ``xs``, one after the other, the results stacked: a `scan` without a carry.

    >>> rune.map(lambda row: np.sum(row), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([3., 7.])

    Where all rows fit in memory at once `vmap` is faster; a map needs the memory of one.

    Raises:
        TypeError: where ``f`` is not callable. ValueError as `scan` raises it, in its name.
    """

def associative_scan(f: Callable[[_C, _C], _C], xs: _C, *, reverse: bool = False, axis: int = 0) -> _C:
    """The running combinations of the rows of ``xs`` by an associative ``f``, in about log n passes.

    ``y[0] = x[0]`` and ``y[k] = f(y[k-1], x[k])``, with all rows of a pass at once: ``f`` takes and
    returns trees like ``xs`` whose leaves have any number of rows, and must be associative. A linear
    recurrence y[k] = a[k] y[k-1] + b[k] is one, over pairs:

    >>> f = lambda one, other: (one[0] * other[0], one[1] * other[0] + other[1])
    >>> a, b = np.array([1.0, 0.5, 0.5]), np.array([1.0, 1.0, 1.0])
    >>> rune.associative_scan(f, (a, b))[1]
    array([1.  , 1.5 , 1.75])

    With ``reverse`` the combinations run from the last row to the first. ``axis`` is where the rows lie
    in every leaf; ``f`` sees them along its first axis. Blelloch, "Prefix sums and their applications"
    (1990).

    Raises:
        TypeError: where ``f`` is not callable. ValueError: where a leaf has no axis of rows, leaves differ
            in length (``rune.associative_scan: 1: 3 rows, 0: 4``), or ``f`` changes a shape.
    """

def iterate(step: Callable[[_C], _C], init: _C, *, until: Callable[[_C], Any], max_steps: int) -> _C:
    """A loop that stops on a test of its carry.

    The result is the first carry at which ``until(carry)`` holds. The test comes before each step, so
    an ``init`` that passes it comes back.

    >>> def newton(a):
    ...     return rune.iterate(
    ...         lambda x: (x + a / x) / 2, a, until=lambda x: np.abs(x * x - a) < 1e-12, max_steps=50
    ...     )
    >>> newton(9.0), np.round(rune.jit(rune.grad(newton))(9.0), 8)
    (np.float64(3.0), np.float64(0.16666667))

    **The carry** keeps its structure, shapes and dtypes, as in `scan`.

    **Derivatives** are those of the steps that were taken. Where keeping something of ``max_steps`` steps
    would take more than a mebibyte, reverse mode keeps the carry once in about the square root of
    ``max_steps`` steps and computes those between again, so that a generous bound costs no memory. For a
    carry that satisfies an equation, `root` is cheaper and keeps nothing.

    **Under `vmap`** each lane stops on its own test, and is held bit for bit from then on.

    Raises:
        ValueError: where ``until`` is still false after the last step, under `jit` after the call ran:
            ``rune.iterate: until is still false after max_steps = 3 steps``, with the lane under a map;
            where the carry changes.
        TypeError: where ``step`` or ``until`` is not callable, ``until`` returns anything but one
            boolean, or ``max_steps`` is no int.
    """

# ------------------------------------------------------------------------------------------------
# Branches
# ------------------------------------------------------------------------------------------------

def cond(pred: Any, on_true: Callable[..., _R], on_false: Callable[..., _R], *args: Any) -> _R:
    """One of two functions of ``args``, by a predicate that may be traced.

    ``on_true(*args)`` where ``pred`` holds (a number does where it is not 0, as in an ``if``),
    ``on_false(*args)`` elsewhere. One branch runs, eagerly and compiled. Use it in place of ``if`` where the predicate depends on what `jit` or `vmap` traces.

    >>> f = rune.jit(lambda x: rune.cond(x > 0, np.sqrt, lambda x: -x, x))
    >>> f(4.0), f(-3.0), rune.grad(f)(4.0)
    (np.float64(2.0), np.float64(3.0), np.float64(0.25))

    **Both branches give one type.** Their results agree in structure and shapes, and in dtypes but for
    Python numbers, which take the other's; eagerly, where one branch runs, a Python number that it
    returns is the NumPy scalar it means. Python numbers among ``args`` are values too, and a branch
    cannot write to its arguments.

    **Under `vmap`** each lane takes its own branch; an error that a lane's branch raises is raised for
    that lane alone.

    Raises:
        TypeError: where ``pred`` is an array with an axis or no number, or a branch is not callable.
        ValueError: where the branches disagree: the path, and both types.
    """

def switch(index: Any, branches: Sequence[Callable[..., _R]], *args: Any) -> _R:
    """One of several functions of ``args``, by an integer that may be traced.

    ``branches[index](*args)``; a negative index counts from the end.

    >>> rune.jit(lambda k, x: rune.switch(k, [np.sin, np.cos, np.square], x))(np.int64(2), 3.0)
    np.float64(9.0)

    The rules are those of `cond`.

    Raises:
        IndexError: where the index is out of range, under `jit` after the call ran.
        TypeError: where ``index`` is not one integer, or ``branches`` is no sequence of functions.
        ValueError: where the branches disagree.
    """

# ------------------------------------------------------------------------------------------------
# Implicit functions
# ------------------------------------------------------------------------------------------------

def root(
    residual: Callable[[_R], Any],
    solve: Callable[[], _R],
    linear_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
) -> _R:
    """What ``solve()`` returns, stated to be a zero of ``residual``, and differentiated as such.

    ``residual(x)`` has the structure and shapes of ``x``, and captures what ``x`` depends on. The
    derivative of ``x`` by those values is that of the implicit function: ``solve`` is never
    differentiated, and may do what it likes, read values that `detach` gives it and call other
    libraries. Under `jit` and `vmap` there are no values to read: there it calls them by `callback`.

    >>> def cube_root(a):
    ...     return rune.root(lambda x: x**3 - a, lambda: np.cbrt(rune.detach(a)))
    >>> cube_root(8.0), rune.grad(cube_root)(8.0)
    (np.float64(2.0), np.float64(0.08333333333333333))

    The derivative of the cube root is 1 / (3 x²), here 1/12.

    **The linear system.** A derivative solves J y = b with the Jacobian J of the residual at ``x``: as a
    dense matrix, or by ``linear_solve(matvec, b)``, where ``matvec(v)`` is J v and both ``v`` and ``b``
    have the structure of ``x``. Reverse mode calls it with the transposed matrix. What it returns is
    stated to be the solution, and is never differentiated, so any solver will do: one that iterates,
    a compiled one, one of the host. On values it is called with values, under `jit` and `vmap` it is
    traced. What it captures it captures detached.

    >>> def richardson(matvec, b):
    ...     step = lambda y: y + 0.1 * (b - matvec(y))
    ...     small = lambda y: np.abs(b - matvec(y)) < 1e-12
    ...     return rune.iterate(step, b, until=small, max_steps=100)
    >>> def cube_root(a):
    ...     return rune.root(lambda x: x**3 - a, lambda: np.cbrt(rune.detach(a)), richardson)
    >>> rune.grad(cube_root)(8.0).round(9), rune.jit(rune.grad(cube_root))(8.0).round(9)
    (np.float64(0.083333333), np.float64(0.083333333))

    Here J is 12, and each step takes the error times 1 - 12/10.

    **Complex unknowns.** A residual need not be holomorphic: J is then linear over the real numbers only,
    and the dense matrix is that of real and imaginary parts.

    **Derivatives of every order** are right, and so are those under `jit` and `vmap`.

    Raises:
        TypeError: where a function is not callable, or the solution is no real or complex array, or
            ``linear_solve`` captures a value that is differentiated.
        ValueError: where the residual, what ``matvec`` was given or what ``linear_solve`` returned differs
            from the solution in structure or shape, or is complex where that is real:
            ``rune.root: float64 [2] returned by linear_solve, float64 [3] expected``.
    """

def fixed_point(
    f: Callable[[_R], _R],
    solve: Callable[[], _R],
    linear_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
) -> _R:
    """What ``solve()`` returns, stated to be a fixed point of ``f``: the `root` of ``f(x) - x``.

    >>> def search(a, x=1.0):
    ...     for _ in range(60):
    ...         x = (x + a / x) / 2
    ...     return x
    >>> sqrt = lambda a: rune.fixed_point(lambda x: (x + a / x) / 2, lambda: search(rune.detach(a)))
    >>> rune.grad(sqrt)(4.0)
    np.float64(0.25)
    """

# ------------------------------------------------------------------------------------------------
# Checks and totals
# ------------------------------------------------------------------------------------------------

def check(ok: Any, message: str) -> None:
    """Raise ``ValueError(message)`` where ``ok``, a boolean or an array of them, is false.

    Eagerly it raises at once. Under `jit` it raises after the call ran, naming the step of a loop and
    the lane of a map at which it failed; under `vmap` it names the lane.

    >>> def safe_log(x):
    ...     rune.check(x > 0, "log of a value that is not positive")
    ...     return np.log(x)
    >>> rune.jit(safe_log)(-1.0)
    Traceback (most recent call last):
    ValueError: log of a value that is not positive

    A check is an effect of its program: it is never dropped, merged or moved past another.

    Raises:
        ValueError: the message.
        TypeError: where ``ok`` is not boolean or ``message`` no string.
    """

class Total:
    """A sum that code anywhere inside a function adds to, through every transformation.

    >>> steps = rune.Total("steps")
    >>> def halve(x):
    ...     def once(x):
    ...         steps.add(1)
    ...         return x / 2
    ...     return rune.iterate(once, x, until=lambda x: x < 1, max_steps=100)
    >>> steps.collect(np.int64(0), lambda: rune.grad(halve)(10.0))
    (np.float64(0.0625), np.int64(4))

    10 is halved four times until it is below 1, and the gradient is 1/16.

    **Each execution counts once.** An addition in a loop counts once a step that was taken, in a lane
    of a map once each, in a branch where the branch runs; differentiating counts nothing twice.
    """

    def __init__(self, name: str) -> None: ...
    def add(self, v: Any) -> None:
        """Add ``v`` to the sum that is being collected; nothing where none is.

        ``v`` has the shape of the ``zero`` that `collect` was given, and a dtype that casts to its.
        """

    def collect(self, zero: Any, f: Callable[[], _R]) -> tuple[_R, Any]:
        """``(f(), zero + what was added while f ran)``; the sum has the shape and dtype of ``zero``.

        Raises:
            ValueError: where an addition has another shape, or a dtype that does not cast.
            TypeError: where ``f`` is not callable, or ``zero`` no array or number.
        """

# ------------------------------------------------------------------------------------------------
# Compiled functions
# ------------------------------------------------------------------------------------------------

class _Stats:
    """How often a compiled function was traced, derived and compiled.

    ``traces`` counts runs of its Python body, ``derivations`` the programs made from its programs by
    transformations, ``compiles`` the native functions made for it and for what was derived.
    """

    traces: int
    derivations: int
    compiles: int

class _Compiled(Generic[_P, _R]):
    """A function that runs as native code; what `jit` returns."""

    __wrapped__: Callable[_P, _R]
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    def stats(self) -> _Stats:
        """How often the function was traced, derived and compiled so far."""

    def clear(self) -> None:
        """Forget every program and its native code; the next call traces again."""

    def programs(self) -> list[Any]:
        """The programs kept, the function's own and those derived from them, each with its ``name``."""

@overload
def jit(
    f: Callable[_P, _R],
    *,
    static_argnames: str | Sequence[str] = (),
    consumes: str | Sequence[str] = (),
    threads: int | None = None,
) -> _Compiled[_P, _R]:
    """A function as native code.

    ``jit(f)`` traces nothing yet. A call traces ``f`` over stand-ins of its arguments, unless a
    program for its key is there, compiles the program for the layout of the arguments, unless that
    variant is there, and runs it.

    >>> f = rune.jit(lambda x, n: np.sum(x**n))
    >>> f(np.array([1.0, 2.0, 3.0]), 2), f(np.array([4.0, 5.0, 6.0]), 2)
    (np.float64(14.0), np.float64(77.0))
    >>> f.stats().traces, f.stats().compiles
    (1, 1)

    **Keys.** Calls share a program when their arguments agree in structure, dtypes, shapes and
    static values. Python ints, booleans, strings, enums, slices and other hashable values that are no
    arrays are static: each value, with its type, has a program of its own. Python floats and complex
    numbers are values, weak as NumPy has them. ``static_argnames`` names further arguments that are
    static. Every retrace is logged (logger ``rune``, level DEBUG) with the first difference:
    ``rune.jit: retrace: 1.window: int 3 here, int 2 in the previous key``. After several in a row that
    differ in one int, a warning names it.

    **The body runs while it is traced, and only then.** A ``print`` in it prints once per key.

    **Variants.** A program compiles once per layout of its arguments. Every layout and byte order
    that NumPy has is read right, a strided array in place; what native code cannot read is copied.

    **Captures.** What ``f`` captures is a constant, as it was when ``f`` was traced: a small array is
    copied, a large one bound by reference and not to be written to. Pass it as an argument to change it
    between calls.

    **Results have storage of their own**, also where ``f`` returns its argument or a view of it.

    **Derivatives of compiled functions** are derived from the program: ``f`` is traced once, and
    only what runs compiles. In reverse mode that is the part of the derivative that reads no tangent,
    and the transpose of the rest.

    **Numbers.** IEEE meaning is kept: NaN, infinities, signed zeros, integers that wrap. A product
    that meets a sum may be fused with it; sums along an axis may associate freely; transcendental
    functions are within 4 units in the last place. The same program on the same layout gives the same
    bits on every call. No floating-point warnings are raised.

    **Threads and processes.** Calls may come from several threads at once, and after a fork. A
    compiled function pickles: one that decorates a function of a module by its name there, another by
    its function.

    **Consumed arguments.** ``consumes`` names arguments whose arrays the call may use up: a result of
    the same shape and dtype that replaces one element by element, or that was made by writing into a
    copy of it, is computed in its storage, so that nothing is allocated and nothing copied. The array
    that gave its storage away has no elements any more, and raises when it is used; a view of it that
    was made earlier looks at the result. An array that is a view itself, is not in C order, is
    read-only, or may share its storage with another argument or a captured array is left as it is, and
    so is every argument of a call inside a transformation. A call that fails has consumed too.

    >>> push = rune.jit(lambda x, v: x + 0.5 * v, consumes="x")
    >>> x = np.zeros(1000)
    >>> y = push(x, np.ones(1000))
    >>> y[:3], x.shape
    (array([0.5, 0.5, 0.5]), ())
    >>> push(x, np.ones(1000))
    Traceback (most recent call last):
    ValueError: rune.jit: 0: the array was consumed by an earlier call, and has no elements any more: use that call's result, or give it a copy

    **Threads.** A large nest of loops runs on all the processors that the process may use, with the
    same bits for any number of them; ``threads`` is the most that the function's code, and that of its
    derivatives, may use. BLAS and LAPACK have a setting of their own (threadpoolctl).

    **Options alone** give a decorator: ``@rune.jit(static_argnames="n")``.

    The compiled function keeps ``f``'s name and docstring, decorates methods, and has

    - ``stats()``: the counts ``traces``, ``derivations`` and ``compiles`` so far;
    - ``clear()``: forgets all programs and their native code;
    - ``programs()``: the programs kept, own and derived, each with its ``name``.

    Raises:
        TypeError: where ``f`` is not callable, an option is of another type, or an argument or a result
            is neither array, number nor hashable: ``rune.jit: 0.name: ...``.
        ValueError: where an option names no argument of ``f``, or ``threads`` is below 1; where an
            argument was consumed by an earlier call.
        TracedValueError: where ``f`` reads a value: ``bool: the value is traced by rune.jit``, and
            what to write instead.
        IndexError: after the call, where a traced index was out of range.
        numpy.linalg.LinAlgError: after the call, where a factorisation failed.
    """

@overload
def jit(
    *,
    static_argnames: str | Sequence[str] = (),
    consumes: str | Sequence[str] = (),
    threads: int | None = None,
) -> Callable[[Callable[_P, _R]], _Compiled[_P, _R]]: ...
def callback(host: Callable[..., Any], like: Any, *args: Any) -> Any:
    """Call Python from inside a compiled function.

    ``host(*args)`` is called with plain arrays each time the call is reached, and never while
    tracing. ``like`` gives the type of the result: a tree of arrays, or of anything with a ``shape``
    and a ``dtype``.

    >>> def longest(x):
    ...     return np.sort(x)[::-1].copy()
    >>> rune.jit(lambda x: rune.callback(longest, x, x) * 2)(np.array([1.0, 3.0, 2.0]))
    array([6., 4., 2.])

    Arguments are trees; strings and other static leaves pass through, so that ``callback(print, None,
    "loss:", detach(x))`` shows a value in every run.

    **Under `vmap`** the host is called once per lane. **Differentiating** it raises.

    Raises:
        ValueError: where the result's structure, shape or dtype is not that of ``like``.
        TypeError: where it is differentiated, or ``host`` is not callable. An exception of ``host``
            is raised as it is.
    """

# ------------------------------------------------------------------------------------------------
# Looking inside
# ------------------------------------------------------------------------------------------------

def program(f: Callable[_P, Any]) -> Callable[_P, Any]:
    """The program of a function: what a trace records.

    ``program(f)(*args)`` traces ``f`` as `jit` would and returns the program; ``str`` of it is its
    text. Nothing compiles and nothing runs.

    >>> print(rune.program(lambda x: np.sum(x * x))(np.ones(3)))
    program (%0)
      %1 : float64 [3] at CPU = Map [mul(x0, x1)] (x0: float64 [3] at CPU) (x1: float64 [3] at CPU)
        with x0 = %0, x1 = %0
      %2 : float64 [] at CPU = Reduce [Sum x0] over [0] (x0: float64 [3] at CPU)
        with x0 = %1
      return %2

    Every value has a number, a dtype, a shape and a place. A loop shows its step's program inside
    it, indented. The text depends on the function and its key, and on nothing else.
    """

def explain(f: Callable[_P, Any]) -> Callable[_P, Any]:
    """What compiling made of a function.

    ``explain(f)(*args)`` traces and compiles ``f`` for these arguments, without running it, and
    returns an object whose ``str`` is a report and whose attributes are data:

    - ``kernels``: the loop nests, each with its ``shape`` and the ``operations`` fused into it;
    - ``loops``: the loops over steps, each with its ``steps``, whether it runs in ``reverse``, and its
      ``kept_bytes``, the bytes of residuals kept per step;
    - ``buffers``: the bytes of each array that the call needs besides its results;
    - ``taken``: for each result that is computed in the storage of a consumed argument, by the
      positions of both among the arrays, that argument;
    - ``library_calls`` and ``host_calls``: what is called in BLAS, LAPACK or SciPy, and in Python;
    - ``llvm`` and ``asm``: the texts that the compiler read and wrote.

    >>> report = rune.explain(lambda x: np.sum(np.sin(x) * x))(np.ones(1000))
    >>> [kernel.operations for kernel in report.kernels]
    [('sum over [0]', 'mul', 'sin')]

    >>> def last(p):
    ...     return rune.scan(lambda x, _: (p * x * (1 - x), None), 0.5, None, length=50)[0]
    >>> [loop.kept_bytes for loop in rune.explain(rune.grad(last))(3.2).loops]
    [8, 0]

    The gradient of the logistic map has two loops. The forward one keeps 8 bytes a step, one float64:
    the carry, from which the backward one computes the rest of the step again.
    """

# ------------------------------------------------------------------------------------------------
# SciPy's functions that read their arguments
# ------------------------------------------------------------------------------------------------

def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """``scipy.special.logsumexp`` for traced values too: log(sum(b * exp(a))), which does not overflow.

    SciPy's ufuncs work on traced values; this one is a Python function that converts its argument to
    a plain array first, and so are `softmax` and `log_softmax` (they take traced values where SciPy's
    array API mode was switched on before SciPy was imported). On plain arrays these are SciPy's own.

    >>> x = np.array([1000.0, 1000.0])
    >>> rune.jit(rune.logsumexp)(x) == 1000.0 + np.log(2.0)
    np.True_
    >>> rune.grad(rune.logsumexp)(x)
    array([0.5, 0.5])

    The gradient is `softmax`. ``np.logaddexp.reduce(x)`` gives the same.
    """

def softmax(x: Any, axis: Any = None) -> Any:
    """``scipy.special.softmax`` for traced values too: exp(x) / sum(exp(x)).

    >>> rune.jit(rune.softmax)(np.array([0.0, 0.0, 0.0, 0.0]))
    array([0.25, 0.25, 0.25, 0.25])
    """

def log_softmax(x: Any, axis: Any = None) -> Any:
    """``scipy.special.log_softmax`` for traced values too: x - logsumexp(x).

    >>> rune.jit(rune.log_softmax)(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """

def polygamma(n: Any, x: Any) -> Any:
    """``scipy.special.polygamma`` for traced values too: the n-th derivative of the digamma function.

    The order ``n`` is an int, or an array of them, that is known; ``x`` has the derivative
    polygamma(n + 1, x).

    >>> float(rune.grad(lambda x: rune.polygamma(1, x))(2.0)) == float(rune.polygamma(2, 2.0))
    True
    """

# ------------------------------------------------------------------------------------------------
# Traced values
# ------------------------------------------------------------------------------------------------

def asarray(x: Any) -> Any:
    """A plain array, or a list with traced values in it, as a value of the innermost transformation.

    A plain array cannot be indexed with a traced index, nor hold a traced value: Python asks the
    plain array, and NumPy would drop the derivative. The array that ``asarray`` gives can. Outside
    every transformation it is ``np.asarray(x)``.

    >>> table = np.array([10.0, 20.0, 30.0])
    >>> rune.jit(lambda k: rune.asarray(table)[k])(np.int64(2))
    np.float64(30.0)
    >>> rune.jit(lambda a: rune.asarray([a, 2 * a]))(1.5)
    array([1.5, 3. ])

    The caller's array is never written: an update of the value is the value's own.
    """

class TracedValueError(ValueError):
    """A traced value was read where it is not known, or would have been lost.

    The message starts with what read it and the transformation whose value it is, and goes on to say
    what to write instead:

    >>> rune.jit(lambda x: x if x > 0 else -x)(1.0)
    Traceback (most recent call last):
    TracedValueError: bool: the value is traced by rune.jit...

    It is a ``ValueError``. Where NumPy wraps it in an error of its own, as in ``plain[0] = x``, it is
    that error's cause.
    """
