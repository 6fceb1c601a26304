"""ALOHa's data: captions of COCO with words marked as made up, and false captions of nocaps."""
