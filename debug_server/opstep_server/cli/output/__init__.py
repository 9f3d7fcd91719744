"""Text for the terminal: descriptions, styles, arrays and the screen."""
