"""Where the time of training steps goes: traces of a device, and what compiled programs say of themselves."""
