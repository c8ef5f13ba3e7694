"""The ways of learning, one file each: expansion, dictionary, second order, active set, weights.

An update names its way (`Update.loop`, or `Update.solver` for `fit`), and `loop_named` finds it. A
new one is a new file with a subclass of `Loop`. The compiled code of each lies in a module of its
own beside this package; that of the expansion, `kernelstream.learner.learn`, is the one to read.
"""

from kernelstream.learner.loops.base import Loop, loop_named
from kernelstream.parts import discover

__all__ = ["Loop", "loop_named"]

discover(__name__, __path__)
