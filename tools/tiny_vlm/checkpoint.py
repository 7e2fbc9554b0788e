"""Writing the model in the format that vLLM loads."""

import os
import tempfile
from pathlib import Path

import torch
from transformers import Idefics3ForConditionalGeneration

from tools.tiny_vlm.geometry import model_config
from tools.tiny_vlm.tokens import processor, special_ids, tokenizer

CHECKPOINT = Path(__file__).parent / "checkpoint"


def new_model(seed: int) -> Idefics3ForConditionalGeneration:
    """An untrained float32 model."""
    torch.manual_seed(seed)
    model = Idefics3ForConditionalGeneration(model_config(len(tokenizer()), special_ids()))
    # On a CPU the flash kernel's backward pass is several times slower for so few patches.
    model.model.vision_model.set_attn_implementation("eager")
    return model.float()


def save(model: Idefics3ForConditionalGeneration, folder: Path = CHECKPOINT) -> None:
    """Write weights (float16), configuration, tokenizer and processor to `folder`.

    Each file is replaced at once, so that a reader never meets half of one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    half = Idefics3ForConditionalGeneration(model.config)
    half.load_state_dict(model.state_dict())
    with tempfile.TemporaryDirectory(dir=folder.parent) as fresh:
        half.half().save_pretrained(fresh)
        processor().save_pretrained(fresh)
        for file in sorted(Path(fresh).iterdir()):
            os.replace(file, folder / file.name)
