"""How answers are read, one form per file: numbers, choices, code literals, short text, LaTeX."""
