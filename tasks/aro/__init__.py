"""ARO: attribution, relation and order of words, on photographs."""
