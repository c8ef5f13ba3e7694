"""Where the numbers are crunched. Each backend is a module with the same functions."""
