import pytest
from tiny_images import COLOURS, encoded, turned

from capbench.adapters.images.jpeg_header import PlainJpeg, plain_jpeg


@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"quality": 30, "subsampling": 0}, {"icc_profile": b"x" * 99}]
)
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_size_is_read(mode: str, options):
    content = encoded(COLOURS.convert(mode), "JPEG", **options)
    assert plain_jpeg(content) == PlainJpeg(60, 40, has_exif=False, unturned=content)


def test_exif_data_are_seen():
    content = encoded(COLOURS, "JPEG")
    header = plain_jpeg(encoded(COLOURS, "JPEG", exif=turned(3)))
    assert header == PlainJpeg(60, 40, has_exif=True, unturned=content)


def test_every_segment_that_could_turn_the_image_is_left_out():
    content = encoded(COLOURS, "JPEG", comment=b"\xff\xe1")
    frame = content.index(b"\xff\xc0")
    segment = b"\xff\xe1\0\x0aanything"
    for at in (2, frame, content.index(b"\xff\xda")):
        several = content[:at] + 2 * segment + content[at:]
        assert plain_jpeg(several) == PlainJpeg(60, 40, has_exif=False, unturned=content)
    # What has no length, and bytes that fill up, are those of the file.
    marked = content[:frame] + b"\xff\x01" + content[frame:]
    assert plain_jpeg(marked) == PlainJpeg(60, 40, has_exif=False, unturned=marked)
    filled = content[:frame] + b"\xff\xff" + content[frame:]
    assert plain_jpeg(filled) == PlainJpeg(60, 40, has_exif=False, unturned=filled)
    # After the first scan has begun: Pillow may say what that is.
    assert plain_jpeg(content[:-2] + segment + content[-2:]) is None


def test_what_other_decoders_may_not_read_is_left_to_pillow():
    whole = encoded(COLOURS, "JPEG")
    assert plain_jpeg(encoded(COLOURS.convert("CMYK"), "JPEG")) is None
    assert plain_jpeg(encoded(COLOURS, "JPEG", keep_rgb=True)) is None
    assert plain_jpeg(encoded(COLOURS, "MPO", save_all=True, append_images=[COLOURS])) is None
    assert plain_jpeg(encoded(COLOURS, "PNG")) is None
    assert plain_jpeg(whole[:-2]) is None
    assert plain_jpeg(whole[:100] + b"\xff\xd9") is None
    scan = whole.index(b"\xff\xda")
    assert plain_jpeg(whole[: whole.index(b"\xff\xc0")] + whole[scan:]) is None
    assert plain_jpeg(b"") is None
    assert plain_jpeg(b"\xff\xd8\xff\xd9") is None
    assert plain_jpeg(b"\xff\xd8" + b"\xff" * 50 + b"\xff\xd9") is None
