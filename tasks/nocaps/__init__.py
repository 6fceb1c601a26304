"""nocaps: captions of photographs with objects that COCO's captions do not know."""
