"""The encoder of the captioner that PAC-S++ tunes: a Transformer on the grid of a frozen CLIP.

With a GPT-2 that attends to it, it is a vision-encoder-decoder of transformers: CLIP's hidden states before the last
norm, a projection to the width, a BERT without words, and the decoder. The layout of folders is that of the released
captioners of the same group: ``encoder.vision_encoder``, ``encoder.vis_enc_to_enc_proj``, ``encoder.encoder``,
``decoder``. As transformers has no such encoder, this file goes with trained weights: imported, it makes the encoder
known. Sources: Sarto et al. 2024 (PAC-S++), section 4 and equation 15; Moratelli et al. 2024, aimagelab/DiCO.
"""

from typing import Any, ClassVar

import torch
from transformers import (
    AutoConfig,
    AutoModel,
    PreTrainedConfig,
    PreTrainedModel,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
)
from transformers.modeling_outputs import BaseModelOutput


class GridEncoderConfig(PreTrainedConfig):
    """The sizes of both encoders: ``vision_encoder`` is a CLIP's, ``encoder`` a BERT's."""

    model_type = "vision-encoder-encoder"
    # The library makes a property of what its own classes have as a mapping.
    sub_configs: ClassVar[dict[str, Any]] = {"vision_encoder": AutoConfig, "encoder": AutoConfig}  # pyrefly: ignore[bad-override]

    vision_encoder: dict | PreTrainedConfig | None = None
    encoder: dict | PreTrainedConfig | None = None
    hidden_size: int = 512

    def __post_init__(self, **kwargs: Any) -> None:
        """Make configurations of mappings."""
        for name in self.sub_configs:
            sub_config = getattr(self, name)
            if isinstance(sub_config, dict):
                values = dict(sub_config)
                setattr(self, name, AutoConfig.for_model(values.pop("model_type"), **values))
        if isinstance(self.encoder, PreTrainedConfig):
            self.hidden_size = self.encoder.hidden_size
        super().__post_init__(**kwargs)


class GridEncoder(PreTrainedModel):
    """Encodes images, or the grids of images.

    Args:
        config: The sizes.
    """

    config_class = GridEncoderConfig
    base_model_prefix = "vision_encoder_encoder"
    main_input_name = "pixel_values"
    _supports_sdpa = True

    def __init__(self, config: GridEncoderConfig) -> None:
        super().__init__(config)
        tower: Any = config.vision_encoder
        self.vision_encoder = AutoModel.from_config(tower)
        self.encoder = AutoModel.from_config(config.encoder)
        self.vis_enc_to_enc_proj = (
            torch.nn.Linear(tower.hidden_size, config.hidden_size)
            if tower.hidden_size != config.hidden_size
            else torch.nn.Identity()
        )
        self.post_init()

    def grid(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the states ``[b, n, d]`` of the tower before its last norm, of the whole image and of each patch."""
        return self.vision_encoder(pixel_values).last_hidden_state

    def forward(self, pixel_values: torch.Tensor, **unused: Any) -> BaseModelOutput:
        """Return states ``[b, n, width]``.

        Args:
            pixel_values: ``[b, 3, side, side]``, or ``[b, n, d]`` of :meth:`grid`.
            unused: Arguments that the library passes to all encoders.
        """
        grid = pixel_values if pixel_values.ndim == 3 else self.grid(pixel_values)
        encoded = self.encoder(inputs_embeds=self.vis_enc_to_enc_proj(grid))
        return BaseModelOutput(last_hidden_state=encoded.last_hidden_state)


AutoConfig.register(GridEncoderConfig.model_type, GridEncoderConfig, exist_ok=True)
AutoModel.register(GridEncoderConfig, GridEncoder, exist_ok=True)


class GridCaptionerConfig(VisionEncoderDecoderConfig):
    """The library's, under a name that leads ``trust_remote_code`` to this file."""


class GridCaptioner(VisionEncoderDecoderModel):
    """The library's, of the same configuration."""

    config_class = GridCaptionerConfig


AUTO_MAP = {
    "AutoConfig": "grid_encoder.GridCaptionerConfig",
    "AutoModelForImageTextToText": "grid_encoder.GridCaptioner",
}
"""In the configuration of a folder that holds this file: what loads it."""
