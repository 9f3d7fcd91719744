"""What is known of the directory of a tap log, for those who look at it while it grows or later."""
