"""PAC-S and RefPAC-S: CLIP-S and RefCLIP-S with a model tuned on generated images and captions."""

from .clip_s import PROMPT, ClipS, RefClipS


class PacS(ClipS):
    """CLIP-S with a model of the ``pac`` family (PAC-S, PAC-S++) and another ``w``.

    See ``ClipS`` for the formula and the parts. All calls of pacscore have ``w`` 2; the PAC-S++ paper prints
    2.5 for ViT-B/32 and 3 for ViT-L/14, and the code of its authors' survey has 2.5. It moves no rank.

    Args:
        w: Factor of the cosine.
        prompt: What stands before each text.
        sentences: As of ``ClipS``.

    Raises:
        ValueError: ``w`` is not a positive number, or ``sentences`` not true or false.
    """

    label = "PAC-S"
    range = (0.0, 2.0)
    encoder_family = "pac"
    source = "Sarto et al., CVPR 2023 and IJCV 2025; aimagelab/pacscore evaluation/pac_score/pac_score.py"

    def __init__(self, w: float = 2.0, prompt: str = PROMPT, sentences: bool = False) -> None:
        super().__init__(w, prompt, sentences)


class RefPacS(RefClipS):
    """RefCLIP-S with a model of the ``pac`` family (PAC-S, PAC-S++) and another ``w``.

    See ``RefClipS`` for the formula, the range and the parts. All calls of pacscore have ``w`` 2; the PAC-S++
    paper prints 2.5 for ViT-B/32 and 3 for ViT-L/14, and the code of its authors' survey has 2.5. It moves ranks.

    Args:
        w: Factor of the cosine with the image.
        prompt: What stands before each text.
        sentences: As of ``ClipS``.

    Raises:
        ValueError: ``w`` is not a positive number, or ``sentences`` not true or false.
    """

    label = "RefPAC-S"
    encoder_family = "pac"
    source = "Sarto et al., CVPR 2023 and IJCV 2025; aimagelab/pacscore compute_correlations.py"

    def __init__(self, w: float = 2.0, prompt: str = PROMPT, sentences: bool = False) -> None:
        super().__init__(w, prompt, sentences)
