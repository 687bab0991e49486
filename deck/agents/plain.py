"""Any other program: the role's environment is all it gets."""

from deck.agents.adapter import Adapter

ADAPTER = Adapter(name="plain")
