"""What the table of scalar functions answers for, and what it refuses."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.special as sp

import rune
from rune.primitives import families, several, special
from rune.value import tables

x = np.array([0.3, 1.7, 4.2])
UFUNCS = {name: f for name, f in vars(np).items() if isinstance(f, np.ufunc)}


def test_every_ufunc_of_numpy_is_answered():
    refused = {name for name, f in UFUNCS.items() if f not in tables.ufuncs}
    assert refused == {"isnat"}  # of times, which are never traced
    with pytest.raises(TypeError, match=r"numpy\.isnat has no rule"):
        rune.jit(np.isnat)(x)


def test_scipy_is_not_imported_with_rune():
    code = "import sys, rune; print(sorted(m for m in sys.modules if m.partition('.')[0] == 'scipy'))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_names_of_scipy_for_functions_of_numpy():
    for name in special.SAME:
        f = getattr(sp, name)
        np.testing.assert_allclose(rune.jit(f)(x), f(x), rtol=1e-14)


def test_zeta():
    by_q = lambda q: np.sum(sp.zeta(2.5, q))
    want = -2.5 * sp.zeta(3.5, x)
    np.testing.assert_allclose(rune.grad(by_q)(x), want, rtol=1e-14)
    np.testing.assert_allclose(rune.jit(rune.grad(by_q))(x), want, rtol=1e-14)
    np.testing.assert_allclose(rune.jit(sp.zeta)(x), sp.zeta(x), rtol=1e-14)


def test_a_digamma_is_differentiated_to_any_order():
    f = lambda v: np.sum(sp.gammaln(v))
    third = rune.grad(lambda v: np.sum(rune.grad(lambda v: np.sum(rune.grad(f)(v)))(v)))
    for way in (third, rune.jit(third)):
        np.testing.assert_allclose(way(x), sp.polygamma(2, x), rtol=1e-12)


REFUSED = {
    "zeta": lambda v: sp.zeta(v, 2.0),
    "gammainc": lambda v: sp.gammainc(v, 2.0),
    "betainc": lambda v: sp.betainc(2.0, v, 0.5),
    "jv": lambda v: sp.jv(v, 2.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_derivative_that_does_not_exist_is_refused_by_name(name):
    f = REFUSED[name]
    np.testing.assert_allclose(rune.jit(f)(x), f(x), rtol=1e-12)
    with pytest.raises(
        TypeError, match=rf"scipy.special.{name} has no derivative by \w+: pass it through rune.detach"
    ):
        rune.grad(lambda v: np.sum(f(v)))(x)


def test_a_function_of_scipy_that_is_no_ufunc_is_refused():
    with pytest.raises(rune.TracedValueError, match=r"asarray: the value is traced by rune\.grad"):
        rune.grad(lambda v: np.sum(sp.polygamma(1, v)))(x)
    polygamma = lambda n, v: (-1.0) ** (n + 1) * sp.gamma(n + 1.0) * sp.zeta(n + 1, v)  # what it computes
    np.testing.assert_allclose(
        rune.grad(lambda v: np.sum(polygamma(1, v)))(x), sp.polygamma(2, x), rtol=1e-12
    )


def test_rgamma_at_its_zeros():
    n = np.arange(6.0)
    want = (-1.0) ** n * sp.gamma(n + 1)
    np.testing.assert_allclose(rune.grad(lambda v: np.sum(sp.rgamma(v)))(-n), want, rtol=1e-14)


def test_logaddexp_of_infinities():
    a = np.array([-np.inf, -np.inf, np.inf, 0.0])
    b = np.array([-np.inf, 1.0, 1.0, np.inf])
    by_a, by_b = rune.grad(lambda a, b: np.sum(np.logaddexp(a, b)), argnums=(0, 1))(a, b)
    np.testing.assert_array_equal(by_a, [0.5, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(by_b, [0.5, 1.0, 0.0, 1.0])


def test_the_sign_of_a_complex_number_turns_with_it():
    z = np.array([1 + 2j, -3 + 0.5j, 0j])
    dz = np.array([0.3 - 1j, 1j, 1 + 0j])
    _, got = rune.jvp(np.sign, (z,), (dz,))
    eps = 1e-7
    want = (np.sign(z + eps * dz) - np.sign(z - eps * dz)) / (2 * eps)
    np.testing.assert_allclose(got[:2], want[:2], rtol=1e-6)
    assert got[2] == 0


POINTS = {
    "erfinv": 0.3,
    "erfcinv": 0.3,
    "ndtri": 0.3,
    "logit": 0.3,
    "ellipk": 0.3,
    "ellipe": 0.3,
    "ndtri_exp": -0.7,
}


@pytest.mark.parametrize("name", sorted(set(special.ONE) - {"riemann_zeta", "gammasgn"}))
def test_a_python_number_differentiates_as_the_array_it_stands_for(name):
    f = special.ufunc_of(name)
    at = POINTS.get(name, 1.3)
    slope = lambda v: rune.jvp(f, (v,), (np.ones_like(v) if isinstance(v, np.ndarray) else 1.0,))[1]
    for derivative in (
        rune.grad(f),
        slope,
        rune.grad(rune.grad(f)),
        rune.grad(slope),
        rune.jit(rune.grad(f)),
    ):
        got, want = derivative(at), derivative(np.array(at))
        assert type(got) is np.float64
        np.testing.assert_allclose(got, want, rtol=1e-13)


SPECIAL = {name: f for name, f in vars(sp).items() if isinstance(f, np.ufunc)}
OPERANDS = [np.array(v) for v in ([0.3, 0.7], [1.2, 2.3], [0.4, 0.6], [0.5, 0.2], [0.5, 0.2], [0.5, 0.2])]


def operands(f):
    """Numbers for a ufunc of SciPy's, of which some take an integer first."""
    args = OPERANDS[: f.nin]
    whole = not any(all(t in "fdFD" for t in loop[: f.nin]) for loop in f.types)
    return [np.array([1, 3]), *args[1:]] if whole else args


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name, f in SPECIAL.items() if f.nout == 1])
def test_every_ufunc_of_scipy_with_one_result_is_answered(name):
    f = SPECIAL[name]
    args = operands(f)
    for way in (rune.jit, rune.vmap):
        np.testing.assert_allclose(way(f)(*args), f(*args), rtol=1e-12)


@pytest.mark.parametrize("name", ["agm", "ncfdtr", "bdtrik", "mathieu_a"])
def test_a_function_without_a_derivative_says_so(name):
    f = SPECIAL[name]
    *fixed, last = operands(f)
    with pytest.raises(TypeError, match=rf"scipy\.special\.{name} has no derivative by argument \d: "):
        rune.grad(lambda v: np.sum(f(*fixed, v)))(last)


def test_a_ufunc_of_several_results_says_what_to_call_it_with():
    with pytest.raises(
        TypeError, match=r"^rune\.jit: the ufunc itairy has no rule: call it with rune\.callback"
    ):
        rune.jit(sp.itairy)(x)


ADDED = {
    "expi": (sp.expi, lambda v: np.exp(v) / v),
    "exp1": (sp.exp1, lambda v: -np.exp(-v) / v),
    "yn": (lambda v: sp.yn(2, v), lambda v: sp.yvp(2, v)),
    "kn": (lambda v: sp.kn(2, v), lambda v: sp.kvp(2, v)),
}


@pytest.mark.parametrize("name", ADDED)
def test_the_derivatives_of_exponential_integrals_and_of_whole_orders(name):
    f, slope = ADDED[name]
    for way in (rune.grad, lambda f: rune.jit(rune.grad(f))):
        np.testing.assert_allclose(way(lambda v: np.sum(f(v)))(x), slope(x), rtol=1e-13)


FAMILIES = {
    **dict.fromkeys("eval_legendre eval_chebyt eval_chebyu eval_hermite eval_hermitenorm".split(), (3, 0.3)),
    **dict.fromkeys("eval_laguerre eval_sh_legendre eval_sh_chebyt eval_sh_chebyu expn".split(), (2, 0.3)),
    **dict.fromkeys("chdtr chdtrc pdtr pdtrc".split(), (3.0, 1.4)),
    **dict.fromkeys("fdtr fdtrc gdtr gdtrc fdtri betaincinv betainccinv".split(), (3.2, 4.1, 0.4)),
    **dict.fromkeys(
        "stdtr stdtrit chdtri gammaincinv gammainccinv hyp0f1 struve modstruve".split(), (1.7, 0.4)
    ),
    **dict.fromkeys("ber bei ker kei berp beip kerp keip itstruve0 itmodstruve0 wrightomega".split(), (1.3,)),
    **dict.fromkeys("owens_t powm1 ellipkinc ellipeinc elliprc".split(), (0.7, 0.4)),
    "eval_gegenbauer": (3, 0.7, 0.3),
    "eval_genlaguerre": (3, 0.7, 0.3),
    "eval_jacobi": (3, 0.7, 0.2, 0.3),
    "hyp1f1": (0.7, 1.3, 0.4),
    "hyperu": (0.7, 1.3, 0.4),
    "hyp2f1": (0.7, 0.6, 1.3, 0.4),
    "wright_bessel": (0.7, 1.2, 0.8),
    "elliprf": (0.7, 1.4, 2.2),
    "cotdg": (33.0,),
}


def test_every_family_is_at_hand():
    assert {name for name in families.ROWS if name not in FAMILIES} == {
        "hankel1",
        "hankel2",
        "wofz",
    }  # complex


@pytest.mark.parametrize("name", FAMILIES)
def test_the_derivatives_of_families(name):
    """By every argument that has one, as a difference says, and by native code alone."""
    f, at = SPECIAL[name], FAMILIES[name]
    partials = [k for k, slope in enumerate(families.ROWS[name]) if slope.__name__ != "refuse"]
    assert partials
    for k in partials:
        g = lambda v, k=k: f(*at[:k], v, *at[k + 1 :])
        slope, h = rune.grad(g)(at[k]), 1e-5
        np.testing.assert_allclose(slope, (g(at[k] + h) - g(at[k] - h)) / (2 * h), rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(rune.jit(rune.grad(g))(at[k]), slope, rtol=1e-9)
        assert "host" not in str(rune.explain(rune.grad(g))(at[k]))


def test_derivatives_where_a_formula_has_no_value():
    for f in (sp.eval_legendre, sp.eval_chebyt, sp.eval_hermite, sp.eval_laguerre):
        assert rune.grad(lambda v: f(0, v))(0.3) == 0.0
    for f, sign in ((sp.ellipkinc, 1), (sp.ellipeinc, -1)):
        want = sign * (1.4 - np.sin(1.4)) / 8
        np.testing.assert_allclose(rune.grad(lambda m: f(0.7, m))(0.0), want)


def test_complex_functions_of_scipy_run_no_python():
    z = np.array([0.3 + 1j, 1.2 - 0.5j])
    for f in (sp.wofz, sp.gamma, sp.erf, lambda z: sp.hankel1(0.5, z), lambda z: sp.jv(1.5, z)):
        np.testing.assert_allclose(rune.jit(f)(z), f(z), rtol=1e-13)
        assert "host" not in str(rune.explain(f)(z))
    holomorphic = rune.jvp(sp.wofz, (z,), (np.ones(2, complex),))[1]
    np.testing.assert_allclose(holomorphic, (sp.wofz(z + 1e-6) - sp.wofz(z - 1e-6)) / 2e-6, rtol=1e-7)


@pytest.mark.parametrize("name", several.SLOPES)
def test_ufuncs_of_several_results(name):
    f, v = SPECIAL[name], np.array([0.4, 1.3])
    g = (lambda v: tuple(f(v, 0.3))) if name == "ellipj" else (lambda v: tuple(f(v)))
    for way in (rune.jit, rune.vmap, lambda g: rune.jit(rune.vmap(g))):
        for got, want in zip(way(g)(v), g(v), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13)
    assert rune.jit(g)(np.float32(v))[0].dtype == g(np.float32(v))[0].dtype
    ones, h = np.ones(2), 1e-5
    slopes = rune.jvp(g, (v,), (ones,))[1]
    for k, slope in enumerate(slopes):
        np.testing.assert_allclose(slope, (g(v + h)[k] - g(v - h)[k]) / (2 * h), rtol=1e-7)
        gradient = rune.grad(lambda v, k=k: np.sum(g(v)[k]))
        for way in (gradient, rune.jit(gradient)):
            np.testing.assert_allclose(way(v), slope, rtol=1e-12)
    assert "host" not in str(rune.explain(g)(v))
