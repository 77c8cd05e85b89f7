"""Laws run the same instances on every machine: what fails here fails there.  Laws marked long draw anew."""

from hypothesis import settings

settings.register_profile("rune", derandomize=True, database=None, deadline=None)
settings.load_profile("rune")
