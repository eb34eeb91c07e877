"""Versions: the tables of generations, their files and scopes, and the numbered versions that readers see."""
