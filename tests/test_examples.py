"""The examples find what they should."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_nile_finds_the_maximum_of_the_likelihood():
    text = subprocess.check_output([sys.executable, EXAMPLES / "nile.py"], text=True)
    found = {
        name: [float(x) for x in rest.split()]
        for name, rest in re.findall(r"^(irregular|step) +(.*)$", text, re.M)
    }
    assert found["irregular"][:2] == [15098.5, 15099.0]
    assert found["step"][:2] == [1469.2, 1469.1]
    # from the Hessian by central differences of the log-likelihood
    assert abs(found["irregular"][2] - 3145.5) < 1 and abs(found["step"][2] - 1280.4) < 1
    assert "log-likelihood -632.546" in text
    assert "ran 1 time in Python" in text
