"""Where the time of training steps goes: traces of a device, and what the text of compiled programs says."""
