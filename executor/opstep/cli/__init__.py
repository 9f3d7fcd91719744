"""The commands `opstep run` and `opstep show`."""
