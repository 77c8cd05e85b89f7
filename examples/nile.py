"""The level of the Nile: a state-space model fitted by maximum likelihood, with exact derivatives.

The local level model says that the annual flow at Aswan is a level and a disturbance, and that the
level moves by a random step each year:

    flow[t] = level[t] + e[t],          e ~ N(0, irregular)
    level[t + 1] = level[t] + u[t],     u ~ N(0, step)

The Kalman filter gives the likelihood of both variances.  It is written here as a plain loop over the
years with `rune.scan`; rune compiles the loop and its gradient, scipy finds the maximum, and the
Hessian there gives the standard errors.

Run it as `python examples/nile.py`.  The data are the flows of 1871 to 1970 in 10^8 cubic metres; the
published estimates are those of Durbin and Koopman, Time Series Analysis by State Space Methods, 2.2.
"""

import time
from pathlib import Path

import numpy as np
import scipy.optimize

import rune

HERE = Path(__file__).parent
PUBLISHED = {"irregular": 15099.0, "step": 1469.1}


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Years and flows."""
    years, flows = np.loadtxt(path, delimiter=",", skiprows=1, unpack=True)
    return years.astype(int), flows


class LocalLevel:
    """The model of one series, and how often its step ran in Python."""

    def __init__(self, flows: np.ndarray):
        self.flows = flows
        self.step_runs = 0

    def filter(self, log_variances: np.ndarray):
        """The levels given the flows up to and with each year, and each year's log-density.

        The first level is diffuse: nothing is known of it, so the first flow says all (its density
        does not count), and the filter starts from there.
        """
        irregular, step = np.exp(log_variances)

        def year(carry, flow):
            self.step_runs += 1
            level, variance = carry  # of the level, given the past
            error = flow - level
            spread = variance + irregular  # of the error
            gain = variance / spread
            density = -0.5 * (np.log(2 * np.pi) + np.log(spread) + error**2 / spread)
            level = level + gain * error
            return (level, variance * (1 - gain) + step), (level, density)

        first = self.flows[0]
        _, (levels, densities) = rune.scan(year, (first, irregular + step), self.flows[1:])
        return levels, densities

    def objective(self, log_variances: np.ndarray):
        """Minus the log-likelihood, from the second year on."""
        return -np.sum(self.filter(log_variances)[1])


def clock(f, *args):
    """The result of a call and how many seconds it took."""
    start = time.perf_counter()
    result = f(*args)
    return result, time.perf_counter() - start


def main() -> None:
    years, flows = read(HERE / "nile.csv")
    start = np.full(2, np.log(np.var(flows)))

    model = LocalLevel(flows)
    objective = rune.jit(model.objective)
    value_and_gradient = rune.jit(rune.value_and_grad(objective))
    _, first_call = clock(value_and_gradient, start)
    calls = 1000
    _, evaluations = clock(lambda: [value_and_gradient(start) for _ in range(calls)])

    fit = scipy.optimize.minimize(value_and_gradient, start, jac=True, method="BFGS")
    found = np.exp(fit.x)
    # The curvature of the likelihood is in log variances; a variance's error is in proportion to it.
    errors = found * np.sqrt(np.diag(np.linalg.inv(rune.hessian(objective)(fit.x))))

    # Tracing alone, on a model of its own, so that this one's counter says what the fit ran.
    _, tracing = clock(rune.program(rune.value_and_grad(LocalLevel(flows).objective)), start)

    print(f"{'variance':12}{'found':>10}{'published':>12}{'standard error':>17}")
    for (name, published), variance, error in zip(PUBLISHED.items(), found, errors, strict=True):
        print(f"{name:12}{variance:10.1f}{published:12.1f}{error:17.1f}")
    print(f"\nlog-likelihood {-fit.fun:.3f}, after {fit.nit} iterations and {fit.nfev} evaluations")
    print(f"tracing {tracing * 1e3:.1f} ms, compiling {max(0.0, first_call - tracing) * 1e3:.1f} ms")
    print(f"one evaluation with its gradient {evaluations / calls * 1e6:.1f} us")
    print(f"the filter's step ran {model.step_runs} time{'s' * (model.step_runs != 1)} in Python")

    # Outside every transformation the filter is plain NumPy.
    plot(years, flows, LocalLevel(flows).filter(fit.x)[0])


def plot(years: np.ndarray, flows: np.ndarray, levels: np.ndarray) -> None:
    """The flow and the filtered level, where matplotlib is installed."""
    try:
        import matplotlib
    except ImportError:
        print("no figure: matplotlib is not installed")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    axes.plot(years, flows, ".", color="0.5", label="flow")
    axes.plot(years[1:], levels, color="C0", label="filtered level")
    axes.set_ylabel("10$^8$ m$^3$ per year")
    axes.set_title("The Nile at Aswan")
    axes.legend(frameon=False)
    figure.savefig(HERE / "nile.png", dpi=150)
    print("figure: examples/nile.png")


if __name__ == "__main__":
    main()
