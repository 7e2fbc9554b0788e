"""The tokenizer and the chat template: whole words, whole numbers below 200, single signs."""

import re
from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import Idefics3Processor, PreTrainedTokenizerFast

from tools.tiny_vlm.geometry import TOKENS_PER_IMAGE, image_processor
from tools.tiny_vlm.scenes import ALL_SCENES, NUMBERS
from tools.tiny_vlm.wordings import OPENERS, SYSTEM_PROMPTS, WORDINGS

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<end_of_utterance>"
IMAGE, AROUND_IMAGE, WHOLE_IMAGE = "<image>", "<fake_token_around_image>", "<global-img>"
SPECIAL = (PAD, START, END, AROUND_IMAGE, IMAGE, WHOLE_IMAGE)
VOCABULARY = 1024
NUMBERS_BELOW = 200  # each is one token; larger ones are several

# No space follows "User:" and "Assistant:", so that an answer's text has none before it and
# reads the same in the next prompt as when it was generated.
CHAT_TEMPLATE = (
    START + "{% for message in messages %}{{ message['role'] | capitalize }}:"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif part['type'] == 'image' %}" + IMAGE + "{% endif %}"
    "{% endfor %}{% endif %}" + END + "\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)


def _corpus() -> list[str]:
    """Every word that is to be one token, at a text's start and after a space, twice each."""
    lines = [scene.phrase for scene in ALL_SCENES]
    lines += [wording.format("the") for wordings in WORDINGS.values() for wording in wordings]
    lines += [*OPENERS, *SYSTEM_PROMPTS, *NUMBERS]
    lines += ["nothing left right became then user assistant system interrupted"]
    lines += ["is no longer shown frames asked answered"]
    words = sorted({word.lower() for line in lines for word in re.findall(r"[A-Za-z]+", line)})
    numbers = [str(number) for number in range(10, NUMBERS_BELOW)]
    return [*(space + word for word in words for space in ("", " ")), *numbers] * 2


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """The tokenizer. It lower-cases: typed, spoken and shouted questions read the same."""
    tokens = Tokenizer(models.BPE())
    tokens.normalizer = normalizers.Lowercase()
    words = Regex(r"\s?\p{L}+|\p{N}{1,3}|\s?[^\s\p{L}\p{N}]|\s")
    tokens.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(words, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokens.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=2,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokens.train_from_iterator(_corpus(), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        bos_token=START,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=[AROUND_IMAGE, IMAGE, WHOLE_IMAGE],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def processor() -> Idefics3Processor:
    """The processor that vLLM loads: pictures, tokens and the chat template together."""
    return Idefics3Processor(
        image_processor(),
        tokenizer(),
        image_seq_len=TOKENS_PER_IMAGE,
        chat_template=CHAT_TEMPLATE,
    )


def special_ids() -> dict[str, int]:
    """The ids that the model's configuration names."""
    names = {"pad": PAD, "bos": START, "eos": END, "image": IMAGE}
    return {name: tokenizer().convert_tokens_to_ids(token) for name, token in names.items()}
