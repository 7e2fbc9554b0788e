"""Write a tiny Qwen2.5-Omni thinker: real format, real processor, random weights.

It says nothing sensible. It is for tests of what reaches the engine: images and audio in one
prompt, and what of it a prefix cache keeps. Needs torch, transformers and nothing else; no
download. `python -m tools.tiny_omni.make FOLDER`
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2_5OmniConfig, Qwen2_5OmniThinkerConfig
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import (
    Qwen2_5OmniThinkerForConditionalGeneration,
)

MAX_POSITIONS = 8192  # tokens
MAX_SIDE = 128  # px; a larger picture is made smaller
TOKEN_SIDE = 28  # px; one token is so much of a picture, wide and high
WIDTH = 128  # of the language model
TOWER_WIDTH = 64  # of the vision and the audio tower
MEL_BANDS = 128

MEDIA = {
    "image_token": "<|IMAGE|>",
    "audio_token": "<|AUDIO|>",
    "video_token": "<|VIDEO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_pad|>", *MEDIA.values())

# There is no talker; the ids of its tokens have to be some of its vocabulary's all the same.
TALKER_TOKENS = (
    "tts_text_start_token_id",
    "tts_text_end_token_id",
    "tts_text_pad_token_id",
    "vision_start_token_id",
    "vision_end_token_id",
    "audio_start_token_id",
    "audio_end_token_id",
)

# What the tokenizer learns its few words from.
TEXT = (
    "What do you see? I see a cup of coffee on the table, and a cat beside it.",
    "What am I holding? You are holding a blue pen in your left hand.",
    "How many people are there? There are two people in front of the window.",
    "What did you hear? Somebody asked what colour the door is; it is green.",
    "You are a helpful assistant that watches a live video and answers briefly.",
    "system user assistant",
)

# One line of a message's parts, in their order; as Qwen's own template, without tools.
CHAT_TEMPLATE = """\
{%- macro part(p) -%}
{%- if p['type'] == 'text' -%}{{ p['text'] }}
{%- elif p['type'] == 'image' -%}<|vision_bos|><|IMAGE|><|vision_eos|>
{%- elif p['type'] == 'audio' -%}<|audio_bos|><|AUDIO|><|audio_eos|>
{%- endif -%}
{%- endmacro -%}
{%- for m in messages -%}
<|im_start|>{{ m['role'] + '\\n' }}
{%- if m['content'] is string -%}{{ m['content'] }}
{%- else -%}{%- for p in m['content'] -%}{{ part(p) }}{%- endfor -%}
{%- endif -%}
<|im_end|>{{ '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant{{ '\\n' }}{%- endif -%}
"""

PICTURE: dict[str, Any] = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "merge_size": 2,
    "patch_size": TOKEN_SIDE // 2,
    "resample": 3,
    "rescale_factor": 1 / 255,
    "size": {"shortest_edge": (2 * TOKEN_SIDE) ** 2, "longest_edge": MAX_SIDE**2},  # pixels
    "temporal_patch_size": 2,
}
# Written by hand: transformers' own video processor cannot be made without torchvision.
PROCESSOR: dict[str, Any] = {
    "processor_class": "Qwen2_5OmniProcessor",
    "image_processor": {"image_processor_type": "Qwen2VLImageProcessor", **PICTURE},
    "video_processor": {"video_processor_type": "Qwen2VLVideoProcessor", **PICTURE},
    "feature_extractor": {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "chunk_length": 30,  # s
        "dither": 0.0,
        "feature_size": MEL_BANDS,
        "hop_length": 160,
        "n_fft": 400,
        "padding_side": "right",
        "padding_value": 0.0,
        "return_attention_mask": False,
        "sampling_rate": 16_000,
    },
}


def make(folder: Path) -> None:
    """Write the checkpoint into `folder`, which is made; the same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    tokenizer.save_pretrained(folder)
    (folder / "processor_config.json").write_text(json.dumps(PROCESSOR, indent=2))
    thinker = _thinker_config(tokenizer)
    torch.manual_seed(0)
    model = Qwen2_5OmniThinkerForConditionalGeneration(thinker).float()
    weights = {
        f"thinker.{name}": tensor.contiguous() for name, tensor in model.state_dict().items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = Qwen2_5OmniConfig(
        thinker_config=thinker.to_dict(),
        talker_config=dict.fromkeys(TALKER_TOKENS, 0),
        enable_audio_output=False,
    )
    config.architectures = ["Qwen2_5OmniModel"]
    config.save_pretrained(folder)


def _tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE: any text can be written with it, if not in few tokens."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(TEXT, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=MEDIA,
        chat_template=CHAT_TEMPLATE,
    )


def _thinker_config(tokenizer: PreTrainedTokenizerFast) -> Qwen2_5OmniThinkerConfig:
    def token(text: str) -> int:
        number = tokenizer.convert_tokens_to_ids(text)
        assert isinstance(number, int)
        return number

    return Qwen2_5OmniThinkerConfig(
        audio_config={
            "d_model": TOWER_WIDTH,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 2 * TOWER_WIDTH,
            "num_mel_bins": MEL_BANDS,
            "output_dim": WIDTH,
            "n_window": 100,
            "max_source_positions": 1500,
        },
        vision_config={
            "depth": 2,
            "hidden_size": TOWER_WIDTH,
            "intermediate_size": 2 * TOWER_WIDTH,
            "num_heads": 4,
            "out_hidden_size": WIDTH,
            "patch_size": PICTURE["patch_size"],
            "spatial_merge_size": PICTURE["merge_size"],
            "temporal_patch_size": PICTURE["temporal_patch_size"],
            "window_size": 4 * TOKEN_SIDE,
            "fullatt_block_indexes": [1],
        },
        text_config={
            "hidden_size": WIDTH,
            "intermediate_size": 2 * WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": MAX_POSITIONS,
            "rope_parameters": {
                "rope_type": "default",
                "mrope_section": [4, 6, 6],
                "rope_theta": 1_000_000.0,
            },
            "tie_word_embeddings": False,
        },
        image_token_index=token(MEDIA["image_token"]),
        audio_token_index=token(MEDIA["audio_token"]),
        video_token_index=token(MEDIA["video_token"]),
        vision_start_token_id=token(MEDIA["vision_bos_token"]),
        vision_end_token_id=token(MEDIA["vision_eos_token"]),
        audio_start_token_id=token(MEDIA["audio_bos_token"]),
        audio_end_token_id=token(MEDIA["audio_eos_token"]),
        user_token_id=token("user"),
        pad_token_id=token("<|endoftext|>"),
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.tiny_omni.make FOLDER")
    make(Path(sys.argv[1]))
