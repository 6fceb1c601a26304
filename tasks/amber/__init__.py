"""AMBER: hallucinations in descriptions and in answers to questions, by annotations of 1,004 photographs."""
