"""Position attention (PiT, the position-induced transformer): attention by distances alone."""
