"""Versions: the tables of generations, their files and scopes, and the numbered states that readers see."""
