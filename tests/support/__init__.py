"""What tests of more than one package stand on: real databases, real control, real processes."""
