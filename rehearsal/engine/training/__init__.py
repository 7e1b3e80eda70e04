"""How the committed pair was trained; nothing at run time imports it. `python -m rehearsal.engine.training --help`."""
