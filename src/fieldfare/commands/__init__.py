"""The groups of commands: each parses its arguments, calls one function and shows what it returns."""
