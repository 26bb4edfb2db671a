"""The programs of the table, a file each."""
