"""How good the watch is: simulated labs and real histories, ours and others' rules."""
