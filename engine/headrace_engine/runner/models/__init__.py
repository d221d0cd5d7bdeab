"""One module for each family: the blocks that it is made of, and the keys of `config.json` that say so."""
