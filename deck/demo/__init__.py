"""The demonstration: `choragos demo` plays a team's hour in half a minute and checks every claim.

Owns nothing of the product. It drives both programs as a stranger would, through their command
lines, their files and HTTP; it imports neither the gateway nor the deck's core, so whatever it
shows is what a user gets.
"""
