"""Statistics over systems: does a metric rank what wrote the captions as people do?"""
