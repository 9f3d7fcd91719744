"""The commands `opstep run`, `opstep show` and `opstep records`."""
