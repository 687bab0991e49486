"""Interactive shells: nothing to route; what they start inherits the role's environment. A shell
with line editing takes over its terminal before its prompt, a plain one never does, so nothing can
be required of either."""

from deck.agents.adapter import Adapter

NAMES = ("sh", "bash", "zsh", "dash", "ksh", "fish")
ADAPTER = Adapter(name="shell")
