"""A Hugging Face `config.json` → `Model`: `read` for a parsed one, `load` for a path, a catalog name or a hub id."""

from rooflab.hf.shorter import shorter
from rooflab.hf.source import dimensions, like, load, names, other_names, read_json
from rooflab.hf.text import read

__all__ = ["dimensions", "like", "load", "names", "other_names", "read", "read_json", "shorter"]
