"""Views of programs: pictures, tables and the names of notebook cells."""
