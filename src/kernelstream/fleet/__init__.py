"""Many small models at once, by number or by key."""

from kernelstream.fleet.fleet import Fleet
from kernelstream.fleet.keyed import KeyedFleet
from kernelstream.fleet.keys import part_of
from kernelstream.fleet.store import ModelStore

__all__ = ["Fleet", "KeyedFleet", "ModelStore", "part_of"]
