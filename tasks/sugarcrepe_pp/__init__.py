"""SugarCrepe++: two true captions of a photograph, and a false one."""
