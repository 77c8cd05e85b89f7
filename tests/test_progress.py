"""rune.scan(progress=...): a bar is drawn, and nothing else changes."""

import re
import threading

import numpy as np
import pytest

import rune

pytest.importorskip("tqdm")
every = pytest.mark.parametrize("wrap", [lambda f: f, rune.jit], ids=["eager", "compiled"])
XS = np.random.default_rng(4).uniform(0.5, 1.5, 250)


def run(xs, progress="rows", **how):
    return rune.scan(lambda c, x: (c * np.sin(x) + x, c), 0.5, xs, progress=progress, **how)


def finished(capsys, label="rows", n=250):
    """How many bars reached their end."""
    return len(re.findall(rf"{label}: 100%\|[^\n\r]*{n}/{n} ", capsys.readouterr().err))


@every
@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"checkpoint_every": 16}])
def test_values_and_derivatives_are_those_without_a_bar(wrap, how, capsys):
    for f in (
        lambda **more: lambda xs: run(xs, **how, **more)[0],
        lambda **more: rune.grad(lambda xs: run(xs, **how, **more)[0]),
        lambda **more: lambda xs: rune.jvp(lambda xs: run(xs, **how, **more)[0], (xs,), (xs,))[1],
        lambda **more: lambda xs: rune.vmap(lambda s: run(s * xs, **how, **more)[0])(np.array([1.0, 1.1])),
    ):
        want = wrap(f(progress=None))(XS)
        assert capsys.readouterr().err == ""
        np.testing.assert_allclose(wrap(f())(XS), want, rtol=1e-13)
        assert finished(capsys) >= 1


@every
@pytest.mark.parametrize("n", [1, 7, 99, 100, 101, 1234])
def test_every_number_of_steps_is_drawn_to_its_end(n, wrap, capsys):
    f = wrap(lambda xs: run(xs)[0])
    for _ in range(2):
        f(np.ones(n))
        assert finished(capsys, n=n) == 1
    f(np.ones(0))
    assert capsys.readouterr().err == ""


@every
def test_a_loop_in_a_loop_has_a_bar_of_its_own(wrap, capsys):
    f = lambda xs: rune.scan(lambda c, x: (c + run(x * XS)[0], None), 0.0, xs, progress="outer")[0]
    wrap(f)(np.ones(3))
    err = capsys.readouterr().err
    assert err.count("250/250") == 3 and "outer: 100%" in err


def test_a_loop_that_is_off_is_the_same_program():
    text = lambda **how: str(
        rune.program(lambda xs: rune.scan(lambda c, x: (c + x, None), 0.0, xs, **how))(XS)
    )
    assert text(progress=None) == text()
    assert "host" in text(progress="rows") and "host" not in text()


@every
def test_a_loop_that_raises_raises_its_own_error_and_the_next_one_is_drawn(wrap, capsys):
    def checked(xs):
        step = lambda c, x: (rune.check(x < 200, "too large"), (c + x, None))[1]
        return rune.scan(step, 0.0, xs, progress="rows")[0]

    f = wrap(checked)
    with pytest.raises(ValueError, match=r"^too large"):
        f(np.arange(250.0))
    assert finished(capsys) == 0
    assert f(np.ones(250)) == 250.0
    assert finished(capsys) == 1


def test_threads_have_bars_of_their_own(capsys):
    f, found = rune.jit(lambda xs: run(xs)[0]), []
    want = f(XS)
    threads = [threading.Thread(target=lambda: found.append(f(XS))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [want] * 8 and finished(capsys) == 9


@pytest.mark.parametrize("label", [True, False, 3, b"rows"])
def test_a_label_is_a_word(label):
    with pytest.raises(TypeError, match=r"^rune\.scan: progress must be a str, the bar's label, got "):
        run(XS, progress=label)
