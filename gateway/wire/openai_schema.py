"""What the OpenAI APIs have in common, whoever serves them: ids, models, tags, usage, errors.

Owns the shapes that Chat Completions, Completions, Embeddings, Moderations and Responses share, at
OpenAI, on Azure, behind Google's compatible endpoint and at local servers. Invariant: a shape that
passes unread is narrow enough that no number or key of a person fits into it; everything else is
read as text. Sources: the published API reference, the types of the official SDK (3.57), Nov 2026.
Values only, plus three pure functions; used by the OpenAI format modules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.wire.base import Usage, words
from gateway.wire.stream import MAX_WORD

#: How ids begin. What follows a known beginning is read when it is not of a known body.
ID_PREFIX: Final = re.compile(
    r"(?:chatcmpl-tool-|chatcmpl-|cmpl-|modr-|file-|gen-|"
    r"(?:call|resp|msg|rs|fc|fco|ctc|ctco|lsh|lsho|sh|sho|apc|apco|ws|fs|ci|cu|cuo|ig|mcp|mcpl|mcpr|"
    r"mcpa|cntr|cfile|conv|item|file|vs|vsf|batch|asst|thread|run|step|audio|voice|prompt|pmpt|"
    r"req|skill|cmp|tsc|tso|ts|toolu|tooluse|srvtoolu|upload|fp)_)?"
)
#: Random ids: 22 to 30 letters of both cases and digits (an IBAN has one case), 48 to 52 hex
#: digits (a wallet's key has 64, most API keys 32 or 40), or a UUID.
ID_BODY: Final = re.compile(
    r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[A-Za-z0-9]{22,30}|[0-9a-f]{48,52}|"
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)

#: How names of models begin; the rest is read unless it is made of the words and versions below.
MODEL_PREFIX: Final = re.compile(
    r"(?:models/|(?:openai|azure|google|anthropic|deepseek|mistralai|meta-llama|qwen|x-ai|groq|"
    r"moonshotai|z-ai|ollama|openrouter)/){0,2}"
    r"(?:(?:gpt|chatgpt|codex|text|omni|computer-use|gemini|gemma|claude|deepseek|mistral|mixtral|"
    r"codestral|devstral|ministral|magistral|qwen|qwq|llama|grok|kimi|glm|phi|davinci|babbage)"
    r"[-:]?|o(?=\d))?"
)
_MODEL_WORD: Final = (
    r"(?:ada|alpha|audio|base|beta|chat|code|coder|codex|deep|distill|embedding|exp|experimental|"
    r"fast|flash|free|haiku|high|image|instant|instruct|it|k|large|latest|lite|low|max|mini|"
    r"moderation|nano|non|omni|opus|oss|preview|pro|r|realtime|reasoner|reasoning|research|scout|"
    r"search|small|sonnet|think|thinking|transcribe|tts|turbo|v|vision|large|medium|maverick)"
)
MODEL_BODY: Final = re.compile(
    rf"(?:(?:{_MODEL_WORD}|\d{{1,2}}(?:\.\d{{1,2}})?[a-z]?|{_MODEL_WORD}\d{{1,2}}(?:\.\d)?)"
    rf"(?:[-:]{_MODEL_WORD}(?:\d(?:\.\d)?)?|[-:]\d{{1,2}}(?:\.\d)?[bk]?)?"
    rf"(?:[-:](?:{_MODEL_WORD}|\d{{1,3}}[bk])){{0,4}})?"
    r"(?:-20[0-3]\d-?[01]\d-?[0-3]\d|-0\d\d\d?)?(?::free|:latest)?"
)

#: Members that hold the id of something; those of the chat and Responses APIs together.
IDS: Final = words(
    """
    id call_id tool_call_id file_id container_id container item_id response_id conversation
    conversation_id previous_response_id vector_store_id approval_request_id prompt_id skill_id
    """
)

#: Signed or encrypted by the provider; a long base64 value passes byte for byte.
SEALS: Final = words(
    """
    encrypted_content thought_signature thoughtSignature signature reasoning_opaque
    encrypted_reasoning
    """
)

#: Fields of the APIs that say their value is a credential.
TELLING: Final = words("authorization token api_key key")

#: Addresses, scanned also with percent-encoding undone.
URLS: Final = words("url uri image_url file_url video_url audio_url document_url server_url")

#: Members whose value is a word out of a fixed set of the API; any other value is text.
TAGS: Final = words(
    """
    type role detail format mode syntax effort reasoning_effort verbosity service_tier modalities
    encoding_format search_context_size finish_reason status truncation media_type object include
    prompt_cache_retention execution tool_choice function_call
    """
)
#: The words. Formats add the types of their own content parts and items.
TAG_WORDS: Final = words(
    """
    user assistant system developer tool function message text json_object json_schema
    object array string number integer boolean null custom grammar lark regex auto none required any
    allowed_tools approximate content minimal low medium high xhigh default flex scale priority fast
    float base64 audio image wav mp3 flac opus pcm16 aac explicit implicit in_memory 24h 30m 12h
    stop length tool_calls content_filter completed in_progress incomplete failed
    text/plain text/csv text/html text/markdown application/json application/pdf
    image/png image/jpeg image/gif image/webp
    """
)


def usage_from(value: Any) -> Usage:
    """Return the counts of a `usage` object of either API; absent or odd members count zero.

    Cached tokens are part of the prompt at OpenAI and are taken out of it here; tokens of thinking
    that some servers count only in the total are output. Servers name the cached ones differently.
    """
    if not isinstance(value, Mapping):
        return Usage()
    prompt = _count(value, "prompt_tokens", "input_tokens")
    details = _first(value, "prompt_tokens_details", "input_tokens_details")
    read = _count(details, "cached_tokens") or _count(
        value, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens"
    )
    written = _count(details, "cache_write_tokens", "cache_creation_tokens") or _count(
        value, "cache_creation_input_tokens"
    )
    output = _count(value, "completion_tokens", "output_tokens")
    output = max(output, _count(value, "total_tokens") - prompt)
    read = min(read, prompt)
    written = min(written, prompt - read)
    return Usage(prompt - read - written, output, written, read)


def error_word(document: Any) -> str | None:
    """Return the type or code of the error a document reports, short enough for a record, or None
    when it reports none."""
    if not isinstance(document, Mapping):
        return None
    error = document.get("error")
    if not error and document.get("object") != "error" and document.get("type") != "error":
        return None
    source = error if isinstance(error, Mapping) else document
    for name in ("type", "code"):
        word = source.get(name)
        if isinstance(word, str) and word:
            return word[:MAX_WORD]
    return "error"


def _first(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        found = value.get(name)
        if isinstance(found, Mapping):
            return found
    return {}


def _count(value: Mapping[str, Any], *names: str) -> int:
    for name in names:
        number = value.get(name)
        if isinstance(number, int) and not isinstance(number, bool):
            return max(number, 0)
    return 0
