"""Idefics3 checkpoints with random weights: for speed and for counting, not for meaning.

python -m tools.random_vlm smolvlm-256m FOLDER
"""

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Idefics3Processor
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

from tools.tiny_vlm.tokens import CHAT_TEMPLATE, special_ids, tokenizer


@dataclass(frozen=True)
class Shape:
    """The sizes of a model; one image costs `tokens_per_image` tokens."""

    image_side: int  # px
    patch_side: int  # px
    scale_factor: int
    vision_width: int
    vision_layers: int
    vision_heads: int
    text_width: int
    text_inner: int
    text_layers: int
    text_heads: int
    text_kv_heads: int
    vocabulary: int | None = None  # None: the tokenizer's own
    positions: int = 32_768  # tokens

    @property
    def tokens_per_image(self) -> int:
        """Without the markers around it."""
        return (self.image_side // self.patch_side // self.scale_factor) ** 2


SHAPES = {
    # SmolVLM-256M-Instruct's, without image splitting: 64 tokens an image.
    "smolvlm-256m": Shape(512, 16, 4, 768, 12, 12, 576, 1536, 30, 9, 3, vocabulary=49_280),
    # Hardly any work, but as many tokens an image as large models have.
    "256-tokens": Shape(128, 8, 1, 64, 1, 2, 128, 256, 2, 4, 2),
}


def make(folder: Path, shape: Shape, seed: int = 0) -> None:
    """Write configuration, tokenizer, processor and bfloat16 weights to `folder`."""
    torch.manual_seed(seed)
    tokens, special = tokenizer(), special_ids()
    config = Idefics3Config(
        text_config={
            "model_type": "llama",
            "hidden_size": shape.text_width,
            "intermediate_size": shape.text_inner,
            "num_hidden_layers": shape.text_layers,
            "num_attention_heads": shape.text_heads,
            "num_key_value_heads": shape.text_kv_heads,
            "head_dim": shape.text_width // shape.text_heads,
            "vocab_size": shape.vocabulary or len(tokens),
            "max_position_embeddings": shape.positions,
            "tie_word_embeddings": False,
            "pad_token_id": special["pad"],
            "bos_token_id": special["bos"],
            "eos_token_id": special["eos"],
        },
        vision_config={
            "hidden_size": shape.vision_width,
            "intermediate_size": 4 * shape.vision_width,
            "num_hidden_layers": shape.vision_layers,
            "num_attention_heads": shape.vision_heads,
            "image_size": shape.image_side,
            "patch_size": shape.patch_side,
        },
        scale_factor=shape.scale_factor,
        image_token_id=special["image"],
        pad_token_id=special["pad"],
        tie_word_embeddings=False,
    )
    model = Idefics3ForConditionalGeneration(config).to(torch.bfloat16)
    model.save_pretrained(folder)
    images = Idefics3ImageProcessorPil(
        do_image_splitting=False,
        size={"longest_edge": shape.image_side},
        max_image_size={"longest_edge": shape.image_side},
    )
    Idefics3Processor(
        images, tokens, image_seq_len=shape.tokens_per_image, chat_template=CHAT_TEMPLATE
    ).save_pretrained(folder)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and write a checkpoint."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args(arguments)
    make(chosen.folder, SHAPES[chosen.shape])
    logging.info("%s: %d tokens an image", chosen.folder, SHAPES[chosen.shape].tokens_per_image)


if __name__ == "__main__":
    main()
