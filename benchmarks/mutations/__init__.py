"""The mistakes that ``benchmarks/mutants.py`` makes, one after another."""

from mutations.credit import CREDIT
from mutations.grading import GRADING
from mutations.losses import LOSSES
from mutations.measures import MEASURES
from mutations.models import MODELS
from mutations.mutant import Mutant
from mutations.runs import RUNS
from mutations.updates import UPDATES

MUTANTS = [*RUNS, *UPDATES, *MEASURES, *LOSSES, *MODELS, *CREDIT, *GRADING]

__all__ = ["MUTANTS", "Mutant"]
