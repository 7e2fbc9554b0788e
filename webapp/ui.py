"""The page: one custom component carries the live stage, Gradio's own carry the settings."""

import html
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.staticfiles import StaticFiles

from core.engines.base import EngineInfo
from core.protocol import MAX_TEXT_CHARS
from core.speech.kit import OFF
from core.speech.voices import VOICES

STATIC_DIR = Path(__file__).resolve().parent.parent / "static"
SYSTEM_FONTS = ("system-ui", "Segoe UI", "Roboto", "Helvetica Neue", "DejaVu Sans", "sans-serif")
MONO_FONTS = ("ui-monospace", "SFMono-Regular", "Menlo", "DejaVu Sans Mono", "monospace")
REFERENCE_THRESHOLD = 0.95  # the reference filter's own default
SETTINGS_ID = "sightline-settings"
ANSWERS_ID = "sightline-answers"  # the page's own voice button keeps it up to date
MODEL_ID = "sightline-model"  # the page's script keeps it up to date
DEFAULT_VOICE = "default"  # the server's
MAX_FRAMES = 256  # of `session.config`
MAX_SAMPLED_FRAMES = 128
FRAMES_SHOWN = 8
FRAMES_SHOWN_PREFILLED = 32  # where a frame is prefilled once, a longer past costs no waiting
LANGUAGES = [
    ("Found out", ""),
    ("Chinese", "zh"),
    ("Dutch", "nl"),
    ("English", "en"),
    ("French", "fr"),
    ("German", "de"),
    ("Hindi", "hi"),
    ("Italian", "it"),
    ("Japanese", "ja"),
    ("Korean", "ko"),
    ("Polish", "pl"),
    ("Portuguese", "pt"),
    ("Russian", "ru"),
    ("Spanish", "es"),
    ("Turkish", "tr"),
    ("Ukrainian", "uk"),
]

_TEMPLATE = '<div class="sightline" data-state="idle" data-engine="loading"></div>'
# Gradio runs this once, when the component is in the page; the template never changes.
_ON_LOAD = f"""
import("/static/app.js").then(({{ mount }}) => mount(element.querySelector(".sightline"), {{
  settings: () => props.value ?? {{}},
  watchSettings: (callback) => watch("value", callback),
  settingsId: "{SETTINGS_ID}",
}}));
"""
_HEAD = """
<meta name="description" content="Talk with a model that is watching.">
<meta name="color-scheme" content="light dark">
<link rel="stylesheet" href="/static/sightline.css">
<link rel="modulepreload" href="/static/app.js">
"""
_CSS = f"""
.gradio-container {{ padding: 0 !important; max-width: none !important; }}
#{SETTINGS_ID} {{
  z-index: 40; border-left: 1px solid var(--border-color-primary); box-shadow: 0 0 40px #0003;
}}
#{SETTINGS_ID}:not(.open) {{ visibility: hidden; box-shadow: none; }}
#{SETTINGS_ID} .sidebar-content {{ padding: 18px 22px 30px !important; }}
#{SETTINGS_ID} .toggle-button {{
  left: auto; right: 16px; top: 14px; border-radius: 8px; box-shadow: none;
  border: 1px solid var(--border-color-primary);
}}
.dark #{SETTINGS_ID} input[type=range] {{ --neutral-200: #2c3640; }}
#{SETTINGS_ID} .toggle-button:focus-visible {{ outline: 2px solid var(--color-accent); }}
#{SETTINGS_ID} h2 {{ margin: 0 0 14px; font-size: 17px; font-weight: 650; }}
#{MODEL_ID} {{ font-size: 14px; overflow-wrap: anywhere; }}
#{MODEL_ID} h3 {{ margin: 0; font-size: 14px; font-weight: 600; }}
#{MODEL_ID} p, #{MODEL_ID} dt {{ margin: 0; color: var(--body-text-color-subdued); }}
#{MODEL_ID} dl {{ display: grid; gap: 3px; margin: 8px 0 0; }}
#{MODEL_ID} dl div {{ display: grid; grid-template-columns: 72px minmax(0, 1fr); gap: 10px; }}
#{MODEL_ID} dd {{ margin: 0; }}
"""


class LiveStage(gr.HTML):
    """The live stage. Its value is a dict of `session.config` fields that the page sends on."""

    def __init__(self, value: dict[str, Any], **kwargs: Any):
        super().__init__(
            value=value,
            html_template=_TEMPLATE,
            js_on_load=_ON_LOAD,
            apply_default_css=False,
            **kwargs,
        )

    def api_info(self) -> dict[str, Any]:
        """The JSON type of the value."""
        return {"type": "object"}


class PageFiles(StaticFiles):
    """`static/`, then Gradio's own `/static` files; browsers ask whether a file has changed."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC_DIR, packages=[("gradio", "templates/frontend/static")])

    def file_response(self, *args: Any, **kwargs: Any) -> Any:
        """As Starlette's, with `Cache-Control: no-cache`."""
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def session_fields(
    modalities: list[str],
    voice: str,
    speech_speed: float,
    language: str,
    frames: float,
    context_layout: str,
    filter_name: str,
    threshold: float,
    max_gap_s: float,
    system_prompt: str,
) -> dict[str, Any]:
    """The settings as fields of `session.config`.

    `voice`: a name or `default`; `language`: an ISO 639-1 code, empty to find out;
    `frames`: how many of the last kept frames the model is shown; `context_layout`:
    `chronological`, `window`, or empty for the server's choice; `filter_name`: `block`,
    `reference` or `off`; `threshold` (0 to 1) counts for `reference` only.
    """
    reference = filter_name == "reference"
    return {
        "modalities": modalities or ["text"],
        "voice": None if voice == DEFAULT_VOICE else voice,
        "speech_speed": float(speech_speed),
        "language": language or None,
        "num_frames": min(int(frames), MAX_SAMPLED_FRAMES),
        "max_frames": int(frames),
        "context_layout": context_layout or None,
        "enable_frame_filter": filter_name != "off",
        "frame_filter": None if filter_name == "off" else filter_name,
        "frame_filter_threshold": float(threshold) if reference else None,
        "frame_filter_max_gap_s": float(max_gap_s),
        "system_prompt": system_prompt.strip() or None,
    }


def build_ui(settings: Any, engine_info: EngineInfo) -> gr.Blocks:
    """The Gradio app, to be mounted with `mount_options()`.

    `settings` are the server's: they say what it hears and speaks with.
    """
    page = gr.Blocks(title="Sightline", analytics_enabled=False, fill_width=True)
    with page:
        inputs = _settings_inputs(settings, engine_info)
        start = session_fields(*(item.value for item in inputs))
        stage = LiveStage(start, elem_id="sightline-stage")
        with gr.Sidebar(
            label="Settings", position="right", open=False, width=340, elem_id=SETTINGS_ID
        ):
            gr.HTML(_engine_card(engine_info))
            for item in inputs:
                item.render()
        *_, filter_name, threshold, max_gap_s, system_prompt = inputs
        quiet: dict[str, Any] = {
            "show_progress": "hidden",
            "concurrency_limit": None,
            "queue": False,
            "api_visibility": "private",
        }
        changes = [item.change for item in inputs if item is not system_prompt]
        gr.on(
            [*changes, system_prompt.blur, system_prompt.submit],
            session_fields,
            inputs,
            stage,
            trigger_mode="always_last",
            **quiet,
        )
        filter_name.change(
            lambda name: (
                gr.update(visible=name == "reference"),
                gr.update(visible=name == "block"),
            ),
            filter_name,
            [threshold, max_gap_s],
            **quiet,
        )
    return page


def mount_options() -> dict[str, Any]:
    """What `gr.mount_gradio_app` needs beside the app, the blocks and the path."""
    return {
        "theme": _theme(),
        "css": _CSS,
        "head": _HEAD,
        "favicon_path": str(STATIC_DIR / "favicon.svg"),
        "footer_links": [],
        "show_error": False,
        "ssr_mode": False,
        "pwa": False,
        "max_file_size": 1,  # byte: nothing is uploaded here
    }


def _settings_inputs(settings: Any, info: EngineInfo) -> list[Any]:
    """The settings' components, in the order of `session_fields`' parameters; not rendered."""
    return [*_speech_inputs(settings, info), *_sight_inputs(info)]


def _speech_inputs(settings: Any, info: EngineInfo) -> list[Any]:
    own_voice = info.speaks
    our_voice = not own_voice and settings.tts != OFF
    speaks = own_voice or our_voice
    many_languages = settings.asr == "whisper" or info.hears
    return [
        gr.CheckboxGroup(
            [("Text", "text"), ("Voice", "audio")] if speaks else [("Text", "text")],
            value=["text", "audio"] if speaks else ["text"],
            label="Answers",
            info=None if speaks else "This server does not speak.",
            elem_id=ANSWERS_ID,
            render=False,
        ),
        gr.Dropdown(
            [("The server's choice", DEFAULT_VOICE)]
            + [(voice.description, name) for name, voice in VOICES.items()],
            value=DEFAULT_VOICE,
            label="Voice",
            visible=our_voice,
            render=False,
        ),
        gr.Slider(
            0.7,
            1.3,
            value=1.0,
            step=0.05,
            label="Speed of speech",
            visible=our_voice,
            render=False,
        ),
        gr.Dropdown(
            LANGUAGES if many_languages else [("English", "")],
            value="",
            label="Language you speak",
            info=None if many_languages else "This server recognises English.",
            interactive=many_languages,
            visible=many_languages or settings.asr != OFF,
            render=False,
        ),
    ]


def _sight_inputs(info: EngineInfo) -> list[Any]:
    prefilled = info.prefix_caching and not info.remembers
    return [
        gr.Slider(
            1,
            min(MAX_FRAMES, info.images_per_prompt or MAX_FRAMES),
            value=min(
                FRAMES_SHOWN_PREFILLED if prefilled else FRAMES_SHOWN,
                info.images_per_prompt or MAX_FRAMES,
            ),
            step=1,
            label="Frames shown",
            info="How many of the last kept frames the model is shown at most.",
            render=False,
        ),
        gr.Radio(
            [
                ("Automatic", ""),
                ("Everything in time order", "chronological"),
                ("Recent window", "window"),
            ],
            value="",
            label="Context",
            info="In time order, frames are seen ahead and answers come sooner; a recent "
            "window shows the last frames and the last answer only.",
            render=False,
        ),
        gr.Radio(
            [
                ("Sightline: blocks that changed", "block"),
                ("Reference (EVS)", "reference"),
                ("Off: keep every frame", "off"),
            ],
            value="block",
            label="Frame filter",
            render=False,
        ),
        gr.Slider(
            0,
            1,
            value=REFERENCE_THRESHOLD,
            step=0.01,
            visible=False,
            label="Similarity threshold",
            info="A frame more alike than this to the last kept one is dropped.",
            render=False,
        ),
        gr.Slider(
            1,
            30,
            value=5,
            step=1,
            label="Longest gap (s)",
            info="A frame is kept at least this often, also of a still scene.",
            render=False,
        ),
        gr.Textbox(
            "",
            lines=4,
            max_lines=10,
            max_length=MAX_TEXT_CHARS,
            label="System prompt",
            placeholder="Empty: the engine's own",
            render=False,
        ),
    ]


def _engine_card(info: EngineInfo) -> str:
    """What answers, as escaped HTML; static/model.js adds what it can do once it is loaded."""
    return (
        f"<h2>Settings</h2><div id='{MODEL_ID}'>"
        f"<h3>{html.escape(info.name)} · {html.escape(info.model)}</h3>"
        f"<p>{html.escape(info.description)}</p></div>"
    )


def _theme() -> gr.themes.Base:
    """The stage's colours for Gradio's components; system fonts only."""
    theme = gr.themes.Base(
        primary_hue=gr.themes.colors.teal,
        neutral_hue=gr.themes.colors.slate,
        font=SYSTEM_FONTS,
        font_mono=MONO_FONTS,
        radius_size=gr.themes.sizes.radius_md,
    )
    return theme.set(
        body_background_fill="#f5f6f8",
        body_background_fill_dark="#0f1216",
        body_text_color="#182028",
        body_text_color_dark="#e8edf2",
        body_text_color_subdued="#566372",
        body_text_color_subdued_dark="#98a6b4",
        background_fill_primary="#ffffff",
        background_fill_primary_dark="#161b21",
        background_fill_secondary="#ffffff",
        background_fill_secondary_dark="#161b21",
        block_background_fill="#ffffff",
        block_background_fill_dark="#161b21",
        block_border_width="0px",
        block_shadow="none",
        input_background_fill="#eef1f4",
        input_background_fill_dark="#1f262e",
        border_color_primary="#d9e0e7",
        border_color_primary_dark="#2c3640",
        checkbox_label_background_fill="#eef1f4",
        checkbox_label_background_fill_dark="#1f262e",
        checkbox_label_background_fill_hover="#e4e9ee",
        checkbox_label_background_fill_hover_dark="#28313b",
        checkbox_label_background_fill_selected="#e4e9ee",
        checkbox_label_background_fill_selected_dark="#28313b",
        checkbox_background_color="#ffffff",
        checkbox_background_color_dark="#161b21",
        checkbox_border_color="#8a97a5",
        checkbox_border_color_dark="#5c6975",
        checkbox_background_color_selected="#0b7a62",
        checkbox_background_color_selected_dark="#2b9a80",
        checkbox_border_color_selected="#0b7a62",
        checkbox_border_color_selected_dark="#2b9a80",
        slider_color="#0b7a62",
        slider_color_dark="#5ad1b3",
    )
