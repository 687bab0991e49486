"""The egress wall: a role in a network of its own, in which the gateway is the only way out.

Linux only, built on bubblewrap. `plan` is what the wall looks like, as a pure function; `places`
looks at this machine for what to show and what to hide; `relay` is the way out, held by the deck;
`inside` runs beside the agent; `proof` tries to get past it; `wall` is the part of a session.
"""
