"""Soccer: the DEBS 2013 challenge, with a simulator of matches whose truth is known exactly."""
