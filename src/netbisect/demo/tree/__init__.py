"""A git repository with the shape of FreeBSD's, and the story of seventy-odd commits in it."""
