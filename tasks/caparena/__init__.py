"""CapArena: battles of captioners on photographs of DOCCI, and CapArena-Auto."""
