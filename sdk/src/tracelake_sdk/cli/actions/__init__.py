"""What the commands do and print, one module for each noun."""
