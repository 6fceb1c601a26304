"""System-level statistics: does a metric rank captioning systems as people do?"""
