"""The model's sizes and its image processor."""

from functools import cache

from transformers import Idefics3Config
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

IMAGE_SIDE = 96  # px
PATCH_SIDE = 12  # px
SCALE_FACTOR = 8  # the connector folds 8x8 patches into one token
TOKENS_PER_IMAGE = (IMAGE_SIDE // PATCH_SIDE // SCALE_FACTOR) ** 2
VISION_WIDTH = 96
VISION_LAYERS = 3
TEXT_WIDTH = 192
TEXT_LAYERS = 6
MAX_POSITIONS = 8192  # tokens


@cache
def image_processor() -> Idefics3ImageProcessorPil:
    """Squares a picture of any size to the vision tower's input, without splitting it."""
    return Idefics3ImageProcessorPil(
        do_image_splitting=False,
        size={"longest_edge": 2 * IMAGE_SIDE},
        max_image_size={"longest_edge": IMAGE_SIDE},
    )


def model_config(vocabulary: int, special: dict[str, int]) -> Idefics3Config:
    """The Idefics3 configuration; `special` holds the ids named pad, bos, eos and image."""
    return Idefics3Config(
        text_config={
            "model_type": "llama",
            "hidden_size": TEXT_WIDTH,
            "intermediate_size": 512,
            "num_hidden_layers": TEXT_LAYERS,
            "num_attention_heads": 6,
            "num_key_value_heads": 6,
            "head_dim": 32,
            "vocab_size": vocabulary,
            "max_position_embeddings": MAX_POSITIONS,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "pad_token_id": special["pad"],
            "bos_token_id": special["bos"],
            "eos_token_id": special["eos"],
        },
        vision_config={
            "hidden_size": VISION_WIDTH,
            "intermediate_size": 4 * VISION_WIDTH,
            "num_hidden_layers": VISION_LAYERS,
            "num_attention_heads": 4,
            "image_size": IMAGE_SIDE,
            "patch_size": PATCH_SIDE,
        },
        scale_factor=SCALE_FACTOR,
        image_token_id=special["image"],
        pad_token_id=special["pad"],
        tie_word_embeddings=False,
    )
