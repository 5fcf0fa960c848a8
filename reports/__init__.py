"""Mails, pages, plots and ministat output. Documents in, text out; reads no files and no clock."""
