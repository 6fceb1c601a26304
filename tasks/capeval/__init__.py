"""CAPEval: how much of an image's checklist do captions cover, and how much of that is right?"""
