"""The commands of the terminal debugger, and the table of them."""
