"""The rules that find values, one small module per family, and the engine that runs them.

Every rule is a Presidio `EntityRecognizer`, so an operator's own are added the same way.
Importing a module of this package imports presidio-analyzer (over a second, 100 MB): only
scanning workers and command line tools that scan do so.
"""
