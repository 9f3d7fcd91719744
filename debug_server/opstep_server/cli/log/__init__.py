"""The commands `opstep log` and `opstep collect`."""
