"""File formats, told apart by content."""
