"""COCO: captions and marked objects of everyday photographs."""
