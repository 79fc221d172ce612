"""``python -m rooflab.catalog``: rewrite the alias table after a catalog file changed."""

from rooflab.catalog import write_aliases

write_aliases()
