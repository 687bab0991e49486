"""The deck, `choragos`: a team of agents in terminals, behind the gateway or not at work."""
