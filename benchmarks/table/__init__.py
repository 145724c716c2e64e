"""The parts of ``pit_table.py``: which cells there are, who judges them, what the table says."""
