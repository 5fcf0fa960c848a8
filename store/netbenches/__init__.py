"""Import of netbenches results."""
