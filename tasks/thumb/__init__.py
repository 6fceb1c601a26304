"""THumB: captions of COCO's test photographs, rated for precision and recall."""
